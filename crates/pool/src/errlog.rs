//! The error logs: blocks OpenZFS could not read, in both forms of the log.
//!
//! The log of the last scrub and the one since are read together, as `zpool status -v` does. With
//! the feature `head_errlog` an entry names the head dataset and the block's birth, otherwise the
//! very dataset.

use crate::open::Pool;
use dmu::Zap;
use ondisk::deadlist::parse_int_key;
use ondisk::errlog::{HeadEntry, Zbookmark};
use ondisk::mos;
use std::collections::BTreeSet;
use zpl::Filesystem;

/// Entries read at most: a log of a very damaged pool must not fill memory.
const ENTRIES_MAX: usize = 1 << 20;

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

/// What is in the error logs.
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

impl Pool {
    /// Reads both error logs.
    pub fn error_log(&self) -> dmu::Result<ErrorLog> {
        let mut out = ErrorLog::default();
        let directory = self.directory()?;
        let by_head = self.features().count("com.delphix:head_errlog").is_some_and(|n| n > 0);
        for name in [mos::ERRLOG_LAST, mos::ERRLOG_SCRUB] {
            let Some(object) = directory.get_u64(name)?.filter(|n| *n != 0) else { continue };
            let log = Zap::open(&self.mos().object(object)?)?;
            if by_head {
                self.read_by_head(&log, &mut out)?;
            } else {
                read_log(&log, &mut out, |key| Some((Zbookmark::parse_log_key(key)?, None)))?;
            }
        }
        Ok(out)
    }

    fn read_by_head(&self, log: &Zap, out: &mut ErrorLog) -> dmu::Result<()> {
        for head in log.entries() {
            let head = head?;
            let key = head.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            let (Some(dataset), Some(below)) = (key.and_then(parse_int_key), head.u64()) else {
                continue;
            };
            let below = Zap::open(&self.mos().object(below)?)?;
            read_log(&below, out, |key| {
                let e = HeadEntry::parse_log_key(key)?;
                Some((e.in_objset(dataset), Some(e.birth).filter(|b| *b != 0)))
            })?;
        }
        Ok(())
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
        let head = self.dsl().by_name(&name);
        let fs = head.and_then(|ds| self.dsl().objset(&ds)).ok();
        let path = fs.and_then(|os| Filesystem::open(os).ok()).and_then(|fs| path_of(&fs, *object));
        match path {
            Some(path) => format!("{name}:{path}"),
            None => format!("{name}:<{object:#x}>"),
        }
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
