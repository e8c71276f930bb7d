//! Receiving: the dataset that a stream is received into, and what becomes of it in the end.
//!
//! # Theory
//!
//! A received state is of no use before the stream has ended, and must not be visible before. So it
//! has a head of its own, which is marked as inconsistent:
//!
//! ```text
//! a new dataset       pool/a          made now, or as a clone of the origin
//! one that is there   pool/a/%recv    a clone of the snapshot that the stream is an increment of;
//!                                     of a full stream, which replaces all of it, a new one
//! ```
//!
//! A receive that can be resumed (`-s`) has fields in its head: of which stream it is, and a
//! [`Position`]: the record from which the rest is to be sent. Each txg that has records of the
//! stream has the position of the last of these too, so it is never ahead of what is on disk; and
//! the records of that txg behind the position change nothing when they come again. When the stream
//! is cut, head and fields stay, until the rest comes or the receive is given up.
//!
//! At the end, in one txg, a new dataset loses its mark and gets its snapshot. One that is there
//! goes back to the snapshot that the stream began with, takes over everything that the clone has,
//! and gets the snapshot then; the clone goes. If a stream that cannot be resumed does not come to
//! its end, what is marked is destroyed: at once, or by the next import.
//!
//! A clone gives up blocks of its origin without telling it, for they are in use there. When its
//! content is the head's, it is the head that gave them up: its dead list is the clone's, they
//! count as its snapshots', and as the last one's own if no older one has them.

use super::bookmarks::{check_destroy_bookmark, counts_freed};
use super::create::{NewDataset, check_create, create_dir, create_head};
use super::crypt::{ENCRYPTION, Encryption, give, give_sealed, plan, renew_sealed};
use super::deadlists;
use super::destroy::{check_destroy_snapshot, destroy_head_object, destroy_snapshot_object};
use super::features::BY_BLOCKS;
use super::limits::Counted;
use super::meta::{DslCx, EXTENSIBLE_DATASET};
use super::props::{PropertyChange, check_features, check_new, set_on_new, set_received_on_new};
use super::rollback::rollback_head;
use super::room::check_snapshot_room;
use super::snapshot::snapshot_one;
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::keyring::KeyError;
use crate::kind::DatasetKind;
use crate::resume::ResumeToken;
use crate::sealed::SealedStream;
use crate::tree::{Dataset, Dir, Dsl};
use ondisk::BlkPtr;
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDataset, DslDir, RECV_DIR_NAME, dataset_field};
use std::sync::Arc;

/// The field with what the receiver is to know when the rest comes. It is zinc's own.
const LATER: &str = "org.zinc:receive_later";
/// Its bytes, at most: a longer text continues in fields with numbers behind that name.
const LATER_MAX: usize = 4096;

/// The features of a dataset that a stream can have, and that its blocks do not show.
const BY_STREAM: [&str; 1] = ["org.zfsonlinux:large_dnode"];

/// A stream of one snapshot, as far as datasets are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// The file system or volume.
    pub name: String,
    /// Short name of the snapshot.
    pub snapshot: String,
    /// GUID of the snapshot that it is an increment of; 0: of none.
    pub from_guid: u64,
    /// The snapshot that a new dataset is a clone of.
    pub origin: Option<String>,
    /// A dataset that is there loses what is younger, or all it has.
    pub force: bool,
    /// It is a volume.
    pub is_volume: bool,
    /// Names are compared without case.
    pub is_case_insensitive: bool,
    /// Some blocks are, or may be, of more than 128 KiB.
    pub has_large_blocks: bool,
    /// Some dnodes are, or may be, of more than 512 bytes.
    pub has_large_dnodes: bool,
    /// GUID of the snapshot.
    pub guid: u64,
    /// When it was taken, in seconds since 1970.
    pub creation_time: u64,
    /// Properties that the new dataset has from the start.
    pub properties: Vec<PropertyChange>,
    /// Received properties that the new dataset has from the start: how its blocks are written.
    pub received: Vec<PropertyChange>,
    /// It can be resumed when it is cut: the fields before its first record.
    pub resumable: Option<ResumeToken>,
    /// Settings to keep until the rest is received.
    pub later: Option<String>,
    /// How a new dataset that is not a clone is encrypted.
    pub encryption: Encryption,
    /// The stream is raw: no key is needed, and this is what it brings.
    pub sealed: Option<Arc<SealedStream>>,
}

