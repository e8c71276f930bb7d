//! Where the data of files and volumes begin and end.

use crate::error::Result;
use crate::node::Node;
use crate::volume::Volume;
use dmu::Object;

/// Where the next data at or behind `from` begin; `None` when only a hole follows.
fn next_data(object: &Object, size: u64, from: u64) -> Result<Option<u64>> {
    let block = object.dnode().block_size().max(1);
    let next = object.next_block(from / block).map_err(|(e, _)| e)?;
    let at = next.map(|stored| from.max(stored.saturating_mul(block)));
    Ok(at.filter(|at| *at < size))
}

impl Node {
    /// Where the next data at or behind `from` begin; `None` when only a hole follows.
    pub fn next_data(&self, from: u64) -> Result<Option<u64>> {
        next_data(self.object(), self.size, from)
    }

    /// Where the next hole at or behind `from` begins; the end of the file is one.
    pub fn next_hole(&self, from: u64) -> Result<u64> {
        let size = self.object().dnode().block_size().max(1);
        let mut at = from;
        while at < self.size && self.next_data(at)? == Some(at) {
            at = (at / size).saturating_add(1).saturating_mul(size);
        }
        Ok(at.clamp(from, self.size.max(from)))
    }
}

impl Volume {
    /// Where the next data at or behind `from` begin; `None` when only a hole follows.
    pub fn next_data(&self, from: u64) -> Result<Option<u64>> {
        next_data(self.object(), self.size(), from)
    }

    /// It has changes that are not in a durable txg.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.object().has_changes()
    }
}
