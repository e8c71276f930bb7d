//! Heads of datasets that are open for writing.
//!
//! Each head has one live object set, shared by all that write to it, registered here under the
//! dataset's object. It stays registered until the pool is closed: an idle one holds a header and
//! what readers cached, nothing else. A dataset that is destroyed or rolled back is taken out, and
//! its set is marked [`Head::is_gone`]: no more transactions begin through it.

use super::budget::{HeadSpace, Weight};
use super::head::{Head, HeadProperties, checksum, log_bias, number, record_max, sync_mode};
use super::log::LogBackend;
use super::reached::Reached;
use super::shared::Shared;
use super::transactions::HeadTransactions;
use super::tunables::Tunable;
use crate::error::{Error, Result};
use crate::refusal::PoolRefusal;
use codec::compress::Algorithm;
use dmu::{LiveSpec, Objset, RedundantMetadata, SealedStore, SetKey, SetPolicy};
use dsl::{Dataset, KeyError, StoredProperties};
use ondisk::props::compression_parts;
use ondisk::{BlkPtr, Checksum, Compression, ObjsetKind, ZilHeader};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use zil::IntentLog;
use zpl::write::FileOwners;

/// Dnodes of more than one slot.
const LARGE_DNODE: &str = "org.zfsonlinux:large_dnode";

/// The feature of a dataset in whose log extended attributes may stand.
const ZILSAXATTR: &str = "org.openzfs:zilsaxattr";

/// How blocks of a dataset with these properties are written.
fn policy(stored: &StoredProperties, shared: &Shared) -> SetPolicy {
    let (compression, level) = compression_parts(number(stored, "compression"));
    let lz4 = shared.features.is_enabled("lz4_compress");
    let usual = if lz4 { Algorithm::Lz4 } else { Algorithm::Lzjb };
    let compression = match compression {
        Compression::ON | Compression::INHERIT => usual,
        Compression::ZSTD => zstd(level),
        c => Algorithm::from_number(c.0).unwrap_or(usual),
    };
    let slots = match number(stored, "dnodesize") {
        // `legacy` and, as long as nothing says what an object needs, `auto`.
        0 => 1,
        1 => 2,
        bytes => (bytes / 512).clamp(1, 32) as u8,
    };
    SetPolicy {
        checksum: shared.checksum_for(checksum(stored)),
        compression,
        metadata_compression: usual,
        copies: number(stored, "copies").clamp(1, 3) as u8,
        redundant_metadata: match number(stored, "redundant_metadata") {
            1 => RedundantMetadata::Most,
            2 => RedundantMetadata::Some,
            3 => RedundantMetadata::None,
            _ => RedundantMetadata::All,
        },
        embed: shared.features.is_enabled("embedded_data"),
        hole_birth: shared.features.is_enabled("hole_birth"),
        dnode_slots: if shared.features.is_enabled("large_dnode") { slots } else { 1 },
        indirect_shift: shared.tunables.get(Tunable::DefaultIbs) as u8,
        has_special_class: shared.alloc.figures().special.size > 0,
        special_small_blocks: number(stored, "special_small_blocks"),
    }
}

fn zstd(level: Option<u8>) -> Algorithm {
    match level {
        Some(level) => Algorithm::Zstd(i32::from(level)),
        None => Algorithm::from_number(Compression::ZSTD.0).unwrap_or(Algorithm::Lz4),
    }
}

