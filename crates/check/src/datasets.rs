//! Sums of space in datasets and directories, and how datasets refer to each other.
//!
//! # Theory
//!
//! The walk counts for every dataset the blocks born since the snapshot before it: its *own*. A
//! dataset references what the snapshot before references, less its dead list (what it does not
//! have any more of that), plus its own. So every `referenced` follows from the one before, and all
//! of them from the walk:
//!
//! ```text
//! referenced(d) = referenced(prev) - deadlist(d) + own(d)      used, compressed, uncompressed
//! unique(head) = own(head)
//! unique(snapshot) = blocks of the next one's dead list born after the snapshot's own prev
//! used_by_head = referenced(head) less what the origin and earlier share with it
//! used_by_snapshots = blocks of all dead lists of the directory born after its origin
//! used_by_children = sum of the children's used; what they reserve beyond is on top
//! ```
//!
//! The directory `$MOS` lags one txg behind, because writing its sum down changes it; it is not
//! compared.

use crate::issue::{Issue, Location};
use crate::lists;
use crate::sets::Sets;
use crate::sink::Sink;
use crate::tables::shown;
use crate::walk::Space;
use dmu::Zap;
use dsl::{Dataset, Dir};
use ondisk::bookmark::Bookmark;
use ondisk::bpobj::BpobjHeader;
use ondisk::deadlist::{DeadlistHeader, Form};
use ondisk::dsl::{FREE_DIR_NAME, MOS_DIR_NAME, ORIGIN_DIR_NAME, dataset_field};
use ondisk::zap::parse_int_key;
use ondisk::{BlkPtr, DmuType, DslDir};
use pool::Pool;
use pool::UnguardedDatasets as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zio::Place;

/// The contents of a dead list.
#[derive(Clone, Debug, Default)]
struct Dead {
    sum: Space,
    /// Births and spaces of its blocks, joined by birth.
    by_birth: BTreeMap<u64, Space>,
}

impl Dead {
    fn add(&mut self, bp: &BlkPtr, space: &Space) {
        add(&mut self.sum, space);
        add(self.by_birth.entry(bp.logical_birth()).or_default(), space);
    }

    /// Space of the blocks born after a txg.
    fn after(&self, txg: u64) -> Space {
        let mut out = Space::default();
        for s in self.by_birth.range(txg.saturating_add(1)..).map(|(_, s)| s) {
            add(&mut out, s);
        }
        out
    }
}

fn add(a: &mut Space, b: &Space) {
    a.used = a.used.saturating_add(b.used);
    a.compressed = a.compressed.saturating_add(b.compressed);
    a.uncompressed = a.uncompressed.saturating_add(b.uncompressed);
}

fn sub(a: &Space, b: &Space) -> Space {
    Space {
        used: a.used.saturating_sub(b.used),
        compressed: a.compressed.saturating_sub(b.compressed),
        uncompressed: a.uncompressed.saturating_sub(b.uncompressed),
    }
}

struct Audit<'a> {
    pool: &'a Pool,
    sets: &'a Sets,
    sink: &'a Sink,
    dead: BTreeMap<u64, Dead>,
}

/// Directories of its own that a pool of a version has below its root. OpenZFS opens no pool that
/// lacks one of them.
pub fn own_dirs(version: u64) -> impl Iterator<Item = &'static str> {
    let since = [(MOS_DIR_NAME, 1), (ORIGIN_DIR_NAME, 11), (FREE_DIR_NAME, 26)];
    since.into_iter().filter(move |(_, first)| version >= *first).map(|(name, _)| name)
}

/// Compares all sums.
pub(crate) fn audit(pool: &Pool, sets: &Sets, sink: &Sink) {
    let mut a = Audit { pool, sets, sink, dead: BTreeMap::new() };
    for (number, dataset) in &sets.datasets {
        match a.deadlist(dataset) {
            Ok(d) => {
                a.dead.insert(*number, d);
            }
            Err(e) => {
                let dataset = Arc::from(dataset.name.as_str());
                let cause = format!("its dead list: {e}");
                sink.put(Issue::DatasetLinks { dataset, cause });
            }
        }
    }
    for dataset in sets.datasets.values() {
        a.links(dataset);
        a.referenced(dataset);
        a.unique(dataset);
    }
    a.directories();
}

