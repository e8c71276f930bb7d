//! A step of an expansion as a part of a txg.

use crate::error::Result;
use crate::live::reflows::RunningExpansion;
use crate::live::shared::{Shared, TaskCx};
use crate::live::tunables::Tunable;
use dmu::zap;
use ondisk::expand::KEY_BYTES_COPIED;
use ondisk::uberblock::{ReflowScratch, Uberblock};
use vdev::{Reflow, ReflowError, Reflowed};

impl Shared {
    /// Does the next step of the expansion that runs; `None`: none was done. What it wrote is on
    /// the devices when this returns, and not flushed.
    pub(in crate::live) fn reflow_step(&self) -> Option<Reflowed> {
        let (running, is_paused) = {
            let state = self.reflows.state.lock();
            (state.running, state.is_paused)
        };
        let now = running.filter(|now| !is_paused && !self.is_reflow_held(&now.record))?;
        // The first txg takes in what logs of space maps say.
        if self.alloc.has_logs() {
            return None;
        }
        let most = self.tunables.get(Tunable::ReflowPiece);
        let done = self.reader.vdevs().reflow_step(now.id, self.alloc.end_of(now.id), &mut |r| {
            self.alloc.taken_in(now.id, &r, most)
        });
        let mut state = self.reflows.state.lock();
        state.stands = None;
        if let Err(why) = &done {
            // The others come to an end by themselves, or are seen in the state of devices.
            let stands = matches!(why, ReflowError::Space(_) | ReflowError::NotExpanding);
            state.stands = stands.then(|| why.to_string());
        }
        done.ok()
    }

    /// What the uberblock of a txg that is about to be durable says of the expansion; the vdev and
    /// what is to be told to it behind that, when a step was done.
    pub(in crate::live) fn put_reflow(&self, uberblock: &mut Uberblock) -> Option<(u32, Reflow)> {
        let Some(now) = self.reflows.running() else {
            uberblock.set_raidz_reflow(ReflowScratch::NotInUse, 0);
            return None;
        };
        let next = self.reader.vdevs().reflow_to_commit(now.id)?;
        let scratch = match next.scratch_valid {
            true => ReflowScratch::Valid,
            false => ReflowScratch::InvalidSyncedReflow,
        };
        uberblock.set_raidz_reflow(scratch, next.offset);
        Some((now.id, next))
    }

    /// What the devices hold of the txg that is synced is not certain.
    pub(in crate::live) fn give_up_reflow(&self) {
        if let Some(now) = self.reflows.running() {
            self.reader.vdevs().give_up_reflow(now.id);
        }
    }

    /// No step is noted as done that was given up since.
    pub(in crate::live) fn is_reflow_recorded(&self) -> bool {
        let state = self.reflows.state.lock();
        let noted = state.running.filter(|_| state.unsettled > 0);
        noted.is_none_or(|now| self.reader.vdevs().has_reflow_step(now.id))
    }

    /// After a txg, when no thread holds the gate: what waited for the end of an expansion.
    pub(in crate::live) fn resume_after_reflow(&self) {
        if self.reflows.has_ended() {
            // What fails is tried again when the pool is opened, or asked for.
            let _ = self.resume_works();
            let _ = self.want_scrub();
            self.reflows.end();
        }
    }
}

impl TaskCx<'_> {
    /// A step that was given up is done again, and counts then: what was noted of it is taken back.
    pub(in crate::live) fn discount_reflow(&self) -> Result<()> {
        let reflows = &self.shared.reflows;
        if self.shared.is_reflow_recorded() {
            return Ok(());
        }
        let Some(mut now) = reflows.running() else { return Ok(()) };
        let given_up = std::mem::take(&mut reflows.state.lock().unsettled);
        now.record.bytes_copied = now.record.bytes_copied.saturating_sub(given_up);
        self.put_expansion(&now, &[KEY_BYTES_COPIED])?;
        reflows.state.lock().running = Some(now);
        Ok(())
    }

    /// Writes entries of an expansion into the vdev's table, where it has one.
    pub(super) fn put_expansion(&self, now: &RunningExpansion, keys: &[&str]) -> Result<()> {
        if now.table == 0 {
            return Ok(());
        }
        let table = self.objects().object(now.table)?;
        for (key, value) in now.record.entries().into_iter().filter(|(key, _)| keys.contains(key)) {
            zap::set(&table, self.tx, key.as_bytes(), &dmu::ZapValue::from_words(&[value]))?;
        }
        Ok(())
    }
}
