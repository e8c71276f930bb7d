//! Random operations on files.

use super::{Inode, Run, Time, Tree, class, class_of, kind_of};
use engine::Filesystem;
use engine::inside::dmu::{Hold, Tx};
use engine::inside::zpl::Error;
use engine::inside::zpl::write::{NewFile, NewKind, RenameMode, SetAttrs, XattrMode};
use testkit::posix::{Kind, Rename, SetXattr};

/// A change of the model and what it says to it.
type Want = Result<(), &'static str>;

impl Run {
    fn any_fs(&mut self) -> String {
        let names = self.model.names(super::Set::is_files);
        self.rng.pick(&names).clone()
    }

    /// Begins a transaction; `None`: there is no space, which counts as refused.
    pub(super) fn begin(&mut self, fs: &Filesystem, hold: Hold) -> Result<Option<Tx>, String> {
        match fs.begin(hold) {
            Ok(tx) => {
                self.in_txg(tx.txg());
                Ok(Some(tx))
            }
            Err(e) if class_of(&e) == class::NO_SPACE => {
                self.refused += 1;
                Ok(None)
            }
            Err(e) => Err(format!("begin: {e}")),
        }
    }

    /// Does the same to both, in one transaction.
    fn both(
        &mut self,
        name: &str,
        hold: Hold,
        real: impl FnOnce(&Filesystem, &Tx) -> Result<(), Error>,
        model: impl FnOnce(&mut Tree) -> Want,
    ) -> Result<(), String> {
        let fs = self.filesystem(name);
        let Some(tx) = self.begin(&fs, hold)? else { return Ok(()) };
        let got = real(&fs, &tx);
        drop(tx);
        let want = model(self.model.sets.get_mut(name).unwrap().tree_mut());
        self.agree(&got, want)
    }

    fn tree(&self, name: &str) -> &Tree {
        self.model.sets[name].tree()
    }

    fn any_dir(&mut self, name: &str) -> u64 {
        let dirs = self.tree(name).numbers(Inode::is_dir);
        // The first ones are large, the others small.
        let upto = if self.rng.below(2) == 0 { dirs.len().min(3) } else { dirs.len() };
        dirs[self.rng.below(upto as u64) as usize]
    }

    fn any_file(&mut self, name: &str) -> Option<u64> {
        let files = self.tree(name).numbers(|i| matches!(i.kind, Kind::File(_)));
        (!files.is_empty()).then(|| *self.rng.pick(&files))
    }

    fn any_inode(&mut self, name: &str) -> u64 {
        let all = self.tree(name).numbers(|_| true);
        *self.rng.pick(&all)
    }

    /// A name in a directory: one that is there, or one that may be.
    fn any_name(&mut self, name: &str, dir: u64, there: u64) -> Vec<u8> {
        let tree = self.model.sets[name].tree();
        let names: Vec<&Vec<u8>> = tree.entries(dir).keys().collect();
        if !names.is_empty() && self.rng.below(100) < there {
            return (*self.rng.pick(&names)).clone();
        }
        let n = self.rng.below(60);
        match n % 12 {
            0 => format!("{n}{}", "long".repeat(60)).into_bytes(),
            1 => format!("größe-{n}").into_bytes(),
            2 => vec![b'x', 0xff, n as u8 + 1, 0xc3],
            _ => format!("name{n}").into_bytes(),
        }
    }

    /// Bytes of one of several kinds.
    pub(super) fn any_bytes(&mut self, len: u64) -> Vec<u8> {
        let mut data = vec![0; len as usize];
        match self.rng.below(6) {
            0 => {}
            1 => data.fill(b'a' + self.rng.below(26) as u8),
            2 => {
                let words = [&b"the quick "[..], b"brown fox ", b"jumps over ", b"0123456789 "];
                let mut at = 0;
                while at < data.len() {
                    let word = *self.rng.pick(&words);
                    let n = word.len().min(data.len() - at);
                    data[at..at + n].copy_from_slice(&word[..n]);
                    at += n;
                }
            }
            3 => {
                let half = data.len() / 2;
                self.rng.fill(&mut data[half..]);
            }
            _ => self.rng.fill(&mut data),
        }
        data
    }

    /// Mostly small, sometimes a few records.
    fn any_len(&mut self) -> u64 {
        match self.rng.below(20) {
            0 => self.rng.below(400_000),
            1..=4 => self.rng.below(40_000),
            _ => self.rng.below(3000),
        }
    }

