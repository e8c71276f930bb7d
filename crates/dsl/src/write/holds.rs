//! Holding and releasing snapshots.

use super::meta::DslCx;
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl};
use ondisk::DmuType;

/// Longest tag in bytes.
const TAG_MAX: usize = 255;

fn snapshot_of(dsl: &Dsl, name: &str) -> Result<Dataset> {
    let snap = dsl.by_name(name)?;
    match snap.phys.is_snapshot() {
        true => Ok(snap),
        false => Err(Error::refused(name, Refusal::NotASnapshot)),
    }
}

/// Puts the hold `tag` on each snapshot, on all or none: they cannot be destroyed until it is
/// released.
///
/// Changes on disk: the snapshots' tables of holds, made with the first hold.
pub fn hold(cx: &DslCx<'_>, dsl: &Dsl, names: &[String], tag: &str) -> Result<()> {
    if tag.is_empty() || tag.len() > TAG_MAX {
        return Err(Error::BadName(tag.to_owned()));
    }
    let mut snaps = Vec::with_capacity(names.len());
    for name in names {
        let snap = snapshot_of(dsl, name)?;
        if cx.lookup(snap.phys.userrefs, tag)?.is_some() {
            return Err(Error::refused(name, Refusal::Held(tag.to_owned())));
        }
        snaps.push(snap.object);
    }
    for object in snaps {
        let mut ds = cx.dataset(object)?;
        if ds.userrefs == 0 {
            ds.userrefs = cx.new_table(DmuType::USERREFS, 0)?;
            cx.put_dataset(object, &ds)?;
        }
        cx.put(ds.userrefs, tag, cx.now.secs)?;
    }
    Ok(())
}

/// Releases the hold `tag` of each snapshot, of all or none. One that was destroyed with `-d`
/// meanwhile and has no other hold and no clone goes now.
///
/// Changes on disk: the snapshots' tables of holds; what destroying changes.
pub fn release(cx: &DslCx<'_>, dsl: &Dsl, names: &[String], tag: &str) -> Result<()> {
    let mut snaps = Vec::with_capacity(names.len());
    for name in names {
        let snap = snapshot_of(dsl, name)?;
        let twice = snaps.contains(&snap.object);
        if twice || cx.lookup(snap.phys.userrefs, tag)?.is_none() {
            return Err(Error::refused(name, Refusal::NotHeld(tag.to_owned())));
        }
        cx.free_list()?;
        snaps.push(snap.object);
    }
    for object in snaps {
        let ds = cx.dataset(object)?;
        cx.remove(ds.userrefs, tag)?;
        cx.destroy_if_deferred(object)?;
    }
    Ok(())
}
