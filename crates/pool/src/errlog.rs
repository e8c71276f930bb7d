//! The error logs: blocks that could not be read, in both forms of the log.
//!
//! The log of the last scrub and the one since are read together, as `zpool status -v` does. With
//! the feature `head_errlog` an entry names the head dataset and the block's birth, and stands for
//! all datasets of the head's family that have this block, its snapshots and clones; otherwise it
//! names the very dataset.
//! `live/errlog.rs` writes them.

use crate::open::Pool;
use dmu::{Objset, Zap};
use dsl::{Dataset, Dsl};
use ondisk::errlog::{HeadEntry, Zbookmark};
use ondisk::zap::parse_int_key;
use ondisk::{BlkPtr, mos};
use std::collections::BTreeSet;
use zpl::Filesystem;

/// Entries read at most: a log of a very damaged pool must not fill memory.
const ENTRIES_MAX: usize = 1 << 20;

/// Datasets in which blocks of the log are looked for at most.
const DATASETS_MAX: usize = 100_000;

/// Longest path in names.
const DEPTH_MAX: usize = 4096;

/// An object with blocks that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedObject {
    /// Dataset; 0: the pool's own metadata.
    pub dataset: u64,
    /// Object in it.
    pub object: u64,
}

/// The contents of the error logs.
#[derive(Clone, Debug, Default)]
pub struct ErrorLog {
    /// Blocks, with their birth where the log has it.
    pub blocks: Vec<(Zbookmark, Option<u64>)>,
    /// There were more than were read.
    pub is_cut: bool,
}

impl ErrorLog {
    /// The objects the blocks are of.
    #[must_use]
    pub fn objects(&self) -> BTreeSet<DamagedObject> {
        let of = |(b, _): &(Zbookmark, Option<u64>)| DamagedObject {
            dataset: b.objset,
            object: b.object,
        };
        self.blocks.iter().map(of).collect()
    }
}

/// The two logs, by their names in the object directory.
pub(crate) const LOGS: [&str; 2] = [mos::ERRLOG_LAST, mos::ERRLOG_SCRUB];

/// The feature with which entries are kept by head.
pub(crate) const BY_HEAD: &str = "com.delphix:head_errlog";

/// Reads both logs.
pub(crate) fn read(mos: &Objset, by_head: bool) -> dmu::Result<ErrorLog> {
    let mut out = ErrorLog::default();
    let directory = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
    for name in LOGS {
        let Some(object) = directory.get_u64(name)?.filter(|n| *n != 0) else { continue };
        let log = Zap::open(&mos.object(object)?)?;
        if by_head {
            read_by_head(mos, &log, &mut out)?;
        } else {
            read_log(&log, &mut out, |key| Some((Zbookmark::parse_log_key(key)?, None)))?;
        }
    }
    Ok(out)
}

/// The second tables of a log that is kept by head, each with its head.
pub(crate) fn tables_by_head(log: &Zap) -> impl Iterator<Item = dmu::Result<(u64, u64)>> + '_ {
    log.entries().filter_map(|head| match head {
        Ok(head) => {
            let key = head.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            Some(Ok((key.and_then(parse_int_key)?, head.u64()?)))
        }
        Err(e) => Some(Err(e)),
    })
}

fn read_by_head(mos: &Objset, log: &Zap, out: &mut ErrorLog) -> dmu::Result<()> {
    for table in tables_by_head(log) {
        let (dataset, below) = table?;
        let below = Zap::open(&mos.object(below)?)?;
        read_log(&below, out, |key| {
            let e = HeadEntry::parse_log_key(key)?;
            Some((e.in_objset(dataset), Some(e.birth).filter(|b| *b != 0)))
        })?;
    }
    Ok(())
}

/// Whether a dataset has this very block: one with the same place and birth.
pub(crate) fn has_block(
    dsl: &Dsl,
    dataset: &Dataset,
    block: &Zbookmark,
    birth: u64,
) -> dsl::Result<bool> {
    let is_named = block.level() < 0 && block.level() != Zbookmark::ROOT_LEVEL;
    if is_named && block.blkid != Zbookmark::SPILL_BLKID {
        return Ok(true);
    }
    let pointer = find_block(dsl, dataset, block)?;
    Ok(pointer.is_some_and(|bp| bp.logical_birth() == birth))
}

/// Finds the block of a dataset at this place now; `None` if there is none, or the place is not a
/// block of a tree.
pub(crate) fn find_block(
    dsl: &Dsl,
    dataset: &Dataset,
    block: &Zbookmark,
) -> dsl::Result<Option<BlkPtr>> {
    let objset = dsl.objset(dataset)?;
    let object = match block.object {
        0 if block.level() == Zbookmark::ROOT_LEVEL => return Ok(Some(objset.root())),
        0 => objset.meta_object(),
        n => match objset.object(n) {
            Ok(object) => Some(object),
            Err(e) if e.is_absent() => return Ok(None),
            Err(e) => return Err(e.into()),
        },
    };
    let Some(object) = object else { return Ok(None) };
    let pointer = match (block.blkid, u8::try_from(block.level())) {
        (Zbookmark::SPILL_BLKID, _) => object.dnode().spill,
        (blkid, Ok(level)) => object.block_pointer(level, blkid)?,
        (_, Err(_)) => None,
    };
    Ok(pointer.filter(|bp| !bp.is_hole()))
}

