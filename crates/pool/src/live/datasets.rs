//! Datasets of a live pool: making, changing and removing them, and opening them for writing.
//!
//! Every function here is one sync task (`task.rs` says what such a task may do): it is checked and
//! done at one point of one txg, and durable when the function returns. What the tasks write is in
//! [`dsl::write`].

use super::behalf::Need;
use super::dataset_tasks::{needs_to_rename, renamed};
use super::head::settings;
use super::shared::Shared;
use super::uses::InUse;
use super::{Head, LivePool, TaskCx};
use crate::error::{Error, Result};
use crate::refusal::PoolRefusal;
use dsl::write::{Encryption, PropertyChange, check_version};
use dsl::{Action, Dataset, StoredValue};
use ondisk::ObjsetKind;
use ondisk::znode::{Time, ZPL_VERSION_MAX};
use std::collections::HashSet;
use std::sync::Arc;
use zpl::write::FormatOptions;
use zpl::{CaseSensitivity, Filesystem, Volume};

/// What a new file system is like, beside its properties.
#[derive(Clone, Copy, Debug)]
pub struct NewFilesystem {
    /// How names are looked up.
    pub case: CaseSensitivity,
    /// Normal form of names: `NORM_NF…` of [`ondisk::zap`], 0 for none.
    pub normalization: u64,
    /// Only UTF-8 names are allowed.
    pub utf8_only: bool,
    /// Owner, group and permissions of the root directory.
    pub root: (u64, u64, u32),
    /// Version of the format, 1 to 5.
    pub version: u64,
}

impl NewFilesystem {
    /// Takes a property that is kept in the file system itself; false for all others.
    pub(crate) fn take(&mut self, name: &str, value: &StoredValue) -> bool {
        let StoredValue::Number(n) = value else { return false };
        match name {
            "casesensitivity" => {
                self.case = match n {
                    1 => CaseSensitivity::Insensitive,
                    2 => CaseSensitivity::Mixed,
                    _ => CaseSensitivity::Sensitive,
                }
            }
            // Names can only be normalised when they are text.
            "normalization" => {
                self.normalization = *n;
                self.utf8_only |= *n != 0;
            }
            "utf8only" => self.utf8_only |= *n != 0,
            "version" => self.version = *n,
            _ => return false,
        }
        true
    }
}

impl Default for NewFilesystem {
    fn default() -> Self {
        let case = CaseSensitivity::Sensitive;
        Self {
            case,
            normalization: 0,
            utf8_only: false,
            root: (0, 0, 0o755),
            version: ZPL_VERSION_MAX,
        }
    }
}

impl NewFilesystem {
    /// Whether a file system can be like that.
    fn check(&self) -> Result<()> {
        Ok(FormatOptions {
            normalization: self.normalization,
            utf8_only: self.utf8_only,
            version: self.version,
            ..FormatOptions::new(Time::default())
        }
        .check()?)
    }
}

/// The names, each where it comes first: a task that met one again would find it done.
fn each_once(names: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}

/// What a user needs to make a dataset with these properties.
fn needs_to_make(name: &str, properties: &[PropertyChange]) -> Vec<Need> {
    let new = |change: &PropertyChange| Need::NewProperty(name.to_owned(), change.name.clone());
    let create = Need::To(Action::Create, name.to_owned());
    std::iter::once(create).chain(properties.iter().map(new)).collect()
}

/// As long as this lives, the log of a head is empty.
pub(super) struct LogQuiesced(Arc<Head>);

impl LogQuiesced {
    /// Empties the log of a dataset that is about to be another one, or none, when it is open. What
    /// is wrong with the name is said by the function that looks it up next.
    pub(super) fn of(shared: &Shared, name: &str) -> Result<Option<Self>> {
        let dataset = {
            let _guard = shared.gate.read();
            shared.dsl.by_name(name)
        };
        let Ok(dataset) = dataset else { return Ok(None) };
        let head = shared.heads.read().get(&dataset.object).cloned();
        head.map(|head| Self::of_head(shared, head)).transpose()
    }

    /// Empties the logs of all that are open.
    pub(super) fn of_all(shared: &Shared) -> Result<Vec<Self>> {
        let heads = shared.all_heads();
        // So that all end with one txg, and not with one each.
        heads.iter().for_each(|head| head.log.begin_suspend());
        let quiet = heads.iter().map(|head| Self::of_head(shared, Arc::clone(head))).collect();
        heads.iter().for_each(|head| head.log.resume());
        quiet
    }