impl Shared {
    /// Makes or opens a live object set: `root` is `None` for a new one.
    pub(super) fn live(
        &self,
        dataset: u64,
        root: Option<BlkPtr>,
        (kind, key): (ObjsetKind, SetKey),
        stored: &StoredProperties,
    ) -> Result<Head> {
        // Whose the space is cannot be known of what is received encrypted.
        let is_sealed = matches!(key, SetKey::Sealed(_));
        let files = kind == ObjsetKind::Zfs && !is_sealed;
        let owners = files.then(|| {
            let enabled = |name| self.features.is_enabled(name);
            Arc::new(FileOwners::new(enabled("project_quota"), enabled("userobj_accounting")))
        });
        let space = Arc::new(HeadSpace::new());
        let objset = Objset::live(LiveSpec {
            store: match is_sealed {
                true => Arc::new(SealedStore::new(Arc::clone(&self.store) as _)),
                false => Arc::clone(&self.store) as _,
            },
            id: dataset,
            root,
            kind,
            header_size: ondisk::objset::OBJSET_SIZE_V3,
            transactions: Some(Arc::new(HeadTransactions::new(&self.me, &space))),
            policy: policy(stored, self),
            accounting: owners.clone().map(|o| o as _),
            key,
        })?;
        objset.inject(&self.faults.accesses);
        let properties = Mutex::new(self.head_properties(stored));
        let shared = Weak::clone(&self.me);
        let backend = LogBackend { shared, space: Arc::clone(&space), objset: objset.clone() };
        let foreign = objset.phys().zil != ZilHeader::default();
        let log = {
            let set = (dataset, objset.key().cloned());
            Arc::new(IntentLog::new(&self.rt, set, foreign, Box::new(backend)))
        };
        log.set_mode(sync_mode(stored));
        log.set_bias(log_bias(stored));
        let in_sync = objset.through(match is_sealed {
            true => Arc::new(SealedStore::in_sync(Arc::clone(&self.patient) as _)),
            false => Arc::clone(&self.patient) as _,
        });
        Ok(Head {
            dataset,
            objset,
            in_sync,
            owners,
            fs: Mutex::default(),
            properties,
            log,
            space,
            reached: Reached::default(),
            was_awaited: AtomicBool::new(false),
        })
    }

    /// The head of a dataset, opened for writing when it is not open yet.
    pub(super) fn head(&self, dataset: &Dataset) -> Result<Arc<Head>> {
        if let Some(head) = self.heads.read().get(&dataset.object) {
            return Ok(Arc::clone(head));
        }
        if dataset.is_snapshot() {
            return Err(self.refused(PoolRefusal::Snapshot(dataset.name.clone())));
        }
        // It must not be synced, destroyed or opened twice meanwhile.
        let _guard = self.gate.write();
        if let Some(head) = self.heads.read().get(&dataset.object) {
            return Ok(Arc::clone(head));
        }
        let dataset = self.dsl.by_name(&dataset.name)?;
        let stored = self.dsl.stored(&dataset)?;
        let kind = self.dsl.objset(&dataset)?.phys().kind;
        let key = self.dsl.set_key(&dataset)?;
        if matches!(key, SetKey::Locked) {
            let error = KeyError::Locked;
            return Err(dsl::Error::Key { dataset: dataset.name, error }.into());
        }
        let head = self.live(dataset.object, Some(dataset.phys.bp), (kind, key), &stored)?;
        head.space.set_room(self.room_of(&self.dsl, &dataset)?);
        self.weigh(&head, &stored)?;
        self.open_log(&head, &dataset)?;
        let head = Arc::new(head);
        self.heads.write().insert(dataset.object, Arc::clone(&head));
        Ok(head)
    }

    /// Objects that are made from now on have indirect blocks of 2^`shift` bytes.
    pub(super) fn set_indirect_shift(&self, shift: u64) {
        let heads = self.all_heads();
        for set in heads.iter().map(|h| &h.objset).chain([&self.mos]) {
            if let Some(policy) = set.policy() {
                let indirect_shift = shift as u8;
                set.set_policy(SetPolicy { indirect_shift, ..SetPolicy::clone(&policy) });
            }
        }
    }

    /// The checksum of data, where a dataset's properties say `wanted`.
    fn checksum_for(&self, wanted: Checksum) -> Checksum {
        match self.tunables.get(Tunable::Checksum) {
            1 => Checksum::OFF,
            2 => Checksum::FLETCHER_2,
            3 => Checksum::FLETCHER_4,
            4 => Checksum::SHA256,
            _ => wanted,
        }
    }

    /// Data is written from now on with the checksum that `zinc_checksum` says.
    pub(super) fn set_checksum(&self) {
        for head in self.all_heads() {
            if let Some(policy) = head.objset.policy() {
                let checksum = self.checksum_for(head.properties.lock().checksum);
                head.objset.set_policy(SetPolicy { checksum, ..SetPolicy::clone(&policy) });
            }
        }
    }

