//! Datasets that are being received. What becomes of them is told in `dsl::write::receive`.
//!
//! A [`Receiving`] is the way to the head that a stream goes into. It ends with
//! [`Receiving::finish`]; dropped before, what was received is destroyed. When the program is ended
//! meanwhile, the next import does that.

use super::LivePool;
use super::datasets::LogQuiesced;
use super::head::Head;
use super::shared::{Shared, TaskCx};
use super::uses::InUse;
use crate::error::Result;
use dmu::Objset;
use dsl::Dataset;
use dsl::write::{Incoming, PropertyChange};
use ondisk::{ObjsetKind, ZilHeader};
use std::sync::Arc;

/// A dataset that is being received.
pub struct Receiving {
    shared: Arc<Shared>,
    head: Arc<Head>,
    incoming: Incoming,
    is_clone: bool,
    is_ended: bool,
    /// What is received is not destroyed meanwhile.
    _in_use: InUse,
}

/// What is to be of a dataset beside its content, when all of it was received.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Properties that came with the stream. Those that are refused are told.
    pub received: Vec<PropertyChange>,
    /// Properties that are not received any more.
    pub cleared: Vec<String>,
    /// Properties that are set here.
    pub local: Vec<PropertyChange>,
    /// Users' properties of the snapshot.
    pub of_snapshot: Vec<PropertyChange>,
}

impl TaskCx<'_> {
    fn begin_receive(&self, incoming: &Incoming) -> Result<(Arc<Head>, bool)> {
        self.check_room(&incoming.name)?;
        let kind = if incoming.is_volume { ObjsetKind::Zvol } else { ObjsetKind::Zfs };
        if let Some(from) = dsl::write::check_receive(&self.dsl(), self.datasets(), incoming)? {
            self.check_log(&from)?;
        }
        if let Ok(head) = self.datasets().by_name(&incoming.name) {
            self.check_younger_unused(&head, incoming)?;
        }
        let made = dsl::write::begin_receive(&self.dsl(), self.datasets(), incoming)?;
        let dataset = self.datasets().head_by_object(made.head)?;
        let head = if dataset.phys.bp.is_hole() {
            // The header alone: what is in the set comes with the stream.
            self.new_objset(made.head, kind, |head, tx| {
                Ok(head.objset.set_zil(tx, &ZilHeader::default())?)
            })?
        } else {
            let stored = self.datasets().stored(&dataset)?;
            let head = self.shared.live(made.head, Some(dataset.phys.bp), kind, &stored)?;
            self.shared.weigh(&head, &stored)?;
            let head = Arc::new(head);
            self.shared.heads.write().insert(made.head, Arc::clone(&head));
            self.empty_log(&dataset, false)?;
            head
        };
        head.receive();
        let text = format!("fullname={}", incoming.full_name());
        self.log_event_of("receive", &text, (&dataset.name, dataset.object))?;
        Ok((head, !dataset.phys.bp.is_hole()))
    }

    /// Refuses to destroy snapshots that are in use: with `-F` those go that are younger than the
    /// one that the stream begins with.
    fn check_younger_unused(&self, head: &Dataset, incoming: &Incoming) -> Result<()> {
        let snapshots = self.datasets().snapshots(head)?;
        let from = snapshots.iter().rposition(|s| s.phys.guid == incoming.from_guid);
        let younger = snapshots.iter().skip(from.map_or(0, |at| at + 1));
        younger.into_iter().try_for_each(|younger| self.check_unused(younger))
    }

    fn end_receive(
        &self,
        received: u64,
        incoming: &Incoming,
        with: &Received,
    ) -> Result<Vec<(String, String)>> {
        let (cx, dsl) = (self.dsl(), self.datasets());
        let existing = dsl::write::check_end_receive(&cx, dsl, received, incoming)?;
        if let Some(head) = &existing {
            self.check_unused(head)?;
            self.check_younger_unused(head, incoming)?;
            self.check_log(head)?;
            self.take_over(head)?;
            self.drop_head(head.object);
        }
        self.drop_head(received);
        dsl::write::end_receive(&cx, dsl, received, incoming)?;
        if let Some(head) = &existing {
            self.empty_log(&dsl.by_name(&head.name)?, false)?;
        }
        let snapshot = incoming.full_name();
        let mut refused = Vec::new();
        let mut set = |name: &str, done: Result<()>| match done {
            Ok(()) => {}
            Err(e) => refused.push((name.to_owned(), e.to_string())),
        };
        for name in &with.cleared {
            let change = PropertyChange { name: name.clone(), value: None };
            let task =
                |cx: &Self| Ok(dsl::write::set_received(&cx.dsl(), dsl, &incoming.name, &change)?);
            set(name, self.whole(task));
        }
        for change in &with.received {
            let task =
                |cx: &Self| Ok(dsl::write::set_received(&cx.dsl(), dsl, &incoming.name, change)?);
            set(&change.name, self.whole(task));
        }
        for change in &with.local {
            let task =
                |cx: &Self| Ok(dsl::write::set_property(&cx.dsl(), dsl, &incoming.name, change)?);
            set(&change.name, self.whole(task));
        }
        for change in &with.of_snapshot {
            let task = |cx: &Self| Ok(dsl::write::set_received(&cx.dsl(), dsl, &snapshot, change)?);
            set(&change.name, self.whole(task));
        }
        self.shared.refresh_heads()?;
        self.log_event("finish receiving", &format!("snap={}", incoming.snapshot), &incoming.name)?;
        Ok(refused)
    }

    fn discard_received(&self, received: u64) -> Result<()> {
        let dsl = self.datasets();
        let name = dsl.name_of(received)?;
        self.drop_head(received);
        dsl::write::discard_received(&self.dsl(), dsl, received)?;
        self.log_event_of("destroy", " ", (&name, received))
    }
}

