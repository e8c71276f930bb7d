//! The issues of a pool: the list of invariants that are checked.
//!
//! Every variant is one invariant and is reported when it does not hold. The front end words what
//! that means for the owner of the data.

use crate::damage::DeviceDamage;
use ondisk::{DmuType, Dva};
use std::fmt;
use std::sync::Arc;
use zio::Place;

/// How bad an issue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As is to be expected; nothing to do.
    Note,
    /// Damage that redundancy makes good: nothing is lost as long as nothing else fails.
    Repairable,
    /// Numbers or structures contradict each other; no data is lost by it.
    Inconsistent,
    /// Something cannot be read any more.
    Lost,
}

impl Severity {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Repairable => "repairable",
            Self::Inconsistent => "inconsistent",
            Self::Lost => "lost",
        }
    }
}

/// A place in a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the dataset; of the MOS `MOS`.
    pub dataset: Arc<str>,
    /// Object set, object, level, block.
    pub place: Place,
}

/// The data that is lost with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostPart {
    /// A dataset.
    Dataset,
    /// A part of an intent log.
    Log,
    /// Something of the pool's own.
    PoolsOwn,
    /// Dnodes of files.
    Dnodes,
    /// What a file system needs to be opened.
    FileSystem,
    /// Names in a directory.
    Names,
    /// A range of a file.
    Range,
    /// All of an object that is below the block.
    Below,
}

impl Location {
    /// The data that is lost with a block of this type at this place.
    #[must_use]
    pub fn lost(&self, kind: DmuType) -> LostPart {
        const TO_OPEN: [DmuType; 4] = [
            DmuType::MASTER_NODE,
            DmuType::SA_MASTER_NODE,
            DmuType::SA_ATTR_REGISTRATION,
            DmuType::SA_ATTR_LAYOUTS,
        ];
        match (self.place.objset, self.place.object, self.place.level) {
            (_, _, Place::LEVEL_OBJSET) => LostPart::Dataset,
            (_, _, Place::LEVEL_ZIL) => LostPart::Log,
            (0, _, _) => LostPart::PoolsOwn,
            (_, 0, _) => LostPart::Dnodes,
            _ if TO_OPEN.contains(&kind) => LostPart::FileSystem,
            _ if kind == DmuType::DIRECTORY_CONTENTS => LostPart::Names,
            (_, _, 0) => LostPart::Range,
            _ => LostPart::Below,
        }
    }

    /// It is in the pool's own object set.
    #[must_use]
    pub fn is_pools_own(&self) -> bool {
        self.place.objset == 0
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.dataset, self.place)
    }
}