    pub(super) fn file_op(&mut self) -> Result<(), String> {
        let name = self.any_fs();
        let now = self.tick();
        let heavy = self.tree(&name).weight() > self.weight_max
            || self.tree(&name).inodes.len() > 600
            || self.refused % 8 == 7;
        if heavy && self.rng.below(3) == 0 {
            self.refused += u64::from(self.refused % 8 == 7);
            return self.remove(&name, now);
        }
        match self.rng.below(100) {
            0..=21 => self.create(&name, now),
            22 => self.create_many(&name, now),
            23..=49 => self.write(&name, now),
            50..=56 => self.truncate(&name, now),
            57..=61 => self.punch(&name, now),
            62..=69 => self.rename(&name, now),
            70..=73 => self.link(&name, now),
            74..=85 => self.remove(&name, now),
            86..=93 => self.xattr(&name, now),
            94..=95 => self.append(&name, now),
            _ => self.set_attrs(&name, now),
        }
    }

    fn create(&mut self, name: &str, now: Time) -> Result<(), String> {
        let dir = self.any_dir(name);
        let entry = self.any_name(name, dir, 10);
        let kind = match self.rng.below(20) {
            0..=3 => NewKind::Dir,
            4 | 5 => {
                let most = if self.rng.below(4) == 0 { 1500 } else { 60 };
                let len = 1 + self.rng.below(most);
                NewKind::Symlink(vec![b'a' + self.rng.below(26) as u8; len as usize])
            }
            6 => NewKind::Fifo,
            7 => NewKind::Block(8, self.rng.below(300) as u32),
            8 => NewKind::Char(5, 1),
            9 => NewKind::Socket,
            _ => NewKind::File,
        };
        let new = NewFile::new(kind.clone(), 0o600 + self.rng.below(0o177) as u32, now);
        self.note(format!("{name}: create {dir}/{} {kind:?}", show(&entry)));
        let mut number = 0;
        let inode = Inode::new(kind_of(&kind), new.mode, now, dir);
        let fs = self.filesystem(name);
        let Some(tx) = self.begin(&fs, Hold::write(128 << 10))? else { return Ok(()) };
        let got = fs.create_tx(&tx, dir, &entry, &new).map(|n| number = n);
        drop(tx);
        let want = self.tree(name).create_expects(dir, &entry);
        self.agree(&got, want)?;
        if got.is_ok() {
            let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
            if tree.inodes.contains_key(&number) {
                return Err(format!("object {number} is in use"));
            }
            tree.create(dir, &entry, number, inode);
        }
        Ok(())
    }

    /// Files by the hundred in one directory, in one transaction.
    fn create_many(&mut self, name: &str, now: Time) -> Result<(), String> {
        if self.tree(name).inodes.len() > 400 {
            return Ok(());
        }
        let dir = self.any_dir(name);
        let many = 10 + self.rng.below(200);
        let prefix = self.unique("many");
        self.note(format!("{name}: create {many} files {dir}/{prefix}-N"));
        let fs = self.filesystem(name);
        let Some(tx) = self.begin(&fs, Hold::write(4 << 20))? else { return Ok(()) };
        let new = NewFile::new(NewKind::File, 0o644, now);
        let mut made = Vec::new();
        for n in 0..many {
            let entry = format!("{prefix}-{n}-{}", "x".repeat(n as usize % 90)).into_bytes();
            let number = fs.create_tx(&tx, dir, &entry, &new).map_err(|e| e.to_string())?;
            made.push((entry, number));
        }
        drop(tx);
        let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
        for (entry, number) in made {
            let inode = Inode::new(Kind::file(), 0o644, now, dir);
            tree.create(dir, &entry, number, inode);
        }
        Ok(())
    }

    fn write(&mut self, name: &str, now: Time) -> Result<(), String> {
        let Some(file) = self.any_file(name) else { return self.create(name, now) };
        let size = self.tree(name).get(file).size();
        let offset = match self.rng.below(12) {
            0..=3 => size,
            4 => self.rng.below(2_000_000),
            5 if self.rng.below(6) == 0 => self.rng.below(self.offset_max),
            _ => self.rng.below(size.min(4 << 20) + 1),
        };
        let len = self.any_len().max(1);
        let data = self.any_bytes(len);
        self.note(format!("{name}: write {file} at {offset}, {} bytes", data.len()));
        let hold = Hold::write(data.len() as u64 + (256 << 10));
        self.both(
            name,
            hold,
            |fs, tx| fs.write_at_tx(tx, file, offset, &data, now),
            |tree| {
                tree.content(file).write(offset, &data);
                tree.touch(file, now);
                Ok(())
            },
        )
    }

