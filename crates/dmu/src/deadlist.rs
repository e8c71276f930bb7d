//! Dead lists: the blocks that a dataset's previous snapshot has and the dataset has no more.
//!
//! # Theory
//!
//! A dead list is a table from txgs to [lists](crate::bpobj). Its keys are 0 and the txgs of the
//! snapshots before the previous one; a block is in the list of the largest key *below* its birth.
//! So all blocks that become free with one snapshot are whole lists, and what the coming and going
//! of snapshots asks for is done with keys. With P the txg of the snapshot before (0: none):
//!
//! ```text
//! new dataset          create: without keys, because without a snapshot there is no dead block
//! snapshot taken       it keeps the head's dead list; the head's new one is
//!                      clone(that, u64::MAX) with add_key(P as it was before)
//! clone of a snapshot  clone(dead list of the origin's head, txg of the snapshot)
//! snapshot destroyed   move_to(dead list of the next, list to be freed, P of the destroyed):
//!                      the blocks that only it had; then merge(dead list of the next, its own),
//!                      free(its own); unless the next is the head, remove_key(its txg) from the
//!                      dead list of the head, and from those of clones made behind it
//! ```
//!
//! ```no_run
//! # fn f(mos: &dmu::Objset, tx: &dmu::Tx, dead: &[ondisk::BlkPtr]) -> dmu::Result<()> {
//! let dsize = |bp: &ondisk::BlkPtr| bp.asize();
//! let lists = dmu::bpobj::Lists::new(mos, tx, &dsize)?;
//! let head = dmu::deadlist::create(&lists)?;
//! dmu::deadlist::add_key(&lists, head, 0)?;
//! dmu::deadlist::insert(&lists, head, dead.iter().map(|bp| (*bp, false)))?;
//! let all = dmu::deadlist::space(mos, head)?;
//! # Ok(()) }
//! ```
//!
//! Dead lists of the form before pool version 26 are read elsewhere and not changed.

use crate::bpobj::{self, Lists};
use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::{InvalidChange, Unsupported};
use crate::zap::{self, Zap, ZapSpec};
use ondisk::bpobj::Space;
use ondisk::deadlist::DeadlistHeader;
use ondisk::zap::{int_key, parse_int_key};
use ondisk::{BlkPtr, DmuType, Endian};
use std::collections::BTreeMap;

/// Makes a dead list without keys. The first key must be added before blocks are.
///
/// # Errors
/// No object can be made.
pub fn create(lists: &Lists<'_>) -> Result<u64> {
    let header = DeadlistHeader::default().encode(Endian::Little);
    let spec = ZapSpec::new(DmuType::DEADLIST).bonus(DmuType::DEADLIST_HDR, &header);
    Ok(zap::create(lists.mos(), lists.tx(), &spec)?.number())
}

/// Removes a dead list with its lists. The blocks they name are not freed.
///
/// # Errors
/// A list cannot be read.
pub fn free(lists: &Lists<'_>, number: u64) -> Result<()> {
    for list in keys(lists.mos(), number)?.into_values() {
        lists.free_or_drop(list)?;
    }
    lists.mos().free(lists.tx(), number)
}

/// Removes a dead list of which a part cannot be read, with what can be found of its lists.
///
/// # Errors
/// There is no such object.
pub fn remove_damaged(lists: &Lists<'_>, number: u64) -> Result<()> {
    let table = Zap::open(&lists.mos().object(number)?);
    let entries = table.iter().flat_map(Zap::entries).filter_map(Result::ok);
    let below: Vec<u64> = entries.filter_map(|e| e.u64()).collect();
    for list in below {
        lists.remove_damaged(list)?;
    }
    lists.mos().free(lists.tx(), number)
}

/// The keys with the numbers of their lists.
///
/// # Errors
/// The dead list cannot be read.
pub fn keys(mos: &Objset, number: u64) -> Result<BTreeMap<u64, u64>> {
    let (object, _) = open(mos, number)?;
    let mut out = BTreeMap::new();
    for e in Zap::open(&object)?.entries() {
        let e = e?;
        let name = e.name.bytes().and_then(|n| std::str::from_utf8(n).ok()).unwrap_or_default();
        match (parse_int_key(name), e.u64()) {
            (Some(txg), Some(list)) => drop(out.insert(txg, list)),
            _ => return Err(object.error(ErrorKind::EntryForm(name.to_owned()))),
        }
    }
    Ok(out)
}

