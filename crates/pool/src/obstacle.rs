//! Obstacles that keep a pool from being changed by this engine.

use std::fmt;

/// Why a pool cannot be opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Older than feature flags.
    Version(u64),
    /// A feature is in use that this engine cannot keep up.
    Feature(String),
    /// A vdev is missing, damaged, or of a kind that cannot be written yet.
    Vdev {
        /// Its name.
        name: String,
        /// The problem.
        what: String,
    },
    /// A dataset has an intent log that was not replayed, and cannot be.
    IntentLog {
        /// The dataset.
        name: String,
        /// The reason.
        why: String,
        /// It is damaged, and cannot be replayed to its end.
        is_damaged: bool,
    },
    /// A dataset cannot be read.
    Dataset(String),
    /// A device was written without the others, and holds changes that they lack.
    Diverged {
        /// Its guid.
        guid: u64,
        /// Where it was, or its guid.
        name: String,
    },
    /// A log device is missing.
    LogDevice {
        /// Its guid, and where it was.
        name: String,
        /// Datasets of which the log leads there: what was promised last may be lost with it.
        datasets: Vec<String>,
    },
    /// Blocks are deduplicated: their counts would have to be kept.
    Dedup,
    /// The last writer was a big-endian machine.
    BigEndian,
    /// Without these devices, which are there and out of use, it has too few; each with the reason.
    OutOfUse(Vec<String>),
    /// Something had to be gone without to open it, so not all is known.
    Salvaged(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(v) => write!(f, "pool version {v} (only version 5000 is written)"),
            Self::Feature(name) => write!(f, "feature {name} is active and not written yet"),
            Self::Vdev { name, what } => write!(f, "vdev {name}: {what}"),
            Self::IntentLog { name, why, .. } => {
                write!(f, "dataset {name} has an intent log that cannot be replayed: {why}")
            }
            Self::Dataset(name) => write!(f, "it could not be read completely: dataset {name}"),
            Self::Diverged { name, .. } => write!(
                f,
                "vdev {name}: was written without the others, and holds changes that they lack; \
                 take it away (or clear its labels) to go on without these changes, or the others \
                 to keep them"
            ),
            Self::LogDevice { name, datasets } if datasets.is_empty() => {
                write!(f, "log device {name} is missing")
            }
            Self::LogDevice { name, datasets } => {
                let all = datasets.join(", ");
                write!(f, "log device {name} is missing, and with it the intent log of {all}")
            }
            Self::Dedup => f.write_str("it has deduplicated blocks"),
            Self::BigEndian => f.write_str("it was last written by a big-endian machine"),
            Self::OutOfUse(devices) => {
                let devices = devices.join(", ");
                write!(f, "too few devices without those that are out of use: {devices}")
            }
            Self::Salvaged(what) => write!(f, "it could not be read completely: {what}"),
        }
    }
}