    fn of_head(shared: &Shared, head: Arc<Head>) -> Result<Self> {
        let quiet = Self(head);
        quiet.0.log.suspend().map_err(|why| shared.stopped(&why))?;
        Ok(quiet)
    }

    /// The dataset.
    pub(super) fn dataset(&self) -> u64 {
        self.0.dataset
    }
}

impl Drop for LogQuiesced {
    fn drop(&mut self) {
        self.0.log.resume();
    }
}

impl TaskCx<'_> {
    /// Formats the object set of the new dataset `head` as a file system.
    pub(super) fn format_filesystem(&self, head: u64, new: &NewFilesystem) -> Result<()> {
        let wall = self.dsl().now;
        let now = Time { seconds: wall.secs.cast_signed(), nanos: wall.nanos };
        let (uid, gid, mode) = new.root;
        let options = FormatOptions {
            case: new.case,
            normalization: new.normalization,
            utf8_only: new.utf8_only,
            uid,
            gid,
            mode,
            version: new.version,
            projects: self.shared.features.is_enabled("project_quota"),
            ..FormatOptions::new(now)
        };
        self.new_objset(head, ObjsetKind::Zfs, |head, tx| {
            head.begin_with(uid, gid);
            Ok(Filesystem::format(&head.objset, tx, &options)?)
        })?;
        Ok(())
    }
}

impl LivePool {
    /// Makes a file system, encrypted when the one above is.
    pub fn create_filesystem(
        &self,
        name: &str,
        new: NewFilesystem,
        properties: Vec<PropertyChange>,
    ) -> Result<()> {
        self.create_filesystem_as(name, new, properties, Encryption::Inherit)
    }

    /// The same, encrypted as is said.
    pub fn create_filesystem_as(
        &self,
        name: &str,
        new: NewFilesystem,
        properties: Vec<PropertyChange>,
        encryption: Encryption,
    ) -> Result<()> {
        let name = name.to_owned();
        self.run_with(needs_to_make(&name, &properties), move |cx| {
            cx.check_room(&name)?;
            new.check()?;
            check_version(&name, new.version, &properties)?;
            let make = dsl::write::create_dataset;
            let made = make(&cx.dsl(), cx.datasets(), &name, &properties, &encryption)?;
            cx.format_filesystem(made.head, &new)?;
            cx.log_event("create", " ", &name)
        })
    }

    /// Makes a volume of `size` bytes in blocks of `block_size`, encrypted when the file system
    /// above is.
    pub fn create_volume(
        &self,
        name: &str,
        size: u64,
        block_size: u32,
        properties: Vec<PropertyChange>,
    ) -> Result<()> {
        self.create_volume_as(name, (size, block_size), properties, Encryption::Inherit)
    }

    /// The same, encrypted as is said.
    pub fn create_volume_as(
        &self,
        name: &str,
        (size, block_size): (u64, u32),
        properties: Vec<PropertyChange>,
        encryption: Encryption,
    ) -> Result<()> {
        let name = name.to_owned();
        self.run_with(needs_to_make(&name, &properties), move |cx| {
            cx.check_room(&name)?;
            Volume::check_format(size, block_size)?;
            let make = dsl::write::create_dataset;
            let made = make(&cx.dsl(), cx.datasets(), &name, &properties, &encryption)?;
            cx.new_objset(made.head, ObjsetKind::Zvol, |head, tx| {
                Ok(Volume::format(&head.objset, tx, size, block_size)?)
            })?;
            cx.log_event("create", " ", &name)
        })
    }

    /// Makes a clone of a snapshot.
    pub fn clone_snapshot(
        &self,
        origin: &str,
        name: &str,
        properties: Vec<PropertyChange>,
    ) -> Result<()> {
        let (origin, name) = (origin.to_owned(), name.to_owned());
        let mut needs = needs_to_make(&name, &properties);
        needs.push(Need::To(Action::CloneOf, origin.clone()));
        self.run_with(needs, move |cx| {
            cx.check_room(&name)?;
            let dsl = cx.datasets();
            cx.check_log(&dsl.by_name(&origin)?)?;
            dsl::write::clone_dataset(&cx.dsl(), dsl, &name, &origin, &properties)?;
            cx.empty_log(&dsl.by_name(&name)?, false)?;
            let object = dsl.by_name(&origin)?.object;
            cx.log_event("clone", &format!("origin={origin} ({object})"), &name)
        })
    }

