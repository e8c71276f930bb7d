//! `autoreplace`: a new device in the place of one that is missing takes its place.
//!
//! It is used as a replacement without force is: it has no label and nothing else that would be
//! lost. A device with a label is left alone.

use crate::devices::DeviceSource;
use crate::pools::DeviceCheck;
use pool::live::{LabelMismatch, LivePool, NotUsed, Returned, VdevSpec};

/// Whether the pool asks for it.
fn is_wanted(pool: &LivePool) -> bool {
    pool.look().is_ok_and(|seen| {
        let properties = seen.properties(&seen.space());
        properties.iter().any(|p| p.name == "autoreplace" && p.value == "on")
    })
}

/// Whether it was put in the place of the leaf; why it was not, where that was to be done. Reports
/// of the pool say that too.
pub(super) fn put_in_place(
    pool: &LivePool,
    found: &Returned,
    source: &dyn DeviceSource,
) -> Result<bool, NotUsed> {
    let is_new = found.refusal == Some(NotUsed::Unfit(LabelMismatch::NoLabel));
    if !is_new || !is_wanted(pool) {
        return Ok(false);
    }
    let needs = pool.size_needed(found.leaf).unwrap_or(0);
    let has = source.open(&found.path).map_or(needs, |device| device.size());
    let replaced = match has < needs {
        true => Err(NotUsed::TooSmall { needs, has }),
        false => replace(pool, found, source).map_err(NotUsed::Failed),
    };
    match replaced {
        Ok(()) => Ok(true),
        Err(why) => {
            pool.note_not_used(found.leaf, &found.path, why.clone());
            Err(why)
        }
    }
}

fn replace(pool: &LivePool, found: &Returned, source: &dyn DeviceSource) -> Result<(), String> {
    let seen = pool.look().map_err(|e| e.to_string())?;
    let path = &found.path;
    let check = DeviceCheck { pool: Some(&seen), force: false, user: &|_, _| None };
    let refused = |why: &dyn std::fmt::Display| format!("it {why}");
    check.by_name(path).map_err(|why| refused(&why))?;
    let device = source.claim(path).map_err(|e| e.to_string())?;
    check.opened(path, &device, false).map_err(|why| refused(&why))?;
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let name = path.to_str().ok_or("its name is not text")?.to_owned();
    let spec = VdevSpec::Leaf { path: name, is_file };
    pool.replace(found.leaf, &spec, device).map_err(|e| e.to_string())
}