/// A record of a stream, as what it is about: records come in the order of objects and offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The object.
    pub object: u64,
    /// The offset in it.
    pub offset: u64,
    /// Bytes of the whole stream up to the end of the record, without BEGIN.
    pub bytes: u64,
}

/// Where a stream goes to.
enum Target {
    /// A dataset that is made below this directory.
    New(Arc<Dir>),
    /// One that is there.
    Existing(Box<Dataset>),
}

impl Target {
    fn existing(&self) -> Option<&Dataset> {
        match self {
            Self::New(_) => None,
            Self::Existing(existing) => Some(existing),
        }
    }
}

/// Received blocks are written with the dataset's key.
fn check_unlocked(dsl: &Dsl, dataset: &Dataset) -> Result<()> {
    match dsl.is_unlocked(dataset)? {
        true => Ok(()),
        false => Err(Error::Key { dataset: dataset.name.clone(), error: KeyError::Locked }),
    }
}

impl Incoming {
    /// Name of the snapshot.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.snapshot)
    }

    /// Its features that written blocks do not show.
    fn features(&self) -> impl Iterator<Item = &'static str> {
        let [large_blocks, ..] = BY_BLOCKS;
        let [large_dnodes] = BY_STREAM;
        let all = [
            (self.has_large_blocks, large_blocks),
            (self.has_large_dnodes, large_dnodes),
            (self.sealed.is_some(), ENCRYPTION),
        ];
        all.into_iter().filter(|(is_used, _)| *is_used).map(|(_, guid)| guid)
    }

    /// The target, and the snapshot from which it continues, if there is one.
    fn plan(&self, cx: &DslCx<'_>, dsl: &Dsl) -> Result<(Target, Option<Dataset>)> {
        let fields = self.resumable.as_ref().map(|_| EXTENSIBLE_DATASET);
        let mut needed = self.features().chain(fields);
        if let Some(feature) = needed.find(|guid| !matches!(cx.has(guid), Ok(true))) {
            return Err(Error::refused(&self.name, Refusal::NoFeature(feature)));
        }
        match dsl.by_name(&self.name) {
            Ok(head) => {
                let from = self.plan_existing(cx, dsl, &head)?;
                Ok((Target::Existing(Box::new(head)), from))
            }
            Err(Error::NoSuchDataset(_)) => {
                let (parent, from) = self.plan_new(cx, dsl)?;
                Ok((Target::New(parent), from))
            }
            Err(e) => Err(e),
        }
    }

    fn plan_new(&self, cx: &DslCx<'_>, dsl: &Dsl) -> Result<(Arc<Dir>, Option<Dataset>)> {
        let parent = check_create(dsl, &self.name)?;
        let Some(origin) = &self.origin else {
            if self.from_guid != 0 {
                return Err(Error::NoSuchDataset(self.name.clone()));
            }
            check_new(dsl, &parent, &self.name, 0, &self.properties, cx.pool_size)?;
            check_features(cx, &self.name, &self.properties)?;
            return Ok((parent, None));
        };
        let origin = dsl.by_name(origin)?;
        if !origin.phys.is_snapshot() {
            return Err(Error::refused(&origin.name, Refusal::NotASnapshot));
        }
        if self.from_guid != 0 && origin.phys.guid != self.from_guid {
            return Err(Error::refused(&self.name, Refusal::NotTheSource));
        }
        self.check_sealed(dsl, &origin)?;
        self.check_large_blocks(cx, &origin)?;
        let (name, referenced) = (&self.name, origin.phys.referenced);
        check_new(dsl, &parent, name, referenced, &self.properties, cx.pool_size)?;
        check_features(cx, name, &self.properties)?;
        Ok((parent, Some(origin)))
    }

    fn plan_existing(&self, cx: &DslCx<'_>, dsl: &Dsl, head: &Dataset) -> Result<Option<Dataset>> {
        let refused = |why| Err(Error::refused(&self.name, why));
        if head.phys.is_inconsistent() {
            return refused(Refusal::Inconsistent);
        }
        if dsl.snapshot_named(head, &self.snapshot)?.is_some() {
            return Err(Error::refused(&self.full_name(), Refusal::Exists));
        }
        let below = dsl.names_in(head.dir.phys.child_zap)?;
        if below.iter().any(|(name, _)| name == RECV_DIR_NAME) {
            return refused(Refusal::Receiving);
        }
        for above in dsl.ancestry(&head.dir)? {
            dsl.check_limits_at(&above, Counted::Snapshots, 1)?;
        }
        let from = self.source(cx, dsl, head)?;
        match &from {
            Some(from) => self.check_sealed(dsl, from)?,
            None if self.sealed.is_some() => return refused(Refusal::RawReplaces),
            None => {}
        }
        Ok(from)
    }

    /// Refuses a raw stream that does not go on from a snapshot: blocks of both are in one tree
    /// then, encrypted with one key, and no salt and IV may come twice for different contents.
    fn check_sealed(&self, dsl: &Dsl, from: &Dataset) -> Result<()> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let refused = |why| Err(Error::refused(&self.name, why));
        let Some(info) = dsl.key_info(&from.dir)? else { return refused(Refusal::RawOnPlain) };
        if self.from_guid == 0 {
            return refused(Refusal::RawReplaces);
        }
        // First what OpenZFS finds first.
        match (sealed.from_ivset_guid, dsl.ivset_guid(from)?) {
            (0, _) | (_, None) => return refused(Refusal::NoIvset),
            (from, Some(has)) if from != has => return refused(Refusal::OtherIvset),
            _ => {}
        }
        let (key, has) = (&sealed.key.wrapped, &info.wrapped);
        if (key.guid, key.suite, key.version) != (has.guid, has.suite, has.version) {
            return refused(Refusal::OtherKey);
        }
        let phys = dsl.objset(from)?.phys();
        match phys.meta_dnode.as_ref().is_none_or(|meta| sealed.set.is_of_form(meta)) {
            true => Ok(()),
            false => refused(Refusal::OtherForm),
        }
    }

    /// The snapshot of a dataset that is there with which the stream begins; of a full stream none.
    /// With `force` younger ones can be destroyed, otherwise nothing is younger.
    fn source(&self, cx: &DslCx<'_>, dsl: &Dsl, head: &Dataset) -> Result<Option<Dataset>> {
        let refused = |why| Err(Error::refused(&self.name, why));
        let mut snapshots = dsl.snapshots(head)?;
        if self.from_guid == 0 {
            if !self.force {
                return refused(Refusal::Exists);
            }
            if let Some(one) = snapshots.first() {
                let short = one.name.split_once('@').map_or("", |(_, short)| short);
                return refused(Refusal::HasSnapshots(dsl.kind(head), short.to_owned()));
            }
            if dsl.origin(&head.dir)?.is_some() {
                return refused(Refusal::IsAClone);
            }
            return Ok(None);
        }
        if self.is_volume != (dsl.kind(head) == DatasetKind::Volume) {
            return refused(Refusal::OtherKind);
        }
        // A clone that has no snapshots yet continues from its origin.
        let last = snapshots.last().map_or(0, |s| s.object);
        if last != head.phys.prev_snap {
            let origin = dsl.nameless(head.phys.prev_snap)?;
            let name = dsl.name_of(origin.object)?;
            if snapshots.is_empty() && origin.phys.guid == self.from_guid {
                let origin = dsl.by_name(&name)?;
                self.check_large_blocks(cx, &origin)?;
                self.check_unmodified(dsl, head, &origin)?;
                return Ok(Some(origin));
            }
        }
        let at = snapshots.iter().rposition(|s| s.phys.guid == self.from_guid);
        let is_last = at.is_some_and(|at| at + 1 == snapshots.len());
        let Some(at) = at.filter(|_| is_last || self.force) else {
            return refused(Refusal::NotTheSource);
        };
        for younger in snapshots.drain(at + 1..) {
            check_destroy_snapshot(cx, dsl, &younger.name, false)?;
        }
        let Some(from) = snapshots.pop() else { return refused(Refusal::NotTheSource) };
        for mark in dsl.bookmarks(head)? {
            if self.force && mark.phys.creation_txg > from.phys.creation_txg {
                check_destroy_bookmark(&mark)?;
            }
        }
        self.check_large_blocks(cx, &from)?;
        self.check_unmodified(dsl, head, &from)?;
        Ok(Some(from))
    }

    /// Refuses blocks that are cut up where they were whole before: the rest of such a block would
    /// not be known.
    fn check_large_blocks(&self, cx: &DslCx<'_>, from: &Dataset) -> Result<()> {
        let [large_blocks, ..] = BY_BLOCKS;
        let has = cx.dataset_features(from.object)?.iter().any(|(guid, _)| guid == large_blocks);
        match has && self.from_guid != 0 && !self.has_large_blocks {
            true => Err(Error::refused(&self.name, Refusal::LargeBlocksCut)),
            false => Ok(()),
        }
    }

    /// Refuses a head that is not as its snapshot, unless it may lose what it has.
    fn check_unmodified(&self, dsl: &Dsl, head: &Dataset, snap: &Dataset) -> Result<()> {
        if self.force || head.phys.bp.logical_birth() <= snap.phys.creation_txg {
            return Ok(());
        }
        // The header of a log that was emptied is not a change.
        let (now, then) = (dsl.objset(head)?.phys(), dsl.objset(snap)?.phys());
        match now.meta_dnode == then.meta_dnode && now.user_used == then.user_used {
            true => Ok(()),
            false => Err(Error::refused(&self.name, Refusal::Modified)),
        }
    }
}

