// A target of copies in memory, for the test and the examples in the documentation: the latter
// include it, so it has no attributes of a file.

use engine::Node;
use engine::extract::{
    self, Attribute, Found, Linked, Preserve, SetAttribute, Sink, TargetFile, Tree,
};
use engine::files::{FileKind, NewKind, Time};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// A file or directory that was made.
#[derive(Clone, Debug)]
pub struct Thing {
    /// What it is.
    pub kind: FileKind,
    /// Its bytes; where a symbolic link leads.
    pub data: Vec<u8>,
    /// What of them was written: where, and how much.
    pub ranges: Vec<(u64, usize)>,
    /// Its attributes, in the order in which they came.
    pub attributes: Vec<String>,
    mtime: Time,
    device: (u32, u32),
}

/// All things, and the paths that stand for them.
#[derive(Default)]
pub struct Memory {
    /// By their numbers.
    pub things: Vec<Thing>,
    /// The number of each path.
    pub names: BTreeMap<Vec<u8>, usize>,
    /// Names that differ in case only are one.
    pub folds_case: bool,
    /// No file has two names.
    pub has_no_links: bool,
}

impl Memory {
    /// What a path stands for.
    pub fn at(&self, path: &str) -> &Thing {
        &self.things[self.names[path.as_bytes()]]
    }

    fn add(&mut self, kind: FileKind, data: Vec<u8>) -> usize {
        let (ranges, attributes) = (Vec::new(), Vec::new());
        let mtime = Time::default();
        self.things.push(Thing { kind, data, ranges, attributes, mtime, device: (0, 0) });
        self.things.len() - 1
    }
}

/// One of the things, open.
#[derive(Clone)]
pub struct Handle {
    memory: Arc<Mutex<Memory>>,
    /// The path of a directory; that of the one it will be in, of a new file.
    path: Vec<u8>,
    number: usize,
}

impl Handle {
    /// The top of an empty one.
    pub fn top(memory: &Arc<Mutex<Memory>>) -> Arc<Self> {
        let number = memory.lock().expect("a lock").add(FileKind::Dir, Vec::new());
        Arc::new(Self { memory: Arc::clone(memory), path: Vec::new(), number })
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("a lock")
    }

    fn path(&self, name: &[u8]) -> Vec<u8> {
        let name = match self.lock().folds_case {
            true => name.to_ascii_lowercase(),
            false => name.to_vec(),
        };
        if self.path.is_empty() { name } else { [&self.path, &b"/"[..], &name].concat() }
    }

    fn of(&self, number: usize) -> Self {
        Self { memory: Arc::clone(&self.memory), path: self.path.clone(), number }
    }
}

impl SetAttribute for Handle {
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()> {
        let mut memory = self.lock();
        let thing = &mut memory.things[self.number];
        if let Attribute::Times { mtime, .. } = attribute {
            thing.mtime = *mtime;
        }
        let text = match attribute {
            Attribute::Owner { uid, gid } => format!("owner {uid}:{gid}"),
            Attribute::Xattr { name, .. } => String::from_utf8_lossy(name).into_owned(),
            Attribute::Mode(mode) => format!("mode {mode:o}"),
            Attribute::Times { mtime, .. } => format!("times {}", mtime.seconds),
        };
        thing.attributes.push(text);
        Ok(())
    }
}

impl Sink for Handle {
    type Id = usize;
    type File<'d> = Self;
    type Item = Self;
    type Tree = Dirs;

    fn tree(top: Arc<Self>) -> io::Result<Dirs> {
        Ok(Dirs(vec![top]))
    }

    fn subdir(&self, name: &[u8]) -> io::Result<Self> {
        let path = self.path(name);
        let there = self.lock().names.get(&path).copied();
        let number = there.unwrap_or_else(|| self.lock().add(FileKind::Dir, Vec::new()));
        self.lock().names.insert(path.clone(), number);
        Ok(Self { path, ..self.of(number) })
    }

    fn close(&self, _: &Node, _: Preserve) -> io::Result<()> {
        self.lock().things[self.number].attributes.push("closed".to_owned());
        Ok(())
    }

    fn find(&self, name: &[u8]) -> io::Result<Option<Found<usize>>> {
        let path = self.path(name);
        let memory = self.lock();
        let Some(&id) = memory.names.get(&path) else { return Ok(None) };
        let Thing { kind, data, mtime, device, .. } = memory.things[id].clone();
        let (size, target) = (data.len() as u64, (kind == FileKind::Symlink).then_some(data));
        Ok(Some(Found { id, kind, size, mtime, device, target }))
    }

