//! Space of directories: what changes below is added up to the root.

use super::meta::DslCx;
use crate::error::{Error, Result};
use crate::tree::DEPTH_MAX;
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDir, FREE_DIR_NAME};

/// A change of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub used: i64,
    pub compressed: i64,
    pub uncompressed: i64,
}

impl Delta {
    pub(super) fn used(used: i64) -> Self {
        Self { used, ..Self::default() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            used: self.used.wrapping_add(other.used),
            compressed: self.compressed.wrapping_add(other.compressed),
            uncompressed: self.uncompressed.wrapping_add(other.uncompressed),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    pub(super) fn negated(self) -> Self {
        Self {
            used: self.used.wrapping_neg(),
            compressed: self.compressed.wrapping_neg(),
            uncompressed: self.uncompressed.wrapping_neg(),
        }
    }
}

impl From<Space> for Delta {
    fn from(s: Space) -> Self {
        Self {
            used: s.used.cast_signed(),
            compressed: s.compressed.cast_signed(),
            uncompressed: s.uncompressed.cast_signed(),
        }
    }
}

/// Adds to a counter. One that would fall below 0 was wrong before; it stays at 0, because a pool
/// whose counters are wrong must still be one that things can be removed from.
pub(super) fn add(counter: &mut u64, delta: i64) {
    *counter = counter.saturating_add_signed(delta);
}

/// The change of something that counts at least as `reserved` when `used` changes by `delta`.
pub(super) fn beyond(used: u64, reserved: u64, delta: i64) -> i64 {
    let after = used.saturating_add_signed(delta).max(reserved);
    after.wrapping_sub(used.max(reserved)).cast_signed()
}

impl DslCx<'_> {
    /// Adds `delta` to the space of a directory, as part `part` of it, and to those above.
    pub(super) fn charge(&self, dir: u64, part: usize, delta: Delta) -> Result<()> {
        self.charge_parts(dir, delta, &[(part, delta.used)])
    }

    /// Adds `delta` to the space of a directory and those above. `parts`: how much of it each part
    /// of the directory's own breakdown gets; their sum is `delta.used`.
    pub(super) fn charge_parts(
        &self,
        dir: u64,
        delta: Delta,
        parts: &[(usize, i64)],
    ) -> Result<()> {
        let (mut at, mut delta, mut parts) = (dir, delta, parts.to_vec());
        for _ in 0..DEPTH_MAX {
            let mut d = self.dir(at)?;
            let above = beyond(d.used, d.reserved, delta.used);
            add(&mut d.used, delta.used);
            add(&mut d.compressed, delta.compressed);
            add(&mut d.uncompressed, delta.uncompressed);
            add_parts(&mut d, &parts);
            self.put_dir(at, &d)?;
            if d.parent == 0 {
                return Ok(());
            }
            at = d.parent;
            // Space that the child had reserved and now uses moves from one part to the other.
            parts.clear();
            parts.push((DslDir::USED_CHILD, delta.used));
            parts.push((DslDir::USED_CHILD_RESERVED, above.wrapping_sub(delta.used)));
            delta.used = above;
        }
        Err(Error::Tree { object: dir, rule: "directories nest too deep" })
    }

    /// Space that waits to be freed counts for `$FREE`.
    pub(super) fn charge_free(&self, space: Space) -> Result<()> {
        self.charge_free_by(space.into())
    }

    /// The same of a change.
    pub(super) fn charge_free_by(&self, delta: Delta) -> Result<()> {
        match self.internal_dir(FREE_DIR_NAME)? {
            Some(dir) if delta != Delta::default() => self.charge(dir, DslDir::USED_HEAD, delta),
            _ => Ok(()),
        }
    }
}

fn add_parts(dir: &mut DslDir, parts: &[(usize, i64)]) {
    if dir.flags & DslDir::FLAG_USED_BREAKDOWN == 0 {
        return;
    }
    for (part, delta) in parts {
        if let Some(counter) = dir.used_breakdown.get_mut(*part) {
            add(counter, *delta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn a_reservation_hides_what_it_covers() {
        assert_eq!(beyond(10, 0, 5), 5);
        assert_eq!(beyond(10, 100, 5), 0);
        assert_eq!(beyond(98, 100, 5), 3);
        assert_eq!(beyond(110, 100, -15), -10);
        assert_eq!(beyond(0, 100, -1), 0);
    }
}
