//! What POSIX says of files, as a plain model: a file system is a map in memory.
//!
//! It decides which operations are refused, what they change, and which times move. Random tests of
//! each floor do the same to it and to what they test, and compare. It copies on write, so a
//! snapshot of it costs a map of pointers.
//!
//! `K` is what tells kinds of files apart that have no content and no entries (links, pipes,
//! devices), and `T` a time; both are the tested floor's own.
//!
//! Not modelled: access times, permissions, and that new files of a directory with the
//! set-group-id bit get its group.
#![allow(missing_docs, reason = "the words are those of POSIX")]

use std::collections::BTreeMap;
use std::sync::Arc;

/// Why an operation is refused.
pub mod class {
    pub const EXISTS: &str = "exists";
    pub const NOT_FOUND: &str = "not found";
    pub const NOT_DIR: &str = "not a directory";
    pub const IS_DIR: &str = "is a directory";
    pub const NOT_EMPTY: &str = "not empty";
    pub const LOOP: &str = "loop";
    pub const NO_XATTR: &str = "no such attribute";
}

/// What becomes of a file that has the new name of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// The name is taken from it.
    Replace,
    /// The operation is refused.
    NoReplace,
    /// It gets the other name.
    Exchange,
}

/// Whether an attribute may be there, or must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    Any,
    Create,
    Replace,
}

const PAGE: u64 = 4096;

/// Reads the tested file: from this byte on, as many as fit, or says why not.
pub type Read<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), String> + 'a;

/// Bytes with holes. Pages that are not there are zeros.
#[derive(Clone, Default)]
pub struct Content {
    pub size: u64,
    pub pages: BTreeMap<u64, Arc<[u8]>>,
}

impl Content {
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % PAGE) as usize;
            let n = rest.len().min(PAGE as usize - within);
            let mut page = match self.pages.get(&(at / PAGE)) {
                Some(page) => page.to_vec(),
                None => vec![0; PAGE as usize],
            };
            page[within..within + n].copy_from_slice(&rest[..n]);
            self.pages.insert(at / PAGE, page.into());
            at += n as u64;
            rest = &rest[n..];
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Bytes of this range are zeros; the size stays.
    pub fn clear(&mut self, start: u64, end: u64) {
        let touched = self.pages.range(start / PAGE..end.div_ceil(PAGE));
        let touched: Vec<u64> = touched.map(|(n, _)| *n).collect();
        for n in touched {
            let (first, last) = (n * PAGE, (n + 1) * PAGE);
            if start <= first && end >= last {
                self.pages.remove(&n);
                continue;
            }
            let mut page = self.pages[&n].to_vec();
            let within = start.max(first) - first..end.min(last) - first;
            page[within.start as usize..within.end as usize].fill(0);
            self.pages.insert(n, page.into());
        }
    }

    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.clear(size, self.size);
        }
        self.size = size;
    }

    /// Whether a file reads as this, and has no data where this is a hole of some size.
    pub fn compare(&self, size: u64, read: &Read<'_>) -> Result<(), String> {
        if size != self.size {
            return Err(format!("has {size} bytes, not {}", self.size));
        }
        let mut at = 0;
        let mut buffer = Vec::new();
        while at < self.size {
            // A far jump over what was never written, but for a look at its edges.
            let next = self.pages.range(at / PAGE..).next().map_or(self.size, |(n, _)| n * PAGE);
            if next > at + (1 << 20) && at.is_multiple_of(PAGE) {
                for edge in [at, next.min(self.size) - 512] {
                    let mut bytes = [1; 512];
                    read(edge, &mut bytes)?;
                    if bytes != [0; 512] {
                        return Err(format!("is not zero at {edge}"));
                    }
                }
                at = next.min(self.size);
                continue;
            }
            let n = (self.size - at).min(16 * PAGE);
            buffer.clear();
            buffer.resize(n as usize, 1);
            read(at, &mut buffer)?;
            for (i, part) in buffer.chunks(PAGE as usize).enumerate() {
                let number = at / PAGE + i as u64;
                let same = match self.pages.get(&number) {
                    Some(page) => page[..part.len()] == *part,
                    None => part.iter().all(|b| *b == 0),
                };
                if !same {
                    return Err(format!("differs in the 4 KiB at {}", number * PAGE));
                }
            }
            at += n;
        }
        Ok(())
    }
}

#[derive(Clone)]
pub enum Kind<K> {
    File(Content),
    Dir(BTreeMap<Vec<u8>, u64>),
    Other(K),
}

impl<K> Kind<K> {
    /// An empty regular file.
    #[must_use]
    pub fn file() -> Self {
        Self::File(Content::default())
    }

