//! Errors of the floors below as errors of the engine.
//!
//! Every one of them has its kind here, place and hint where there is one. The floors' errors are
//! matched without a wildcard: one that is new to a floor is not compiled before it has a kind.

use super::{Conflict, Error, ErrorKind, Hint, Place, ResumeFault, Rule};
use crate::devices::FarName;
use crate::faults::{DeviceRefusal, ImportRefusal, LayoutFault, ObjectRefusal, PoolNameFault};
use dmu::InvalidChange;
use dsl::{KeyError, TokenFault};
use pool::live::TunableError;
use pool::{DeviceFault, Obstacle, PoolRefusal, VdevFault};
use rt::Cancelled;
use zpl::{FileRefusal, Unsupported};

impl From<pool::Error> for Error {
    fn from(e: pool::Error) -> Self {
        use pool::Error as P;
        let of = |pool: &String| Place::Pool(pool.clone());
        let (kind, place) = match &e {
            P::Dmu(below) => return below.clone().into(),
            P::Dsl(below) => return below.clone().into(),
            P::Zpl(below) => return below.clone().into(),
            P::Refused { pool, why } => return of_refusal(pool, why.clone()),
            P::Inconsistent { .. } => return Self::new(ErrorKind::Damaged).because(e),
            P::Search { path, .. } => (ErrorKind::Search, Place::Path(path.clone())),
            P::NoSuchFeature { name } => return of_feature(Rule::NoSuchFeature, name),
            P::UnwrittenFeature { name } => return of_feature(Rule::UnwrittenFeature, name),
            P::OwnDevice { path, .. } => (ErrorKind::OwnDevice, Place::Path(path.clone())),
            P::NoSuchPool { wanted, searched, .. } => {
                let searched = searched.clone();
                (ErrorKind::NoSuchPool { searched }, of(wanted))
            }
            P::Ambiguous { name, .. } => (ErrorKind::AmbiguousPool, of(name)),
            P::MissingDevices { pool, .. } => (ErrorKind::MissingDevices, of(pool)),
            P::UnknownFeatures { pool, .. } => (ErrorKind::UnknownFeatures, of(pool)),
            P::NewerVersion { pool, .. } => (ErrorKind::NewerVersion, of(pool)),
            P::NoUberblock { pool, .. } => (ErrorKind::NoUberblock, of(pool)),
            P::RowsMoved { pool, .. } => (ErrorKind::RowsMoved, of(pool)),
            P::NoCheckpoint { pool } => (ErrorKind::NoCheckpoint, of(pool)),
            P::CheckpointExists { pool } => (ErrorKind::CheckpointExists, of(pool)),
            P::CheckpointDiscarding { pool } => (ErrorKind::CheckpointDiscarding, of(pool)),
            P::Damaged { pool, .. } => (ErrorKind::DamagedPool, of(pool)),
            P::Config { pool, .. } => (ErrorKind::BadConfig, of(pool)),
            P::NotWritable { pool, .. } => (ErrorKind::NotWritable, of(pool)),
            P::Destroyed { pool } => (ErrorKind::Destroyed, of(pool)),
            P::ForeignHost { pool, .. } | P::Elsewhere { pool, .. } => {
                (ErrorKind::ForeignHost, of(pool))
            }
            P::InUse { pool } => (ErrorKind::InUse, of(pool)),
            P::Device { pool, .. } => (ErrorKind::Device, of(pool)),
            P::Stopped { pool, .. } => (ErrorKind::Stopped, of(pool)),
            P::Suspended { pool, .. } => (ErrorKind::Suspended, of(pool)),
            P::Displaced { pool, .. } => (ErrorKind::Displaced, of(pool)),
            P::Failed { pool, .. } => (ErrorKind::Failed, of(pool)),
        };
        let hint = hint_of_pool(&e);
        Self::new(kind).at(place).because(e).hinted(hint)
    }
}

/// A pool does not do what it is asked to: the place is what stands in the way, or the pool where
/// that has no name.
fn of_refusal(pool: &str, why: PoolRefusal) -> Error {
    use PoolRefusal as R;
    let place = match &why {
        R::Devices(
            DeviceFault::NotOpened(name)
            | DeviceFault::NotWhole(name)
            | DeviceFault::Unfit { name, .. }
            | DeviceFault::BelowMinimum { path: name, .. },
        ) => Some(Place::Device(name.clone())),
        R::Devices(DeviceFault::NoPath(guid)) => Some(Place::Device(guid.to_string())),
        R::Layout(VdevFault::AshiftRange(_) | VdevFault::AshiftBelowDevices { .. }) => {
            Some(Place::Property("ashift".to_owned()))
        }
        R::Layout(VdevFault::ExpansionOff) => {
            Some(Place::Property("feature@raidz_expansion".to_owned()))
        }
        R::FeatureNotEnabled(name) => Some(Place::Property(format!("feature@{name}"))),
        R::PropertyTooLong(name) => Some(Place::Property(name.clone())),
        R::Snapshot(name)
        | R::NotFilesystem(name)
        | R::NotVolume(name)
        | R::ChangedInTxg(name)
        | R::LogNotReplayed(name)
        | R::Readable(name)
        | R::UnreadableSnapshots(name)
        | R::UnreadableOrigin(name)
        | R::KeyNeeded(name) => Some(Place::Dataset(name.clone())),
        _ => None,
    };
    let pool = pool.to_owned();
    let place = place.unwrap_or_else(|| Place::Pool(pool.clone()));
    let kind = ErrorKind::PoolRefused(why.clone());
    Error::new(kind).at(place).because(pool::Error::Refused { pool, why })
}

