//! The end of a removal: the vdev becomes an indirect one, or is used as before.

use super::copy::Piece;
use crate::error::{Error, Result};
use crate::live::config::Builder;
use crate::live::config_edit::bad;
use crate::live::removals::RunningRemoval;
use crate::live::shared::TaskCx;
use crate::mapping::segments;
use crate::refusal::{DeviceFault, NotRunning};
use ondisk::config::VdevConfig;
use ondisk::nvlist::{NvList, NvValue};
use ondisk::scan::State;

/// The configuration of a removed vdev, in the place of what it was, as OpenZFS has it.
fn indirect(top: &VdevConfig, guid: u64, before: u64) -> Result<VdevConfig> {
    let stored = top.to_nvlist();
    let mut list: NvList = Builder::new()
        .text("type", "indirect")
        .u64("id", top.id)
        .u64("guid", guid)
        .u64("whole_disk", 0)
        .u64("metaslab_array", 0)
        .done();
    let kept = [
        "metaslab_shift",
        "ashift",
        "asize",
        "is_log",
        "non_allocating",
        "com.delphix:indirect_object",
        "com.delphix:indirect_births",
        "create_txg",
        "com.delphix:vdev_zap_top",
    ];
    for pair in
        kept.iter().filter_map(|name| stored.pairs.iter().find(|pair| pair.name == name.as_bytes()))
    {
        list.pairs.push(pair.clone());
    }
    if before != u64::MAX {
        list.set("com.delphix:prev_indirect_vdev", NvValue::U64(before));
    }
    VdevConfig::decode(&list).map_err(|e| bad(&e))
}

/// The tree with another vdev in the place of the one with its number.
fn with_top(pool: &str, root: &VdevConfig, new: &VdevConfig) -> Result<VdevConfig> {
    let mut root = root.clone();
    let place = root.children.iter_mut().find(|top| top.id == new.id);
    let place = place.ok_or_else(|| Error::refused(pool, DeviceFault::NotInPool))?;
    *place = new.clone();
    Ok(root)
}

impl TaskCx<'_> {
    /// Puts what a txg copied into the mapping; ends the removal when nothing is left.
    pub(in crate::live) fn settle_piece(&self, piece: Piece) -> Result<()> {
        let Some(running) = self.shared.removals.running() else { return Ok(()) };
        match piece {
            Piece::None => Ok(()),
            Piece::All => self.end_removal(running),
            Piece::Copied(moved, failure) => {
                if !moved.is_empty() {
                    self.extend(running, &moved)?;
                }
                match failure {
                    Some(why) => {
                        self.shared.removals.state.lock().failure = Some(why);
                        self.undo_removal()
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// All of a vdev was copied: from this txg on its blocks are read where they are now.
    fn end_removal(&self, running: RunningRemoval) -> Result<()> {
        let shared = self.shared;
        let root = shared.config.lock().root.clone();
        let top = root.children.iter().find(|top| top.id == u64::from(running.id));
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let new = indirect(top, (self.guid)(), running.record.prev_indirect_vdev)?;
        let next = with_top(shared.pool(), &root, &new)?;
        let now = shared.reader.vdevs();
        let tree = now.successor(&shared.rt, &next, &mut |_| None);
        let mut tree = tree.map_err(|e| bad(&e))?;
        let moved = segments(self.objects(), &new)?.unwrap_or_default();
        tree.set_indirect(running.id, moved).map_err(|e| bad(&e))?;
        let below: Vec<u64> = top.walk().filter(|v| v.kind.is_leaf()).map(|v| v.guid).collect();
        let leaves = now.leaves().filter(|leaf| below.contains(&leaf.guid()));
        let gone = leaves.filter_map(|leaf| Some((leaf.guid(), leaf.writer().cloned()?)));
        let gone: Vec<_> = gone.collect();
        self.touch();
        let maps = shared.alloc.end_leaving(running.id, self.tx.txg());
        self.free_space_of(top, &maps)?;
        let mut record = running.record.with_state(State::Finished);
        record.prev_indirect_vdev = record.vdev;
        record.end_time = self.dsl().now.secs;
        self.put_removal(&record)?;
        self.put_tree(next, tree);
        below.iter().for_each(|guid| drop(shared.config.lock().logs.remove(guid)));
        let mut state = shared.removals.state.lock();
        (state.running, state.gone) = (None, gone);
        drop(state);
        let text = format!("{} vdev {}", shared.pool(), running.id);
        self.log_event_of_pool("vdev remove completed", &text)
    }

    /// Frees all copies; the vdev is used as before.
    pub(super) fn undo_removal(&self) -> Result<()> {
        let shared = self.shared;
        let none = || self.shared.refused(NotRunning::Removal);
        let running = shared.removals.running().ok_or_else(none)?;
        let mut root = shared.config.lock().root.clone();
        let top = root.children.iter_mut().find(|top| top.id == u64::from(running.id));
        let top = top.ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let copied = shared.alloc.copies_of(running.id);
        let copied = copied.map_err(|what| bad(&format!("cannot read {what}")))?;
        self.touch();
        self.free_mapping(&running, top)?;
        shared.alloc.give_up_copies(running.id, &copied, self.tx.txg());
        self.unmark(top)?;
        let path = top.path.clone().unwrap_or_else(|| "-".to_owned());
        let mut record = running.record.with_state(State::Canceled);
        record.end_time = self.dsl().now.secs;
        self.put_removal(&record)?;
        let tree = shared.reader.vdevs();
        let tree = tree.successor(&shared.rt, &root, &mut |_| None).map_err(|e| bad(&e))?;
        self.put_tree(root, tree);
        shared.removals.state.lock().running = None;
        let text = format!("{} vdev {} {path}", shared.pool(), running.id);
        self.log_event_of_pool("vdev remove canceled", &text)
    }
}
