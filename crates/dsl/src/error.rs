//! Why a dataset could not be had.

use crate::kind::DatasetKind;
use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dataset could not be had.
#[derive(Clone, Debug)]
pub enum Error {
    /// An object of the MOS could not be read.
    Dmu(dmu::Error),
    /// No dataset, snapshot or bookmark has that name.
    NoSuchDataset(String),
    /// The name breaks the rules for names.
    BadName(String),
    /// The tree of datasets contradicts itself; the text names the rule.
    Tree {
        /// Object in the MOS.
        object: u64,
        /// The rule.
        rule: &'static str,
    },
    /// A bonus or entry does not decode.
    Format {
        /// Object in the MOS.
        object: u64,
        /// The error of the decoder.
        error: ondisk::Error,
    },
    /// The operation is not possible on that dataset, at least not now.
    Refused {
        /// The dataset, or what else it was about.
        name: String,
        /// Why.
        why: Refusal,
    },
    /// The dataset's key could not be used.
    Key {
        /// The dataset.
        dataset: String,
        /// Why.
        error: crate::keyring::KeyError,
    },
}

/// Why something cannot be done to a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is one of that name.
    Exists,
    /// Two snapshots of one dataset cannot be taken in the same moment.
    SeveralOfOne,
    /// A snapshot of it was taken in this txg: the next txg can take another.
    JustTaken,
    /// It is not a snapshot.
    NotASnapshot,
    /// It is not of the dataset's own past, and not of what the dataset is a clone of.
    NotOfItsPast,
    /// It is not a file system or volume.
    NotAHead,
    /// It is not a clone.
    NotAClone,
    /// It is the pool's own.
    PoolRoot,
    /// It would be moved below itself.
    BelowItself,
    /// It would be below a volume.
    BelowVolume,
    /// There is something below, this for one.
    HasChildren(String),
    /// It is of this kind and has snapshots, this for one.
    HasSnapshots(DatasetKind, String),
    /// Clones were made of it.
    HasClones(Vec<String>),
    /// There are younger snapshots or bookmarks, this for one.
    HasYounger(String),
    /// It is held by this tag.
    Held(String),
    /// It is not held by this tag.
    NotHeld(String),
    /// It is incomplete: its receive or its destruction has not finished.
    Inconsistent,
    /// A program has it open.
    Busy,
    /// A limit of that name does not allow one more.
    Limit(&'static str),
    /// The quota of that name is used up.
    Quota(&'static str),
    /// The pool is full.
    NoSpace,
    /// There is no room for a reservation of that name.
    NoRoomFor(&'static str),
    /// More is used, or reserved, than the property of that name would allow.
    BelowUsed(&'static str),
    /// The quota is less than the reservation of that name would be.
    AboveQuota(&'static str),
    /// There is no property of that name.
    NoProperty(String),
    /// It does not have the property of that name.
    NotHere(String),
    /// The property of that name cannot be changed.
    ReadOnly(String),
    /// The property is given two values.
    SetTwice(String),
    /// The property cannot have that value.
    BadValue(String),
    /// File systems of that version do not have the property of that name.
    VersionLacks(String),
    /// It is of this version, which is newer than the requested one.
    NewerVersion(u64),
    /// The pool does not have the feature.
    NoFeature(&'static str),
    /// There is no permission, or set of permissions, of that name.
    NotAPermission(String),
    /// The user does not have a permission that this needs.
    Denied,
    /// Permissions are off in this pool.
    DelegationOff,
    /// Something is being received into it, or was by a program that can go on with it.
    Receiving,
    /// Nothing was half received into it that could go on, or be given up.
    NotPartlyReceived,
    /// A stream does not go on where a receive into it stopped.
    NotTheRest,
    /// A stream is of a file system and it is a volume, or the reverse.
    OtherKind,
    /// The last snapshot is not the one that a stream is an increment of.
    NotTheSource,
    /// It is not as its last snapshot is.
    Modified,
    /// It is a clone.
    IsAClone,
    /// The snapshot that a stream is to be received as a clone of is not there.
    NoLocalOrigin,
    /// An increment has its large blocks in pieces.
    LargeBlocksCut,
    /// It would be encrypted, and no format of a key is given.
    NoKeyFormat,
    /// It would be outside of its encryption root.
    LeavesRoot,
    /// It is not an encryption root.
    NotAnEncryptionRoot,
    /// The dataset above is not encrypted.
    ParentNotEncrypted,
    /// An encryption property was given for a raw stream, which is encrypted already.
    OfRawStream(String),
    /// An encryption property was given for an increment, which continues an existing dataset.
    OfIncrement(String),
    /// A raw stream would go on from what is not encrypted.
    RawOnPlain,
    /// A raw stream would replace a dataset, or what is encrypted is to be replaced.
    RawReplaces,
    /// A raw stream has another key than the dataset.
    OtherKey,
    /// The IV set of the snapshot from which a raw stream continues is not known.
    NoIvset,
    /// A raw stream continues from a snapshot that is encrypted otherwise than this one.
    OtherIvset,
    /// A raw stream has the dnodes in a tree that the dataset does not have.
    OtherForm,
    /// This program cannot do that yet.
    Unsupported(&'static str),
}

/// A property of encryption that cannot be given there.
fn of_key(f: &mut fmt::Formatter<'_>, property: &str, what: &str) -> fmt::Result {
    write!(f, "encryption property '{property}' cannot be {what}")
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("exists already"),
            Self::JustTaken => f.write_str("a snapshot was taken at the same time: try again"),
            Self::SeveralOfOne => {
                f.write_str("is named twice: only one snapshot of a dataset can be taken at a time")
            }
            Self::NotASnapshot => f.write_str("is not a snapshot"),
            Self::NotOfItsPast => f.write_str("is not a snapshot before the bookmark"),
            Self::NotAHead => f.write_str("is not a file system or volume"),
            Self::NotAClone => f.write_str("is not a clone"),
            Self::PoolRoot => f.write_str("is the pool's root dataset"),
            Self::BelowItself => f.write_str("would be below itself"),
            Self::BelowVolume => f.write_str("would be below a volume"),
            Self::HasChildren(n) => write!(f, "has datasets below it, such as '{n}'"),
            Self::HasSnapshots(_, n) => write!(f, "has snapshots, such as '{n}'"),
            Self::HasClones(n) => write!(f, "has clones: {}", n.join(", ")),
            Self::HasYounger(n) => write!(f, "is older than '{n}'"),
            Self::Held(tag) => write!(f, "is held by '{tag}'"),
            Self::NotHeld(tag) => write!(f, "is not held by '{tag}'"),
            Self::Busy => f.write_str("is in use"),
            Self::Inconsistent => f.write_str("is half received or half destroyed"),
            Self::Limit(p) => write!(f, "{p} is reached"),
            Self::Quota(p) => write!(f, "{p} is exceeded"),
            Self::NoSpace => f.write_str("no space is left in the pool"),
            Self::NoRoomFor(p) => write!(f, "{p} is more than the space that is left"),
            Self::BelowUsed(p) => write!(f, "{p} is less than what is used or reserved"),
            Self::AboveQuota(p) => write!(f, "{p} is more than the quota"),
            Self::NoProperty(p) => write!(f, "there is no property '{p}'"),
            Self::NotHere(p) => write!(f, "does not have the property '{p}'"),
            Self::ReadOnly(p) => write!(f, "the property '{p}' cannot be changed"),
            Self::SetTwice(p) => write!(f, "the property '{p}' is given twice"),
            Self::BadValue(v) => write!(f, "'{v}' is not a value for it"),
            Self::VersionLacks(p) => {
                write!(f, "file systems of that version do not have the property '{p}'")
            }
            Self::NewerVersion(n) => {
                write!(f, "is already at version {n}, which is newer")
            }
            Self::NoFeature(guid) => write!(f, "the pool does not have the feature {guid}"),
            Self::NotAPermission(name) => write!(f, "there is no permission '{name}'"),
            Self::Denied => f.write_str("permission denied"),
            Self::DelegationOff => f.write_str("the pool has no delegated permissions"),
            Self::Receiving => f.write_str("something is being received into it"),
            Self::NotPartlyReceived => f.write_str("it has no partially received state"),
            Self::NotTheRest => f.write_str("the stream does not go on where the receive stopped"),
            Self::OtherKind => f.write_str("the dataset is of another kind"),
            Self::NotTheSource => {
                f.write_str("its most recent snapshot does not match the incremental source")
            }
            Self::Modified => f.write_str("has been modified since its most recent snapshot"),
            Self::NoLocalOrigin => f.write_str("there is no local origin for it"),
            Self::IsAClone => f.write_str("is a clone"),
            Self::LargeBlocksCut => f.write_str("the stream splits large blocks"),
            Self::NoKeyFormat => f.write_str("keyformat required for new encryption root"),
            Self::LeavesRoot => f.write_str("cannot move dataset outside of its encryption root"),
            Self::NotAnEncryptionRoot => f.write_str("is not an encryption root"),
            Self::ParentNotEncrypted => f.write_str("the dataset above is not encrypted"),
            Self::OfRawStream(p) => of_key(f, p, "set or excluded for raw streams."),
            Self::OfIncrement(p) => of_key(f, p, "set for incremental streams."),
            Self::RawOnPlain => f.write_str("a raw stream cannot continue a plain dataset"),
            Self::RawReplaces => f.write_str("a raw stream cannot replace an existing dataset"),
            Self::OtherKey => f.write_str("the raw stream is encrypted with another key"),
            Self::NoIvset => f.write_str("IV set guid missing"),
            Self::OtherIvset => f.write_str("IV set guid mismatch"),
            Self::OtherForm => f.write_str("the raw stream has its dnodes in a different layout"),
            Self::Unsupported(what) => write!(f, "{what} cannot be changed yet"),
        }
    }
}

impl Error {
    /// A refusal about `name`.
    #[must_use]
    pub fn refused(name: &str, why: Refusal) -> Self {
        Self::Refused { name: name.to_owned(), why }
    }
}

impl From<dmu::Error> for Error {
    fn from(e: dmu::Error) -> Self {
        Self::Dmu(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dmu(e) => write!(f, "{e}"),
            Self::NoSuchDataset(n) => write!(f, "dataset '{n}' does not exist"),
            Self::BadName(n) => write!(f, "'{n}' is not a dataset name"),
            Self::Tree { object, rule } => write!(f, "MOS object {object}: {rule}"),
            Self::Format { object, error } => write!(f, "MOS object {object}: {error}"),
            Self::Refused { name, why } => write!(f, "{name}: {why}"),
            Self::Key { dataset, error } => write!(f, "key of '{dataset}': {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dmu(e) => Some(e),
            Self::Format { error, .. } => Some(error),
            Self::Key { error, .. } => Some(error),
            _ => None,
        }
    }
}
