//! Files of blocks that other files have: taken over as a program's copies do it, and by logs of
//! OpenZFS, which can take over anything at any time: such a log is made up here, and replayed into
//! a live file system.

use super::{Inode, Run, State, Time, Tree, class, class_of};
use engine::Filesystem;
use engine::files::{CloneRange, NewFile, NewKind};
use engine::inside::dmu::{Hold, Objset};
use engine::inside::ondisk::zil::{Body, Record, TxType};
use engine::inside::ondisk::{BlkPtr, Endian, ZilHeader};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zil::{Log, LogBlock, LogEnd};
use engine::inside::zpl::replay::{self, IntoPool};
use testkit::posix::{Content, Kind};

/// Bytes of a page of the model.
const PAGE: u64 = 4096;

/// The blocks of a file as the last txg has them, with what a record says of them.
fn blocks_of(objset: &Objset, file: u64, size: u64) -> (u64, Vec<BlkPtr>) {
    let object = objset.object(file).unwrap();
    let block_size = object.dnode().block_size();
    let pointer = |blkid| object.block_pointer(0, blkid).unwrap().unwrap_or(BlkPtr::HOLE);
    (block_size, (0..size.div_ceil(block_size)).map(pointer).collect())
}

/// Lets `to`, an empty file, have the blocks of `file`, which is of `from` and as large as this.
/// False: there is no space.
pub fn clone_file(from: &Objset, (file, size): (u64, u64), fs: &Filesystem, to: u64) -> bool {
    let (block_size, blocks) = blocks_of(from, file, size);
    let body = Body::CloneRange { object: to, offset: 0, length: size, block_size, blocks };
    let records = vec![Record::new(TxType::CLONE_RANGE, u64::MAX >> 1, 1, body)];
    let (bp, endian) = (BlkPtr::HOLE, Endian::Little);
    let blocks = vec![LogBlock { bp, seq: 1, used: 0, records, endian }];
    let header = ZilHeader::default();
    let log = Log { header, blocks, next: None, end: LogEnd::Unwritten };
    let how = IntoPool { settings: fs.settings(), opened: &|_| (), done: &|_, _| () };
    let report = replay::into_pool(fs.objset(), &log, &how).unwrap();
    let Some(stop) = report.stopped else {
        assert_eq!((report.applied, report.passed_over), (1, 0));
        return true;
    };
    let why = stop.to_string();
    assert!(["space", "quota"].iter().any(|word| why.contains(word)), "{why}");
    false
}

