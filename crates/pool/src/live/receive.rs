//! Datasets that are being received. What becomes of them is told in `dsl::write::receive`.
//!
//! A [`Receiving`] is the way to the head that a stream goes into. It ends with
//! [`Receiving::finish`]; dropped before, what was received is destroyed, unless the receive can be
//! resumed. When the program is ended meanwhile, the next import does that.
//!
//! How far a receive came is told by the thread that has a transaction ([`Receiving::reach`]), so
//! the position is of the txg that the record goes into, and is written when that is synced.

use super::LivePool;
use super::behalf::Need;
use super::datasets::LogQuiesced;
use super::head::Head;
use super::shared::{Shared, TaskCx};
use super::uses::InUse;
use crate::error::{Error, Result};
use dmu::{Objset, SetKey, Tx};
use dsl::write::{Incoming, Position, PropertyChange};
use dsl::{Action, Caller, Dataset, DatasetKind, Dsl};
use ondisk::{ObjsetKind, ZilHeader};
use std::sync::Arc;

/// A dataset that is being received.
pub struct Receiving {
    shared: Arc<Shared>,
    /// The user whom it is for, when that is not the administrator.
    caller: Option<Arc<Caller>>,
    begun: ReceiveTarget,
    incoming: Incoming,
    is_ended: bool,
}

/// The head that a stream goes into.
struct ReceiveTarget {
    head: Arc<Head>,
    /// What is received is not destroyed meanwhile.
    _in_use: InUse,
    is_clone: bool,
    is_hidden: bool,
    /// Bytes that were received before it was resumed.
    before: u64,
    /// What was to be known when it is resumed.
    later: Option<String>,
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

/// Why a property is not set, without the name of the dataset, which is told beside.
fn reason(e: &Error) -> String {
    match e {
        Error::Dsl(dsl::Error::Refused { why, .. }) => why.to_string(),
        e => e.to_string(),
    }
}

impl Received {
    /// Takes out all but what limits the size of the dataset, and what is the snapshot's.
    #[must_use]
    pub fn all_but_limits(&mut self) -> Self {
        let is_limit = |change: &PropertyChange| {
            let limits = ["quota", "refquota", "reservation", "refreservation"];
            limits.contains(&change.name.as_str())
        };
        let split = |all: &mut Vec<PropertyChange>| {
            let (limits, others) = std::mem::take(all).into_iter().partition(is_limit);
            *all = limits;
            others
        };
        Self {
            received: split(&mut self.received),
            cleared: std::mem::take(&mut self.cleared),
            local: split(&mut self.local),
            of_snapshot: Vec::new(),
        }
    }
}

/// What a user needs to receive a stream. It takes a head from a snapshot to the next; with `force`
/// it also goes back, which destroys what is younger, and a clone shows what its origin has.
fn needs_to_receive(dsl: &Dsl, incoming: &Incoming) -> Result<Vec<Need>> {
    let name = &incoming.name;
    let mut needs = Vec::new();
    match dsl.by_name(name) {
        Ok(head) if !head.phys.is_inconsistent() => {
            needs.push(Need::To(Action::Receive, name.clone()));
            if incoming.force {
                needs.push(Need::To(Action::Rollback, name.clone()));
                let snapshots = dsl.snapshots(&head)?;
                let from = snapshots.iter().rposition(|s| s.phys.guid == incoming.from_guid);
                let younger = snapshots.iter().skip(from.map_or(0, |at| at + 1));
                needs.extend(younger.map(|one| Need::To(Action::Destroy, one.name.clone())));
                let start = from.and_then(|at| snapshots.get(at)).map(|s| s.phys.creation_txg);
                let marks = dsl.bookmarks(&head)?;
                let younger = marks.iter().filter(|m| Some(m.phys.creation_txg) > start);
                needs.extend(younger.map(|m| Need::To(Action::DestroyBookmark, m.name.clone())));
            }
        }
        // What is half received is not there yet.
        Ok(_) | Err(dsl::Error::NoSuchDataset(_)) => {
            needs.push(Need::To(Action::ReceiveNew, name.clone()));
        }
        Err(e) => return Err(e.into()),
    }
    let origin = incoming.origin.iter();
    needs.extend(origin.map(|origin| Need::To(Action::CloneOf, origin.clone())));
    Ok(needs)
}

impl TaskCx<'_> {
    /// Refuses a user who may not receive that.
    fn permit_receive(&self, incoming: &Incoming) -> Result<()> {
        if !self.is_for_caller() {
            return Ok(());
        }
        let needs = needs_to_receive(self.datasets(), incoming)?;
        needs.iter().try_for_each(|need| self.permit(need))
    }

