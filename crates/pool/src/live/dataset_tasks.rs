//! Changes of datasets that are there, within a task: each is checked, and then done. A task makes
//! one (`datasets.rs`), or several (`program.rs`), each of which stands alone
//! ([`TaskCx::whole`]).

use super::behalf::Need;
use super::shared::TaskCx;
use crate::error::Result;
use dsl::write::{Destroyed, PropertyChange};
use dsl::{Action, Dataset};

/// What a user needs to give something another name.
pub(super) fn needs_to_rename(from: &str, to: &str) -> Vec<Need> {
    [(Action::Rename, from), (Action::RenameTo, to)].map(|(a, n)| Need::To(a, n.to_owned())).into()
}

/// A snapshot's name when its short name is another.
pub(super) fn renamed(snapshot: &str, short: &str) -> String {
    format!("{}@{short}", snapshot.split('@').next().unwrap_or_default())
}

impl TaskCx<'_> {
    /// Refuses a user who may not destroy what is younger than a snapshot.
    fn permit_younger(&self, head: &Dataset, snapshot: &str) -> Result<()> {
        if !self.is_for_caller() {
            return Ok(());
        }
        let dsl = self.datasets();
        let txg = dsl.by_name(snapshot)?.phys.creation_txg;
        for one in dsl.snapshots(head)?.iter().filter(|one| one.phys.creation_txg > txg) {
            self.permit(&Need::To(Action::Destroy, one.name.clone()))?;
        }
        for one in dsl.bookmarks(head)?.iter().filter(|one| one.phys.creation_txg > txg) {
            self.permit(&Need::To(Action::DestroyBookmark, one.name.clone()))?;
        }
        Ok(())
    }

    /// Refuses a user who may not rename all snapshots of that name below.
    fn permit_renames_below(&self, snapshot: &str, to: &str) -> Result<()> {
        if !self.is_for_caller() {
            return Ok(());
        }
        let dsl = self.datasets();
        let (head, short) = snapshot.split_once('@').unwrap_or((snapshot, ""));
        let below = format!("{head}/");
        for (name, _) in dsl.walk().iter().filter(|(name, _)| name.starts_with(&below)) {
            let one = format!("{name}@{short}");
            match dsl.by_name(&one) {
                Err(dsl::Error::NoSuchDataset(_)) => continue,
                found => found.map(drop)?,
            }
            let needs = needs_to_rename(&one, &renamed(&one, to));
            needs.iter().try_for_each(|need| self.permit(need))?;
        }
        Ok(())
    }

    /// Whether these snapshots can be taken.
    pub(super) fn check_snapshots(&self, names: &[String]) -> Result<()> {
        self.check_room(&names.join(" "))?;
        dsl::write::check_new_snapshots(&self.dsl(), self.datasets(), names, &[])?;
        Ok(())
    }

    /// Takes snapshots, all or none.
    pub(super) fn take_snapshots(
        &self,
        names: &[String],
        properties: &[PropertyChange],
    ) -> Result<()> {
        self.check_room(&names.join(" "))?;
        dsl::write::snapshot(&self.dsl(), self.datasets(), names, properties)?;
        names.iter().try_for_each(|name| self.log_event("snapshot", " ", name))
    }

    /// Whether these snapshots can be destroyed.
    pub(super) fn check_destroy_snapshots(&self, names: &[String], defer: bool) -> Result<()> {
        let dsl = self.datasets();
        for name in names {
            self.check_unused(&dsl.by_name(name)?)?;
            dsl::write::check_destroy_snapshot(&self.dsl(), dsl, name, defer)?;
        }
        Ok(())
    }

    /// Destroys snapshots, all or none.
    pub(super) fn destroy_snapshots(&self, names: &[String], defer: bool) -> Result<()> {
        self.check_destroy_snapshots(names, defer)?;
        let dsl = self.datasets();
        for name in names {
            let snapshot = dsl.by_name(name)?;
            let done = dsl::write::destroy_snapshot(&self.dsl(), dsl, name, defer)?;
            let event = match done {
                Destroyed::Now => "destroy",
                Destroyed::Deferred => "defer_destroy",
            };
            self.log_event_of(event, " ", (name, snapshot.object))?;
        }
        Ok(())
    }

    /// Whether a file system or volume can be destroyed.
    pub(super) fn check_destroy_head(&self, name: &str) -> Result<Dataset> {
        let head = dsl::write::check_destroy_head(&self.dsl(), self.datasets(), name)?;
        self.check_unused(&head)?;
        self.check_log(&head)?;
        Ok(head)
    }

    /// Destroys a file system or volume, whose log is empty.
    pub(super) fn destroy_head(&self, name: &str) -> Result<()> {
        let dsl = self.datasets();
        let head = self.check_destroy_head(name)?;
        self.log_event("destroy", " ", name)?;
        self.take_over(&head)?;
        self.drop_head(head.object);
        // Every head has one; that of a dataset that is not a clone is internal.
        let is_clone = head.dir.phys.origin == head.phys.prev_snap;
        let origin = dsl.origin(&head.dir)?.filter(|_| is_clone);
        let origin = origin.and_then(|_| dsl.nameless(head.phys.prev_snap).ok());
        let shared = origin.map(|o| (o.dir.phys.head_dataset, head.phys.prev_snap_txg));
        self.move_errors(head.object, shared, true)?;
        Ok(dsl::write::destroy_head(&self.dsl(), dsl, name)?)
    }

    /// Whether a head can be taken back to a snapshot. Returns the head.
    pub(super) fn check_roll_back(&self, snapshot: &str, destroy_younger: bool) -> Result<Dataset> {
        let dsl = self.datasets();
        let check = dsl::write::check_rollback;
        let (head, younger) = check(&self.dsl(), dsl, snapshot, destroy_younger)?;
        self.permit_younger(&head, snapshot)?;
        self.check_unused(&head)?;
        younger.iter().try_for_each(|younger| self.check_unused(younger))?;
        self.check_log(&head)?;
        self.check_log(&dsl.by_name(snapshot)?)?;
        Ok(head)
    }

    /// Takes a head, whose log is empty, back to a snapshot.
    pub(super) fn roll_back(&self, snapshot: &str, destroy_younger: bool) -> Result<()> {
        let dsl = self.datasets();
        let head = self.check_roll_back(snapshot, destroy_younger)?;
        self.take_over(&head)?;
        self.drop_head(head.object);
        dsl::write::rollback(&self.dsl(), dsl, snapshot, destroy_younger)?;
        self.empty_log(&dsl.by_name(&head.name)?, false)?;
        self.log_event("rollback", snapshot, &head.name)
    }

    /// Makes a clone independent of its origin.
    pub(super) fn promote(&self, name: &str) -> Result<()> {
        let dsl = self.datasets();
        let (mut with_livelists, mut shared_up_to) = (vec![dsl.by_name(name)?], 0);
        if let Some(origin) = dsl.origin(&with_livelists[0].dir)? {
            self.permit(&Need::To(Action::PromoteOver, origin.clone()))?;
            let head = origin.split('@').next().unwrap_or_default();
            with_livelists.push(dsl.by_name(head)?);
            shared_up_to = dsl.by_name(&origin)?.phys.creation_txg;
        }
        dsl::write::promote(&self.dsl(), dsl, name)?;
        if let [clone, head] = with_livelists.as_slice() {
            self.move_errors(head.object, Some((clone.object, shared_up_to)), false)?;
        }
        // Neither is true any more, and promoting reads neither.
        with_livelists.iter().try_for_each(|head| self.drop_livelist(head))?;
        self.log_event("promote", " ", name)
    }

    /// Gives a snapshot, and with `recursive` those of its name below, another short name.
    pub(super) fn rename_snapshots(&self, name: &str, to: &str, recursive: bool) -> Result<()> {
        if recursive {
            self.permit_renames_below(name, to)?;
        }
        let rename = dsl::write::rename_snapshot;
        for (from, object) in rename(&self.dsl(), self.datasets(), name, to, recursive)? {
            self.log_event_of("rename", &format!("-> @{to}"), (&from, object))?;
        }
        Ok(())
    }

    /// Sets or clears a property.
    pub(super) fn set_property(&self, dataset: &str, change: &PropertyChange) -> Result<()> {
        dsl::write::set_property(&self.dsl(), self.datasets(), dataset, change)?;
        self.shared.refresh_heads()?;
        self.log_change(dataset, change)
    }

    /// Makes a bookmark of a snapshot, or of another bookmark.
    pub(super) fn make_bookmark(&self, name: &str, source: &str) -> Result<()> {
        let dsl = self.datasets();
        let made = dsl::write::create_bookmark(&self.dsl(), dsl, name, source)?;
        let (head, short) = name.split_once('#').unwrap_or((name, ""));
        let txg = made.creation_txg;
        let text = format!("name={short} creation_txg={txg}");
        if let Some((of, _)) = source.split_once('#') {
            let text = format!("{text} source_guid={}", made.guid);
            return self.log_event("bookmark", &text, of);
        }
        let object = dsl.by_name(source)?.object;
        self.log_event("bookmark", &format!("{text} target_snap={object} redact_obj=0"), head)
    }
}