/// Adds blocks, each with whether it is a free (livelists; false elsewhere).
///
/// # Errors
/// A list cannot be read.
pub fn insert(
    lists: &Lists<'_>,
    number: u64,
    blocks: impl IntoIterator<Item = (BlkPtr, bool)>,
) -> Result<()> {
    let mut keys = keys(lists.mos(), number)?;
    let mut sorted: BTreeMap<u64, Vec<(BlkPtr, bool)>> = BTreeMap::new();
    for (bp, freed) in blocks {
        let key = key_below(&keys, bp.logical_birth());
        let key = key.ok_or_else(|| no_keys(lists.mos(), number))?;
        sorted.entry(key).or_default().push((bp, freed));
    }
    let mut added = Space::default();
    for (key, blocks) in sorted {
        let list = own(lists, number, &mut keys, key)?;
        added = added.plus(lists.append(list, blocks)?);
    }
    change_space(lists, number, |s| s.plus(added))
}

/// Starts a new list for blocks born after `txg`: a snapshot was taken then. Blocks that are in the
/// dead list already must not be younger.
///
/// # Errors
/// There is such a key.
pub fn add_key(lists: &Lists<'_>, number: u64, txg: u64) -> Result<()> {
    let (object, _) = open(lists.mos(), number)?;
    let list = lists.create_empty()?;
    zap::insert_u64(&object, lists.tx(), &int_key(txg), list)
}

/// Removes a key: the snapshot of that txg is gone. Its blocks go to the key before it.
///
/// # Errors
/// There is no such key, or none before it.
pub fn remove_key(lists: &Lists<'_>, number: u64, txg: u64) -> Result<()> {
    let mut keys = keys(lists.mos(), number)?;
    let absent = || lists.mos().error(number, ErrorKind::NoEntry(int_key(txg)));
    let list = keys.remove(&txg).ok_or_else(absent)?;
    let before = keys.range(..txg).next_back().map(|(k, _)| *k).ok_or_else(absent)?;
    put_below(lists, number, &keys, before, list)?;
    let (object, _) = open(lists.mos(), number)?;
    zap::remove(&object, lists.tx(), &int_key(txg))?;
    Ok(())
}

/// Makes a dead list with the keys below `max_txg` of the dead list `number`, all empty.
///
/// # Errors
/// The dead list cannot be read; no object can be made.
pub fn clone(lists: &Lists<'_>, number: u64, max_txg: u64) -> Result<u64> {
    let new = create(lists)?;
    for txg in keys(lists.mos(), number)?.range(..max_txg).map(|(k, _)| *k) {
        add_key(lists, new, txg)?;
    }
    Ok(new)
}

/// Puts all blocks of the dead list `from` into `number` and leaves it with neither blocks nor
/// keys: what is left to do is [`free`].
///
/// # Errors
/// A list cannot be read.
pub fn merge(lists: &Lists<'_>, number: u64, from: u64) -> Result<()> {
    let to = keys(lists.mos(), number)?;
    let (source, header) = open(lists.mos(), from)?;
    let mut moved = Vec::new();
    for (txg, list) in keys(lists.mos(), from)? {
        // All its blocks are younger than its key, so they belong to the largest key up to that.
        let key = to.range(..=txg).next_back().or_else(|| to.iter().next()).map(|(k, _)| *k);
        let key = key.ok_or_else(|| no_keys(lists.mos(), number))?;
        // The list of a key can have become another one with the last round.
        let now = keys(lists.mos(), number)?;
        put_below(lists, number, &now, key, list)?;
        moved.push(txg);
    }
    let mut editor = zap::Editor::open(&source, lists.tx())?;
    for txg in moved {
        editor.remove(&int_key(txg))?;
    }
    editor.finish()?;
    change_space(lists, number, |s| s.plus(header.space()))?;
    change_space(lists, from, |_| Space::default())
}