    fn file(&self, size: u64) -> io::Result<Self> {
        let number = self.lock().add(FileKind::File, vec![0; size as usize]);
        Ok(self.of(number))
    }

    fn special(&self, name: &[u8], what: &NewKind) -> io::Result<(Self, usize)> {
        let (kind, data, device) = match what {
            NewKind::Symlink(target) => (FileKind::Symlink, target.clone(), (0, 0)),
            NewKind::Fifo => (FileKind::Fifo, Vec::new(), (0, 0)),
            NewKind::Socket => (FileKind::Socket, Vec::new(), (0, 0)),
            NewKind::Block(major, minor) => (FileKind::Block, Vec::new(), (*major, *minor)),
            NewKind::Char(major, minor) => (FileKind::Char, Vec::new(), (*major, *minor)),
            NewKind::File | NewKind::Dir => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let path = self.path(name);
        let mut memory = self.lock();
        let number = memory.add(kind, data);
        memory.things[number].device = device;
        memory.names.insert(path, number);
        drop(memory);
        Ok((self.of(number), number))
    }

    fn item(&self, name: &[u8]) -> io::Result<(Self, usize)> {
        let path = self.path(name);
        let number = self.lock().names.get(&path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok((self.of(number), number))
    }

    fn link(&self, name: &[u8], item: &Self) -> io::Result<Linked> {
        if self.lock().has_no_links {
            return Ok(Linked::Unsupported(io::ErrorKind::Unsupported.into()));
        }
        let path = self.path(name);
        self.lock().names.insert(path, item.number);
        Ok(Linked::Made)
    }

    fn remove(&self, name: &[u8], seen: usize) -> io::Result<()> {
        let path = self.path(name);
        match self.lock().names.remove(&path) == Some(seen) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl TargetFile for Handle {
    type Id = usize;

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.lock();
        let thing = &mut memory.things[self.number];
        thing.ranges.push((offset, bytes.len()));
        thing.data[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(self, name: &[u8], replaced: Option<usize>) -> io::Result<usize> {
        let path = self.path(name);
        let there = self.lock().names.insert(path, self.number);
        match there == replaced {
            true => Ok(self.number),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

/// All directories of a copy, by their numbers.
pub struct Dirs(Vec<Arc<Handle>>);

impl Tree for Dirs {
    type Sink = Handle;

    fn make(&mut self, above: usize, name: &[u8]) -> io::Result<(usize, bool)> {
        let was_there = self.0[above].find(name)?.is_some();
        let made = self.0[above].subdir(name)?;
        if self.0.iter().any(|dir| dir.number == made.number) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "made just now"));
        }
        self.0.push(Arc::new(made));
        Ok((self.0.len() - 1, was_there))
    }

    fn dir(&mut self, at: usize) -> io::Result<Arc<Handle>> {
        Ok(Arc::clone(&self.0[at]))
    }

    fn path(&self, at: usize) -> Vec<u8> {
        let path = self.0[at].path.strip_prefix(&self.0[0].path[..]).unwrap_or_default();
        path.strip_prefix(b"/").unwrap_or(path).to_vec()
    }
}

/// Keeps what is told of a copy.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<String>>>);

impl extract::ExtractObserver for Reports {
    fn lost(&self, path: &[u8], _: u64, lost: &extract::Lost) -> bool {
        self.say(&format!("lost {}+{}", lost.offset, lost.length), path);
        true
    }

    fn failed(&self, path: &[u8], _: u64, why: &str) {
        self.say(&format!("failed ({why})"), path);
    }

    fn renamed(&self, path: &[u8], _: u64, name: &[u8]) {
        self.say(&format!("renamed to {}", name.escape_ascii()), path);
    }

    fn not_kept(&self, path: &[u8], what: &str, _: &str) {
        self.say(&format!("{what} not kept"), path);
    }

    fn done(&self, path: &[u8], _: &Node, lost_bytes: u64) {
        self.say(&format!("done, {lost_bytes} lost"), path);
    }

    fn image_done(&self, name: &[u8], lost_bytes: u64) {
        self.say(&format!("image done, {lost_bytes} lost"), name);
    }
}

impl Reports {
    fn say(&self, what: &str, path: &[u8]) {
        self.0.lock().expect("a lock").push(format!("{}: {what}", path.escape_ascii()));
    }

    /// All of it since the last call, in the order of the paths.
    pub fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock().expect("a lock"));
        all.sort();
        all
    }
}