/// Checks whether a stream can be received. Returns the snapshot from which it continues, if there
/// is one.
///
/// # Errors
/// The reason why the stream cannot be received.
pub fn check_receive(cx: &DslCx<'_>, dsl: &Dsl, incoming: &Incoming) -> Result<Option<Dataset>> {
    incoming.plan(cx, dsl).map(|(_, from)| from)
}

/// Makes the head that a stream is received into. Its object set is still to be made when the
/// stream is a full one.
///
/// Changes on disk: as [`super::create_dataset`] and [`super::clone_dataset`]; the head is marked.
///
/// # Errors
/// The reason why the stream cannot be received.
pub fn begin_receive(cx: &DslCx<'_>, dsl: &Dsl, incoming: &Incoming) -> Result<NewDataset> {
    let (target, from) = incoming.plan(cx, dsl)?;
    for needed in from.iter().chain(target.existing()).filter(|_| incoming.sealed.is_none()) {
        check_unlocked(dsl, needed)?;
    }
    let from = from.map_or_else(|| cx.origin_snap(), |from| Ok(Some(from.object)))?;
    let (dir, head) = match target {
        Target::New(parent) => {
            let bad = || Error::BadName(incoming.name.clone());
            let (_, last) = incoming.name.rsplit_once('/').ok_or_else(bad)?;
            let key = match incoming.origin {
                None if incoming.sealed.is_some() => None,
                None => plan(cx, dsl, (Some(&*parent), &incoming.name), &incoming.encryption)?,
                Some(_) => None,
            };
            let dir = create_dir(cx, Some((parent.object, last)))?;
            let head = create_head(cx, dir, from)?;
            give(cx, dsl, (dir, head), key)?;
            if let (Some(sealed), None) = (&incoming.sealed, &incoming.origin) {
                give_sealed(cx, (dir, head), &sealed.key)?;
            }
            cx.give_to_creator(dir)?;
            for change in &incoming.properties {
                set_on_new(cx, dir, head, change)?;
            }
            for change in &incoming.received {
                set_received_on_new(cx, dir, head, change)?;
            }
            (dir, head)
        }
        Target::Existing(existing) => {
            // The replacement of an encrypted dataset is encrypted with its key.
            let is_encrypted = cx.is_encrypted(existing.dir.object)?;
            let dir = create_dir(cx, Some((existing.dir.object, RECV_DIR_NAME)))?;
            if is_encrypted && incoming.from_guid == 0 {
                cx.share_key(existing.dir.object, dir)?;
            }
            let head = create_head(cx, dir, from)?;
            if is_encrypted {
                cx.activate(head, ENCRYPTION)?;
            }
            (dir, head)
        }
    };
    cx.update_dataset(head, |ds| {
        ds.flags |= DslDataset::FLAG_INCONSISTENT;
        if incoming.is_case_insensitive {
            ds.flags |= DslDataset::FLAG_CASE_INSENSITIVE;
        }
    })?;
    for guid in incoming.features() {
        cx.activate(head, guid)?;
    }
    if let Some(token) = &incoming.resumable {
        cx.zapify(head)?;
        for (key, n) in token.fields() {
            cx.put(head, key, n)?;
        }
        cx.put_text(head, dataset_field::RESUME_TONAME, &token.to_name)?;
        let later = incoming.later.as_deref().unwrap_or_default();
        for (at, piece) in later.as_bytes().chunks(LATER_MAX).enumerate() {
            cx.put_text(head, &later_field(at), piece)?;
        }
    }
    Ok(NewDataset { dir, head })
}

