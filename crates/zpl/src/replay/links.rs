//! Names: remove, link, rename, and what becomes of files that have none left.

use super::nodes::{FileReplay, Result};
use super::refusal::Refusal;
use dmu::{OverlayObject, Zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, flags};

/// Directories above a directory, at most: more can only be a loop that is on disk.
const DEPTH_MAX: usize = 1 << 16;

impl FileReplay {
    /// `REMOVE`, `RMDIR`.
    pub(super) fn remove(
        &mut self,
        dir: u64,
        name: &[u8],
        any_case: bool,
        directory: bool,
    ) -> Result<()> {
        self.load_dir(dir)?;
        let (name, entry) = self.lookup(dir, name, any_case)?.ok_or(Refusal::NotFound)?;
        let is_dir = self.load(entry.object)?.is_dir();
        match (directory, is_dir) {
            (true, false) => return Err(Refusal::NotDirectory),
            (false, true) => return Err(Refusal::IsDirectory),
            _ => {}
        }
        self.unlink(dir, &name, entry.object)
    }

    /// Takes an entry away, and the file with it when it was its last.
    fn unlink(&mut self, dir: u64, name: &[u8], object: u64) -> Result<()> {
        let mut file = self.load(object)?;
        let is_dir = file.is_dir();
        if is_dir && !self.is_empty(object)? {
            return Err(Refusal::NotEmpty);
        }
        self.leave(dir, name);
        let links = file.get(zpl::LINKS).saturating_sub(1);
        if is_dir || links == 0 {
            self.release(object)?;
        } else {
            file.set(zpl::LINKS, links);
            file.state_changed(self.now, self.keeps_fuids());
            self.save(file)?;
        }
        self.count_entry(dir, is_dir, false)
    }