/// A feature may not be enabled.
fn of_feature(rule: Rule, name: &str) -> Error {
    Error::against(rule).at(Place::Property(format!("feature@{name}")))
}

/// What can be done that the kind alone does not say.
fn hint_of_pool(e: &pool::Error) -> Option<Hint> {
    use pool::Error as P;
    match e {
        P::Search { path, .. } => match FarName::parse(path) {
            Some(Ok(name)) if name.is_store() => Some(Hint::CheckStore(path.clone())),
            _ => None,
        },
        P::NoSuchPool { found, .. } if found.is_empty() => Some(Hint::NamePlaces),
        P::NoSuchPool { .. } => Some(Hint::ListPools),
        P::NoUberblock { available, .. } if !available.is_empty() => Some(Hint::ListTxgs),
        P::Suspended { is_taken_over: true, .. } => Some(Hint::LetGo),
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
    }
}

impl From<repair::Error> for Error {
    fn from(e: repair::Error) -> Self {
        match e {
            repair::Error::Pool(e) => e.into(),
            repair::Error::Refused(why) => Self::new(ErrorKind::NotRepaired(why)),
            repair::Error::Device(e) => e.into(),
            repair::Error::Cancelled => Self::new(ErrorKind::Cancelled),
            e @ (repair::Error::File(_) | repair::Error::Undo(_)) => Self::external(e),
        }
    }
}

impl From<device::Error> for Error {
    fn from(e: device::Error) -> Self {
        let place = Place::Path(e.device.as_ref().into());
        Self::new(ErrorKind::Device).at(place).because(e)
    }
}

impl From<ondisk::Error> for Error {
    fn from(e: ondisk::Error) -> Self {
        Self::new(ErrorKind::Damaged).because(e)
    }
}

impl ImportRefusal {
    /// The error of the import of a pool of this name.
    #[must_use]
    pub fn of(self, pool: &str) -> Error {
        let export = (self == Self::Imported).then(|| Hint::ExportFirst(pool.to_owned()));
        let error = Error::new(ErrorKind::NotImported(self)).at(Place::Pool(pool.to_owned()));
        error.hinted(export)
    }
}

impl From<PoolNameFault> for Error {
    fn from(fault: PoolNameFault) -> Self {
        Self::new(ErrorKind::InvalidName).because(fault)
    }
}

impl From<TunableError> for Error {
    fn from(e: TunableError) -> Self {
        use TunableError as T;
        let kind = match &e {
            T::Unknown { .. } => ErrorKind::NotFound,
            T::NotASetting { .. } => ErrorKind::Invalid,
            T::NotAValue { name, text, .. } | T::OutOfRange { name, text, .. } => {
                let (property, value) = ((*name).to_owned(), text.clone());
                ErrorKind::BadValue { property, value }
            }
        };
        let place = match &e {
            T::Unknown { name, .. } => Some(Place::Tunable(name.clone())),
            T::NotAValue { name, .. } | T::OutOfRange { name, .. } => {
                Some(Place::Tunable((*name).to_owned()))
            }
            T::NotASetting { .. } => None,
        };
        let hint = e.like().map_or(Hint::ListTunables, Hint::MeantTunable);
        let error = Self::new(kind).because(e).with_hint(hint);
        match place {
            Some(place) => error.at(place),
            None => error,
        }
    }
}

impl From<LayoutFault> for Error {
    fn from(fault: LayoutFault) -> Self {
        Self::new(ErrorKind::BadLayout(fault))
    }
}