    /// Writes without a transaction of the caller.
    pub(super) fn write_file_promised(&mut self, name: &str, data: &[u8]) -> Result<(), String> {
        let (now, Some(file)) = (self.tick(), self.any_file(name)) else { return Ok(()) };
        let offset = self.rng.below(self.tree(name).get(file).size().min(4 << 20) + 1);
        self.note(format!("{name}: promised write {file} at {offset}, {} bytes", data.len()));
        let fs = self.filesystem(name);
        // It is in the txg that is open.
        let Some(tx) = self.begin(&fs, Hold::free())? else { return Ok(()) };
        drop(tx);
        match fs.write_at(file, offset, data, now) {
            Err(e) if class_of(&e) == class::NO_SPACE => self.refused += 1,
            got => {
                got.map_err(|e| e.to_string())?;
                let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
                tree.content(file).write(offset, data);
                tree.touch(file, now);
            }
        }
        Ok(())
    }

    fn append(&mut self, name: &str, now: Time) -> Result<(), String> {
        let Some(file) = self.any_file(name) else { return Ok(()) };
        let len = self.any_len().max(1);
        let data = self.any_bytes(len);
        self.note(format!("{name}: append to {file} {} bytes", data.len()));
        let hold = Hold::write(data.len() as u64 + (256 << 10));
        self.both(
            name,
            hold,
            |fs, tx| fs.append_tx(tx, file, &data, now).map(drop),
            |tree| {
                let content = tree.content(file);
                content.write(content.size, &data);
                tree.touch(file, now);
                Ok(())
            },
        )
    }

    fn truncate(&mut self, name: &str, now: Time) -> Result<(), String> {
        let Some(file) = self.any_file(name) else { return Ok(()) };
        let size = self.tree(name).get(file).size();
        let to = match self.rng.below(8) {
            0 => 0,
            1 => size + self.rng.below(1_000_000),
            2 => self.rng.below(self.offset_max >> 4),
            _ => self.rng.below(size + 1),
        };
        self.note(format!("{name}: truncate {file} from {size} to {to}"));
        self.both(
            name,
            Hold::free(),
            |fs, tx| fs.truncate_tx(tx, file, to, now),
            |tree| {
                tree.content(file).resize(to);
                tree.touch(file, now);
                Ok(())
            },
        )
    }

    fn punch(&mut self, name: &str, now: Time) -> Result<(), String> {
        let Some(file) = self.any_file(name) else { return Ok(()) };
        let size = self.tree(name).get(file).size();
        let offset = self.rng.below(size.min(1 << 20) + 1);
        let len = match self.rng.below(3) {
            0 => self.rng.below(1 << 42),
            _ => self.rng.below(300_000),
        };
        self.note(format!("{name}: punch {file} at {offset}, {len} bytes"));
        self.both(
            name,
            Hold::free(),
            |fs, tx| fs.punch_tx(tx, file, offset, len, now),
            |tree| {
                let end = offset.saturating_add(len).min(size);
                if offset < end {
                    tree.content(file).clear(offset, end);
                    tree.touch(file, now);
                }
                Ok(())
            },
        )
    }

    fn rename(&mut self, name: &str, now: Time) -> Result<(), String> {
        let (from, to) = (self.any_dir(name), self.any_dir(name));
        let (old, new) = (self.any_name(name, from, 95), self.any_name(name, to, 30));
        let how = match self.rng.below(6) {
            0 => RenameMode::Exchange,
            1 => RenameMode::NoReplace,
            2 => RenameMode::Whiteout { uid: 3, gid: 4 },
            _ => RenameMode::Replace,
        };
        self.note(format!("{name}: rename {from}/{} {to}/{} {how:?}", show(&old), show(&new)));
        let mut left = None;
        self.both(
            name,
            Hold::write(256 << 10),
            |fs, tx| {
                fs.rename_tx(tx, (from, &old), (to, &new), how, now)?;
                left = fs.node(from)?.lookup(&old)?.map(|entry| entry.object);
                Ok(())
            },
            |tree| tree.rename((from, &old), (to, &new), rename(how), now),
        )?;
        let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
        let is_left = (left, tree.find(from, &old));
        if let (RenameMode::Whiteout { uid, gid }, (Some(left), None)) = (how, is_left) {
            let device = Inode::new(kind_of(&NewKind::Char(0, 0)), 0, now, from);
            tree.create(from, &old, left, Inode { uid, gid, ..device });
        }
        Ok(())
    }

