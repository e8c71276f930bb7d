//! What a replay has made so far: the overlay, and the object set seen through it.

use super::Settings;
use super::refusal::Refusal;
use dmu::{Object, Objset, Overlay, OverlayBlock, OverlayObject};
use ondisk::Dnode;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Refusal>;

/// The state of a replay.
///
/// Objects of the view hold the overlay: let go of them before [`State::edit`], or it is copied.
pub(super) struct State {
    base: Objset,
    overlay: Arc<Overlay>,
    pub(super) settings: Settings,
    /// Bytes of content held in the overlay.
    held: u64,
    /// Records about objects that are no more.
    pub(super) passed_over: u64,
    /// Files of the delete queue that are gone.
    pub(super) released: u64,
}

impl State {
    pub(super) fn new(base: Objset, settings: Settings) -> Self {
        let overlay = Arc::default();
        Self { base, overlay, settings, held: 0, passed_over: 0, released: 0 }
    }

    /// The object set as it is now.
    pub(super) fn view(&self) -> Objset {
        self.base.with_overlay(Arc::clone(&self.overlay))
    }

    pub(super) fn overlay(&self) -> Arc<Overlay> {
        Arc::clone(&self.overlay)
    }

    pub(super) fn object(&self, number: u64) -> Result<Object> {
        Ok(self.view().object(number)?)
    }

    pub(super) fn exists(&self, number: u64) -> Result<bool> {
        match self.object(number) {
            Ok(_) => Ok(true),
            Err(Refusal::NotFound) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What was changed of an object so far.
    pub(super) fn changes(&self, number: u64) -> Option<&OverlayObject> {
        self.overlay.objects.get(&number)
    }

    /// The changes to one object.
    pub(super) fn edit(&mut self, number: u64) -> &mut OverlayObject {
        Arc::make_mut(&mut self.overlay).objects.entry(number).or_default()
    }

    /// Makes an object, or replaces everything there was of it.
    pub(super) fn put(&mut self, number: u64, object: OverlayObject) {
        Arc::make_mut(&mut self.overlay).objects.insert(number, object);
    }

    /// Changes the dnode of an object.
    pub(super) fn edit_dnode(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Dnode),
    ) -> Result<()> {
        let mut dnode = self.object(number)?.dnode().clone();
        change(&mut dnode);
        self.edit(number).dnode = Some(Arc::new(dnode));
        Ok(())
    }

    /// Counts content that is about to be held.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<()> {
        let held = self.held.saturating_add(bytes);
        if held > self.settings.memory_max {
            return Err(Refusal::Memory);
        }
        self.held = held;
        Ok(())
    }

    /// Counts content that is held no more.
    pub(super) fn let_go(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// Adjusts the space used of every object whose blocks changed: what came is counted as if it
    /// did not compress, for how well it will is not known before it is written.
    pub(super) fn settle_space(&mut self) {
        let numbers: Vec<u64> = self.overlay.objects.keys().copied().collect();
        for number in numbers {
            if let Some(used) = self.space_of(number) {
                // The object exists: its space was just counted.
                let _ = self.edit_dnode(number, |d| {
                    d.flags |= ondisk::dnode::FLAG_USED_BYTES;
                    d.used = used;
                });
            }
        }
    }

    fn space_of(&self, number: u64) -> Option<u64> {
        let o = self.overlay.objects.get(&number).filter(|o| !o.freed)?;
        if o.blocks.is_empty() && o.holes.iter().next().is_none() {
            return None;
        }
        let dnode = self.object(number).ok()?.dnode().clone();
        let came = o.blocks.values().map(|b| match b {
            OverlayBlock::Data(b) => b.len() as u64,
            OverlayBlock::Stored(bp) => bp.asize(),
        });
        let came = came.fold(0u64, u64::saturating_add);
        if o.detached || o.holes.covering(0) == Some(u64::MAX) {
            return Some(came);
        }
        let disk = self.base.object(number).ok()?;
        let asize = |b: u64| disk.block_pointer(0, b).ok().flatten().map_or(0, |bp| bp.asize());
        let mut went = o.blocks.keys().filter(|b| o.holes.covering(**b).is_none());
        let mut went = went.by_ref().map(|b| asize(*b)).fold(0u64, u64::saturating_add);
        for (start, end) in o.holes.iter() {
            let mut at = start;
            while let Ok(Some(b)) = disk.next_block(at) {
                if b >= end {
                    break;
                }
                went = went.saturating_add(asize(b));
                at = b + 1;
            }
        }
        Some(dnode.used_bytes().saturating_sub(went).saturating_add(came))
    }
}