/// Why a list of blocks, a table or a map does not hold together.
pub type Cause = String;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq)]
pub enum Issue {
    /// Every block reachable can be read.
    BlockLost {
        /// The block.
        at: Location,
        /// Its copies.
        copies: Vec<Dva>,
        /// Bytes it held, uncompressed.
        size: u64,
        /// The type of the object that it is of.
        kind: DmuType,
        /// Why it cannot be read.
        cause: Cause,
    },
    /// Every copy, column and parity on every device that is there is right.
    DeviceDamaged(DeviceDamage),
    /// A pointer's level, type or size is what its place in the tree demands.
    PointerMismatch {
        /// The block.
        at: Location,
        /// The compared field.
        field: &'static str,
        /// The value in the pointer.
        found: u64,
        /// The value that its place requires.
        expected: u64,
    },
    /// No block is born after the block that points to it, nor after the txg of the uberblock.
    BornTooLate {
        /// The block.
        at: Location,
        /// Its logical birth.
        birth: u64,
        /// The latest txg it can have been born in.
        limit: u64,
    },
    /// A pointer counts what is filled below it.
    FillCount {
        /// The block.
        at: Location,
        /// The count in its pointer.
        stored: u64,
        /// The count below it.
        counted: u64,
    },
    /// No block of an object lies behind the last one its dnode knows.
    BehindEnd {
        /// The block.
        at: Location,
        /// The last block of the dnode.
        max_block: u64,
    },
    /// A dnode records the space of its blocks.
    ObjectSpace {
        /// The object.
        at: Location,
        /// The space in the dnode, in bytes.
        stored: u64,
        /// The sum over its blocks.
        counted: u64,
    },
    /// Every structure decodes and keeps its own rules.
    BadStructure {
        /// Where.
        at: Location,
        /// The kind of structure that it should be.
        what: &'static str,
        /// The cause.
        cause: Cause,
    },
    /// No two blocks share space, but by the dedup or clone tables.
    DoubleAllocation {
        /// The second block found there.
        at: Location,
        /// Its copy.
        dva: Dva,
        /// First byte that is taken twice, on its vdev.
        offset: u64,
    },
    /// Every address lies within an existing vdev, on whole sectors.
    BadAddress {
        /// The block.
        at: Location,
        /// The copy.
        dva: Dva,
        /// The fault of the address.
        cause: &'static str,
    },
    /// Everything allocated is reachable.
    Leaked {
        /// Top-level vdev.
        vdev: u32,
        /// Metaslab.
        metaslab: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
    },
    /// Everything reachable is allocated.
    UsedButFree {
        /// Top-level vdev.
        vdev: u32,
        /// Metaslab.
        metaslab: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
    },
    /// A space map's entries make sense one after the other, and sum up to what its header says.
    SpaceMap {
        /// Top-level vdev.
        vdev: u32,
        /// Metaslab.
        metaslab: u64,
        /// The cause.
        cause: Cause,
    },
    /// The obsolete bytes of a removed vdev's mapping are those that no block refers to.
    Obsolete {
        /// The removed vdev.
        vdev: u32,
        /// Begin of the mapping's entry, on that vdev.
        offset: u64,
        /// Obsolete bytes of the entry by its count and by the obsolete space map.
        stored: u64,
        /// Bytes of the entry that no block refers to.
        counted: u64,
    },
    /// The record of a vdev's removal, the configuration and the mapping agree.
    Removal {
        /// The vdev.
        vdev: u64,
        /// The contradiction.
        cause: Cause,
    },
    /// Space that the checkpoint has and the pool does not is listed in the checkpoint's maps.
    CheckpointSpace {
        /// Top-level vdev.
        vdev: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        size: u64,
        /// It is listed and the checkpoint has no block there; else it has and it is not listed.
        listed: bool,
    },
    /// One of the other invariants does not hold in the state that the checkpoint keeps.
    InCheckpoint(Box<Self>),
    /// A dedup table counts the references to each block.
    DedupCount {
        /// A copy of the block.
        dva: Dva,
        /// The references in the table.
        stored: u64,
        /// References found.
        counted: u64,
    },
    /// The block reference table counts the clones of each block.
    CloneCount {
        /// Top-level vdev.
        vdev: u32,
        /// Offset of the block.
        offset: u64,
        /// The references in the table, beyond the first.
        stored: u64,
        /// References beyond the first that were found.
        counted: u64,
    },
    /// The block reference table counts its own entries rightly: where it counts none, a free does
    /// not look for one.
    CloneTable {
        /// Top-level vdev.
        vdev: u32,
        /// The contradiction.
        cause: Cause,
    },
    /// Sums of space in datasets and directories are right.
    DatasetSpace {
        /// Dataset or directory.
        dataset: Arc<str>,
        /// Its object.
        object: u64,
        /// Which of its sums.
        field: &'static str,
        /// The stored value.
        stored: u64,
        /// The counted value.
        counted: u64,
    },
    /// Snapshots, clones, tables and holds of datasets refer to each other both ways.
    DatasetLinks {
        /// Dataset or directory.
        dataset: Arc<str>,
        /// The contradiction.
        cause: Cause,
    },
    /// Dead lists and other lists of blocks hold what their place allows, and sum up.
    BlockList {
        /// The list.
        at: Location,
        /// The contradiction.
        cause: Cause,
    },
    /// A file has as many links as directories name it.
    LinkCount {
        /// The file.
        at: Location,
        /// The stored count.
        stored: u64,
        /// Names found.
        counted: u64,
    },
    /// A directory's size is the number of its entries and two.
    DirectorySize {
        /// The directory.
        at: Location,
        /// The stored count.
        stored: u64,
        /// Entries found, and two.
        counted: u64,
    },
    /// Every name leads to a file.
    DanglingEntry {
        /// The directory.
        at: Location,
        /// The name, spelled.
        name: String,
        /// Object it names.
        object: u64,
    },
    /// A directory has every name once, and only such as a file can have; and it knows rightly what
    /// kind of file a name is. The pool's own tables have only names as datasets, properties and
    /// features can have.
    BadEntry {
        /// The directory or table; of a wrong kind the file.
        at: Location,
        /// The name, spelled; empty where it is not known.
        name: String,
        /// The cause.
        cause: &'static str,
    },
    /// Every file has a name, or waits to be deleted.
    Orphan {
        /// The file.
        at: Location,
        /// The links in its attributes.
        links: u64,
    },
    /// A directory's parent is the directory that names it, as is that of an attribute; that of a
    /// file with several names is one of these, or a directory that named it once.
    WrongParent {
        /// The directory, attribute or file.
        at: Location,
        /// The parent in its attributes.
        parent: u64,
        /// The directory that names it, or the file that has it as its attributes; 0: neither is
        /// known.
        by: u64,
    },
    /// The accounting by user, group and project is right.
    OwnerSpace {
        /// The dataset.
        dataset: Arc<str>,
        /// Table and identity, such as `userused@0`.
        owner: String,
        /// The stored value.
        stored: u64,
        /// The counted value.
        counted: u64,
    },
    /// The space of all owners of files is counted.
    NotCounted {
        /// The dataset.
        dataset: Arc<str>,
    },
    /// Every device has four good labels that agree with each other and with the pool.
    Label {
        /// Path of the device.
        device: String,
        /// 0 to 3.
        label: usize,
        /// The cause.
        cause: Cause,
    },
    /// No device has labels of two txgs: they are written in two rounds, and between these there is
    /// a time in which a crash leaves so.
    LabelRound {
        /// Path of the device.
        device: String,
        /// The txg of the labels that were written.
        txg: u64,
    },
    /// A device of the configuration is not there, or is out of use.
    DeviceAbsent {
        /// Its path as configured.
        device: String,
        /// Its guid.
        guid: u64,
        /// Its state.
        state: String,
    },
    /// No device is smaller than its label says.
    DeviceShort {
        /// Its path as configured.
        device: String,
        /// Its guid.
        guid: u64,
        /// Its bytes.
        size: u64,
        /// Bytes that its vdev needs.
        size_min: u64,
    },
    /// The pool's own log of errors is empty.
    KnownError {
        /// Entry of the error log.
        entry: String,
    },
    /// Something was not needed to open the pool and could not be read.
    Unopened {
        /// The structure.
        what: &'static str,
        /// Why.
        cause: Cause,
    },
    /// An encrypted dataset is locked: its data was verified, but not decrypted.
    Locked {
        /// The dataset.
        dataset: Arc<str>,
    },
}

