//! Why something was not done: kind, place, source and hint.
//!
//! # Theory
//!
//! An [`Error`] answers four questions, each for another reader:
//!
//! ```text
//! kind      what sort of failure it is       a program that decides what to do next
//! place     where: pool, dataset, property   a person who looks for the cause
//! source    what failed underneath           a report of a bug
//! hint      what can be done about it        a front end, which words it for its user
//! ```
//!
//! A [`Hint`] names an action, never an option of a command: the same hint is a flag in a terminal,
//! a button on a page, and a method for a program.

mod from;
mod hint;
mod kind;
mod streams;
#[cfg(test)]
mod tests;

pub use hint::Hint;
pub use kind::{Conflict, ErrorKind, Rule};
pub use streams::{ResumeFault, StreamFault, Unreceivable, Unsendable};

use ondisk::spelling::file;
use std::fmt;

/// Result of the engine's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Where something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A pool, by name or guid.
    Pool(String),
    /// A file system, volume, snapshot or bookmark.
    Dataset(String),
    /// A property.
    Property(String),
    /// A tunable.
    Tunable(String),
    /// A device, as it was named.
    Device(String),
    /// A file of a dataset, as its path or object.
    File(String),
    /// A path of this machine.
    Path(std::path::PathBuf),
    /// An object of an object set, which 0 is the pool's own.
    Object {
        /// The object set.
        objset: u64,
        /// The object.
        object: u64,
    },
    /// An entry of an object that is a table, such as a directory.
    Entry {
        /// The object set.
        objset: u64,
        /// The object.
        object: u64,
        /// The name of the entry.
        name: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "pool '{name}'"),
            Self::Dataset(name) | Self::File(name) => f.write_str(name),
            Self::Property(name) => write!(f, "property '{name}'"),
            Self::Device(name) => write!(f, "device '{name}'"),
            Self::Tunable(name) => write!(f, "tunable '{name}'"),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Object { objset, object } => write!(f, "objset {objset} object {object}"),
            Self::Entry { objset, object, name } => {
                write!(f, "objset {objset} object {object} entry '{}'", file(name.as_bytes()))
            }
        }
    }
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why something was not done.
///
/// As text it is what failed and where, without the hint: what can be done is worded by each front
/// end for its user. Most hints come with the kind: what is held can be released.
///
/// ```
/// use engine::{Error, ErrorKind, Hint, OpenOptions, Pool};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let place = folder.path();
/// let opened = Pool::open("no-such-pool", &OpenOptions::in_places([place]));
/// let error = opened.map(drop).map_err(Error::from).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::NoSuchPool { .. }));
/// assert_eq!(error.hint(), Some(&Hint::NamePlaces));
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    place: Option<Place>,
    operand: Option<String>,
    source: Option<Source>,
    hint: Option<Hint>,
}

impl Error {
    /// An error of that kind.
    #[must_use]
    pub fn new(kind: ErrorKind) -> Self {
        let (place, operand, source) = (None, None, None);
        let hint = kind.hint();
        Self(Box::new(Inner { kind, place, operand, source, hint }))
    }

    /// Something outside of pools is not as it should be. An error of the system gets its path
    /// by [`Self::at`], for it names no file.
    #[must_use]
    pub fn external(source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::External).because(source)
    }

    /// A device of a pool fails.
    #[must_use]
    pub fn of_device(pool: &str, cause: device::Error) -> Self {
        pool::Error::Device { pool: pool.to_owned(), cause }.into()
    }

    /// A request that breaks a rule.
    pub(crate) fn against(rule: Rule) -> Self {
        Self::new(ErrorKind::Against(rule))
    }

    /// There is no such dataset.
    pub(crate) fn no_dataset(name: &str) -> Self {
        dsl::Error::NoSuchDataset(name.to_owned()).into()
    }

    /// What sort of failure it is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// The dataset it is about, when its place is one.
    #[must_use]
    pub fn dataset(&self) -> Option<&str> {
        match &self.0.place {
            Some(Place::Dataset(name)) => Some(name),
            _ => None,
        }
    }

    /// Which of several things the operation was at: of an operation on many datasets the one whose
    /// turn it was, which its place may be a part of.
    #[must_use]
    pub fn operand(&self) -> Option<&str> {
        self.0.operand.as_deref()
    }

    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<&Hint> {
        self.0.hint.as_ref()
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Says whose turn it was, unless that was said further down.
    #[must_use]
    pub fn of(mut self, operand: &str) -> Self {
        self.0.operand.get_or_insert_with(|| operand.to_owned());
        self
    }

    /// Says what can be done.
    #[must_use]
    pub fn with_hint(mut self, hint: Hint) -> Self {
        self.0.hint = Some(hint);
        self
    }

    /// Says what can be done, where something can.
    fn hinted(self, hint: Option<Hint>) -> Self {
        match hint {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    /// Says what failed underneath. It says the rest, too: an error with a source is worded as it,
    /// and only that of the system ([`std::io::Error`]) has its path before it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, place, source, .. } = &*self.0;
        match (source, place) {
            (Some(source), Some(place @ Place::Path(_))) if source.is::<std::io::Error>() => {
                write!(f, "{place}: {source}")
            }
            (Some(source), _) => write!(f, "{source}"),
            (None, Some(place)) => write!(f, "{place}: {kind}"),
            (None, None) => write!(f, "{kind}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().and_then(|source| source.source())
    }
}
