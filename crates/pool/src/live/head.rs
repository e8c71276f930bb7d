//! A head of a dataset that is open for writing, and what its properties mean for it.

use super::budget::HeadSpace;
use super::reached::Reached;
use crate::error::Result;
use dmu::Objset;
use dsl::StoredProperties;
use ondisk::Checksum;
use ondisk::props::find_dataset;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zil::{IntentLog, LogBias, SyncMode};
use zpl::write::{FileOwners, FsSettings, XattrStore};
use zpl::{Filesystem, Volume};

/// A head that is open for writing.
pub struct Head {
    /// The dataset's object in the MOS.
    pub dataset: u64,
    /// Its live object set.
    pub objset: Objset,
    /// The same for the sync: its reads wait for devices.
    pub(super) in_sync: Objset,
    pub(super) owners: Option<Arc<FileOwners>>,
    pub(super) fs: Mutex<Option<Filesystem>>,
    pub(super) properties: Mutex<HeadProperties>,
    /// What was changed and is not durable, for callers that want it to survive now.
    pub(super) log: Arc<IntentLog>,
    pub(super) space: Arc<HeadSpace>,
    /// How far a stream that is received into it has come.
    pub(super) reached: Reached,
    /// Its owners are being counted, and that was waited for as long as it may be.
    pub(super) was_awaited: AtomicBool,
}

/// What the properties of a head say where tunables have a say too.
pub(super) struct HeadProperties {
    pub(super) checksum: Checksum,
    pub(super) copies: u64,
    /// Bytes of a record, or of a block of a volume.
    pub(super) record: u64,
    settings: FsSettings,
    /// No record is larger (`zfs_max_recordsize`).
    pub(super) record_max: u32,
}

impl HeadProperties {
    /// Of a head with these properties, in a pool with this `zfs_max_recordsize`.
    pub(super) fn new(stored: &StoredProperties, record_max_bytes: u64) -> Self {
        Self {
            checksum: checksum(stored),
            copies: number(stored, "copies").clamp(1, 3),
            record: number(stored, "recordsize"),
            settings: settings(stored),
            record_max: record_max(record_max_bytes),
        }
    }

    /// How files are made.
    pub(super) fn settings(&self) -> FsSettings {
        let record_size = self.settings.record_size.min(self.record_max);
        FsSettings { record_size, ..self.settings }
    }
}

impl Head {
    /// The dataset was destroyed or rolled back: what is open of it is of no use any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.space.is_gone()
    }

    /// The file system in it, with its locks; there is one.
    pub fn filesystem(&self, settings: FsSettings) -> Result<Filesystem> {
        let mut held = self.fs.lock();
        let settings = {
            let mut properties = self.properties.lock();
            properties.settings = settings;
            properties.settings()
        };
        if let Some(fs) = &*held {
            fs.configure(settings)?;
            self.keep_counts(settings);
            return Ok(fs.clone());
        }
        let fs = Filesystem::open(self.objset.clone())?;
        fs.configure(settings)?;
        fs.log_to(&self.log);
        self.attach(&fs);
        *held = Some(fs.clone());
        drop(held);
        self.keep_counts(settings);
        Ok(fs)
    }

    /// What belongs to whom is counted, if it is not: of a file system that is open, with these
    /// settings. One that is not to be changed stays as it is.
    fn keep_counts(&self, settings: FsSettings) {
        if !settings.read_only {
            self.objset.begin_recount();
        }
    }

    /// It is being formatted as a file system, with a root directory of this user and group.
    pub(super) fn begin_with(&self, uid: u64, gid: u64) {
        if let Some(owners) = &self.owners {
            owners.begin_with(uid, gid);
        }
    }

    /// It is being received: the owners of its files are found without the file system.
    pub(super) fn receive(&self) {
        if let Some(owners) = &self.owners {
            owners.receive();
        }
    }

    /// Lets the space of files count for the owners that `fs` finds.
    pub(super) fn attach(&self, fs: &Filesystem) {
        if let Some(owners) = &self.owners {
            owners.attach(fs);
        }
    }

    /// Changes how its files are made, when it is open as a file system.
    pub(super) fn configure(&self, settings: FsSettings) -> Result<()> {
        match &*self.fs.lock() {
            Some(fs) => {
                fs.configure(settings)?;
                self.keep_counts(settings);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The volume in it.
    pub fn volume(&self) -> Result<Volume> {
        Ok(Volume::open(&self.objset)?.logging_to(&self.log))
    }
}

/// The open heads by dataset object.
pub(super) type Heads = HashMap<u64, Arc<Head>>;

/// The value of a property as a number, inherited or by default.
pub(super) fn number(stored: &StoredProperties, name: &str) -> u64 {
    let default = || find_dataset(name).and_then(|p| p.default_number());
    stored.number(name).or_else(default).unwrap_or(0)
}

/// The checksum of a dataset with these properties.
pub(super) fn checksum(stored: &StoredProperties) -> Checksum {
    match Checksum(number(stored, "checksum") as u8) {
        Checksum::INHERIT | Checksum::ON => Checksum::FLETCHER_4,
        c => c,
    }
}

/// The largest record that `zfs_max_recordsize` allows: a power of two.
pub(super) fn record_max(bytes: u64) -> u32 {
    u32::try_from(bytes).map_or(1 << 31, |n| 1 << n.max(512).ilog2())
}

/// How files of a dataset with these properties are made.
pub(super) fn settings(stored: &StoredProperties) -> FsSettings {
    // What stands in a table need not be a record size: the default then, so that a head that
    // inherits it by a rename can still be told.
    let record = u32::try_from(number(stored, "recordsize")).ok();
    let record = record.filter(|n| n.is_power_of_two() && (512..=16 << 20).contains(n));
    FsSettings {
        record_size: record.unwrap_or(128 << 10),
        xattr: match number(stored, "xattr") {
            0 => XattrStore::Off,
            1 => XattrStore::Dir,
            _ => XattrStore::Sa,
        },
        atime: number(stored, "atime") != 0,
        relatime: number(stored, "relatime") != 0,
        read_only: number(stored, "readonly") != 0,
        ..FsSettings::default()
    }
}

/// When changes of a dataset with these properties are promised.
pub(super) fn sync_mode(stored: &StoredProperties) -> SyncMode {
    match number(stored, "sync") {
        1 => SyncMode::Always,
        2 => SyncMode::Disabled,
        _ => SyncMode::Standard,
    }
}

/// Where data of a dataset with these properties go that are promised.
pub(super) fn log_bias(stored: &StoredProperties) -> LogBias {
    match number(stored, "logbias") {
        1 => LogBias::Throughput,
        _ => LogBias::Latency,
    }
}