impl LivePool {
    /// Begins to receive a stream: makes the dataset that it goes into.
    ///
    /// # Errors
    /// What keeps the stream from being received. Only the administrator receives.
    pub fn begin_receive(&self, incoming: Incoming) -> Result<Receiving> {
        self.check_administrator()?;
        let wanted = incoming.clone();
        let (head, is_clone) = self.shared.run(move |cx| cx.begin_receive(&wanted))?;
        let (shared, in_use) = (Arc::clone(&self.shared), self.shared.uses.begin(head.dataset));
        Ok(Receiving { shared, head, incoming, is_clone, is_ended: false, _in_use: in_use })
    }

    /// Destroys what was received by programs that were ended before the end of the stream, unless
    /// the pool is open to be repaired.
    pub(super) fn discard_unfinished(&self, to_repair: bool) -> Result<()> {
        if to_repair {
            return Ok(());
        }
        let all = {
            let _guard = self.shared.gate.read();
            dsl::write::unfinished_receives(&self.shared.dsl)
        };
        for received in all {
            let done = self.shared.run(move |cx| {
                let dataset = cx.datasets().head_by_object(received)?;
                cx.drop_livelist(&dataset)?;
                cx.discard_received(received)
            });
            // What cannot be destroyed stays, as it was.
            match done {
                Err(e) if self.shared.txgs.why_stopped().is_some() => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Receiving {
    /// The object set that the stream goes into.
    #[must_use]
    pub fn objset(&self) -> &Objset {
        &self.head.objset
    }

    /// Whether there are objects from the start.
    #[must_use]
    pub fn is_clone(&self) -> bool {
        self.is_clone
    }

    /// Where the stream goes.
    #[must_use]
    pub fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// Whether the pool has a feature enabled, by its name.
    #[must_use]
    pub fn has_feature(&self, name: &str) -> bool {
        self.shared.features.is_enabled(name)
    }

    /// All was received: the dataset is made what it is meant for, and its snapshot is taken, in
    /// one txg. `has_large_dnodes`: some came, though not every sender says so before. Returns the
    /// properties that it was not given, with the reasons.
    ///
    /// # Errors
    /// The dataset that was there has changed meanwhile, or is in use: nothing was changed, and
    /// what was received is destroyed.
    pub fn finish(
        mut self,
        with: Received,
        has_large_dnodes: bool,
    ) -> Result<Vec<(String, String)>> {
        self.incoming.has_large_dnodes |= has_large_dnodes;
        let quiet = LogQuiesced::of(&self.shared, &self.incoming.name)?;
        let (received, incoming) = (self.head.dataset, self.incoming.clone());
        let done = self.shared.run(move |cx| cx.end_receive(received, &incoming, &with));
        drop(quiet);
        let refused = done?;
        self.is_ended = true;
        Ok(refused)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        let received = self.head.dataset;
        // If that fails, the next import does it.
        let _ = self.shared.run(move |cx| cx.discard_received(received));
    }
}
