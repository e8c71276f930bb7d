//! What is wrong with the words of a layout.

use far::NameError as FarNameError;
use pool::live::SpaceClass;
use std::fmt;

/// Devices that a dRAID has at most.
pub(super) const DRAID_DEVICES_MAX: u64 = 255;

/// What is wrong with the words of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutFault {
    /// This word stands twice.
    Twice(&'static str),
    /// No device stands behind this word.
    NoDevices(String),
    /// A vdev of this kind is made of this many devices at least.
    TooFew {
        /// The kind.
        kind: String,
        /// Devices it needs.
        least: usize,
    },
    /// Vdevs of this class are not of this kind.
    WrongClass {
        /// The class.
        class: SpaceClass,
        /// The kind.
        kind: &'static str,
    },
    /// The word of a dRAID cannot be read.
    DraidWord(String),
    /// The word of a dRAID says another number of devices than stand behind it.
    DraidChildren {
        /// What it says.
        wanted: u64,
        /// What stands there.
        given: u64,
    },
    /// Parity and distributed spares of a dRAID leave no device for data.
    DraidNoData {
        /// Its parity.
        parity: u64,
        /// Its distributed spares.
        spares: u64,
    },
    /// The groups of a dRAID have more data columns than it has devices for data.
    DraidData {
        /// Its data columns.
        data: u64,
        /// Its devices for data.
        left: u64,
    },
    /// A dRAID has at most 100 distributed spares, and this many are wanted.
    DraidSpares(u64),
    /// A dRAID has at most 255 devices, and this many are given.
    DraidDevices(u64),
    /// Both paths are of one device.
    SameDevice(String, String),
    /// It is not a name of a device on another machine.
    FarName {
        /// The word.
        word: String,
        /// Why.
        why: FarNameError,
    },
    /// The path of a device is not UTF-8.
    NotUtf8,
}

impl fmt::Display for LayoutFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(word) => write!(f, "'{word}' can be specified only once"),
            Self::NoDevices(word) => write!(f, "{word} requires at least 1 device"),
            Self::TooFew { kind, least } => write!(f, "{kind} requires at least {least} devices"),
            Self::WrongClass { class, kind } => {
                write!(f, "unsupported '{}' device: {kind}", class.name())
            }
            Self::DraidWord(word) => {
                write!(f, "invalid dRAID syntax; expected [:<number><c|d|s>] not '{word}'")
            }
            Self::DraidChildren { wanted, given } => write!(
                f,
                "invalid number of dRAID children; {wanted} required but {given} provided"
            ),
            Self::DraidNoData { parity, spares } => write!(
                f,
                "request number of distributed spares {spares} and parity level {parity} leaves \
                 no disks available for data"
            ),
            Self::DraidData { data, left } => write!(
                f,
                "requested number of dRAID data disks per group {data} is too high, at most \
                 {left} disks are available for data"
            ),
            Self::DraidSpares(spares) => write!(
                f,
                "invalid number of dRAID spares {spares}; additional disks would be required"
            ),
            Self::DraidDevices(given) => write!(
                f,
                "{given} disks were provided, but dRAID only supports up to {DRAID_DEVICES_MAX} \
                 disks"
            ),
            Self::SameDevice(a, b) => {
                let both = if a == b { String::new() } else { format!(" and '{b}'") };
                write!(f, "one or more vdevs refer to the same device: '{a}'{both}")
            }
            Self::FarName { word, why } => write!(f, "'{word}' cannot be used: {why}"),
            Self::NotUtf8 => f.write_str("paths of devices are UTF-8"),
        }
    }
}

impl std::error::Error for LayoutFault {}