    /// Files that are made from now on have records of this many bytes at most.
    pub(super) fn set_record_max(&self, bytes: u64) {
        let files = |head: &Arc<Head>| head.objset.phys().kind == ObjsetKind::Zfs;
        for head in self.all_heads().into_iter().filter(files) {
            let settings = {
                let mut properties = head.properties.lock();
                properties.record_max = record_max(bytes);
                properties.settings()
            };
            // What the properties said was taken, and so is a smaller power of two.
            let _ = head.configure(settings);
            self.update_weight(&head);
        }
    }

    fn head_properties(&self, stored: &StoredProperties) -> HeadProperties {
        HeadProperties::new(stored, self.tunables.get(Tunable::MaxRecordsize))
    }

    /// Tells a head how much its blocks take.
    pub(super) fn weigh(&self, head: &Head, stored: &StoredProperties) -> Result<()> {
        let mut properties = self.head_properties(stored);
        let is_volume = head.objset.phys().kind == ObjsetKind::Zvol;
        // One that is being received may have no blocks yet.
        if let Some(volume) = is_volume.then(|| head.volume().ok()).flatten() {
            (properties.record, properties.record_max) = (volume.block_size(), 1 << 31);
        }
        *head.properties.lock() = properties;
        self.update_weight(head);
        Ok(())
    }

    fn update_weight(&self, head: &Head) {
        let (copies, record) = {
            let properties = head.properties.lock();
            (properties.copies, properties.record.min(u64::from(properties.record_max)))
        };
        let stored = self.alloc.worst_dsize(record);
        head.space.set_weight(Weight { copies, record, stored });
    }

    /// In a sync: features that a dirty head uses from this txg on, which its blocks do not tell.
    pub(super) fn features_in_use(&self, head: &Head, txg: u64) -> Vec<&'static str> {
        let large_dnodes = head.objset.policy().is_some_and(|policy| policy.dnode_slots > 1);
        let large_dnodes = large_dnodes.then_some(LARGE_DNODE);
        // It gets the tables that it lacks.
        let recounted = head.objset.is_recounting().then(|| self.features_of(ObjsetKind::Zfs));
        let by_log = self.log_features(head, txg).into_iter();
        by_log.chain(large_dnodes).chain(recounted.into_iter().flatten()).collect()
    }

    /// In a sync: features that a dirty head uses from this txg on because of its log.
    fn log_features(&self, head: &Head, txg: u64) -> Option<&'static str> {
        let begins = self.features.count(ZILSAXATTR).is_some() && head.log.begins_xattrs(txg);
        begins.then_some(ZILSAXATTR)
    }

    /// Tells the log of a head that was just opened what its dataset uses.
    fn open_log(&self, head: &Head, dataset: &Dataset) -> Result<()> {
        let fields = self.dsl.fields(dataset.object, dataset.has_fields)?;
        if fields.map_or(Ok(false), |f| Ok::<_, Error>(f.get(ZILSAXATTR.as_bytes())?.is_some()))? {
            head.log.xattrs_are_used();
        }
        Ok(())
    }

    /// Features that a new object set of that kind uses from the start.
    pub(super) fn features_of(&self, kind: ObjsetKind) -> Vec<&'static str> {
        let used = ["org.zfsonlinux:userobj_accounting", "org.zfsonlinux:project_quota"];
        let mut used = used.to_vec();
        used.retain(|guid| kind == ObjsetKind::Zfs && self.features.count(guid).is_some());
        used
    }

    /// The names of the datasets that were used. Read anew when the MOS is not just being changed;
    /// otherwise they are those of the last time: statistics are not waited for.
    pub(super) fn names_of_sets(&self) -> BTreeMap<u64, String> {
        if let Some(_guard) = self.gate.try_read() {
            let name = |set| Some((set, self.dsl.name_of(set).ok()?));
            *self.names.lock() = self.store.used().sets().into_iter().filter_map(name).collect();
        }
        self.names.lock().clone()
    }

    /// Properties changed: open heads write by them from now on.
    pub(super) fn refresh_heads(&self) -> Result<()> {
        for head in self.all_heads() {
            let dsl = &self.dsl_in_sync;
            let stored = dsl.stored(&dsl.nameless_head(head.dataset)?)?;
            head.objset.set_policy(policy(&stored, self));
            head.log.set_mode(sync_mode(&stored));
            head.log.set_bias(log_bias(&stored));
            self.weigh(&head, &stored)?;
            let settings = head.properties.lock().settings();
            head.configure(settings)?;
        }
        Ok(())
    }
}
