//! The plain model: file systems, volumes and snapshots as maps in memory.

use super::{Time, class};
use engine::inside::zpl::write::{NewKind, RenameMode, XattrMode};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4096;

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
    pub fn compare(
        &self,
        size: u64,
        read: &dyn Fn(u64, &mut [u8]) -> Result<(), String>,
    ) -> Result<(), String> {
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
pub enum Kind {
    File(Content),
    Dir { entries: BTreeMap<Vec<u8>, u64>, parent: u64 },
    Other(NewKind),
}

/// One file of any kind.
#[derive(Clone)]
pub struct Inode {
    pub kind: Kind,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: Time,
    /// Names; of a directory it is counted from what is in it.
    pub links: u64,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Inode {
    pub fn new(kind: &NewKind, mode: u32, now: Time, parent: u64) -> Self {
        let kind = match kind {
            NewKind::File => Kind::File(Content::default()),
            NewKind::Dir => Kind::Dir { entries: BTreeMap::new(), parent },
            other => Kind::Other(other.clone()),
        };
        let xattrs = BTreeMap::new();
        Self { kind, mode, uid: 0, gid: 0, mtime: now, links: 1, xattrs }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Dir { .. })
    }
}

type Done = Result<(), &'static str>;

/// A file system.
#[derive(Clone)]
pub struct Tree {
    pub root: u64,
    pub inodes: BTreeMap<u64, Arc<Inode>>,
}

impl Tree {
    /// As it is made: a root directory.
    pub fn new(root: u64, now: Time) -> Self {
        let inode = Inode::new(&NewKind::Dir, 0o755, now, root);
        Self { root, inodes: BTreeMap::from([(root, Arc::new(inode))]) }
    }

    /// Takes over times of contents where there are any.
    pub fn take_times(&mut self, of: &dyn Fn(u64) -> Option<Time>) {
        for (number, inode) in &mut self.inodes {
            let mtime = of(*number).unwrap_or(inode.mtime);
            if mtime != inode.mtime {
                Arc::make_mut(inode).mtime = mtime;
            }
        }
    }

    pub fn get(&self, number: u64) -> &Inode {
        &self.inodes[&number]
    }

    pub fn change(&mut self, number: u64) -> &mut Inode {
        Arc::make_mut(self.inodes.get_mut(&number).unwrap())
    }

    pub fn entries(&self, dir: u64) -> &BTreeMap<Vec<u8>, u64> {
        match &self.get(dir).kind {
            Kind::Dir { entries, .. } => entries,
            _ => panic!("{dir} is no directory"),
        }
    }

    fn entries_mut(&mut self, dir: u64) -> &mut BTreeMap<Vec<u8>, u64> {
        match &mut self.change(dir).kind {
            Kind::Dir { entries, .. } => entries,
            _ => panic!("{dir} is no directory"),
        }
    }

    pub fn content(&mut self, file: u64) -> &mut Content {
        match &mut self.change(file).kind {
            Kind::File(content) => content,
            _ => panic!("{file} is no regular file"),
        }
    }

    pub fn find(&self, dir: u64, name: &[u8]) -> Option<u64> {
        self.entries(dir).get(name).copied()
    }

    pub fn numbers(&self, wanted: impl Fn(&Inode) -> bool) -> Vec<u64> {
        self.inodes.iter().filter(|(_, i)| wanted(i)).map(|(n, _)| *n).collect()
    }

    fn touch(&mut self, number: u64, now: Time) {
        self.change(number).mtime = now;
    }

    pub fn create_expects(&self, dir: u64, name: &[u8]) -> Done {
        match self.find(dir, name) {
            Some(_) => Err(class::EXISTS),
            None => Ok(()),
        }
    }

    pub fn create(&mut self, dir: u64, name: &[u8], number: u64, inode: Inode) {
        let now = inode.mtime;
        self.inodes.insert(number, Arc::new(inode));
        self.entries_mut(dir).insert(name.to_vec(), number);
        self.touch(dir, now);
    }

    pub fn link(&mut self, file: u64, dir: u64, name: &[u8], now: Time) -> Done {
        if self.get(file).is_dir() {
            return Err(class::IS_DIR);
        }
        self.create_expects(dir, name)?;
        self.entries_mut(dir).insert(name.to_vec(), file);
        self.change(file).links += 1;
        self.touch(dir, now);
        Ok(())
    }

    fn removable(&self, number: u64) -> Done {
        match &self.get(number).kind {
            Kind::Dir { entries, .. } if !entries.is_empty() => Err(class::NOT_EMPTY),
            _ => Ok(()),
        }
    }

    fn drop_name(&mut self, number: u64) {
        let inode = self.change(number);
        inode.links -= 1;
        if inode.links == 0 {
            self.inodes.remove(&number);
        }
    }

    pub fn remove(&mut self, dir: u64, name: &[u8], is_dir: bool, now: Time) -> Done {
        let number = self.find(dir, name).ok_or(class::NOT_FOUND)?;
        match (is_dir, self.get(number).is_dir()) {
            (true, false) => return Err(class::NOT_DIR),
            (false, true) => return Err(class::IS_DIR),
            _ => self.removable(number)?,
        }
        self.entries_mut(dir).remove(name);
        self.drop_name(number);
        self.touch(dir, now);
        Ok(())
    }

    /// Whether `dir` is `above` or below it.
    fn is_below(&self, mut dir: u64, above: u64) -> bool {
        loop {
            if dir == above {
                return true;
            }
            match &self.get(dir).kind {
                Kind::Dir { parent, .. } if *parent != dir => dir = *parent,
                _ => return false,
            }
        }
    }

    fn set_parent(&mut self, number: u64, dir: u64) {
        if let Kind::Dir { parent, .. } = &mut self.change(number).kind {
            *parent = dir;
        }
    }

    pub fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: RenameMode,
        now: Time,
    ) -> Done {
        let source = self.find(from.0, from.1).ok_or(class::NOT_FOUND)?;
        let target = self.find(to.0, to.1);
        let is_dir = self.get(source).is_dir();
        let cycle = |t: &Self, file: u64, from: u64, to: u64| {
            from != to && t.get(file).is_dir() && t.is_below(to, file)
        };
        if how == RenameMode::Exchange {
            let target = target.ok_or(class::NOT_FOUND)?;
            if target == source {
                return Ok(());
            }
            if cycle(self, source, from.0, to.0) || cycle(self, target, to.0, from.0) {
                return Err(class::LOOP);
            }
            self.entries_mut(from.0).insert(from.1.to_vec(), target);
            self.entries_mut(to.0).insert(to.1.to_vec(), source);
            self.set_parent(source, to.0);
            self.set_parent(target, from.0);
        } else {
            if how == RenameMode::NoReplace && target.is_some() {
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
                self.drop_name(target);
            }
            self.entries_mut(from.0).remove(from.1);
            self.entries_mut(to.0).insert(to.1.to_vec(), source);
            self.set_parent(source, to.0);
        }
        self.touch(from.0, now);
        self.touch(to.0, now);
        Ok(())
    }

    pub fn set_xattr(&mut self, file: u64, name: &[u8], value: &[u8], how: XattrMode) -> Done {
        let has = self.get(file).xattrs.contains_key(name);
        match how {
            XattrMode::Create if has => Err(class::EXISTS),
            XattrMode::Replace if !has => Err(class::NO_XATTR),
            _ => {
                self.change(file).xattrs.insert(name.to_vec(), value.to_vec());
                Ok(())
            }
        }
    }

    pub fn remove_xattr(&mut self, file: u64, name: &[u8]) -> Done {
        match self.get(file).xattrs.contains_key(name) {
            false => Err(class::NO_XATTR),
            true => {
                self.change(file).xattrs.remove(name);
                Ok(())
            }
        }
    }

    /// Bytes of pages in all files.
    pub fn weight(&self) -> u64 {
        let of = |i: &Arc<Inode>| match &i.kind {
            Kind::File(c) => c.pages.len() as u64 * PAGE,
            _ => 0,
        };
        self.inodes.values().map(of).sum()
    }
}