/// The head that a dataset, or the hidden one below it, has of a receive that can be resumed.
///
/// # Errors
/// There is no such dataset, or there is no such head.
pub fn partly_received(dsl: &Dsl, name: &str) -> Result<(Dataset, ResumeToken)> {
    let dir = dsl.dir_by_name(name)?;
    let dir = dsl.receiving_child(&dir)?.unwrap_or(dir);
    let found = match dsl.head(&dir)?.filter(|head| head.phys.is_inconsistent()) {
        None => None,
        Some(head) => {
            let fields = dsl.fields(head.object, head.has_fields)?;
            let token = fields.as_ref().map(ResumeToken::of_fields).transpose()?.flatten();
            token.map(|token| (head, token))
        }
    };
    found.ok_or_else(|| Error::refused(name, Refusal::NotPartlyReceived))
}

/// The settings kept until the rest is received, of a head that was received in part.
///
/// # Errors
/// Its fields cannot be read.
pub fn kept_for_later(dsl: &Dsl, head: &Dataset) -> Result<Option<String>> {
    let Some(fields) = dsl.fields(head.object, head.has_fields)? else { return Ok(None) };
    let mut text = Vec::new();
    for at in 0.. {
        let Some(entry) = fields.get(later_field(at).as_bytes())? else { break };
        text.extend_from_slice(entry.value_text().unwrap_or_default());
    }
    Ok(String::from_utf8(text).ok().filter(|text| !text.is_empty()))
}

