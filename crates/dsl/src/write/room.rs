//! How much may be written to a dataset, and what stands in the way of more.

use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl};

/// Space that a dataset may still use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes, as allocated.
    pub bytes: u64,
    /// Why it is no more: a quota and the dataset it is of; `None`: the pool is full behind it.
    pub quota: Option<(&'static str, String)>,
}

impl Room {
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
pub fn room(dsl: &Dsl, head: &Dataset, pool_size: u64, pending: u64) -> Result<Room> {
    let mut left: Option<u64> = None;
    let mut quota = None;
    for dir in dsl.ancestry(&head.dir)?.iter().rev() {
        let d = &dir.phys;
        let used = d.used.saturating_add(pending);
        let own = match (left, d.quota) {
            (None, 0) => pool_size,
            (None, q) => q.min(pool_size),
            (Some(_), 0) => u64::MAX,
            (Some(_), q) => q,
        };
        let above = left.map_or(u64::MAX, |l| l.saturating_add(d.reserved.saturating_sub(used)));
        let here = own.saturating_sub(used);
        if here < above && own == d.quota {
            quota = Some(("quota", dir.name.clone()));
        }
        left = Some(above.min(here));
    }
    let number = |name| dsl.own_number(head.dir.phys.props_zap, name);
    let reserved = number("refreservation")?.unwrap_or(0);
    let unused = reserved.saturating_sub(head.phys.unique.saturating_add(pending));
    let mut bytes = left.unwrap_or(0).saturating_add(unused);
    let refquota = number("refquota")?.unwrap_or(0);
    let here = refquota.saturating_sub(head.phys.referenced.saturating_add(pending));
    if refquota != 0 && here < bytes {
        bytes = here;
        quota = Some(("refquota", head.name.clone()));
    }
    Ok(Room { bytes, quota })
}
