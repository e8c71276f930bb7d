//! The consequences of issues for the owner of the data.

use engine::check::{Issue, LostPart};

/// The consequence of an issue.
pub(super) fn consequence(issue: &Issue) -> &'static str {
    match issue {
        Issue::BlockLost { at, kind, .. } => lost(at.lost(*kind)),
        Issue::DeviceDamaged(d) if d.is_expected() => {
            "nothing is lost; a resilver brings the device up to date, unless it was written \
             without the others"
        }
        Issue::DeviceDamaged(d) if d.lost > 0 => {
            "some blocks had no other copy; they are listed one by one"
        }
        Issue::DeviceDamaged(_) => "nothing is lost: every block had a good copy elsewhere",
        Issue::PointerMismatch { .. } => "the pointer leads to a block that belongs elsewhere",
        Issue::BornTooLate { .. } => "snapshots, sends and scrubs by txg may skip this block",
        Issue::FillCount { .. } => "holes and object counts below may be misjudged",
        Issue::BehindEnd { .. } => "the end of the object may be cut off when it is freed",
        Issue::ObjectSpace { .. } => "du and quotas show a wrong size; no data is lost",
        Issue::BadStructure { .. } => "the objects that the structure describes may be unreachable",
        Issue::DoubleAllocation { .. } => "writing or freeing one of the two damages the other",
        Issue::BadAddress { .. } => "the block cannot be where its pointer says",
        Issue::Leaked { .. } => "the space is lost until the pool is re-created",
        Issue::UsedButFree { .. } => "new writes will overwrite data that is in use",
        Issue::SpaceMap { .. } => "an import that writes may refuse the pool or panic",
        Issue::Obsolete { stored, counted, .. } => match stored < counted {
            true => "part of the mapping is kept in memory for nothing",
            false => "condensing the mapping may lose blocks that are in use",
        },
        Issue::Removal { .. } => "the removal may not resume correctly",
        Issue::CheckpointSpace { listed: true, .. } => {
            "discarding the checkpoint frees space that is in use"
        }
        Issue::CheckpointSpace { .. } => "data that the checkpoint needs may be overwritten",
        Issue::InCheckpoint(_) => "the pool is not affected, but rewinding to its checkpoint is",
        Issue::DedupCount { stored, counted, .. } | Issue::CloneCount { stored, counted, .. } => {
            match stored < counted {
                true => "freeing some references frees a block that others still use",
                false => "the block is never freed",
            }
        }
        Issue::CloneTable { .. } => "freeing one reference may free a block that others still use",
        Issue::DatasetSpace { .. } => "zfs list and quotas show a wrong size; no data is lost",
        Issue::DatasetLinks { .. } => "destroying or promoting datasets may fail",
        Issue::BlockList { .. } => "destroying snapshots frees too much or too little",
        Issue::LinkCount { .. } => "the file is freed too early or never",
        Issue::DirectorySize { .. } => "the directory may not be removable",
        Issue::DanglingEntry { .. } => "the name cannot be opened: the file is gone",
        Issue::BadEntry { at, .. } if at.is_pools_own() => {
            "the object cannot be found by this name"
        }
        Issue::BadEntry { .. } => "the file may not be reachable by its name",
        Issue::Orphan { .. } => "the file cannot be reached by any name",
        Issue::WrongParent { .. } => "zfs diff and NFS may show a wrong path",
        Issue::OwnerSpace { .. } => "zfs userspace and quotas show a wrong size",
        Issue::NotCounted { .. } => {
            "none: what belongs to whom is counted when the file system is mounted for writing"
        }
        Issue::Label { .. } => "the device has fewer labels to be found by",
        Issue::LabelRound { .. } => "none: a crash leaves this, and the next txg corrects it",
        Issue::DeviceAbsent { .. } => "the pool has less redundancy",
        Issue::DeviceShort { .. } => {
            "data beyond its end is no longer part of it; lost blocks are listed one by one"
        }
        Issue::KnownError { .. } => "an earlier scrub or read met this error",
        Issue::Unopened { .. } => "the object it describes is not available",
        Issue::Locked { .. } => "read with its key (--keys, --ask), its data is checked as well",
    }
}

fn lost(part: LostPart) -> &'static str {
    match part {
        LostPart::Dataset => "the whole dataset is lost",
        LostPart::Log => "synchronous writes that were acknowledged may be lost",
        LostPart::PoolsOwn => "part of the pool's own bookkeeping is lost",
        LostPart::Dnodes => "the files whose dnodes are in it are lost",
        LostPart::FileSystem => {
            "the file system cannot be opened; `zinc rescue` copies its files without it"
        }
        LostPart::Names => "names in this directory are lost",
        LostPart::Range => "this range of the file is lost",
        LostPart::Below => "all of the file's blocks below are lost",
    }
}