    fn begin_receive(&self, incoming: &Incoming) -> Result<ReceiveTarget> {
        self.check_room(&incoming.name)?;
        let kind = if incoming.is_volume { ObjsetKind::Zvol } else { ObjsetKind::Zfs };
        if let Some(from) = dsl::write::check_receive(&self.dsl(), self.datasets(), incoming)? {
            self.check_log(&from)?;
        }
        if let Ok(head) = self.datasets().by_name(&incoming.name) {
            // What programs have open of a file system is seen by those who mount it.
            if self.datasets().kind(&head) == DatasetKind::Volume {
                self.check_unused(&head)?;
            }
            self.check_younger_unused(&head, incoming)?;
        }
        let made = dsl::write::begin_receive(&self.dsl(), self.datasets(), incoming)?;
        let dataset = self.datasets().head_by_object(made.head)?;
        let key = self.key_to_receive(&dataset, incoming)?;
        let head = if dataset.phys.bp.is_hole() {
            // The header alone: what is in the set comes with the stream.
            self.new_objset_with(made.head, (kind, key), |head, tx| {
                Ok(head.objset.set_zil(tx, &ZilHeader::default())?)
            })?
        } else {
            let stored = self.datasets().stored(&dataset)?;
            let set = (kind, key);
            let head = self.shared.live(made.head, Some(dataset.phys.bp), set, &stored)?;
            self.shared.weigh(&head, &stored)?;
            let head = Arc::new(head);
            self.shared.heads.write().insert(made.head, Arc::clone(&head));
            match incoming.sealed {
                // Its code is another one, whether anything else is or not.
                Some(_) => self.write_header(&dataset, &head.objset)?,
                None => self.empty_log(&dataset, false)?,
            }
            head
        };
        head.receive();
        let text = format!("fullname={}", incoming.full_name());
        self.log_event_of("receive", &text, (&dataset.name, dataset.object))?;
        Ok(ReceiveTarget {
            _in_use: self.shared.uses.begin(dataset.object),
            head,
            is_clone: !dataset.phys.bp.is_hole(),
            is_hidden: dataset.name != incoming.name,
            before: 0,
            later: None,
        })
    }

    /// With what a head is changed that a stream goes into.
    fn key_to_receive(&self, dataset: &Dataset, incoming: &Incoming) -> Result<SetKey> {
        match &incoming.sealed {
            Some(sealed) => Ok(SetKey::Sealed(Box::new(sealed.set.clone()))),
            None => Ok(self.datasets().set_key(dataset)?),
        }
    }

    /// Opens the head that has what was received before, or finds it open.
    fn resume_receive(&self, incoming: &Incoming, at: (u64, u64)) -> Result<ReceiveTarget> {
        let (cx, dsl) = (self.dsl(), self.datasets());
        let (dataset, token) = dsl::write::check_resume(&cx, dsl, incoming, at)?;
        self.check_unused(&dataset)?;
        self.check_log(&dataset)?;
        let kind = if incoming.is_volume { ObjsetKind::Zvol } else { ObjsetKind::Zfs };
        if dataset.phys.bp.is_hole() || dsl.objset(&dataset)?.phys().kind != kind {
            return Err(dsl::Error::refused(&incoming.name, dsl::Refusal::OtherKind).into());
        }
        let existing = dsl.by_name(&incoming.name)?;
        if existing.object != dataset.object {
            self.check_younger_unused(&existing, incoming)?;
        }
        let open = self.shared.heads.read().get(&dataset.object).cloned();
        let head = match open.filter(|head| head.objset.is_sealed() == incoming.sealed.is_some()) {
            Some(head) => head,
            None => {
                let stored = dsl.stored(&dataset)?;
                let set = (kind, self.key_to_receive(&dataset, incoming)?);
                let head = self.shared.live(dataset.object, Some(dataset.phys.bp), set, &stored)?;
                self.shared.weigh(&head, &stored)?;
                self.touch();
                let head = Arc::new(head);
                self.shared.heads.write().insert(dataset.object, Arc::clone(&head));
                self.take_over(&dataset)?;
                head
            }
        };
        let later = dsl::write::kept_for_later(dsl, &dataset)?;
        dsl::write::resume_receive(&cx, dsl, incoming, at)?;
        head.receive();
        let text = format!("fullname={}", incoming.full_name());
        self.log_event_of("receive", &text, (&dataset.name, dataset.object))?;
        Ok(ReceiveTarget {
            _in_use: self.shared.uses.begin(dataset.object),
            head,
            // Something of it may be there.
            is_clone: true,
            is_hidden: existing.object != dataset.object,
            before: token.bytes,
            later,
        })
    }