impl From<DeviceRefusal> for Error {
    fn from(why: DeviceRefusal) -> Self {
        Self::new(ErrorKind::DeviceRefused(why))
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
        let (kind, place) = match &e {
            D::Dmu(below) => return below.clone().into(),
            D::BadName(_) => return Self::of_name(e),
            D::NoSuchDataset(name) => (ErrorKind::NotFound, Place::Dataset(name.clone())),
            D::Refused { name, why } => {
                (ErrorKind::Refused(why.clone()), Place::Dataset(name.clone()))
            }
            D::Tree { object, .. } | D::Format { object, .. } => {
                (ErrorKind::Damaged, Place::Object { objset: 0, object: *object })
            }
            D::Key { dataset, error: KeyError::Locked } => {
                (ErrorKind::NoKey, Place::Dataset(dataset.clone()))
            }
            D::Key { dataset, error: KeyError::Wrong } => {
                (ErrorKind::WrongKey, Place::Dataset(dataset.clone()))
            }
            D::Key { dataset, error: KeyError::NotEncrypted } => {
                (ErrorKind::NotEncrypted, Place::Dataset(dataset.clone()))
            }
            D::Key { dataset, .. } => (ErrorKind::BadKey, Place::Dataset(dataset.clone())),
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
            K::Invalid(InvalidChange::NoKey) => ErrorKind::NoKey,
            K::Invalid(_) => ErrorKind::Invalid,
            K::Memory => ErrorKind::TooLarge,
            K::Injected => ErrorKind::Failed,
            // What is absent and can be created was told apart above.
            K::Io(_) | K::Format { .. } | K::Tree(_) | K::WrongType { .. } => ErrorKind::Damaged,
            K::NoObject | K::NoEntry(_) | K::EntryForm(_) => ErrorKind::Damaged,
        };
        let error = Self::new(kind).hinted(hint_of_object(&e.kind));
        match place_of_object(&e) {
            Some(place) => error.at(place),
            None => error,
        }
        .because(e)
    }
}

/// The object that an error is about, or the entry of it that has a name. That the pool is full or
/// has stopped is about no object: the one at hand was only the next.
fn place_of_object(e: &dmu::Error) -> Option<Place> {
    use dmu::ErrorKind as K;
    let (objset, object) = (e.objset, e.object);
    match &e.kind {
        K::NoSpace | K::Quota | K::Memory | K::Stopped(_) => None,
        K::NoEntry(name) | K::EntryExists(name) | K::EntryForm(name) => {
            Some(Place::Entry { objset, object, name: name.clone() })
        }
        _ => Some(Place::Object { objset, object }),
    }
}

/// What can be done about a set that is read and not written: its form stays, but what is in it can
/// be had in today's.
fn hint_of_object(kind: &dmu::ErrorKind) -> Option<Hint> {
    use dmu::Unsupported as U;
    let dmu::ErrorKind::Unsupported(what) = kind else { return None };
    Some(match what {
        U::NoFeatureFlags | U::OldDeadlist => Hint::OpenReadonly,
        // A set of a form that a newer `dmu` learns to refuse can be copied, too.
        _ => Hint::CopyToNew,
    })
}

impl Error {
    /// Why an object was not changed, when that is what failed underneath.
    #[must_use]
    pub fn object_refusal(&self) -> Option<ObjectRefusal> {
        let below = self.0.source.as_deref()?.downcast_ref::<dmu::Error>()?;
        match below.kind {
            dmu::ErrorKind::Invalid(rule) => Some(ObjectRefusal::Invalid(rule)),
            dmu::ErrorKind::Unsupported(what) => Some(ObjectRefusal::Unsupported(what)),
            _ => None,
        }
    }
}

impl From<zpl::Error> for Error {
    fn from(e: zpl::Error) -> Self {
        use zpl::Error as Z;
        let kind = match &e {
            Z::Dmu(below) => return below.clone().into(),
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
            Z::ReadOnly => ErrorKind::ReadOnly,
            Z::Refused(why) => ErrorKind::FileRefused(*why),
            Z::Version(_) => ErrorKind::Unsupported,
            Z::Format { .. } | Z::NoAttribute { .. } => ErrorKind::Damaged,
            Z::Loop | Z::NotSymlink(_) => ErrorKind::Invalid,
        };
        let place = match &e {
            Z::NotFound(path)
            | Z::BadName(path)
            | Z::NameTooLong(path)
            | Z::TooManyLinks(path)
            | Z::NotDirectory(path)
            | Z::NotSymlink(path)
            | Z::IsDirectory(path)
            | Z::Exists(path)
            | Z::NotEmpty(path) => Some(Place::File(path.clone())),
            Z::Format { object, .. } | Z::NoAttribute { object, .. } => {
                Some(Place::File(object.to_string()))
            }
            Z::Refused(FileRefusal::Unsupported(Unsupported::XattrOff)) => {
                Some(Place::Property("xattr".to_owned()))
            }
            Z::Refused(FileRefusal::Unsupported(Unsupported::AclOff)) => {
                Some(Place::Property("acltype".to_owned()))
            }
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

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::external(e)
    }
}

impl From<Conflict> for Error {
    fn from(what: Conflict) -> Self {
        Self::new(ErrorKind::Conflict(what))
    }
}

impl From<TokenFault> for Error {
    fn from(fault: TokenFault) -> Self {
        Self::new(ErrorKind::NotResumed(ResumeFault::Token(fault)))
    }
}
