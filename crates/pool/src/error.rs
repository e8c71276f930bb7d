//! Why a pool cannot be opened or changed: kind, place, cause.

use crate::obstacle::Obstacle;
use crate::refusal::PoolRefusal;
use std::fmt;
use std::path::PathBuf;

/// Result of opening.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a device is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It is nowhere in the places searched.
    NotFound,
    /// It is there, but the pool says that it is offline, faulted or removed.
    OutOfUse,
    /// It is there, but was away while the pool was written, and is this many txgs behind.
    Behind(u64),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("missing"),
            Self::OutOfUse => f.write_str("out of use"),
            Self::Behind(1) => f.write_str("1 txg behind"),
            Self::Behind(n) => write!(f, "{n} txgs behind"),
        }
    }
}

/// A device the pool needs and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingDevice {
    /// Its guid.
    pub guid: u64,
    /// Path it had when the pool was last open.
    pub path: Option<String>,
    /// Top-level vdev it belongs to.
    pub top: u64,
    /// Why it is of no use.
    pub absence: Absence,
}

/// A feature that must be understood and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFeature {
    /// Its name, like `com.example:feature`.
    pub guid: String,
    /// What the pool itself says about it.
    pub description: Option<String>,
}

/// What failed on a floor below, of whatever type.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a pool cannot be opened or changed.
#[derive(Debug)]
pub enum Error {
    /// A path to search cannot be read.
    Search {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: Cause,
    },
    /// No labelled device of such a pool is in the places searched.
    NoSuchPool {
        /// What was asked for.
        wanted: String,
        /// Pools that were found instead, with their guids.
        found: Vec<(String, u64)>,
        /// Places searched.
        searched: Vec<PathBuf>,
    },
    /// More than one pool has that name.
    Ambiguous {
        /// The name.
        name: String,
        /// Their guids.
        guids: Vec<u64>,
    },
    /// Too few devices: a top-level vdev cannot be read.
    MissingDevices {
        /// The pool.
        pool: String,
        /// What is missing.
        missing: Vec<MissingDevice>,
    },
    /// The pool uses features this program does not know.
    UnknownFeatures {
        /// The pool.
        pool: String,
        /// The features.
        features: Vec<UnknownFeature>,
    },
    /// The pool's version is newer than this program.
    NewerVersion {
        /// The pool.
        pool: String,
        /// Its version.
        version: u64,
    },
    /// No uberblock with a good checksum was found, or none of the txg asked for.
    NoUberblock {
        /// The pool.
        pool: String,
        /// The txg asked for.
        txg: Option<u64>,
        /// Txgs there are.
        available: Vec<u64>,
    },
    /// The pool has this device already, and each only once.
    OwnDevice {
        /// The pool.
        pool: String,
        /// The device.
        path: PathBuf,
    },
    /// Rows of a raidz vdev were moved since the txg asked for, as it was expanded.
    RowsMoved {
        /// The pool.
        pool: String,
        /// The txg asked for.
        txg: u64,
    },
    /// The pool has no checkpoint.
    NoCheckpoint {
        /// The pool.
        pool: String,
    },
    /// The pool has a checkpoint, and does not do this as long as it has one.
    CheckpointExists {
        /// The pool.
        pool: String,
    },
    /// What the pool's checkpoint kept is still being freed.
    CheckpointDiscarding {
        /// The pool.
        pool: String,
    },
    /// The pool's root structures cannot be read.
    Damaged {
        /// The pool.
        pool: String,
        /// Txg of the uberblock that was tried.
        txg: u64,
        /// What was being read.
        what: &'static str,
        /// Why it could not be.
        cause: dmu::Error,
    },
    /// The vdev tree in the configuration cannot be built.
    Config {
        /// The pool.
        pool: String,
        /// Why.
        cause: Cause,
    },
    /// It can be read, but not written by this program.
    NotWritable {
        /// The pool.
        pool: String,
        /// Everything that stands in the way.
        obstacles: Vec<Obstacle>,
    },
    /// It was destroyed.
    Destroyed {
        /// The pool.
        pool: String,
    },
    /// Another host used it last and did not export it.
    ForeignHost {
        /// The pool.
        pool: String,
        /// Identity of that host.
        hostid: u64,
        /// Its name.
        host: String,
    },
    /// Another machine may have it open, as its devices say.
    Elsewhere {
        /// The pool.
        pool: String,
        /// What they say.
        why: String,
    },
    /// Another machine or program writes to it.
    InUse {
        /// The pool.
        pool: String,
    },
    /// A device of it cannot be used.
    Device {
        /// The pool.
        pool: String,
        /// Why.
        cause: device::Error,
    },
    /// The state of the pool or of its devices does not allow it.
    Refused {
        /// The pool.
        pool: String,
        /// Why.
        why: PoolRefusal,
    },
    /// What is stored, or what a change would make of it, contradicts itself.
    Inconsistent {
        /// What is wrong.
        what: String,
    },
    /// There is no feature of this name.
    NoSuchFeature {
        /// The name.
        name: String,
    },
    /// The feature is in use as soon as it is enabled, and is not written by this program.
    UnwrittenFeature {
        /// Its name.
        name: &'static str,
    },
    /// The engine of the pool has stopped: nothing can be changed any more.
    Stopped {
        /// The pool.
        pool: String,
        /// Why.
        cause: String,
    },
    /// Devices failed, and the pool waits for them: what was not done may be done later.
    Suspended {
        /// The pool.
        pool: String,
        /// Why.
        cause: String,
        /// Another writer has a device now, for good.
        is_taken_over: bool,
    },
    /// Devices that are open are not where they were opened, and will be lost when they are closed.
    Displaced {
        /// The pool.
        pool: String,
        /// Each device, and what became of it.
        devices: Vec<String>,
    },
    /// Something failed while the pool was being changed.
    Failed {
        /// The pool.
        pool: String,
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        cause: Cause,
    },
    /// Something in the MOS cannot be read or changed.
    Dmu(dmu::Error),
    /// A dataset cannot be found or changed.
    Dsl(dsl::Error),
    /// A file system or volume cannot be made or opened.
    Zpl(zpl::Error),
}

