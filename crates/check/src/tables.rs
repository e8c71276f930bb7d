//! Every structure inside objects decodes: tables, lists, packed lists, history.
//!
//! The walk proves that blocks hold the bytes that were written; here it is proved that the bytes
//! make sense. A table's entries are counted against its header, and every one is looked up by its
//! own name: that goes the way of a reader, through hash, pointer table and leaf, and so judges all
//! three.

use crate::issue::{Issue, Location};
use crate::sink::Sink;
use dmu::{Object, Objset, Zap};
use ondisk::bpobj::BpobjHeader;
use ondisk::history::HistoryPhys;
use ondisk::nvlist::NvList;
use ondisk::zap::{Match, ZapKey, ZapName};
use ondisk::{DmuType, Layout, spelling};
use rt::Progress;
use std::sync::Arc;
use zio::Place;

/// Longest packed list that is decoded.
const LIST_MAX: u64 = 64 << 20;

/// The name of an entry in a finding.
pub(crate) fn shown(name: &ZapName) -> String {
    match name {
        ZapName::Bytes(bytes) => format!("'{}'", spelling::file(bytes)),
        ZapName::U64s(words) => format!("{words:x?}"),
    }
}

/// Looks at all objects of a set.
pub(crate) fn decode_all(objset: &Objset, name: &Arc<str>, sink: &Sink, progress: &Progress) {
    let accounting = objset.accounting_objects().into_iter().flatten().map(Ok);
    for object in objset.objects().chain(accounting) {
        if progress.is_cancelled() {
            return;
        }
        progress.add(1, 0);
        let Ok(object) = object else { continue };
        let kind = object.dnode().kind;
        let what = kind.name();
        let done = match kind {
            _ if kind.layout() == Layout::Zap => table(&object),
            DmuType::PACKED_NVLIST => packed_list(&object),
            DmuType::BPOBJ => block_list(&object),
            DmuType::SPA_HISTORY => history(&object),
            _ => Ok(()),
        };
        if let Err(cause) = done {
            let place = Place { objset: objset.id(), object: object.number(), level: 0, blkid: 0 };
            let at = Location { dataset: Arc::clone(name), place };
            sink.put(Issue::BadStructure { at, what, cause });
        }
    }
}

/// `Ok` also when a block cannot be read: the walk has reported that.
fn judged(e: &dmu::Error) -> Result<(), String> {
    if e.io().is_some() { Ok(()) } else { Err(e.to_string()) }
}

fn table(object: &Object) -> Result<(), String> {
    // A dataset or directory that was never given later fields has no table in its data.
    if object.dnode().blkptrs.iter().all(ondisk::BlkPtr::is_hole) {
        return Ok(());
    }
    let zap = match Zap::open(object) {
        Ok(z) => z,
        Err(e) => return judged(&e),
    };
    let mut count = 0u64;
    let mut finder = zap.finder();
    for e in zap.entries() {
        let e = match e {
            Ok(e) => e,
            Err(e) => return judged(&e),
        };
        count += 1;
        if zap.fat_header().is_none() {
            continue;
        }
        let key = match &e.name {
            ZapName::Bytes(b) => ZapKey::name(&zap.key_hash(), b, Match::Exact),
            ZapName::U64s(w) => ZapKey::words(&zap.key_hash(), w),
        };
        match finder.find(&key) {
            Ok(Some(found)) if found.name == e.name => {}
            Ok(_) => return Err(format!("entry {} is not found by its name", shown(&e.name))),
            Err(e) => return judged(&e),
        }
    }
    match zap.fat_header().map(|h| h.entry_count) {
        Some(stored) if stored != count => {
            Err(format!("header counts {stored} entries, leaves have {count}"))
        }
        _ => Ok(()),
    }
}

fn packed_list(object: &Object) -> Result<(), String> {
    let dnode = object.dnode();
    let size = match dnode.bonus.first_chunk::<8>() {
        Some(b) => dnode.endian.u64(*b),
        None => object.size_of_blocks(),
    };
    if size == 0 {
        return Ok(());
    }
    if size > LIST_MAX.min(object.size_of_blocks()) {
        return Err(format!("{size} bytes are more than its blocks can hold"));
    }
    let mut bytes = vec![0; size as usize];
    if let Err(e) = object.read_at(0, &mut bytes) {
        return judged(&e);
    }
    NvList::decode(&bytes).map(drop).map_err(|e| e.to_string())
}

fn block_list(object: &Object) -> Result<(), String> {
    let dnode = object.dnode();
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian).map_err(|e| e.to_string())?;
    let len = header.data_len().map_err(|e| e.to_string())?;
    if len > object.size_of_blocks() {
        return Err(format!("{} entries are more than its blocks can hold", header.num_blkptrs));
    }
    Ok(())
}

/// Error of reading the history, in either crate.
enum Broken {
    Read(dmu::Error),
    Decode(ondisk::Error),
}

impl From<ondisk::Error> for Broken {
    fn from(e: ondisk::Error) -> Self {
        Self::Decode(e)
    }
}

fn history(object: &Object) -> Result<(), String> {
    let dnode = object.dnode();
    let phys = HistoryPhys::decode(&dnode.bonus, dnode.endian).map_err(|e| e.to_string())?;
    let read = |offset: u64, len: u64| -> Result<Vec<u8>, Broken> {
        let mut bytes = vec![0; len as usize];
        object.read_at(offset, &mut bytes).map_err(Broken::Read)?;
        Ok(bytes)
    };
    for record in phys.records(read) {
        match record {
            Ok(_) => {}
            Err(Broken::Read(e)) => return judged(&e),
            Err(Broken::Decode(e)) => return Err(e.to_string()),
        }
    }
    Ok(())
}