    /// An empty directory.
    #[must_use]
    pub fn dir() -> Self {
        Self::Dir(BTreeMap::new())
    }
}

/// One file of any kind.
#[derive(Clone)]
pub struct Inode<K, T> {
    pub kind: Kind<K>,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// When the content changed; of a directory its names.
    pub mtime: T,
    /// When anything of it changed.
    pub ctime: T,
    /// The directory in which it was put last.
    pub parent: u64,
    /// Names; of a directory it is counted from what is in it.
    pub links: u64,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<K: Clone, T: Copy> Inode<K, T> {
    pub fn new(kind: Kind<K>, mode: u32, now: T, parent: u64) -> Self {
        let xattrs = BTreeMap::new();
        Self { kind, mode, uid: 0, gid: 0, mtime: now, ctime: now, parent, links: 1, xattrs }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Dir(_))
    }

    /// Bytes of a regular file; none of others.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::File(content) => content.size,
            _ => 0,
        }
    }
}

/// What an operation comes to; the reason is of [`class`].
pub type Done = Result<(), &'static str>;

/// A file system.
#[derive(Clone)]
pub struct Tree<K, T> {
    pub root: u64,
    pub inodes: BTreeMap<u64, Arc<Inode<K, T>>>,
}

impl<K: Clone, T: Copy + PartialEq> Tree<K, T> {
    /// As it is made: a root directory.
    pub fn new(root: u64, now: T) -> Self {
        let inode = Inode::new(Kind::dir(), 0o755, now, root);
        Self { root, inodes: BTreeMap::from([(root, Arc::new(inode))]) }
    }

    /// Takes over the times of content and attributes where there are any.
    pub fn take_times(&mut self, of: &dyn Fn(u64) -> Option<(T, T)>) {
        for (number, inode) in &mut self.inodes {
            let times = of(*number).unwrap_or((inode.mtime, inode.ctime));
            if times != (inode.mtime, inode.ctime) {
                let inode = Arc::make_mut(inode);
                (inode.mtime, inode.ctime) = times;
            }
        }
    }

    pub fn get(&self, number: u64) -> &Inode<K, T> {
        &self.inodes[&number]
    }

    pub fn change(&mut self, number: u64) -> &mut Inode<K, T> {
        Arc::make_mut(self.inodes.get_mut(&number).unwrap())
    }

    pub fn entries(&self, dir: u64) -> &BTreeMap<Vec<u8>, u64> {
        match &self.get(dir).kind {
            Kind::Dir(entries) => entries,
            _ => panic!("{dir} is not a directory"),
        }
    }

    fn entries_mut(&mut self, dir: u64) -> &mut BTreeMap<Vec<u8>, u64> {
        match &mut self.change(dir).kind {
            Kind::Dir(entries) => entries,
            _ => panic!("{dir} is not a directory"),
        }
    }

    pub fn content(&mut self, file: u64) -> &mut Content {
        match &mut self.change(file).kind {
            Kind::File(content) => content,
            _ => panic!("{file} is not a regular file"),
        }
    }

    pub fn find(&self, dir: u64, name: &[u8]) -> Option<u64> {
        self.entries(dir).get(name).copied()
    }

    pub fn numbers(&self, wanted: impl Fn(&Inode<K, T>) -> bool) -> Vec<u64> {
        self.inodes.iter().filter(|(_, i)| wanted(i)).map(|(n, _)| *n).collect()
    }

    /// The content of a file or directory has changed.
    pub fn touch(&mut self, number: u64, now: T) {
        let inode = self.change(number);
        (inode.mtime, inode.ctime) = (now, now);
    }

    /// What is known of a file has changed, and not its content.
    pub fn touch_attributes(&mut self, number: u64, now: T) {
        self.change(number).ctime = now;
    }

    pub fn create_expects(&self, dir: u64, name: &[u8]) -> Done {
        match self.find(dir, name) {
            Some(_) => Err(class::EXISTS),
            None => Ok(()),
        }
    }

    pub fn create(&mut self, dir: u64, name: &[u8], number: u64, inode: Inode<K, T>) {
        let now = inode.mtime;
        self.inodes.insert(number, Arc::new(inode));
        self.entries_mut(dir).insert(name.to_vec(), number);
        self.touch(dir, now);
    }

    pub fn link(&mut self, file: u64, dir: u64, name: &[u8], now: T) -> Done {
        if self.get(file).is_dir() {
            return Err(class::IS_DIR);
        }
        self.create_expects(dir, name)?;
        self.entries_mut(dir).insert(name.to_vec(), file);
        let inode = self.change(file);
        (inode.links, inode.parent, inode.ctime) = (inode.links + 1, dir, now);
        self.touch(dir, now);
        Ok(())
    }

