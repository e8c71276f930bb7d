//! Encryption roots, which raw streams do not describe: `zfs receive` of a raw package makes them
//! as the sender has them.
//!
//! Each dataset that is received raw is an encryption root at first, for the stream has its key and
//! nothing else. The list of the package names the datasets that are roots; the others have the
//! root of their parent. The one that was named stays a root, whatever it was on the sender.

use super::list::Sent;
use crate::datasets::snapshot_by_guid;
use crate::error::Result;
use dsl::names::is_within;
use pool::live::LivePool;

/// Makes the datasets from `top` on down roots, or not, as the sender has them.
pub(super) fn follow(pool: &LivePool, sent: &[Sent], top: &str) -> Result<()> {
    for one in sent {
        let found = {
            let view = pool.view();
            let dsl = view.datasets();
            let mut guids = one.snapshots.keys();
            guids.find_map(|guid| snapshot_by_guid(&dsl, top, *guid))
        };
        let name = found.as_deref().and_then(|name| name.split('@').next());
        if let Some(name) = name.filter(|name| *name != top && is_within(name, top)) {
            pool.follow_root(name, one.is_root)?;
        }
    }
    Ok(())
}
