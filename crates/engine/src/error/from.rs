//! Errors of the floors below as errors of the engine.

use super::{Error, ErrorKind, Hint, InTheWay, Place};
use crate::inventory::HashError;
use pool::Obstacle;
use rt::Cancelled;

impl From<pool::Error> for Error {
    fn from(e: pool::Error) -> Self {
        use pool::Error as P;
        let (kind, place) = match &e {
            P::Search { path, .. } => (ErrorKind::Search, Place::Path(path.clone())),
            P::NoSuchPool { wanted, searched, .. } => {
                let searched = searched.clone();
                (ErrorKind::NoSuchPool { searched }, Place::Pool(wanted.clone()))
            }
            P::Ambiguous { name, .. } => (ErrorKind::AmbiguousPool, Place::Pool(name.clone())),
            P::OwnDevice { path, .. } => (ErrorKind::OwnDevice, Place::Path(path.clone())),
            P::Invalid { .. } => return Self::new(ErrorKind::Invalid).because(e),
            P::Dmu(_) | P::Dsl(_) | P::Zpl(_) => return from_below(e),
            _ => match of_pool(&e) {
                Some((kind, pool)) => (kind, Place::Pool(pool.to_owned())),
                None => return Self::new(ErrorKind::Failed).because(e),
            },
        };
        let hint = match &e {
            P::NoSuchPool { found, .. } if found.is_empty() => Some(Hint::NamePlaces),
            P::NoSuchPool { .. } => Some(Hint::ListPools),
            P::NoUberblock { available, .. } if !available.is_empty() => Some(Hint::ListTxgs),
            P::NotWritable { obstacles, .. } => {
                let is_log = |o: &Obstacle| matches!(o, Obstacle::LogDevice { .. });
                let is_side = |o: &Obstacle| matches!(o, Obstacle::Diverged { .. });
                match () {
                    () if obstacles.iter().all(is_log) => Some(Hint::WithoutLogs),
                    () if obstacles.iter().all(is_side) => Some(Hint::ChooseSide),
                    () => None,
                }
            }
            _ => None,
        };
        let error = Self::new(kind).at(place).because(e);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

impl From<repair::Error> for Error {
    fn from(e: repair::Error) -> Self {
        match e {
            repair::Error::Pool(e) => e.into(),
            repair::Error::Cancelled => Self::new(ErrorKind::Cancelled),
            e => Self::external(e),
        }
    }
}

/// The errors that have a pool as their place.
fn of_pool(e: &pool::Error) -> Option<(ErrorKind, &str)> {
    use pool::Error as P;
    Some(match e {
        P::MissingDevices { pool, .. } => (ErrorKind::MissingDevices, pool),
        P::UnknownFeatures { pool, .. } => (ErrorKind::UnknownFeatures, pool),
        P::NewerVersion { pool, .. } => (ErrorKind::NewerVersion, pool),
        P::NoUberblock { pool, .. } => (ErrorKind::NoUberblock, pool),
        P::RowsMoved { pool, .. } => (ErrorKind::RowsMoved, pool),
        P::NoCheckpoint { pool } => (ErrorKind::NoCheckpoint, pool),
        P::CheckpointExists { pool } => (ErrorKind::CheckpointExists, pool),
        P::CheckpointDiscarding { pool } => (ErrorKind::CheckpointDiscarding, pool),
        P::Damaged { pool, .. } => (ErrorKind::DamagedPool, pool),
        P::Config { pool, .. } => (ErrorKind::BadConfig, pool),
        P::NotWritable { pool, .. } => (ErrorKind::NotWritable, pool),
        P::Destroyed { pool } => (ErrorKind::Destroyed, pool),
        P::ForeignHost { pool, .. } => (ErrorKind::ForeignHost, pool),
        P::InUse { pool } => (ErrorKind::InUse, pool),
        P::Device { pool, .. } => (ErrorKind::Device, pool),
        P::Stopped { pool, .. } => (ErrorKind::Stopped, pool),
        P::Suspended { pool, .. } => (ErrorKind::Suspended, pool),
        P::Displaced { pool, .. } => (ErrorKind::Displaced, pool),
        P::Failed { pool, .. } => (ErrorKind::Failed, pool),
        _ => return None,
    })
}

fn from_below(e: pool::Error) -> Error {
    match e {
        pool::Error::Dmu(e) => e.into(),
        pool::Error::Dsl(e) => e.into(),
        pool::Error::Zpl(e) => e.into(),
        other => Error::new(ErrorKind::Failed).because(other),
    }
}

impl Error {
    /// A name that no dataset can have.
    fn of_name(e: dsl::Error) -> Self {
        let error = Self::new(ErrorKind::InvalidName).with_hint(Hint::NameRules);
        match &e {
            dsl::Error::BadName(name) => error.at(Place::Dataset(name.clone())),
            _ => error,
        }
        .because(e)
    }
}

impl From<dsl::Error> for Error {
    fn from(e: dsl::Error) -> Self {
        use dsl::Error as D;
        let e = match e {
            D::Dmu(e) => return e.into(),
            D::BadName(_) => return Self::of_name(e),
            e => e,
        };
        let (kind, place) = match &e {
            D::NoSuchDataset(name) => (ErrorKind::NotFound, Place::Dataset(name.clone())),
            D::Refused { name, why } => {
                (ErrorKind::Refused(why.clone()), Place::Dataset(name.clone()))
            }
            D::Tree { object, .. } | D::Format { object, .. } => {
                (ErrorKind::Damaged, Place::Object { objset: 0, object: *object })
            }
            D::Key { dataset, .. } => (ErrorKind::BadKey, Place::Dataset(dataset.clone())),
            _ => return Self::new(ErrorKind::Failed).because(e),
        };
        Self::new(kind).at(place).because(e)
    }
}

impl From<dmu::Error> for Error {
    fn from(e: dmu::Error) -> Self {
        use dmu::ErrorKind as K;
        let kind = match &e.kind {
            _ if e.is_no_key() => ErrorKind::NoKey,
            _ if e.is_absent() => ErrorKind::NotFound,
            K::NoSpace => ErrorKind::NoSpace,
            K::Quota => ErrorKind::Quota,
            K::Stopped(_) => ErrorKind::Stopped,
            K::ReadOnly => ErrorKind::ReadOnly,
            K::Exists | K::EntryExists(_) => ErrorKind::Exists,
            K::Unsupported(_) => ErrorKind::Unsupported,
            K::Invalid(_) => ErrorKind::Invalid,
            _ => ErrorKind::Damaged,
        };
        let place = Place::Object { objset: e.objset, object: e.object };
        Self::new(kind).at(place).because(e)
    }
}

impl From<zpl::Error> for Error {
    fn from(e: zpl::Error) -> Self {
        use zpl::Error as Z;
        let e = match e {
            Z::Dmu(e) => return e.into(),
            e => e,
        };
        let kind = match &e {
            Z::NotFound(_) => ErrorKind::NotFound,
            Z::NoXattr(_) => ErrorKind::NoXattr,
            Z::BadName(_) => ErrorKind::InvalidName,
            Z::NameTooLong(_) => ErrorKind::NameTooLong,
            Z::WrongKind { .. } => ErrorKind::WrongKind,
            Z::NotDirectory(_) => ErrorKind::NotDirectory,
            Z::IsDirectory(_) => ErrorKind::IsDirectory,
            Z::TooManyLinks(_) => ErrorKind::TooManyLinks,
            Z::TooManyNames => ErrorKind::TooManyNames,
            Z::OtherProject => ErrorKind::OtherProject,
            Z::Exists(_) => ErrorKind::Exists,
            Z::NotEmpty(_) => ErrorKind::NotEmpty,
            Z::NotPermitted(_) => ErrorKind::NotPermitted,
            Z::ReadOnly => ErrorKind::ReadOnly,
            Z::TooLarge(_) => ErrorKind::TooLarge,
            Z::Unsupported(_) | Z::Version(_) => ErrorKind::Unsupported,
            Z::Format { .. } | Z::NoAttribute { .. } => ErrorKind::Damaged,
            _ => ErrorKind::Invalid,
        };
        let place = match &e {
            Z::NotFound(path)
            | Z::NotDirectory(path)
            | Z::NotSymlink(path)
            | Z::IsDirectory(path)
            | Z::Exists(path)
            | Z::NotEmpty(path) => Some(Place::File(path.clone())),
            _ => None,
        };
        let error = Self::new(kind).because(e);
        match place {
            Some(place) => error.at(place),
            None => error,
        }
    }
}

impl From<Cancelled> for Error {
    fn from(e: Cancelled) -> Self {
        Self::new(ErrorKind::Cancelled).because(e)
    }
}

impl From<HashError> for Error {
    fn from(e: HashError) -> Self {
        match e {
            HashError::Lost(e) => e.into(),
            HashError::Cancelled => Cancelled.into(),
            HashError::Holes(_) => Self::new(ErrorKind::TooLarge).because(e.to_string()),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::external(e)
    }
}

impl From<InTheWay> for Error {
    fn from(what: InTheWay) -> Self {
        Self::new(ErrorKind::InTheWay(what))
    }
}