    /// Destroys what was received of a stream that was cut.
    fn abort_receive(&self, name: &str) -> Result<()> {
        let (received, _) = dsl::write::partly_received(self.datasets(), name)?;
        self.check_unused(&received)?;
        self.discard_received(received.object)
    }

    /// Sets what is set of a dataset beside its content. Returns what was refused.
    fn set_received(&self, name: &str, with: &Received) -> Vec<(String, String)> {
        let dsl = self.datasets();
        let mut refused = Vec::new();
        let mut set = |property: &str, task: &dyn Fn(&Self) -> Result<()>| {
            let permitted = self.permit(&Need::Property(name.to_owned(), property.to_owned()));
            match permitted.and_then(|()| self.whole(task)) {
                Ok(()) => {}
                Err(e) => refused.push((property.to_owned(), reason(&e))),
            }
        };
        for property in &with.cleared {
            let change = PropertyChange { name: property.clone(), value: None };
            set(property, &|cx| Ok(dsl::write::set_received(&cx.dsl(), dsl, name, &change)?));
        }
        for change in &with.received {
            set(&change.name, &|cx| Ok(dsl::write::set_received(&cx.dsl(), dsl, name, change)?));
        }
        for change in &with.local {
            set(&change.name, &|cx| Ok(dsl::write::set_property(&cx.dsl(), dsl, name, change)?));
        }
        refused
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
        let mut refused = self.set_received(&incoming.name, with);
        for change in &with.of_snapshot {
            let permitted =
                self.permit(&Need::Property(incoming.name.clone(), change.name.clone()));
            let task = |cx: &Self| Ok(dsl::write::set_received(&cx.dsl(), dsl, &snapshot, change)?);
            if let Err(e) = permitted.and_then(|()| self.whole(task)) {
                refused.push((change.name.clone(), reason(&e)));
            }
        }
        self.shared.refresh_heads()?;
        self.log_event("finish receiving", &format!("snap={}", incoming.snapshot), &incoming.name)?;
        Ok(refused)
    }

    fn discard_received(&self, received: u64) -> Result<()> {
        let dsl = self.datasets();
        dsl::write::check_discard(dsl, received)?;
        let (name, dataset) = (dsl.name_of(received)?, dsl.head_by_object(received)?);
        self.drop_livelist(&dataset)?;
        self.drop_head(received);
        dsl::write::discard_received(&self.dsl(), dsl, received)?;
        self.log_event_of("destroy", " ", (&name, received))
    }
}

impl LivePool {
    /// Begins to receive a stream: makes the dataset that it goes into.
    ///
    /// # Errors
    /// What keeps the stream from being received.
    pub fn begin_receive(&self, mut incoming: Incoming) -> Result<Receiving> {
        let name = incoming.name.clone();
        // What a user may not set is told in the end, as with all properties.
        for all in [&mut incoming.properties, &mut incoming.received] {
            all.retain(|change| {
                self.check_permission(&[Need::NewProperty(name.clone(), change.name.clone())])
                    .is_ok()
            });
        }
        self.receive_into(incoming, |cx, incoming| cx.begin_receive(incoming))
    }