/// The name of the field with this piece of what is to be known later.
fn later_field(at: usize) -> String {
    if at == 0 { LATER.to_owned() } else { format!("{LATER}.{at}") }
}

/// Checks that a stream continues what was received before it was cut: the same snapshot, of the
/// same source, from the position in the fields. Returns the head, and the position.
///
/// # Errors
/// The reason why the rest cannot be received.
pub fn check_resume(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    incoming: &Incoming,
    at: (u64, u64),
) -> Result<(Dataset, ResumeToken)> {
    if let Some(feature) = incoming.features().find(|guid| !matches!(cx.has(guid), Ok(true))) {
        return Err(Error::refused(&incoming.name, Refusal::NoFeature(feature)));
    }
    let (head, token) = partly_received(dsl, &incoming.name)?;
    let is_rest = (token.to_guid, token.from_guid) == (incoming.guid, incoming.from_guid)
        && (token.object, token.offset) == at;
    if !is_rest {
        return Err(Error::refused(&incoming.name, Refusal::NotTheRest));
    }
    let is_sealed = token.forms[3];
    if is_sealed != incoming.sealed.is_some() {
        return Err(Error::refused(&incoming.name, Refusal::NotTheRest));
    }
    match &incoming.sealed {
        None => check_unlocked(dsl, &head)?,
        Some(sealed) => {
            let guid = dsl.key_info(&head.dir)?.map(|info| info.wrapped.guid);
            if guid != Some(sealed.key.wrapped.guid) {
                return Err(Error::refused(&incoming.name, Refusal::OtherKey));
            }
        }
    }
    check_end_receive(cx, dsl, head.object, incoming)?;
    Ok((head, token))
}

/// Goes on with what was received before.
///
/// Changes on disk: the features that the rest brings.
///
/// # Errors
/// The reason why the rest cannot be received.
pub fn resume_receive(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    incoming: &Incoming,
    at: (u64, u64),
) -> Result<()> {
    let (head, _) = check_resume(cx, dsl, incoming, at)?;
    incoming.features().try_for_each(|guid| cx.activate(head.object, guid))
}

/// Notes that dnodes of more than one slot were received.
pub fn note_large_dnodes(cx: &DslCx<'_>, head: u64) -> Result<()> {
    let [large_dnodes] = BY_STREAM;
    cx.activate(head, large_dnodes)
}

/// Notes how far a receive that can be resumed has come in this txg, if it still is one.
///
/// Changes on disk: three fields of the head.
pub fn note_received(cx: &DslCx<'_>, head: u64, at: Position) -> Result<()> {
    let fields = [
        (dataset_field::RESUME_OBJECT, at.object),
        (dataset_field::RESUME_OFFSET, at.offset),
        (dataset_field::RESUME_BYTES, at.bytes),
    ];
    match cx.field(head, dataset_field::RESUME_TOGUID)? {
        None => Ok(()),
        Some(_) => fields.into_iter().try_for_each(|(key, n)| cx.put(head, key, n)),
    }
}