    /// Makes snapshots `pool/a@x`, all of the same moment, so one of each dataset; a name that is
    /// given twice counts once.
    pub fn snapshot(&self, names: &[String], properties: Vec<PropertyChange>) -> Result<()> {
        let names = each_once(names);
        let mut needs = Need::to_each(Action::Snapshot, &names);
        for (name, change) in names.iter().flat_map(|n| properties.iter().map(move |p| (n, p))) {
            let head = name.split('@').next().unwrap_or_default().to_owned();
            needs.push(Need::Property(head, change.name.clone()));
        }
        let wanted = Arc::new((names, properties));
        loop {
            let wanted = Arc::clone(&wanted);
            let taken = self.run_with(needs.clone(), move |cx| {
                let (names, properties) = &*wanted;
                cx.take_snapshots(names, properties)
            });
            // Another caller took one of the same dataset in that txg, which is durable now.
            let again = matches!(
                &taken,
                Err(Error::Dsl(dsl::Error::Refused { why: dsl::Refusal::JustTaken, .. }))
            );
            if !again {
                return taken;
            }
        }
    }

    /// Refuses what keeps any of these file systems, volumes and snapshots from being destroyed
    /// once what depends on it is gone: that a program has it open, a hold, a form that is not
    /// changed here. So that nothing of many is destroyed when one cannot be.
    pub fn check_destroyable(&self, names: &[String], defer: bool) -> Result<()> {
        let names = each_once(names);
        self.run_with(Need::to_each(Action::Destroy, &names), move |cx| {
            let dsl = cx.datasets();
            for name in &names {
                let dataset = dsl.by_name(name)?;
                cx.check_unused(&dataset)?;
                dsl::write::check_destroyable(&cx.dsl(), dsl, &dataset, defer)?;
            }
            Ok(())
        })
    }

    /// Destroys snapshots; with `defer` those that are held or cloned go when that ends. Either all
    /// or none.
    pub fn destroy_snapshots(&self, names: &[String], defer: bool) -> Result<()> {
        let names = each_once(names);
        let needs = Need::to_each(Action::Destroy, &names);
        self.run_with(needs, move |cx| cx.destroy_snapshots(&names, defer))
    }

    /// Destroys a file system or volume that has no snapshots and nothing below. Its blocks are
    /// freed in the background.
    pub fn destroy_dataset(&self, name: &str) -> Result<()> {
        let needs = vec![Need::To(Action::Destroy, name.to_owned())];
        self.check_permission(&needs)?;
        let _quiet = self.without_log(name)?;
        let name = name.to_owned();
        self.run_with(needs, move |cx| cx.destroy_head(&name))
    }

    /// Takes a head back to a snapshot; with `destroy_younger` the snapshots after it go.
    pub fn rollback(&self, snapshot: &str, destroy_younger: bool) -> Result<()> {
        let needs = vec![Need::To(Action::Rollback, snapshot.to_owned())];
        self.check_permission(&needs)?;
        let _quiet = self.without_log(snapshot.split('@').next().unwrap_or_default())?;
        let snapshot = snapshot.to_owned();
        self.run_with(needs, move |cx| cx.roll_back(&snapshot, destroy_younger))
    }

    /// Makes a clone independent of its origin, which becomes its clone.
    pub fn promote(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        let needs = vec![Need::To(Action::Promote, name.clone())];
        self.run_with(needs, move |cx| cx.promote(&name))
    }

