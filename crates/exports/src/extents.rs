//! The common part of exports of all kinds.

use nbd::{Errno, Extent, RequestError};

/// Appends a range to extents, or makes the last one longer. Whether there was room.
pub(crate) fn push(extents: &mut Vec<Extent>, max: usize, length: u64, is: bool) -> bool {
    if length == 0 {
        return true;
    }
    if let Some(last) = extents.last_mut().filter(|last| last.is == is) {
        last.length = last.length.saturating_add(length);
        return true;
    }
    let has_room = extents.len() < max;
    if has_room {
        extents.push(Extent { length, is });
    }
    has_room
}

/// The error for a client that wants to change a read-only export.
pub(crate) fn read_only() -> RequestError {
    RequestError::new(Errno::Permission, "the export is read-only")
}