/// Moves all blocks born after `min_txg`, which is a key, to the list `to`, and removes their keys.
///
/// # Errors
/// A list cannot be read.
pub fn move_to(lists: &Lists<'_>, number: u64, to: u64, min_txg: u64) -> Result<()> {
    let keys = keys(lists.mos(), number)?;
    let (object, _) = open(lists.mos(), number)?;
    for (txg, list) in keys.range(min_txg..) {
        let space = bpobj::space(lists.mos(), *list)?;
        lists.append_list(to, *list)?;
        change_space(lists, number, |s| s.minus(space))?;
        zap::remove(&object, lists.tx(), &int_key(*txg))?;
    }
    Ok(())
}

/// Space of all blocks.
///
/// # Errors
/// The dead list cannot be read.
pub fn space(mos: &Objset, number: u64) -> Result<Space> {
    Ok(open(mos, number)?.1.space())
}

/// Space of the blocks born after `min_txg` and up to `max_txg`, both keys or beyond all keys.
///
/// # Errors
/// A list cannot be read.
pub fn space_range(mos: &Objset, number: u64, min_txg: u64, max_txg: u64) -> Result<Space> {
    let mut sum = Space::default();
    for (txg, list) in keys(mos, number)? {
        if (min_txg..max_txg).contains(&txg) {
            sum = sum.plus(bpobj::space(mos, list)?);
        }
    }
    Ok(sum)
}

/// Every block of the dead list, in the order of the keys.
///
/// # Errors
/// A list cannot be read.
pub fn entries(
    mos: &Objset,
    number: u64,
    each: &mut dyn FnMut(&ondisk::bpobj::Entry),
) -> Result<()> {
    keys(mos, number)?.into_values().try_for_each(|list| bpobj::entries(mos, list, each))
}

fn open(mos: &Objset, number: u64) -> Result<(Object, DeadlistHeader)> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    match dnode.bonus_kind {
        DmuType::DEADLIST_HDR => {}
        DmuType::BPOBJ_HDR => {
            let what = Unsupported::OldDeadlist;
            return Err(object.error(ErrorKind::Unsupported(what)));
        }
        _ => {
            let found = dnode.kind.name();
            return Err(object.error(ErrorKind::WrongType { wanted: "a dead list", found }));
        }
    }
    let header = DeadlistHeader::decode(&dnode.bonus, dnode.endian);
    let header = header.map_err(|e| object.format_error(0, e))?;
    Ok((object, header))
}

/// The key of the list for a block of that birth: the largest below it. A dead list that has only
/// younger keys is damaged; the first is taken then, as OpenZFS does.
fn key_below(keys: &BTreeMap<u64, u64>, birth: u64) -> Option<u64> {
    keys.range(..birth).next_back().or_else(|| keys.iter().next()).map(|(k, _)| *k)
}

fn no_keys(mos: &Objset, number: u64) -> crate::Error {
    mos.error(number, ErrorKind::Invalid(InvalidChange::DeadlistKeys))
}

/// The list of a key, made its own when it is the shared empty one.
fn own(lists: &Lists<'_>, number: u64, keys: &mut BTreeMap<u64, u64>, key: u64) -> Result<u64> {
    let list = keys.get(&key).copied().ok_or_else(|| no_keys(lists.mos(), number))?;
    let own = lists.own(list)?;
    if own != list {
        let (object, _) = open(lists.mos(), number)?;
        zap::set_u64(&object, lists.tx(), &int_key(key), own)?;
        keys.insert(key, own);
    }
    Ok(own)
}

/// Puts a list below that of a key, or in its place when that is the shared empty one.
fn put_below(
    lists: &Lists<'_>,
    number: u64,
    keys: &BTreeMap<u64, u64>,
    key: u64,
    list: u64,
) -> Result<()> {
    let there = keys.get(&key).copied().ok_or_else(|| no_keys(lists.mos(), number))?;
    if lists.empty()? != Some(there) {
        return lists.append_list(there, list);
    }
    lists.drop_empty()?;
    let (object, _) = open(lists.mos(), number)?;
    zap::set_u64(&object, lists.tx(), &int_key(key), list)
}

fn change_space(lists: &Lists<'_>, number: u64, f: impl FnOnce(Space) -> Space) -> Result<()> {
    let (object, mut header) = open(lists.mos(), number)?;
    let Space { used, compressed, uncompressed } = f(header.space());
    (header.used, header.compressed, header.uncompressed) = (used, compressed, uncompressed);
    object.set_bonus(lists.tx(), DmuType::DEADLIST_HDR, &header.encode(object.dnode().endian))
}