    fn removable(&self, number: u64) -> Done {
        match &self.get(number).kind {
            Kind::Dir(entries) if !entries.is_empty() => Err(class::NOT_EMPTY),
            _ => Ok(()),
        }
    }

    fn drop_name(&mut self, number: u64, now: T) {
        let inode = self.change(number);
        inode.links -= 1;
        inode.ctime = now;
        if inode.links == 0 {
            self.inodes.remove(&number);
        }
    }

    pub fn remove(&mut self, dir: u64, name: &[u8], is_dir: bool, now: T) -> Done {
        let number = self.find(dir, name).ok_or(class::NOT_FOUND)?;
        match (is_dir, self.get(number).is_dir()) {
            (true, false) => return Err(class::NOT_DIR),
            (false, true) => return Err(class::IS_DIR),
            _ => self.removable(number)?,
        }
        self.entries_mut(dir).remove(name);
        self.drop_name(number, now);
        self.touch(dir, now);
        Ok(())
    }

    /// Whether `dir` is `above` or below it.
    fn is_below(&self, mut dir: u64, above: u64) -> bool {
        loop {
            if dir == above {
                return true;
            }
            match self.get(dir).parent {
                parent if parent != dir => dir = parent,
                _ => return false,
            }
        }
    }

    /// It stands in another directory, or under another name.
    fn put(&mut self, number: u64, dir: u64, now: T) {
        let inode = self.change(number);
        (inode.parent, inode.ctime) = (dir, now);
    }

    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), how: Rename, now: T) -> Done {
        let source = self.find(from.0, from.1).ok_or(class::NOT_FOUND)?;
        let target = self.find(to.0, to.1);
        let is_dir = self.get(source).is_dir();
        let cycle = |t: &Self, file: u64, from: u64, to: u64| {
            from != to && t.get(file).is_dir() && t.is_below(to, file)
        };
        if how == Rename::Exchange {
            let target = target.ok_or(class::NOT_FOUND)?;
            if target == source {
                return Ok(());
            }
            if cycle(self, source, from.0, to.0) || cycle(self, target, to.0, from.0) {
                return Err(class::LOOP);
            }
            self.entries_mut(from.0).insert(from.1.to_vec(), target);
            self.entries_mut(to.0).insert(to.1.to_vec(), source);
            self.put(source, to.0, now);
            self.put(target, from.0, now);
        } else {
            if how == Rename::NoReplace && target.is_some() {
                return Err(class::EXISTS);
            }
            if target == Some(source) {
                return Ok(());
            }
            if cycle(self, source, from.0, to.0) {
                return Err(class::LOOP);
            }
            if let Some(target) = target {
                match (is_dir, self.get(target).is_dir()) {
                    (true, false) => return Err(class::NOT_DIR),
                    (false, true) => return Err(class::IS_DIR),
                    _ => self.removable(target)?,
                }
                self.drop_name(target, now);
            }
            self.entries_mut(from.0).remove(from.1);
            self.entries_mut(to.0).insert(to.1.to_vec(), source);
            self.put(source, to.0, now);
        }
        self.touch(from.0, now);
        self.touch(to.0, now);
        Ok(())
    }

    pub fn set_xattr(
        &mut self,
        file: u64,
        (name, value): (&[u8], &[u8]),
        how: SetXattr,
        now: T,
    ) -> Done {
        let has = self.get(file).xattrs.contains_key(name);
        match how {
            SetXattr::Create if has => Err(class::EXISTS),
            SetXattr::Replace if !has => Err(class::NO_XATTR),
            _ => {
                let inode = self.change(file);
                inode.xattrs.insert(name.to_vec(), value.to_vec());
                inode.ctime = now;
                Ok(())
            }
        }
    }

    pub fn remove_xattr(&mut self, file: u64, name: &[u8], now: T) -> Done {
        match self.get(file).xattrs.contains_key(name) {
            false => Err(class::NO_XATTR),
            true => {
                let inode = self.change(file);
                inode.xattrs.remove(name);
                inode.ctime = now;
                Ok(())
            }
        }
    }

    /// Bytes of pages in all files.
    pub fn weight(&self) -> u64 {
        let of = |i: &Arc<Inode<K, T>>| match &i.kind {
            Kind::File(c) => c.pages.len() as u64 * PAGE,
            _ => 0,
        };
        self.inodes.values().map(of).sum()
    }
}