    /// Goes on with a receive that was cut, from an object and an offset.
    ///
    /// # Errors
    /// What keeps the rest of the stream from being received.
    pub fn resume_receive(&self, incoming: Incoming, at: (u64, u64)) -> Result<Receiving> {
        self.receive_into(incoming, move |cx, incoming| cx.resume_receive(incoming, at))
    }

    fn receive_into(
        &self,
        incoming: Incoming,
        begin: impl FnOnce(&TaskCx<'_>, &Incoming) -> Result<ReceiveTarget> + Send + 'static,
    ) -> Result<Receiving> {
        let needs = match self.caller() {
            None => Vec::new(),
            Some(_) => {
                let _guard = self.shared.gate.read();
                needs_to_receive(&self.shared.dsl, &incoming)?
            }
        };
        let wanted = incoming.clone();
        let begun = self.run_with(needs, move |cx| {
            cx.permit_receive(&wanted)?;
            begin(cx, &wanted)
        })?;
        let (shared, caller) = (Arc::clone(&self.shared), self.caller().map(Arc::clone));
        Ok(Receiving { shared, caller, begun, incoming, is_ended: false })
    }

    /// Destroys what was received of a stream that was cut: a new dataset, or what is hidden below
    /// one that is there.
    ///
    /// # Errors
    /// There is nothing of the kind, or it is being received into.
    pub fn abort_receive(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        let needs = vec![Need::To(Action::Destroy, name.clone())];
        self.run_with(needs, move |cx| cx.abort_receive(&name))
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
            let done = self.shared.run(move |cx| cx.discard_received(received));
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
        &self.begun.head.objset
    }

    /// The records from this one on go into the txg of `tx`, or into later ones.
    pub fn reach(&self, tx: &Tx, at: Position) {
        let bytes = self.begun.before.saturating_add(at.bytes);
        self.begun.head.reached.put(tx.txg(), Position { bytes, ..at });
    }

    /// Some dnodes are of more than one slot, though the stream did not say so before: a receive
    /// that can be resumed may forget that.
    ///
    /// # Errors
    /// The pool stopped.
    pub fn has_large_dnodes(&self) -> Result<()> {
        let received = self.begun.head.dataset;
        self.shared.run(move |cx| Ok(dsl::write::note_large_dnodes(&cx.dsl(), received)?))
    }

    /// Sets what is set of a new dataset beside its content before that is there, as is done where
    /// a receive can be resumed. Returns the properties that it was not given, with the reasons.
    ///
    /// # Errors
    /// The pool stopped.
    pub fn set(&self, with: Received) -> Result<Vec<(String, String)>> {
        let name = self.incoming.name.clone();
        self.shared.run_for(self.caller.as_ref(), Vec::new(), move |cx| {
            let refused = cx.set_received(&name, &with);
            cx.shared.refresh_heads()?;
            Ok(refused)
        })
    }

    /// Whether it is not the dataset itself that it goes into.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.begun.is_hidden
    }

    /// Whether there are objects from the start.
    #[must_use]
    pub fn is_clone(&self) -> bool {
        self.begun.is_clone
    }

    /// What was to be known now that the rest comes.
    #[must_use]
    pub fn later(&self) -> Option<&str> {
        self.begun.later.as_deref()
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
    /// what was received is destroyed, unless the receive can be resumed.
    pub fn finish(
        mut self,
        with: Received,
        has_large_dnodes: bool,
    ) -> Result<Vec<(String, String)>> {
        self.incoming.has_large_dnodes |= has_large_dnodes;
        let quiet = LogQuiesced::of(&self.shared, &self.incoming.name)?;
        let (received, incoming) = (self.begun.head.dataset, self.incoming.clone());
        let done = self.shared.run_for(self.caller.as_ref(), Vec::new(), move |cx| {
            cx.permit_receive(&incoming)?;
            cx.end_receive(received, &incoming, &with)
        });
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
        let received = self.begun.head.dataset;
        // What was received stays for the rest to come, and is durable; otherwise it is destroyed.
        // If that fails, the next import does it.
        let _ = match self.incoming.resumable {
            Some(_) => self.shared.run_keeping_datasets(|_| Ok(())),
            None => self.shared.run(move |cx| cx.discard_received(received)),
        };
    }
}