    fn link(&mut self, name: &str, now: Time) -> Result<(), String> {
        let (file, dir) = (self.any_inode(name), self.any_dir(name));
        let entry = self.any_name(name, dir, 10);
        self.note(format!("{name}: link {file} {dir}/{}", show(&entry)));
        self.both(
            name,
            Hold::write(128 << 10),
            |fs, tx| fs.link_tx(tx, file, dir, &entry, now),
            |tree| tree.link(file, dir, &entry, now),
        )
    }

    fn remove(&mut self, name: &str, now: Time) -> Result<(), String> {
        let dir = self.any_dir(name);
        let entry = self.any_name(name, dir, 97);
        let tree = self.tree(name);
        let is_dir = tree.find(dir, &entry).is_some_and(|n| tree.get(n).is_dir());
        // Now and then the wrong call.
        let is_dir = is_dir != (self.rng.below(20) == 0);
        self.note(format!("{name}: remove {dir}/{} as a directory: {is_dir}", show(&entry)));
        self.both(
            name,
            Hold::free(),
            |fs, tx| match is_dir {
                true => fs.rmdir_tx(tx, dir, &entry, now),
                false => fs.unlink_tx(tx, dir, &entry, now),
            },
            |tree| tree.remove(dir, &entry, is_dir, now),
        )
    }

    fn xattr(&mut self, name: &str, now: Time) -> Result<(), String> {
        let file = self.any_inode(name);
        // Linux knows attributes of users for files and directories only.
        let users = !matches!(self.tree(name).get(file).kind, Kind::Other(_));
        let space = if users { "user" } else { "trusted" };
        let key = format!("{space}.key{}", self.rng.below(6)).into_bytes();
        if self.rng.below(4) == 0 {
            self.note(format!("{name}: remove attribute {} of {file}", show(&key)));
            return self.both(
                name,
                Hold::write(128 << 10),
                |fs, tx| fs.remove_xattr_tx(tx, file, &key, now),
                |tree| tree.remove_xattr(file, &key, now),
            );
        }
        let len = match self.rng.below(10) {
            0 => self.rng.below(40_000),
            1 | 2 => self.rng.below(2000),
            _ => self.rng.below(60),
        };
        let value = self.any_bytes(len);
        let how = match self.rng.below(6) {
            0 => XattrMode::Create,
            1 => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        self.note(format!("{name}: attribute {} of {file}: {len} bytes {how:?}", show(&key)));
        self.both(
            name,
            Hold::write((256 << 10) + len),
            |fs, tx| fs.set_xattr_tx(tx, file, &key, &value, how, now),
            |tree| tree.set_xattr(file, (&key, &value), set_xattr(how), now),
        )
    }

    fn set_attrs(&mut self, name: &str, now: Time) -> Result<(), String> {
        let file = self.any_inode(name);
        let mode = Some(self.rng.below(0o1000) as u32).filter(|_| self.rng.below(2) == 0);
        let uid = Some(self.rng.below(5000)).filter(|_| self.rng.below(2) == 0);
        let gid = Some(self.rng.below(1 << 31)).filter(|_| self.rng.below(3) == 0);
        let mtime = Some(now).filter(|_| self.rng.below(3) == 0);
        let set = SetAttrs { mode, uid, gid, mtime, ..SetAttrs::default() };
        self.note(format!("{name}: attributes of {file}: {set:?}"));
        self.both(
            name,
            Hold::write(128 << 10),
            |fs, tx| fs.set_attrs_tx(tx, file, &set, now),
            |tree| {
                let inode = tree.change(file);
                inode.mode = mode.unwrap_or(inode.mode);
                inode.uid = uid.unwrap_or(inode.uid);
                inode.gid = gid.unwrap_or(inode.gid);
                inode.mtime = mtime.unwrap_or(inode.mtime);
                // Where nothing is set, nothing has changed.
                if mode.is_some() || uid.is_some() || gid.is_some() || mtime.is_some() {
                    inode.ctime = now;
                }
                Ok(())
            },
        )
    }
}

/// What the model calls it.
fn rename(how: RenameMode) -> Rename {
    match how {
        RenameMode::Replace | RenameMode::Whiteout { .. } => Rename::Replace,
        RenameMode::NoReplace => Rename::NoReplace,
        RenameMode::Exchange => Rename::Exchange,
    }
}

/// What the model calls it.
fn set_xattr(how: XattrMode) -> SetXattr {
    match how {
        XattrMode::Any => SetXattr::Any,
        XattrMode::Create => SetXattr::Create,
        XattrMode::Replace => SetXattr::Replace,
    }
}

fn show(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let short: String = text.chars().take(24).collect();
    format!("{short:?}")
}