/// The successors of a snapshot: a later one or the head, and clones. A table that cannot be read
/// has none.
fn next_of(mos: &Objset, dataset: &Dataset) -> Vec<u64> {
    let phys = &dataset.phys;
    let clones = Some(phys.next_clones).filter(|n| *n != 0);
    let clones = clones.and_then(|n| Zap::open(&mos.object(n).ok()?).ok());
    let clones = clones.iter().flat_map(Zap::entries).flatten().filter_map(|e| e.u64());
    [phys.next_snap].into_iter().chain(clones).filter(|n| *n != 0).collect()
}

/// The first dataset and those that came after it, as far as they have the block. Where that
/// cannot be found out, they count as having it.
pub(crate) fn sharers_from(
    dsl: &Dsl,
    mos: &Objset,
    first: Dataset,
    block: &Zbookmark,
    birth: u64,
    left: &mut usize,
) -> Vec<u64> {
    let (mut out, mut met) = (Vec::new(), BTreeSet::from([first.object]));
    let mut todo = vec![first];
    while let Some(dataset) = todo.pop() {
        if !has_block(dsl, &dataset, block, birth).unwrap_or(true) {
            continue;
        }
        out.push(dataset.object);
        for number in next_of(mos, &dataset).into_iter().filter(|n| met.insert(*n)) {
            if *left > 0 {
                *left -= 1;
                match dsl.nameless(number) {
                    Ok(next) => todo.push(next),
                    Err(_) => out.push(number),
                }
            }
        }
    }
    out
}

impl Pool {
    /// Reads both error logs. A block that a head, its snapshots and clones share is listed for
    /// each.
    pub fn error_log(&self) -> dmu::Result<ErrorLog> {
        let by_head = self.features().count(BY_HEAD).is_some();
        let log = read(self.mos(), by_head)?;
        if !by_head {
            return Ok(log);
        }
        let mut left = DATASETS_MAX;
        let blocks = log.blocks.into_iter().flat_map(|(block, birth)| {
            let shared =
                birth.map_or_else(Vec::new, |birth| self.sharers(&block, birth, &mut left));
            let alone = birth.is_none().then_some((block, birth));
            shared.into_iter().map(move |one| (one, birth)).chain(alone).collect::<Vec<_>>()
        });
        Ok(ErrorLog { blocks: blocks.collect(), is_cut: log.is_cut })
    }

    /// The block in all datasets that have it: from the oldest that can have it on to what came
    /// next, clones among it, as long as they do. None has when it was freed. Where that cannot be
    /// found out, they count as having it.
    fn sharers(&self, block: &Zbookmark, birth: u64, left: &mut usize) -> Vec<Zbookmark> {
        let look = |number: u64, left: &mut usize| {
            let number = Some(number).filter(|n| *n != 0 && *left > 0)?;
            *left -= 1;
            self.dsl().nameless(number).ok()
        };
        // The pool's own metadata, a dataset that is gone, or too many to look at.
        let Some(mut oldest) = look(block.objset, left) else { return vec![*block] };
        while oldest.phys.prev_snap != 0 && oldest.phys.prev_snap_txg >= birth {
            let Some(older) = look(oldest.phys.prev_snap, left) else { break };
            oldest = older;
        }
        let in_set = |objset| Zbookmark::new(objset, block.object, block.level(), block.blkid);
        let all = sharers_from(self.dsl(), self.mos(), oldest, block, birth, left);
        all.into_iter().map(in_set).collect()
    }

    /// A damaged object as `zpool status -v` names it: `pool/data:/dir/file`; without a path
    /// `pool/data:<0x80>`; `<metadata>:<0x1f>`; of a dataset that is gone `<0x36>:<0x80>`.
    #[must_use]
    pub fn damaged_name(&self, damaged: &DamagedObject) -> String {
        let DamagedObject { dataset, object } = damaged;
        let name = match (*dataset, self.dsl().name_of(*dataset)) {
            (0, _) => return format!("<metadata>:<{object:#x}>"),
            (_, Ok(name)) => name,
            (_, Err(_)) => return format!("<{dataset:#x}>:<{object:#x}>"),
        };
        self.path_of(damaged).unwrap_or_else(|| format!("{name}:<{object:#x}>"))
    }

    /// The path of an object that is a file and can be found by it: `pool/data:/dir/file`.
    #[must_use]
    pub fn path_of(&self, damaged: &DamagedObject) -> Option<String> {
        let name = self.dsl().name_of(damaged.dataset).ok()?;
        let head = self.dsl().by_name(&name).ok()?;
        let fs = Filesystem::open(self.dsl().objset(&head).ok()?).ok()?;
        Some(format!("{name}:{}", path_of(&fs, damaged.object)?))
    }
}

/// A path of a file by its object, from directory to directory up; `None` when one of them is
/// damaged or does not know it (files without a name, extended attributes).
fn path_of(fs: &Filesystem, object: u64) -> Option<String> {
    let mut parts = Vec::new();
    let mut at = object;
    while at != fs.root_object() {
        if parts.len() >= DEPTH_MAX {
            return None;
        }
        let parent = fs.node(at).ok()?.parent;
        let dir = fs.node(parent).ok()?;
        let entry = dir.entries().ok()?.flatten().find(|e| e.object == at)?;
        parts.push(String::from_utf8_lossy(&entry.name).into_owned());
        at = parent;
    }
    parts.reverse();
    Some(format!("/{}", parts.join("/")))
}

fn read_log(
    log: &Zap,
    out: &mut ErrorLog,
    parse: impl Fn(&str) -> Option<(Zbookmark, Option<u64>)>,
) -> dmu::Result<()> {
    for entry in log.entries() {
        if out.blocks.len() >= ENTRIES_MAX {
            out.is_cut = true;
            break;
        }
        let entry = entry?;
        let key = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
        out.blocks.extend(key.and_then(&parse));
    }
    Ok(())
}