    /// Gives a file system or volume, and all below, another name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.run_with(needs_to_rename(&from, &to), move |cx| {
            cx.check_not_receiving(&from)?;
            dsl::write::rename_dir(&cx.dsl(), cx.datasets(), &from, &to)?;
            // It inherits from another place now.
            cx.shared.refresh_heads()?;
            let object = cx.datasets().by_name(&to)?.object;
            cx.log_event_of("rename", &format!("-> {to}"), (&from, object))
        })
    }

    /// Gives the snapshot `name` the short name `to`; with `recursive` also those of that name of
    /// all datasets below.
    pub fn rename_snapshot(&self, name: &str, to: &str, recursive: bool) -> Result<()> {
        let (name, to) = (name.to_owned(), to.to_owned());
        let needs = needs_to_rename(&name, &renamed(&name, &to));
        self.run_with(needs, move |cx| cx.rename_snapshots(&name, &to, recursive))
    }

    /// Sets or clears a property.
    pub fn set_property(&self, dataset: &str, change: PropertyChange) -> Result<()> {
        let dataset = dataset.to_owned();
        let need = Need::Property(dataset.clone(), change.name.clone());
        self.run_with(vec![need], move |cx| cx.set_property(&dataset, &change))
    }

    /// Sets or clears properties, each of the dataset that stands beside it, in one txg. The first
    /// that is refused ends it; those before it are set.
    pub fn set_properties(&self, changes: Vec<(String, PropertyChange)>) -> Result<()> {
        let need = |(name, change): &(String, PropertyChange)| {
            Need::Property(name.clone(), change.name.clone())
        };
        let needs = changes.iter().map(need).collect();
        self.run_each(needs, changes, |cx, (dataset, change)| {
            dsl::write::set_property(&cx.dsl(), cx.datasets(), dataset, change)?;
            cx.log_change(dataset, change)
        })
    }

    /// Gives each dataset the value of a property again that was received for it.
    pub fn revert_property(&self, datasets: &[String], property: &str) -> Result<()> {
        let property = property.to_owned();
        let need = |name: &String| Need::Property(name.clone(), property.clone());
        let needs = datasets.iter().map(need).collect();
        self.run_each(needs, datasets.to_vec(), move |cx, dataset| {
            dsl::write::revert_property(&cx.dsl(), cx.datasets(), dataset, &property)?;
            cx.log_event("inherit", &format!("{property}="), dataset)
        })
    }

    /// Changes properties of several datasets in one txg, `one` after the other until one of them
    /// is refused. Each is a task of its own: what went before a refusal stays.
    fn run_each<T: Send + 'static>(
        &self,
        needs: Vec<Need>,
        all: Vec<T>,
        one: impl Fn(&TaskCx<'_>, &T) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.run_with(needs, move |cx| {
            let done = all.iter().try_for_each(|item| cx.whole(|cx| one(cx, item)));
            cx.shared.refresh_heads()?;
            Ok(done)
        })?
    }

    /// Holds snapshots by a tag.
    pub fn hold(&self, names: &[String], tag: &str) -> Result<()> {
        let (names, tag) = (each_once(names), tag.to_owned());
        self.run_with(Need::to_each(Action::Hold, &names), move |cx| {
            dsl::write::hold(&cx.dsl(), cx.datasets(), &names, &tag)?;
            names.iter().try_for_each(|name| {
                let (object, count) = cx.holds(name)?;
                let text = format!("tag={tag} temp=0 refs={count}");
                cx.log_event_of("hold", &text, (name, object))
            })
        })
    }

    /// Releases them.
    pub fn release(&self, names: &[String], tag: &str) -> Result<()> {
        let (names, tag) = (each_once(names), tag.to_owned());
        self.run_with(Need::to_each(Action::Release, &names), move |cx| {
            let dsl = cx.datasets();
            // Before, since the last hold may be what keeps a snapshot.
            let held: Vec<_> = names.iter().map(|name| cx.holds(name)).collect();
            dsl::write::release(&cx.dsl(), dsl, &names, &tag)?;
            for (name, held) in names.iter().zip(held) {
                let (object, count) = held?;
                let text = format!("tag={tag} refs={}", count.saturating_sub(1));
                cx.log_event_of("release", &text, (name, object))?;
            }
            Ok(())
        })
    }

    /// Makes a bookmark of a snapshot.
    pub fn bookmark(&self, name: &str, source: &str) -> Result<()> {
        let (name, source) = (name.to_owned(), source.to_owned());
        let needs = vec![Need::To(Action::Bookmark, name.clone())];
        self.run_with(needs, move |cx| cx.make_bookmark(&name, &source))
    }

    /// Destroys a bookmark.
    pub fn destroy_bookmark(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.run_with(vec![Need::To(Action::DestroyBookmark, name.clone())], move |cx| {
            dsl::write::destroy_bookmark(&cx.dsl(), cx.datasets(), &name)?;
            let (head, short) = name.split_once('#').unwrap_or((&name, ""));
            cx.log_event("remove bookmark", &format!("name={short}"), head)
        })
    }

    pub(super) fn without_log(&self, name: &str) -> Result<Option<LogQuiesced>> {
        LogQuiesced::of(&self.shared, name)
    }

    /// A dataset's head, open for writing.
    pub fn head(&self, name: &str) -> Result<Arc<Head>> {
        self.check_administrator()?;
        self.open_head(name)
    }

    /// The same, without asking who wants it.
    pub(super) fn open_head(&self, name: &str) -> Result<Arc<Head>> {
        let dataset = {
            let _guard = self.shared.gate.read();
            self.shared.dsl.by_name(name)?
        };
        if dataset.phys.is_inconsistent() {
            return Err(dsl::Error::refused(name, dsl::Refusal::Inconsistent).into());
        }
        let head = self.shared.head(&dataset)?;
        if head.log.is_foreign() {
            self.replay_claimed(name, &head)?;
        }
        let livelist = self.shared.features.count("com.delphix:livelist").unwrap_or(0) > 0;
        if livelist || head.log.is_foreign() {
            self.shared.run(move |cx| cx.take_over(&dataset))?;
        }
        Ok(head)
    }

    /// A file system, open for writing.
    pub fn filesystem(&self, name: &str) -> Result<Filesystem> {
        let fs = self.undrained_filesystem(name)?;
        fs.drain_unlinked()?;
        Ok(fs)
    }

    /// The same, with the files that were unlinked while in use before a crash: the delete queue
    /// need not be readable.
    ///
    /// # Errors
    /// As [`Self::filesystem`].
    pub fn undrained_filesystem(&self, name: &str) -> Result<Filesystem> {
        let head = self.head(name)?;
        self.filesystem_of(name, &head)
    }

    /// A head as a file system.
    pub(super) fn filesystem_of(&self, name: &str, head: &Head) -> Result<Filesystem> {
        if head.objset.phys().kind != ObjsetKind::Zfs {
            return Err(self.shared.refused(PoolRefusal::NotFilesystem(name.to_owned())));
        }
        let stored = {
            let _guard = self.shared.gate.read();
            self.shared.dsl.stored(&self.shared.dsl.by_name(name)?)?
        };
        let fs = head.filesystem(settings(&stored))?;
        self.shared.await_recount(head);
        Ok(fs)
    }

    /// A volume, open for writing.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        self.volume_of(name, &*self.head(name)?)
    }

    /// A head as a volume.
    pub(super) fn volume_of(&self, name: &str, head: &Head) -> Result<Volume> {
        if head.objset.phys().kind != ObjsetKind::Zvol {
            return Err(self.shared.refused(PoolRefusal::NotVolume(name.to_owned())));
        }
        head.volume()
    }

    /// A dataset's head, to change a property that is kept in it.
    fn head_to_set(&self, name: &str, property: &str) -> Result<Arc<Head>> {
        self.check_permission(&[Need::Property(name.to_owned(), property.to_owned())])?;
        self.note_change();
        self.open_head(name)
    }

    /// A volume, to set a property that is kept in it: for a user who may.
    ///
    /// # Errors
    /// As [`LivePool::volume`].
    pub fn volume_to_set(&self, name: &str, property: &str) -> Result<Volume> {
        let head = self.head_to_set(name, property)?;
        self.volume_of(name, &head)
    }

    /// A file system, to set a property that is kept in it: for a user who may.
    ///
    /// # Errors
    /// As [`LivePool::filesystem`].
    pub fn filesystem_to_set(&self, name: &str, property: &str) -> Result<Filesystem> {
        let head = self.head_to_set(name, property)?;
        self.filesystem_of(name, &head)
    }

    /// Keeps a file system, volume or snapshot from being destroyed, rolled back or made smaller
    /// for as long as what is returned lives.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn hold_open(&self, name: &str) -> Result<InUse> {
        let _guard = self.shared.gate.read();
        let object = self.shared.dsl.by_name(name)?.object;
        Ok(self.shared.uses.begin(object))
    }

    /// Refuses to touch a dataset that is in use ([`Self::hold_open`]).
    ///
    /// # Errors
    /// It is.
    pub fn check_unused(&self, dataset: &Dataset) -> Result<()> {
        self.shared.uses.check(dataset)
    }
}
