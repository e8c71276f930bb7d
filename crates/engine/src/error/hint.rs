//! What can be done about a failure, as data.

use crate::faults::ImportRefusal;
use dsl::Refusal;
use pool::{DeviceFault, Ongoing, PoolRefusal, VdevFault};
use repair::RepairRefusal;
use std::path::PathBuf;
use zpl::{FileRefusal, Unsupported};

/// What can be done about a failure. A front end words it for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Check the place that was named to be searched for devices.
    CheckPlace,
    /// Verify the disk in the store of this name, which cannot be had.
    CheckStore(PathBuf),
    /// Name places to search for devices.
    NamePlaces,
    /// Look which pools can be opened.
    ListPools,
    /// Name the pool by its guid.
    UseGuid,
    /// Name the places where the missing devices are.
    FindDevices,
    /// Use a newer program.
    NewerProgram,
    /// Record what a pool does, first.
    Record,
    /// Look which txgs there are.
    ListTxgs,
    /// Open an older state of the pool.
    OlderState,
    /// Open it for reading only.
    OpenReadonly,
    /// Import it without the log devices that are missing.
    WithoutLogs,
    /// Say which side of a mirror is to stay.
    ChooseSide,
    /// Export the pool of this name first, and import it then.
    ExportFirst(String),
    /// Import it under another name.
    ImportRenamed,
    /// Import the pool of this guid under another name.
    ImportByGuid(u64),
    /// Import it to be read only.
    ImportReadOnly,
    /// Keep the list of imported pools in another folder.
    ListElsewhere,
    /// Name a file, in a folder that is there, that remembers the pool.
    ChooseCachefile,
    /// Try older states too, or repair the pool.
    OlderStates,
    /// Repair the pool, or copy out what can be read.
    RepairOrRescue,
    /// Wait until this has ended, or end it where that is possible.
    AwaitEnd(Ongoing),
    /// Look which devices the pool has.
    ListDevices,
    /// Import it although it was destroyed.
    Undestroy,
    /// Import it although another host used it last, when none has it open.
    TakeOver,
    /// Close it here: another writer has its device.
    LetGo,
    /// Export it where it is open.
    ExportThere,
    /// Open the pool again: what was synced is safe.
    OpenAgain,
    /// See to the devices, and let the suspended pool go on.
    Clear,
    /// Copy the data out, or put the devices back, as long as the pool is open.
    SaveData,
    /// Ask for it all the same, when it is meant.
    Insist,
    /// Load the key.
    LoadKey,
    /// Make what is missing above the dataset too.
    CreateParents,
    /// Choose a name that follows the rules.
    NameRules,
    /// Name a snapshot, as `DATASET@NAME`.
    NameSnapshot,
    /// Choose one of the values that the property can have, which are described so.
    ChooseValue(&'static str),
    /// Destroy what is below too, such as this dataset.
    DestroyBelow(String),
    /// Destroy its snapshots too, such as this one.
    DestroySnapshots(String),
    /// Destroy the clones too, which are these or some of these.
    DestroyClones {
        /// Their names.
        clones: Vec<String>,
        /// There are, or may be, others.
        are_examples: bool,
    },
    /// Make the snapshot that this clone depends on its own.
    Promote(String),
    /// Destroy what is younger, such as this snapshot or bookmark.
    DestroyYounger(String),
    /// Release the hold with this tag.
    Release(String),
    /// Enable a feature of the pool.
    EnableFeature(&'static str),
    /// What applies to datasets does not apply to the pool: destroy the pool, or what is in it.
    DestroyPool,
    /// Take the snapshots one after the other.
    OneByOne,
    /// Set a property of the dataset to this value.
    SetProperty {
        /// The property.
        name: &'static str,
        /// The value.
        value: &'static str,
    },
    /// Set the property to its default instead.
    SetDefault,
    /// Ask for a directory to be removed with all in it.
    RemoveTree,
    /// Copy what is in it, or send it, into a new dataset.
    CopyToNew,
    /// Copy it out of one dataset, and into the other.
    CopyTwice,
    /// Ask for what is there to be replaced.
    Replace,
    /// Copy it under a name that files here can have.
    CopyRenamed,
    /// Swap the two states that are compared.
    OlderFirst,
    /// Make a file there, which is to be the device.
    MakeFile(PathBuf),
    /// Look which tunables there are, and what values they can have.
    ListTunables,
    /// The tunable of this name may be meant.
    MeantTunable(&'static str),
    /// Go back to the checkpoint of the pool, or discard it.
    EndCheckpoint,
    /// Let the removal of a vdev end, or call it off.
    EndRemoval,
    /// Bring the devices back that are away, or say that what they have is given up.
    BringBack,
    /// Allow more to be written.
    AllowMore,
    /// Stop what writes to the pool.
    StopWriters,
}

impl Hint {
    /// What can be done about a refusal.
    pub(super) fn of_refusal(why: &Refusal) -> Option<Self> {
        Some(match why {
            Refusal::HasChildren(one) => Self::DestroyBelow(one.clone()),
            Refusal::HasSnapshots(_, one) => Self::DestroySnapshots(one.clone()),
            Refusal::HasClones(all) => {
                Self::DestroyClones { clones: all.clone(), are_examples: false }
            }
            Refusal::HasYounger(one) => Self::DestroyYounger(one.clone()),
            Refusal::Held(tag) => Self::Release(tag.clone()),
            Refusal::PoolRoot => Self::DestroyPool,
            Refusal::NoFeature(guid) => Self::EnableFeature(guid),
            Refusal::SeveralOfOne => Self::OneByOne,
            _ => return None,
        })
    }

    /// What can be done about a refusal of a pool.
    pub(super) fn of_pool_refusal(why: &PoolRefusal) -> Option<Self> {
        Some(match why {
            PoolRefusal::Ongoing(Ongoing::PausedScrub) => return None,
            PoolRefusal::Ongoing(what) => Self::AwaitEnd(*what),
            PoolRefusal::Devices(DeviceFault::NotInPool | DeviceFault::NotRaidz) => {
                Self::ListDevices
            }
            PoolRefusal::FeatureNotEnabled(name) | PoolRefusal::FeatureNeeded(name) => {
                Self::EnableFeature(name)
            }
            PoolRefusal::Layout(VdevFault::ExpansionOff) => Self::EnableFeature("raidz_expansion"),
            PoolRefusal::LogNotReplayed(_) | PoolRefusal::KeyNeeded(_) => Self::LoadKey,
            _ => return None,
        })
    }

    /// What can be done about a refusal to change a file.
    pub(super) fn of_file_refusal(why: FileRefusal) -> Option<Self> {
        match why {
            FileRefusal::Unsupported(Unsupported::XattrOff) => {
                Some(Self::SetProperty { name: "xattr", value: "sa" })
            }
            FileRefusal::Unsupported(Unsupported::AclOff) => {
                Some(Self::SetProperty { name: "acltype", value: "posix" })
            }
            _ => None,
        }
    }

    /// What can be done about a pool that is not imported.
    pub(super) fn of_import(why: &ImportRefusal) -> Option<Self> {
        Some(match why {
            ImportRefusal::NameTaken => Self::ImportRenamed,
            ImportRefusal::Denied(_) => Self::ImportReadOnly,
            ImportRefusal::NameNotKept(guid) => Self::ImportByGuid(*guid),
            ImportRefusal::Imported | ImportRefusal::Name(_) | ImportRefusal::NotListed => {
                return None;
            }
        })
    }

    /// What can be done about a pool that is not repaired.
    pub(super) fn of_repair(why: &RepairRefusal) -> Option<Self> {
        Some(match why {
            RepairRefusal::Checkpoint => Self::EndCheckpoint,
            RepairRefusal::Removal => Self::EndRemoval,
            RepairRefusal::Away(_) => Self::BringBack,
            RepairRefusal::TooMuch(_) => Self::AllowMore,
        })
    }
}