impl Run {
    /// A new file has all blocks of another, of its own file system as it is or was in a snapshot.
    pub fn clone_some(&mut self) {
        if self.is_next_made() {
            self.trace.op += 1;
            self.clone_op().unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// A file takes over blocks of another as a program's copy does.
    pub fn share_some(&mut self) {
        if self.is_next_made() {
            self.trace.op += 1;
            let names = self.model.names(super::Set::is_files);
            let (name, now) = (self.rng.pick(&names).clone(), self.tick());
            self.share(&name, now).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    fn clone_op(&mut self) -> Result<(), String> {
        let names = self.model.names(super::Set::is_files);
        let name = self.rng.pick(&names).clone();
        let now = self.tick();
        let set = &self.model.sets[&name];
        let past = match set.snapshots.is_empty() || self.rng.below(3) != 0 {
            true => None,
            false => Some(self.rng.pick(&set.snapshots).clone()),
        };
        let state = past.as_ref().map_or(&set.state, |(_, state)| state);
        let State::Files(tree) = &**state else { return Err(format!("{name} has no files")) };
        let Some((file, content)) = self.rng_file(&tree.clone()) else { return Ok(()) };
        self.pool().sync().map_err(|e| e.to_string())?;
        self.all_durable();
        let to = self.new_file(&name, now)?;
        let Some(to) = to else { return Ok(()) };
        let past = past.map(|(snapshot, _)| format!("{name}@{snapshot}"));
        self.note(format!("{}: clone {file} to {to}", past.as_ref().unwrap_or(&name)));
        let fs = self.filesystem(&name);
        let from = match &past {
            None => fs.objset().clone(),
            Some(past) => {
                let dsl = self.pool().view().dsl();
                dsl.objset(&dsl.by_name(past).unwrap()).unwrap()
            }
        };
        let is_cloned = clone_file(&from, (file, content.size), &fs, to);
        let tree = self.model.sets.get_mut(&name).unwrap().tree_mut();
        match is_cloned {
            true => *tree.content(to) = content,
            false => self.refused += 1,
        }
        tree.take_times(&|number| fs.node(number).map(|node| (node.mtime, node.ctime)).ok());
        self.pool().sync().map_err(|e| e.to_string())?;
        self.all_durable();
        Ok(())
    }

    /// A file has what another one has in a range, or has itself elsewhere, as far as it is there
    /// in blocks that can be shared.
    fn share(&mut self, name: &str, now: Time) -> Result<(), String> {
        let State::Files(tree) = &*self.model.sets[name].state else { return Ok(()) };
        let tree = tree.clone();
        let (Some((from, content)), Some((to, other))) =
            (self.rng_file(&tree), self.rng_file(&tree))
        else {
            return Ok(());
        };
        let fs = self.filesystem(name);
        let block = fs.objset().object(from).map_err(|e| e.to_string())?.dnode().block_size();
        let mut place = |size: u64| match self.rng.below(2) {
            0 => 0,
            _ => self.rng.below(size.min(4 << 20) / block + 2) * block,
        };
        let (offset, at) = (place(content.size), place(other.size));
        let length = match self.rng.below(3) {
            0 => block * (1 + self.rng.below(4)),
            _ => 1 << 20,
        };
        self.note(format!("{name}: share {length} bytes of {from} at {offset}, {to} at {at}"));
        // It is in the txg that is open.
        let Some(tx) = self.begin(&fs, Hold::free())? else { return Ok(()) };
        drop(tx);
        let range = CloneRange { from: (from, offset), to: (to, at), length };
        match fs.clone_range(&range, now) {
            Ok(0) => {}
            Ok(length) => {
                let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
                let mut data = vec![0; length as usize];
                for (n, byte) in (offset..).zip(&mut data) {
                    let page = content.pages.get(&(n / PAGE));
                    *byte = page.map_or(0, |page| page[(n % PAGE) as usize]);
                }
                tree.content(to).write(at, &data);
                tree.touch(to, now);
            }
            Err(e) if class_of(&e) == class::NO_SPACE => self.refused += 1,
            Err(e) if e.to_string().contains("belong to another file") => {}
            Err(e) => return Err(e.to_string()),
        }
        Ok(())
    }

    /// A file with something in it.
    fn rng_file(&mut self, tree: &Tree) -> Option<(u64, Content)> {
        let has_bytes = |i: &Inode| matches!(&i.kind, Kind::File(c) if !c.pages.is_empty());
        let files = tree.numbers(has_bytes);
        let file = (!files.is_empty()).then(|| *self.rng.pick(&files))?;
        match &tree.get(file).kind {
            Kind::File(content) => Some((file, content.clone())),
            _ => None,
        }
    }

    /// An empty file in the root; `None`: there is no space.
    fn new_file(&mut self, name: &str, now: Time) -> Result<Option<u64>, String> {
        let entry = self.unique("clone").into_bytes();
        let fs = self.filesystem(name);
        let dir = fs.root_object();
        let new = NewFile::new(NewKind::File, 0o644, now);
        let Some(tx) = self.begin(&fs, Hold::write(128 << 10))? else { return Ok(None) };
        let number = fs.create_tx(&tx, dir, &entry, &new).map_err(|e| e.to_string())?;
        drop(tx);
        let tree = self.model.sets.get_mut(name).unwrap().tree_mut();
        tree.create(dir, &entry, number, Inode::new(Kind::file(), 0o644, now, dir));
        Ok(Some(number))
    }
}