impl From<dmu::Error> for Error {
    fn from(e: dmu::Error) -> Self {
        Self::Dmu(e)
    }
}

impl From<dsl::Error> for Error {
    fn from(e: dsl::Error) -> Self {
        Self::Dsl(e)
    }
}

impl From<zpl::Error> for Error {
    fn from(e: zpl::Error) -> Self {
        Self::Zpl(e)
    }
}

impl Error {
    /// `pool` does not do it, for this reason.
    pub(crate) fn refused(pool: &str, why: impl Into<PoolRefusal>) -> Self {
        Self::Refused { pool: pool.to_owned(), why: why.into() }
    }

    /// `doing` something to `pool` failed.
    pub(crate) fn failed(pool: &str, doing: &'static str, cause: impl Into<Cause>) -> Self {
        Self::Failed { pool: pool.to_owned(), doing, cause: cause.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Search { path, cause } => {
                write!(f, "cannot search {}: {cause}", path.display())
            }
            Self::NoSuchPool { wanted, found, searched } => {
                match searched.len() {
                    0 => write!(f, "no pool '{wanted}': there are no places to search")?,
                    1 => write!(f, "no pool '{wanted}' in 1 place searched")?,
                    n => write!(f, "no pool '{wanted}' in {n} places searched")?,
                }
                let names: Vec<_> = found.iter().map(|(n, g)| format!("{n} ({g})")).collect();
                if names.is_empty() { Ok(()) } else { write!(f, "; found {}", names.join(", ")) }
            }
            Self::Ambiguous { name, guids } => {
                let guids: Vec<_> = guids.iter().map(u64::to_string).collect();
                write!(f, "more than one pool is named '{name}': {}", guids.join(", "))
            }
            Self::MissingDevices { pool, missing } => {
                write!(f, "cannot open '{pool}': too few devices")?;
                for m in missing {
                    let path = m.path.as_deref().unwrap_or("path unknown");
                    let what = m.absence;
                    match m.guid {
                        // A vdev no label describes has no guid either.
                        0 => write!(f, "; {what}: all of top-level vdev {}", m.top)?,
                        guid => write!(
                            f,
                            "; {what}: {guid} (last seen as {path}, top-level vdev {})",
                            m.top
                        )?,
                    }
                }
                Ok(())
            }
            Self::UnknownFeatures { pool, features } => {
                write!(f, "cannot open '{pool}': it uses unknown features")?;
                for u in features {
                    write!(f, "; {}", u.guid)?;
                    if let Some(d) = &u.description {
                        write!(f, " ({d})")?;
                    }
                }
                Ok(())
            }
            Self::NewerVersion { pool, version } => {
                write!(f, "cannot open '{pool}': pool version {version} is not known")
            }
            Self::NoUberblock { pool, txg: Some(t), available } => {
                let all: Vec<_> = available.iter().map(u64::to_string).collect();
                write!(
                    f,
                    "cannot open '{pool}': no uberblock of txg {t}; there are {}",
                    all.join(", ")
                )
            }
            Self::NoUberblock { pool, .. } => {
                write!(f, "cannot open '{pool}': no valid uberblock on any device")
            }
            Self::OwnDevice { pool, path } => {
                write!(f, "pool '{pool}' already has the device {}", path.display())
            }
            Self::RowsMoved { pool, txg } => write!(
                f,
                "cannot open '{pool}' at txg {txg}: rows of a raidz that was expanded have been \
                 moved since"
            ),
            Self::NoSuchFeature { name } => write!(f, "there is no feature '{name}'"),
            Self::UnwrittenFeature { name } => {
                write!(
                    f,
                    "the feature '{name}' becomes active when it is enabled, and zinc does \
                     not write it"
                )
            }
            Self::NoCheckpoint { pool } => write!(f, "pool '{pool}' has no checkpoint"),
            Self::CheckpointExists { pool } => write!(f, "pool '{pool}' has a checkpoint"),
            Self::CheckpointDiscarding { pool } => {
                write!(f, "pool '{pool}' is discarding its checkpoint")
            }
            Self::Damaged { pool, txg, what, cause } => {
                write!(f, "cannot open '{pool}' at txg {txg}: {what}: {cause}")
            }
            Self::Config { pool, cause } => {
                write!(f, "cannot open '{pool}': configuration: {cause}")
            }
            Self::NotWritable { pool, obstacles } => {
                let all: Vec<_> = obstacles.iter().map(ToString::to_string).collect();
                write!(f, "cannot open '{pool}' for writing: {}", all.join("; "))
            }
            Self::Destroyed { pool } => write!(f, "pool '{pool}' was destroyed"),
            Self::ForeignHost { pool, hostid, host } => {
                write!(f, "pool '{pool}' was last used by host '{host}' ({hostid:x})")?;
                f.write_str(" and not exported there")
            }
            Self::Elsewhere { pool, why } => {
                write!(f, "pool '{pool}' may be open on another machine: {why}")
            }
            Self::InUse { pool } => write!(f, "pool '{pool}' is in use elsewhere"),
            Self::Device { pool, cause } => write!(f, "pool '{pool}': {cause}"),
            Self::Refused { why, .. } => write!(f, "{why}"),
            Self::Inconsistent { what } => f.write_str(what),
            Self::Stopped { pool, cause } => write!(f, "pool '{pool}' has stopped: {cause}"),
            Self::Suspended { pool, cause, .. } => write!(f, "pool '{pool}' is suspended: {cause}"),
            Self::Displaced { pool, devices } => write!(
                f,
                "pool '{pool}': its devices are no longer at the paths where they will be \
                 searched for: {}",
                devices.join(", ")
            ),
            Self::Failed { pool, doing, cause } => write!(f, "pool '{pool}': {doing}: {cause}"),
            Self::Dmu(e) => write!(f, "{e}"),
            Self::Dsl(e) => write!(f, "{e}"),
            Self::Zpl(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damaged { cause, .. } | Self::Dmu(cause) => Some(cause),
            Self::Dsl(cause) => Some(cause),
            Self::Zpl(cause) => Some(cause),
            Self::Device { cause, .. } => Some(cause),
            Self::Search { cause, .. }
            | Self::Config { cause, .. }
            | Self::Failed { cause, .. } => Some(&**cause),
            _ => None,
        }
    }
}