/// Checks that the received dataset can take its place; repeated at the end, in the sync task.
/// Returns the dataset that it replaces, if there is one.
pub fn check_end_receive(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    received: u64,
    incoming: &Incoming,
) -> Result<Option<Dataset>> {
    let clone = dsl.nameless_head(received)?;
    let head = dsl.by_name(&incoming.name)?;
    if head.object == received {
        return Ok(None);
    }
    let from = incoming.source(cx, dsl, &head)?;
    if dsl.snapshot_named(&head, &incoming.snapshot)?.is_some() {
        return Err(Error::refused(&incoming.full_name(), Refusal::Exists));
    }
    let is_same = from.as_ref().is_none_or(|from| from.object == clone.phys.prev_snap);
    if clone.dir.phys.parent != head.dir.object || !is_same {
        return Err(Error::refused(&incoming.name, Refusal::NotTheSource));
    }
    let refquota = cx.own_number(head.dir.object, "refquota")?;
    if refquota != 0 && clone.phys.referenced > refquota {
        return Err(Error::refused(&incoming.name, Refusal::Quota("refquota")));
    }
    check_snapshot_room(dsl, std::slice::from_ref(&head), cx.pool_size)?;
    Ok(Some(head))
}

/// Puts the received dataset in its place. Neither object set may be dirty, and no object set that
/// was opened before belongs to the dataset any more. Returns the snapshot.
///
/// Changes on disk: as [`super::rollback`] and [`super::snapshot`]; the head has what the clone
/// had, its dead list too; the clone and its directory go.
pub fn end_receive(cx: &DslCx<'_>, dsl: &Dsl, received: u64, incoming: &Incoming) -> Result<u64> {
    let existing = check_end_receive(cx, dsl, received, incoming)?;
    if cx.is_zapified(received)? {
        for field in ResumeToken::field_names() {
            cx.remove(received, field)?;
        }
        for at in 0.. {
            if !cx.remove(received, &later_field(at))? {
                break;
            }
        }
    }
    for guid in incoming.features() {
        cx.activate(received, guid)?;
    }
    let key = incoming.sealed.as_ref().map(|sealed| &sealed.key);
    let head = match existing {
        Some(head) => {
            if let Some(key) = key {
                renew_sealed(cx, dsl, &head.dir, key)?;
            }
            let start = cx.dataset(received)?.prev_snap_txg;
            for younger in dsl.snapshots(&head)?.iter().rev() {
                if younger.phys.creation_txg > start {
                    destroy_snapshot_object(cx, younger.object)?;
                }
            }
            for mark in dsl.bookmarks(&head)? {
                if incoming.force && mark.phys.creation_txg > start {
                    super::destroy_bookmark(cx, dsl, &mark.name)?;
                }
            }
            rollback_head(cx, head.object)?;
            take_over(cx, head.object, received)?;
            destroy_head_object(cx, received)?;
            head.object
        }
        None => received,
    };
    let snap = snapshot_one(cx, head, &incoming.snapshot)?;
    cx.update_dataset(snap, |ds| {
        ds.guid = incoming.guid;
        ds.creation_time = incoming.creation_time;
        ds.flags &= !DslDataset::FLAG_INCONSISTENT;
    })?;
    if let Some(sealed) = incoming.sealed.as_ref().filter(|sealed| sealed.to_ivset_guid != 0) {
        cx.put(snap, dataset_field::IVSET_GUID, sealed.to_ivset_guid)?;
    }
    cx.update_dataset(head, |ds| ds.flags &= !DslDataset::FLAG_INCONSISTENT)?;
    Ok(snap)
}

