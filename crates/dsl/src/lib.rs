//! Datasets: the tree of file systems, volumes, snapshots, clones and bookmarks of a pool, with
//! their properties, keys and space accounting.
//!
//! # Theory
//!
//! Everything here is read from the MOS. [`Dsl`] finds directories and datasets by name and hands
//! out [`Dir`] and [`Dataset`], plain values that hold what was decoded; opening a dataset's
//! object set gives a [`dmu::Objset`], with the dataset's key when it is encrypted and unlocked.
//!
//! Nothing is cached here but unlocked keys ([`Keyring`]): blocks are cached below. A value that
//! was read stays true in a pool that is opened for reading. One that is open for writing changes
//! with each txg: what is read of several objects, which a name already is, fits together only
//! while the caller keeps the sync thread out (`pool::Pool::datasets`).
#![forbid(unsafe_code)]

pub mod access;
mod bookmarks;
mod deleg;
mod error;
mod found;
mod holds;
mod keyring;
mod keys;
mod kind;
pub mod names;
mod property;
mod props;
mod resume;
mod sealed;
mod space;
mod stored;
mod tree;
pub mod write;

pub use access::{Action, Caller};
pub use bookmarks::NamedBookmark;
pub use deleg::Delegation;
pub use error::{Error, Refusal, Result};
pub use holds::Hold;
pub use keyring::{KeyError, KeyFormat, KeyInfo, Keyring, WrappingKey};
pub use kind::DatasetKind;
pub use property::{Property, Source};
pub use props::{PropertyContext, has_property};
pub use resume::{ResumeToken, TokenFault};
pub use sealed::{CRYPT_KEYDATA, SealedKey, SealedStream};
pub use space::slop_space;
pub use stored::{StoredProperties, StoredValue};
pub use tree::{Dataset, Dir, Dsl};