    fn is_empty(&self, dir: u64) -> Result<bool> {
        let table = Zap::open(&self.state.object(dir)?)?;
        match table.entries().next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(e)) => Err(e.into()),
        }
    }

    /// Frees a file with its extended attributes and an ACL of its own. Ends: what is freed is
    /// not found a second time.
    pub(super) fn release(&mut self, object: u64) -> Result<()> {
        let mut todo = vec![object];
        while let Some(object) = todo.pop() {
            let mut file = match self.load(object) {
                Ok(f) => f,
                Err(Refusal::NotFound) => continue,
                Err(e) => return Err(e),
            };
            let xattrs = file.get(zpl::XATTR);
            if xattrs != 0 && self.load(xattrs).is_ok_and(|d| d.has_flag(flags::XATTR)) {
                todo.push(xattrs);
            }
            if file.is_dir() && file.has_flag(flags::XATTR) {
                for entry in Zap::open(&self.state.object(object)?)?.to_vec()? {
                    let child = entry.ints().next().map(|v| Dirent::decode(v).object);
                    let Some(Ok(mut child)) = child.map(|c| self.load(c)) else { continue };
                    match child.get(zpl::LINKS).saturating_sub(1) {
                        0 => todo.push(child.number),
                        links => {
                            child.set(zpl::LINKS, links);
                            self.save(child)?;
                        }
                    }
                }
            }
            let acl = file.old().map_or(0, |z| z.acl.external_object);
            for gone in [object, acl].into_iter().filter(|n| *n != 0) {
                self.state.put(gone, OverlayObject { freed: true, ..OverlayObject::default() });
            }
        }
        Ok(())
    }

    /// `LINK`.
    pub(super) fn link(
        &mut self,
        dir: u64,
        object: u64,
        name: &[u8],
        any_case: bool,
    ) -> Result<()> {
        self.load_dir(dir)?;
        let mut file = self.load(object)?;
        if file.is_dir() {
            return Err(Refusal::IsDirectory);
        }
        if self.lookup(dir, name, any_case)?.is_some() {
            return Err(Refusal::Exists);
        }
        let m = file.get(zpl::MODE);
        file.set(zpl::LINKS, file.get(zpl::LINKS).saturating_add(1));
        file.set(zpl::PARENT, dir);
        file.state_changed(self.now, self.keeps_fuids());
        self.enter(dir, name, object, m)?;
        self.save(file)?;
        self.count_entry(dir, false, true)
    }

    /// Whether `dir` is `above` or somewhere below it.
    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let mut at = dir;
        for _ in 0..DEPTH_MAX {
            if at == above {
                return Ok(true);
            }
            if at == self.fs.root_object() {
                return Ok(false);
            }
            let parent = self.load(at)?.get(zpl::PARENT);
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
        Err(Refusal::Loop)
    }

    /// `RENAME`.
    pub(super) fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        any_case: bool,
    ) -> Result<()> {
        self.load_dir(from.0)?;
        self.load_dir(to.0)?;
        let (name, entry) = self.lookup(from.0, from.1, any_case)?.ok_or(Refusal::NotFound)?;
        let file = self.load(entry.object)?;
        let is_dir = file.is_dir();
        if is_dir && self.is_below(to.0, entry.object)? {
            return Err(Refusal::Loop);
        }
        let over = self.lookup(to.0, to.1, any_case)?;
        // Where case does not count, a name can be renamed to itself in another spelling.
        let respelled = over.as_ref().is_some_and(|(n, _)| from.0 == to.0 && *n == name);
        if let Some((over_name, over)) = over.filter(|_| !respelled || to.1 == name) {
            if over.object == entry.object {
                return Ok(());
            }
            match (is_dir, self.load(over.object)?.is_dir()) {
                (true, false) => return Err(Refusal::NotDirectory),
                (false, true) => return Err(Refusal::IsDirectory),
                _ => self.unlink(to.0, &over_name, over.object)?,
            }
        }
        self.leave(from.0, &name);
        self.count_entry(from.0, is_dir, false)?;
        self.arrive(to, entry.object, is_dir)
    }

    /// Puts a file that lost its name elsewhere under a new one.
    fn arrive(&mut self, to: (u64, &[u8]), object: u64, is_dir: bool) -> Result<()> {
        let inherits = self.load_dir(to.0)?.has_flag(flags::PROJINHERIT);
        let mut file = self.load(object)?;
        self.enter(to.0, to.1, object, file.get(zpl::MODE))?;
        file.set(zpl::PARENT, to.0);
        if self.keeps_fuids() {
            file.set_flag(flags::AV_MODIFIED, true);
        }
        if inherits {
            file.set_flag(flags::PROJINHERIT, true);
        }
        file.state_changed(self.now, self.keeps_fuids());
        self.save(file)?;
        self.count_entry(to.0, is_dir, true)
    }

    /// `RENAME_EXCHANGE`.
    pub(super) fn exchange(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        any_case: bool,
    ) -> Result<()> {
        self.load_dir(from.0)?;
        self.load_dir(to.0)?;
        let (name_a, a) = self.lookup(from.0, from.1, any_case)?.ok_or(Refusal::NotFound)?;
        let (name_b, b) = self.lookup(to.0, to.1, any_case)?.ok_or(Refusal::NotFound)?;
        if a.object == b.object {
            return Ok(());
        }
        let (a_is_dir, b_is_dir) = (self.load(a.object)?.is_dir(), self.load(b.object)?.is_dir());
        if (a_is_dir && self.is_below(to.0, a.object)?)
            || (b_is_dir && self.is_below(from.0, b.object)?)
        {
            return Err(Refusal::Loop);
        }
        self.leave(from.0, &name_a);
        self.count_entry(from.0, a_is_dir, false)?;
        self.leave(to.0, &name_b);
        self.count_entry(to.0, b_is_dir, false)?;
        self.arrive((to.0, &name_b), a.object, a_is_dir)?;
        self.arrive((from.0, &name_a), b.object, b_is_dir)
    }
}
