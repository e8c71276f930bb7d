//! How much may be written to a dataset, and the limit that applies.

use super::spacing::beyond;
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dir, Dsl};

/// Space that a dataset may still use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableSpace {
    /// Bytes, as allocated.
    pub bytes: u64,
    /// Why it is no more: a quota and the dataset it is of; `None`: the pool is full behind it.
    pub quota: Option<(&'static str, String)>,
}

impl AvailableSpace {
    /// Whether `bytes` more fit.
    ///
    /// # Errors
    /// [`Refusal::Quota`] or [`Refusal::NoSpace`].
    pub fn check(&self, dataset: &str, bytes: u64) -> Result<()> {
        match &self.quota {
            _ if bytes <= self.bytes => Ok(()),
            Some((property, at)) => Err(Error::refused(at, Refusal::Quota(property))),
            None => Err(Error::refused(dataset, Refusal::NoSpace)),
        }
    }
}

/// The room a head has, of a pool that can hold `pool_size` bytes, when `pending` bytes are dirty
/// in it and in all that shares its space. Worth keeping for a txg: what it says changes with
/// every sync only.
pub fn room(dsl: &Dsl, head: &Dataset, pool_size: u64, pending: u64) -> Result<AvailableSpace> {
    let AvailableSpace { mut bytes, mut quota } =
        room_beside(dsl, &head.dir, pool_size, pending, None)?;
    let number = |name| dsl.own_number(head.dir.phys.props_zap, name);
    let reserved = number("refreservation")?.unwrap_or(0);
    let unused = reserved.saturating_sub(head.phys.unique.saturating_add(pending));
    bytes = bytes.saturating_add(unused);
    let refquota = number("refquota")?.unwrap_or(0);
    let here = refquota.saturating_sub(head.phys.referenced.saturating_add(pending));
    if refquota != 0 && here < bytes {
        bytes = here;
        quota = Some(("refquota", head.name.clone()));
    }
    Ok(AvailableSpace { bytes, quota })
}

/// The room a directory has for more.
fn room_of_dir(dsl: &Dsl, dir: &Dir, pool_size: u64) -> Result<AvailableSpace> {
    room_beside(dsl, dir, pool_size, 0, None)
}

/// The same with bytes that are dirty in it, and when a directory on the way to the root gets some
/// back: its object, and how many.
fn room_beside(
    dsl: &Dsl,
    dir: &Dir,
    pool_size: u64,
    pending: u64,
    back: Option<(u64, u64)>,
) -> Result<AvailableSpace> {
    let mut left: Option<u64> = None;
    let mut quota = None;
    for dir in dsl.ancestry(dir)?.iter().rev() {
        let d = &dir.phys;
        let mut used = d.used.saturating_add(pending);
        if let Some((_, bytes)) = back.filter(|(object, _)| *object == dir.object) {
            used = used.saturating_sub(bytes);
            left = left.map(|l| l.saturating_add(bytes));
        }
        let own = match (left, d.quota) {
            (None, 0) => pool_size,
            (None, q) => q.min(pool_size),
            (Some(_), 0) => u64::MAX,
            (Some(_), q) => q,
        };
        let unused = d.reserved.saturating_sub(used);
        let above = left.map_or(u64::MAX, |l| l.saturating_add(unused));
        let here = own.saturating_sub(used);
        if here < above && own == d.quota {
            quota = Some(("quota", dir.name.clone()));
        }
        left = Some(above.min(here));
    }
    Ok(AvailableSpace { bytes: left.unwrap_or(0), quota })
}

/// Whether `bytes` can move from below the directory `from` to below `to`: what is above both has
/// them already.
///
/// # Errors
/// [`Refusal::Quota`] or [`Refusal::NoSpace`].
pub(super) fn check_move(
    dsl: &Dsl,
    from: &Dir,
    to: &Dir,
    bytes: u64,
    pool_size: u64,
) -> Result<()> {
    let above: Vec<u64> = dsl.ancestry(to)?.iter().map(|d| d.object).collect();
    let mut gone = bytes.cast_signed().wrapping_neg();
    for dir in dsl.ancestry(from)? {
        if above.contains(&dir.object) {
            let back = Some((dir.object, gone.unsigned_abs()));
            return room_beside(dsl, to, pool_size, 0, back)?.check(&to.name, bytes);
        }
        // Space that is reserved there and used no more stays reserved.
        gone = beyond(dir.phys.used, dir.phys.reserved, gone);
    }
    Ok(())
}

/// Whether there is room for a `reservation` or `refreservation` of `value` bytes; other properties
/// need none.
///
/// # Errors
/// [`Refusal::NoRoomFor`].
pub(super) fn check_reservation(
    dsl: &Dsl,
    head: &Dataset,
    property: &'static str,
    value: u64,
    pool_size: u64,
) -> Result<()> {
    let d = &head.dir.phys;
    let (used, old, place) = match property {
        "reservation" => {
            // The space it keeps free is taken from the directories above.
            let above = match d.parent {
                0 => head.dir.clone(),
                n => {
                    let name = head.dir.name.rsplit_once('/').map_or("", |(above, _)| above);
                    dsl.dir(n, name.to_owned())?
                }
            };
            (d.used, d.reserved, above)
        }
        "refreservation" => {
            let old = dsl.own_number(d.props_zap, property)?.unwrap_or(0);
            (head.phys.unique, old, head.dir.clone())
        }
        _ => return Ok(()),
    };
    let more = used.max(value).saturating_sub(used.max(old));
    match more <= room_of_dir(dsl, &place, pool_size)?.bytes {
        true => Ok(()),
        false => Err(Error::refused(&head.name, Refusal::NoRoomFor(property))),
    }
}

/// Whether there is room below `parent` for the reservations of a new dataset.
///
/// # Errors
/// [`Refusal::Quota`] or [`Refusal::NoSpace`].
pub(super) fn check_new_reservation(
    dsl: &Dsl,
    parent: &Dir,
    name: &str,
    bytes: u64,
    pool_size: u64,
) -> Result<()> {
    room_of_dir(dsl, parent, pool_size)?.check(name, bytes)
}

/// Whether there is room for a snapshot of each head, or to roll it back: what the head has of its
/// own is covered by its refreservation, which covers new space from then on.
///
/// # Errors
/// [`Refusal::Quota`] or [`Refusal::NoSpace`].
pub(super) fn check_snapshot_room(dsl: &Dsl, heads: &[Dataset], pool_size: u64) -> Result<()> {
    for head in heads {
        let reserved = dsl.own_number(head.dir.phys.props_zap, "refreservation")?.unwrap_or(0);
        let more = reserved.min(head.phys.unique);
        if more != 0 {
            room_of_dir(dsl, &head.dir, pool_size)?.check(&head.name, more)?;
        }
    }
    Ok(())
}