/// A head that is as its last snapshot gets what a clone of that snapshot has. The clone has
/// nothing then.
fn take_over(cx: &DslCx<'_>, head: u64, clone: u64) -> Result<()> {
    let (mut h, mut c) = (cx.dataset(head)?, cx.dataset(clone)?);
    let (dir, from) = (cx.dir(h.dir)?, cx.dir(c.dir)?);
    let own =
        Space { used: from.used, compressed: from.compressed, uncompressed: from.uncompressed };
    let given_up = deadlists::space_range(cx, c.deadlist, cx.origin_txg(&dir)?, u64::MAX)?;
    let given_up = given_up.used.cast_signed();
    let own = Delta::from(own);
    cx.charge(c.dir, DslDir::USED_HEAD, own.negated())?;
    let reserved = cx.own_number(h.dir, "refreservation")?;
    let covered = c.unique.min(reserved).cast_signed();
    let parts = [
        (DslDir::USED_HEAD, own.used.wrapping_sub(given_up)),
        (DslDir::USED_SNAP, given_up),
        (DslDir::USED_REF_RESERVED, covered.wrapping_neg()),
    ];
    let delta = Delta { used: own.used.wrapping_sub(covered), ..own };
    cx.charge_parts(h.dir, delta, &parts)?;

    let prev_object = h.prev_snap;
    let prev = cx.dataset(prev_object)?;
    let freed = Delta::from(deadlists::space(cx, c.deadlist)?);
    for (name, mark) in cx.bookmarks_of(head)? {
        // Those of the last snapshot itself are counted again below.
        let is_younger = mark.creation_txg >= prev.creation_txg && mark.guid != prev.guid;
        if is_younger && counts_freed(&mark) {
            cx.add_freed(head, &name, mark, freed)?;
        }
    }
    if prev.next_snap == head {
        let alone = deadlists::space_range(cx, c.deadlist, prev.prev_snap_txg, u64::MAX)?;
        cx.update_dataset(prev_object, |prev| prev.unique = alone.used)?;
    }
    std::mem::swap(&mut h.deadlist, &mut c.deadlist);
    (h.bp, c.bp) = (c.bp, BlkPtr::default());
    (h.referenced, c.referenced) = (c.referenced, 0);
    (h.compressed, c.compressed) = (c.compressed, 0);
    (h.uncompressed, c.uncompressed) = (c.uncompressed, 0);
    (h.unique, c.unique) = (c.unique, 0);
    h.flags |= DslDataset::FLAG_UNIQUE_ACCURATE;
    h.flags &= !DslDataset::FLAG_CASE_INSENSITIVE;
    h.flags |= c.flags & DslDataset::FLAG_CASE_INSENSITIVE;
    cx.put_dataset(head, &h)?;
    cx.put_dataset(clone, &c)?;
    cx.swap_features(head, clone)?;
    cx.bookmarks_recount(head, prev_object)
}

/// Destroys what was received of a stream that did not come to its end. Nothing of its object set
/// may be dirty.
///
/// # Errors
/// It is not marked as inconsistent, or has become a file system with others below it.
pub fn discard_received(cx: &DslCx<'_>, dsl: &Dsl, received: u64) -> Result<()> {
    check_discard(dsl, received)?;
    cx.free_list()?;
    destroy_head_object(cx, received)
}

/// Whether [`discard_received`] can be done, asked before anything is changed.
///
/// # Errors
/// It has datasets below, which older programs let be made there, or it is no such head.
pub fn check_discard(dsl: &Dsl, received: u64) -> Result<()> {
    let head = dsl.nameless_head(received)?;
    if let Some((below, _)) = dsl.names_in(head.dir.phys.child_zap)?.into_iter().next() {
        return Err(Error::refused(&dsl.name_of(received)?, Refusal::HasChildren(below)));
    }
    let is_alone = dsl.names_in(head.phys.snapnames_zap)?.is_empty();
    if !head.phys.is_inconsistent() || !is_alone {
        let rule = "the dataset changed during the receive";
        return Err(Error::Tree { object: received, rule });
    }
    Ok(())
}

/// The heads of receives that did not come to their end: left by a program that was ended while it
/// received. Those that can be resumed are left out: another program may want that. Heads that
/// cannot be read are left out too.
#[must_use]
pub fn unfinished_receives(dsl: &Dsl) -> Vec<u64> {
    let mut out = Vec::new();
    for (_, dir) in dsl.walk() {
        let Ok(dir) = dir else { continue };
        let hidden = dsl.receiving_child(&dir).ok().flatten();
        for dir in hidden.into_iter().chain([dir]) {
            let Ok(Some(head)) = dsl.head(&dir) else { continue };
            if !head.phys.is_inconsistent() {
                continue;
            }
            let fields = dsl.fields(head.object, head.has_fields);
            let Ok(fields) = fields else { continue };
            let token = fields.map(|f| f.get(dataset_field::RESUME_TOGUID.as_bytes()));
            if token.is_none_or(|token| matches!(token, Ok(None))) {
                out.push(head.object);
            }
        }
    }
    out
}