impl Audit<'_> {
    fn differs(
        &self,
        (dataset, object): (&str, u64),
        field: &'static str,
        stored: u64,
        counted: u64,
    ) {
        if stored != counted {
            let dataset = Arc::from(dataset);
            self.sink.put(Issue::DatasetSpace { dataset, object, field, stored, counted });
        }
    }

    fn list_issue(&self, object: u64, cause: String) {
        let place = Place { objset: 0, object, level: 0, blkid: 0 };
        self.sink
            .put(Issue::BlockList { at: Location { dataset: Arc::from("MOS"), place }, cause });
    }

    /// Reads the dead list of a dataset and judges its entries and sums.
    fn deadlist(&self, dataset: &Dataset) -> dmu::Result<Dead> {
        let mut dead = Dead::default();
        let number = dataset.phys.deadlist;
        if number == 0 {
            return Ok(dead);
        }
        let object = self.pool.mos().object(number)?;
        let dnode = object.dnode();
        if Form::of(dnode.bonus_kind) != Some(Form::Zap) {
            let header = self.sublist(number, 0, u64::MAX, dataset, &mut dead)?;
            // The first form says nothing of compressed and uncompressed bytes.
            match header.accounting {
                Some(_) => self.compare_list(number, &header.space(), &dead.sum),
                None if header.bytes != dead.sum.used => {
                    let (stored, counted) = (header.bytes, dead.sum.used);
                    let cause = format!("header says {stored} bytes, its blocks make {counted}");
                    self.list_issue(number, cause);
                }
                None => {}
            }
            return Ok(dead);
        }
        let header = DeadlistHeader::decode(&dnode.bonus, dnode.endian);
        let header = header.map_err(|e| object.format_error(0, e))?;
        let mut keys = BTreeMap::new();
        for e in Zap::open(&object)?.entries() {
            let e = e?;
            let name = e.name.bytes().and_then(|b| std::str::from_utf8(b).ok());
            match (name.and_then(parse_int_key), e.u64()) {
                (Some(txg), Some(list)) => drop(keys.insert(txg, list)),
                _ => {
                    self.list_issue(number, "an entry of a dead list is not a txg and list".into());
                }
            }
        }
        let ends = keys.keys().skip(1).copied().chain([u64::MAX]);
        for ((from, list), to) in keys.iter().zip(ends) {
            let mut part = Dead::default();
            let sub = self.sublist(*list, *from, to, dataset, &mut part)?;
            self.compare_list(*list, &sub.space(), &part.sum);
            add(&mut dead.sum, &part.sum);
            for (birth, s) in part.by_birth {
                add(dead.by_birth.entry(birth).or_default(), &s);
            }
        }
        self.compare_list(number, &header.space(), &dead.sum);
        Ok(dead)
    }

    fn compare_list(&self, object: u64, stored: &Space, counted: &Space) {
        if stored != counted {
            let cause =
                format!("header says {}, its blocks make {}", figures(stored), figures(counted));
            self.list_issue(object, cause);
        }
    }

    /// Blocks born in `from <= birth < to`, and no later than the dataset's previous snapshot.
    fn sublist(
        &self,
        object: u64,
        from: u64,
        to: u64,
        dataset: &Dataset,
        dead: &mut Dead,
    ) -> dmu::Result<BpobjHeader> {
        let latest = dataset.phys.prev_snap_txg;
        let mut strangers = 0u64;
        let header = lists::for_each(self.pool.mos(), object, &mut |e| {
            let birth = e.0.logical_birth();
            // Key 0 takes what is older than all snapshots; keys are exclusive below.
            let fits = (birth > from || from == 0) && birth <= to && birth <= latest;
            strangers += u64::from(!fits);
            dead.add(&e.0, &crate::accounting::space_of(self.pool, &e.0));
        })?;
        if strangers > 0 {
            let rule = "blocks that were not born in its range of txgs";
            self.list_issue(object, format!("{strangers} {rule} ({from} to {to}, {latest})"));
        }
        Ok(header)
    }

    /// The walk saw all of a dataset's own blocks.
    fn own(&self, object: u64) -> Option<Space> {
        let set = self.sets.of(object)?;
        let complete = !set.incomplete.load(Ordering::Relaxed);
        complete.then(|| *set.own.lock())
    }

    fn referenced(&self, d: &Dataset) {
        let Some(own) = self.own(d.object) else { return };
        let Some(dead) = self.dead.get(&d.object) else { return };
        let mut sum = own;
        if d.phys.prev_snap != 0 {
            let Some(prev) = self.sets.datasets.get(&d.phys.prev_snap) else { return };
            add(&mut sum, &sub(&stored(prev), &dead.sum));
        }
        let found = stored(d);
        self.differs((&d.name, d.object), "referenced", found.used, sum.used);
        self.differs((&d.name, d.object), "compressed", found.compressed, sum.compressed);
        self.differs((&d.name, d.object), "uncompressed", found.uncompressed, sum.uncompressed);
    }

    fn unique(&self, d: &Dataset) {
        let accurate = d.phys.flags & ondisk::DslDataset::FLAG_UNIQUE_ACCURATE != 0;
        let counted = match d.phys.is_snapshot() {
            true => {
                let next = self.dead.get(&d.phys.next_snap);
                next.map(|n| n.after(d.phys.prev_snap_txg).used)
            }
            false => self.own(d.object).filter(|_| accurate).map(|s| s.used),
        };
        if let Some(counted) = counted {
            self.differs((&d.name, d.object), "unique", d.phys.unique, counted);
        }
    }

    /// Datasets point at each other both ways.
    fn links(&self, d: &Dataset) {
        let issue = |cause: String| {
            let dataset = Arc::from(d.name.as_str());
            self.sink.put(Issue::DatasetLinks { dataset, cause });
        };
        let get = |n: u64| self.sets.datasets.get(&n);
        if d.phys.prev_snap != 0 {
            match get(d.phys.prev_snap) {
                None => issue(format!("previous snapshot {} is missing", d.phys.prev_snap)),
                Some(p) => {
                    if p.phys.creation_txg != d.phys.prev_snap_txg {
                        let (a, b) = (d.phys.prev_snap_txg, p.phys.creation_txg);
                        issue(format!("previous snapshot has txg {b}, not {a}"));
                    }
                    let is_next = p.phys.next_snap == d.object;
                    if !is_next && !self.is_clone_of(d, p) {
                        issue(format!("{} does not know it as next or clone", p.name));
                    }
                }
            }
        }
        if d.phys.is_snapshot() && get(d.phys.next_snap).is_none() {
            issue(format!("next dataset {} is missing", d.phys.next_snap));
        }
        self.children_of(d, &issue);
        self.head_tables(d, &issue);
        self.bookmarks(d, &issue);
    }

    fn is_clone_of(&self, d: &Dataset, origin: &Dataset) -> bool {
        // Older pools do not list clones.
        if origin.phys.next_clones == 0 {
            return true;
        }
        let found = self.numbers(origin.phys.next_clones);
        found.is_none_or(|all| all.contains(&d.object))
    }

    /// Numbers in a table whose keys (or values) are object numbers.
    fn numbers(&self, object: u64) -> Option<Vec<u64>> {
        let zap = Zap::open(&self.pool.mos().object(object).ok()?).ok()?;
        let all = zap.to_vec().ok()?;
        Some(all.iter().filter_map(dmu::ZapEntry::u64).collect())
    }

    fn children_of(&self, d: &Dataset, issue: &dyn Fn(String)) {
        if !d.phys.is_snapshot() || d.phys.next_clones == 0 {
            return;
        }
        let Some(clones) = self.numbers(d.phys.next_clones) else {
            return issue("its table of clones cannot be read".to_owned());
        };
        let (stored, counted) = (d.phys.num_children, clones.len() as u64 + 1);
        if stored != counted {
            issue(format!("{stored} children, but {} clones and a successor", clones.len()));
        }
        for c in clones {
            let known = self.sets.datasets.get(&c).is_some_and(|c| c.phys.prev_snap == d.object);
            if !known {
                issue(format!("dataset {c} is listed as its clone but is not one"));
            }
        }
    }

    fn bookmarks(&self, d: &Dataset, issue: &dyn Fn(String)) {
        let read = || -> Option<Zap> {
            let fields = self.pool.dsl().fields(d.object, d.has_fields).ok()??;
            let number = fields.get_u64(dataset_field::BOOKMARKS).ok()??;
            Zap::open(&self.pool.mos().object(number).ok()?).ok()
        };
        for e in read().iter().flat_map(Zap::entries).filter_map(Result::ok) {
            let words: Vec<u64> = e.ints().collect();
            if let Err(error) = Bookmark::from_words(&words) {
                issue(format!("bookmark {}: {error}", shown(&e.name)));
            }
        }
    }

    /// The snapshots a head's table names are those of the chain behind it.
    fn head_tables(&self, d: &Dataset, issue: &dyn Fn(String)) {
        if d.phys.is_snapshot() || d.phys.snapnames_zap == 0 {
            return;
        }
        let Some(mut named) = self.numbers(d.phys.snapnames_zap) else {
            return issue("its table of snapshots cannot be read".to_owned());
        };
        let mut chain = Vec::new();
        let mut at = d.phys.prev_snap;
        while let Some(s) = self.sets.datasets.get(&at) {
            if s.phys.dir != d.phys.dir || chain.len() > self.sets.datasets.len() {
                break;
            }
            chain.push(at);
            at = s.phys.prev_snap;
        }
        named.sort_unstable();
        chain.sort_unstable();
        if named != chain {
            let text = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let (named, chain) = (text(&named), text(&chain));
            issue(format!("names snapshots [{named}], its chain has [{chain}]"));
        }
    }

    fn directories(&self) {
        let dsl = self.pool.dsl();
        let mut children: BTreeMap<u64, Vec<Arc<Dir>>> = BTreeMap::new();
        let mut all: Vec<Arc<Dir>> = Vec::new();
        for object in self.pool.mos().objects().filter_map(Result::ok) {
            if object.dnode().bonus_kind != DmuType::DSL_DIR {
                continue;
            }
            let number = object.number();
            let name = dsl.dir_name(number).unwrap_or_else(|_| format!("directory {number}"));
            match dsl.dir(number, name) {
                Ok(dir) => {
                    children.entry(dir.phys.parent).or_default().push(Arc::clone(&dir));
                    all.push(dir);
                }
                Err(e) => {
                    let dataset = Arc::from(format!("directory {number}"));
                    self.sink.put(Issue::DatasetLinks { dataset, cause: e.to_string() });
                }
            }
        }
        for dir in &all {
            self.directory(dir, children.get(&dir.object).map_or(&[][..], Vec::as_slice));
        }
        self.own_directories();
    }

    /// The directories of the pool's own are below the root by their names. Parts of the table that
    /// cannot be read were found by the walk.
    fn own_directories(&self) {
        let dsl = self.pool.dsl();
        let (Ok(root), Ok(found)) = (dsl.root(), dsl.internal_dirs()) else { return };
        for name in own_dirs(self.pool.uberblock().version) {
            let found = found.iter().find(|(n, _)| n == name);
            if found.is_some_and(|(_, object)| dsl.dir(*object, String::new()).is_ok()) {
                continue;
            }
            let place = Place { objset: 0, object: root.phys.child_zap, level: 0, blkid: 0 };
            let at = Location { dataset: Arc::from("MOS"), place };
            let what = DmuType::DSL_DIR_CHILD_MAP.name();
            let cause = format!("{name} is missing; OpenZFS cannot open the pool without it");
            self.sink.put(Issue::BadStructure { at, what, cause });
        }
    }

    fn directory(&self, dir: &Dir, children: &[Arc<Dir>]) {
        let p = &dir.phys;
        if p.head_dataset == 0 {
            return;
        }
        if p.flags & DslDir::FLAG_USED_BREAKDOWN == 0 {
            return;
        }
        let [head, snap, child, child_reserved, reserved] = p.used_breakdown;
        let sum = p.used_breakdown.iter().fold(0u64, |s, n| s.saturating_add(*n));
        self.differs((&dir.name, dir.object), "used", p.used, sum);
        let used = children.iter().fold(0u64, |s, c| s.saturating_add(c.phys.used));
        self.differs((&dir.name, dir.object), "used by children", child, used);
        let rest = children
            .iter()
            .fold(0u64, |s, c| s.saturating_add(c.phys.reserved.saturating_sub(c.phys.used)));
        self.differs((&dir.name, dir.object), "reserved by children", child_reserved, rest);
        if let Some(rest) = self.unused_refreservation(dir) {
            self.differs((&dir.name, dir.object), "used by refreservation", reserved, rest);
        }
        self.by_dataset(dir, head, snap, children);
    }

    /// The space that `refreservation` promises beyond what the head has for itself.
    fn unused_refreservation(&self, dir: &Dir) -> Option<u64> {
        let head = self.sets.datasets.get(&dir.phys.head_dataset)?;
        let dsl = self.pool.dsl();
        let wanted = dsl.own_number(dir.phys.props_zap, "refreservation").ok()?.unwrap_or(0);
        Some(wanted.saturating_sub(head.phys.unique))
    }

    /// Sums the datasets of a directory: the head, and what only snapshots hold.
    fn by_dataset(&self, dir: &Dir, head: u64, snap: u64, children: &[Arc<Dir>]) {
        let Some(h) = self.sets.datasets.get(&dir.phys.head_dataset) else { return };
        let origin = self.sets.datasets.get(&dir.phys.origin);
        let origin_txg = origin.map_or(0, |o| o.phys.creation_txg);
        let mut by_snapshots = Space::default();
        let mut shared = origin.map(stored).unwrap_or_default();
        let mine = self.sets.datasets.values().filter(|d| d.phys.dir == dir.object);
        let mut complete = true;
        for d in mine {
            let Some(dead) = self.dead.get(&d.object) else {
                complete = false;
                continue;
            };
            let own = dead.after(origin_txg);
            add(&mut by_snapshots, &own);
            shared = sub(&shared, &sub(&dead.sum, &own));
        }
        if !complete {
            return;
        }
        let by_head = sub(&stored(h), &shared);
        self.differs((&dir.name, dir.object), "used by the dataset", head, by_head.used);
        self.differs((&dir.name, dir.object), "used by snapshots", snap, by_snapshots.used);
        let mut all = by_head;
        add(&mut all, &by_snapshots);
        for c in children {
            let (compressed, uncompressed) = (c.phys.compressed, c.phys.uncompressed);
            add(&mut all, &Space { used: 0, compressed, uncompressed });
        }
        self.differs((&dir.name, dir.object), "compressed", dir.phys.compressed, all.compressed);
        self.differs(
            (&dir.name, dir.object),
            "uncompressed",
            dir.phys.uncompressed,
            all.uncompressed,
        );
    }
}

/// The space a dataset records as referenced.
fn stored(d: &Dataset) -> Space {
    Space {
        used: d.phys.referenced,
        compressed: d.phys.compressed,
        uncompressed: d.phys.uncompressed,
    }
}

/// The recorded sizes of a list of blocks, as text.
fn figures(space: &Space) -> String {
    let Space { used, compressed, uncompressed } = space;
    format!("{used} bytes used, {compressed} compressed, {uncompressed} uncompressed")
}