impl Issue {
    /// A short name of the invariant, for machines.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::BlockLost { .. } => "block-lost",
            Self::DeviceDamaged(d) if d.is_expected() => "device-stale",
            Self::DeviceDamaged(_) => "device-damaged",
            Self::PointerMismatch { .. } => "pointer-mismatch",
            Self::BornTooLate { .. } => "born-too-late",
            Self::FillCount { .. } => "fill-count",
            Self::BehindEnd { .. } => "behind-end",
            Self::ObjectSpace { .. } => "object-space",
            Self::BadStructure { .. } => "bad-structure",
            Self::DoubleAllocation { .. } => "double-allocation",
            Self::BadAddress { .. } => "bad-address",
            Self::Leaked { .. } => "leaked",
            Self::UsedButFree { .. } => "used-but-free",
            Self::SpaceMap { .. } => "space-map",
            Self::Obsolete { .. } => "obsolete",
            Self::Removal { .. } => "removal",
            Self::CheckpointSpace { .. } => "checkpoint-space",
            Self::InCheckpoint(issue) => issue.name(),
            Self::DedupCount { .. } => "dedup-count",
            Self::CloneCount { .. } => "clone-count",
            Self::CloneTable { .. } => "clone-table",
            Self::DatasetSpace { .. } => "dataset-space",
            Self::DatasetLinks { .. } => "dataset-links",
            Self::BlockList { .. } => "block-list",
            Self::LinkCount { .. } => "link-count",
            Self::DirectorySize { .. } => "directory-size",
            Self::DanglingEntry { .. } => "dangling-entry",
            Self::BadEntry { .. } => "bad-entry",
            Self::Orphan { .. } => "orphan",
            Self::WrongParent { .. } => "wrong-parent",
            Self::OwnerSpace { .. } => "owner-space",
            Self::NotCounted { .. } => "not-counted",
            Self::Label { .. } => "label",
            Self::LabelRound { .. } => "label-round",
            Self::DeviceAbsent { .. } => "device-absent",
            Self::DeviceShort { .. } => "device-short",
            Self::KnownError { .. } => "known-error",
            Self::Unopened { .. } => "unopened",
            Self::Locked { .. } => "locked",
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::BlockLost { .. } | Self::DanglingEntry { .. } | Self::Unopened { .. } => {
                Severity::Lost
            }
            Self::BadStructure { .. } => Severity::Lost,
            Self::InCheckpoint(issue) => issue.severity(),
            Self::DeviceDamaged(d) if d.is_expected() => Severity::Note,
            Self::DeviceDamaged(_) | Self::Label { .. } | Self::DeviceShort { .. } => {
                Severity::Repairable
            }
            Self::DeviceAbsent { .. } | Self::Locked { .. } | Self::KnownError { .. } => {
                Severity::Note
            }
            Self::LabelRound { .. } | Self::NotCounted { .. } => Severity::Note,
            _ => Severity::Inconsistent,
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockLost { at, copies, size, cause, .. } => {
                let copies: Vec<String> = copies.iter().map(Dva::to_string).collect();
                let copies = copies.join(", ");
                write!(f, "{at}: {size} bytes cannot be read, copies [{copies}]: {cause}")
            }
            Self::DeviceDamaged(d) => write!(f, "{d}"),
            Self::PointerMismatch { at, field, found, expected } => {
                write!(f, "{at}: pointer has {field} {found}, expected {expected}")
            }
            Self::BornTooLate { at, birth, limit } => {
                write!(f, "{at}: born in txg {birth}, after txg {limit}")
            }
            Self::FillCount { at, stored, counted } => {
                write!(f, "{at}: fill count {stored}, but {counted} below")
            }
            Self::BehindEnd { at, max_block } => {
                write!(f, "{at}: beyond the last block {max_block} of the object")
            }
            Self::ObjectSpace { at, stored, counted } => {
                write!(f, "{at}: dnode says {stored} bytes, its blocks take {counted}")
            }
            Self::BadStructure { at, what, cause } => write!(f, "{at}: {what}: {cause}"),
            Self::DoubleAllocation { at, dva, offset } => {
                write!(f, "{at}: copy {dva} shares {offset:#x} with another block")
            }
            Self::BadAddress { at, dva, cause } => write!(f, "{at}: copy {dva}: {cause}"),
            Self::Leaked { vdev, metaslab, offset, size } => write!(
                f,
                "vdev {vdev} metaslab {metaslab}: {size} bytes at {offset:#x} are allocated \
                 and nothing points to them"
            ),
            Self::UsedButFree { vdev, metaslab, offset, size } => write!(
                f,
                "vdev {vdev} metaslab {metaslab}: {size} bytes at {offset:#x} are in use and \
                 marked free"
            ),
            Self::SpaceMap { vdev, metaslab, cause } => {
                write!(f, "vdev {vdev} metaslab {metaslab}: {cause}")
            }
            Self::Obsolete { vdev, offset, stored, counted } => write!(
                f,
                "removed vdev {vdev}, mapping entry at {offset:#x}: {stored} bytes recorded \
                 as obsolete, {counted} counted"
            ),
            Self::Removal { vdev, cause } => write!(f, "vdev {vdev}: {cause}"),
            Self::CheckpointSpace { vdev, offset, size, listed } => write!(
                f,
                "vdev {vdev}: {size} bytes at {offset:#x} {}",
                match listed {
                    true => "are kept for the checkpoint, but are not part of it",
                    false => "are used by the checkpoint alone and not kept for it",
                }
            ),
            Self::InCheckpoint(issue) => write!(f, "in the checkpoint: {issue}"),
            Self::DedupCount { dva, stored, counted } => {
                write!(f, "dedup entry of {dva}: {stored} references, found {counted}")
            }
            Self::CloneCount { vdev, offset, stored, counted } => write!(
                f,
                "clone entry of vdev {vdev} offset {offset:#x}: {stored} more references, found \
                 {counted}"
            ),
            Self::CloneTable { vdev, cause } => {
                write!(f, "the table of clones of vdev {vdev}: {cause}")
            }
            Self::DatasetSpace { dataset, field, stored, counted, .. } => {
                write!(f, "{dataset}: {field} is {stored}, counted {counted}")
            }
            Self::DatasetLinks { dataset, cause } => write!(f, "{dataset}: {cause}"),
            Self::BlockList { at, cause } => write!(f, "{at}: {cause}"),
            Self::LinkCount { at, stored, counted } => {
                write!(f, "{at}: {stored} links, {counted} names")
            }
            Self::DirectorySize { at, stored, counted } => {
                write!(f, "{at}: directory size {stored}, entries make {counted}")
            }
            Self::DanglingEntry { at, name, object } => {
                write!(f, "{at}: '{name}' names object {object}, which is not a file")
            }
            Self::BadEntry { at, name, cause } if name.is_empty() => write!(f, "{at}: {cause}"),
            Self::BadEntry { at, name, cause } => write!(f, "{at}: '{name}' is {cause}"),
            Self::Orphan { at, links } => write!(f, "{at}: {links} links, but no name"),
            Self::WrongParent { at, parent, .. } => {
                write!(f, "{at}: parent {parent} does not name it")
            }
            Self::OwnerSpace { dataset, owner, stored, counted } => {
                write!(f, "{dataset}: {owner} is {stored}, counted {counted}")
            }
            Self::NotCounted { dataset } => {
                write!(f, "{dataset}: the accounting by user, group and project is not complete")
            }
            Self::Label { device, label, cause } => write!(f, "{device} label {label}: {cause}"),
            Self::LabelRound { device, txg } => {
                write!(f, "{device}: the labels of txg {txg} were not all written")
            }
            Self::DeviceAbsent { device, guid, state } => {
                write!(f, "{device} (guid {guid}) is {state}")
            }
            Self::DeviceShort { device, guid, size, size_min } => {
                write!(
                    f,
                    "{device} (guid {guid}) has {size} bytes, but its label requires {size_min}"
                )
            }
            Self::KnownError { entry } => write!(f, "error log: {entry}"),
            Self::Unopened { what, cause } => write!(f, "{what}: {cause}"),
            Self::Locked { dataset } => write!(f, "{dataset} is locked"),
        }
    }
}
