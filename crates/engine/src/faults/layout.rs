//! What is wrong with the words of a layout.

use far::NameError as FarNameError;
use pool::live::SpaceClass;
use std::fmt;

/// Devices that a dRAID has at most.
pub(crate) const DRAID_DEVICES_MAX: u64 = 255;

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
            Self::Twice(word) => write!(f, "the word '{word}' is there twice"),
            Self::NoDevices(word) => write!(f, "no device follows the word '{word}'"),
            Self::TooFew { kind, least } => write!(f, "a {kind} has at least {least} devices"),
            Self::WrongClass { class, kind } => {
                write!(f, "a vdev of the class '{}' cannot be a {kind}", class.name())
            }
            Self::DraidWord(word) => write!(f, "the dRAID '{word}' cannot be read"),
            Self::DraidChildren { wanted, given } => {
                write!(f, "a dRAID of {wanted} devices is followed by {given}")
            }
            Self::DraidNoData { parity, spares } => {
                write!(f, "parity {parity} and {spares} distributed spares leave nothing for data")
            }
            Self::DraidData { data, left } => {
                write!(f, "groups have {data} columns of data, and {left} devices are left for it")
            }
            Self::DraidSpares(spares) => write!(f, "a dRAID has no {spares} distributed spares"),
            Self::DraidDevices(given) => {
                write!(f, "a dRAID has at most {DRAID_DEVICES_MAX} devices, not {given}")
            }
            Self::SameDevice(a, b) => write!(f, "'{a}' and '{b}' are one device"),
            Self::FarName { word, why } => write!(f, "'{word}' cannot be used: {why}"),
            Self::NotUtf8 => f.write_str("paths of devices are UTF-8"),
        }
    }
}

impl std::error::Error for LayoutFault {}
