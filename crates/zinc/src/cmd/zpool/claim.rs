//! Taking devices for a pool ([`engine::pools::DeviceClaim`]): how long this command waits for the
//! processes that have one, and why one is not taken.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::known;
use crate::refusals::cannot;
use crate::served::Server;
use crate::session::Session;
use engine::config::LabelConfig;
use engine::devices::WriteDeviceRef;
use engine::pools::{
    BusyDevice, Content, DeviceCheck, DeviceClaim, DeviceRefusal, PoolRegistry, pool_of_label,
};
use engine::{Error, ErrorKind, Hint, Place, Rt, Rule};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use views::devices::{INVALID, ONCE};
use views::exit_codes::Stage;

/// Calls `act` with the way to take devices for a pool: not those of active pools, and unless
/// `force` none that hold something.
pub fn with_claim<T>(
    session: &Session,
    force: bool,
    wait: Wait,
    act: impl FnOnce(&DeviceClaim<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (rt, disks, patience) = (Rt::real(), session.devices(), wait.patience(session)?);
    let user = |label: &LabelConfig, is_spare| user(session, label, is_spare);
    let is_inside = |path: &Path| is_in_own_mount(session, path);
    let wait = |busy: &BusyDevice<'_>| match busy.waited() < patience && will_end(busy) {
        true => session.sleep(PAUSE).map_err(|_| Error::new(ErrorKind::Cancelled)),
        false => Err(busy.error()),
    };
    let claim = DeviceClaim::new(&rt, &*disks).by_force(force).unless_used(&user);
    act(&claim.unless_inside(&is_inside).waiting(&wait))
}

/// What is on a device that is to be overwritten, if that may be lost; never what a pool uses here.
pub fn content(
    session: &Session,
    refusal: &str,
    (path, device): (&Path, &WriteDeviceRef),
    may_be_lost: &dyn Fn(&Content) -> bool,
) -> Result<Option<DeviceRefusal>, Failure> {
    let user = |label: &LabelConfig, is_spare| user(session, label, is_spare);
    let check = DeviceCheck { pool: None, force: false, user: &user };
    let Err(why) = check.opened(path, device, false) else { return Ok(None) };
    let failure = Failure::new(refusal).because(format!("it {why}"));
    match &why {
        DeviceRefusal::InPool(pool) => Err(failure.hint(views::devices::give_up(pool))),
        DeviceRefusal::Holds(content) if !may_be_lost(content) => {
            Err(failure.hint("use '-f' to overwrite it"))
        }
        DeviceRefusal::Holds(_) => Ok(Some(why)),
        // Any other device is as good for that.
        _ => Ok(None),
    }
}

/// The same of what is at a path, if it can be opened; it is closed again.
pub fn content_at(
    session: &Session,
    refusal: &str,
    path: &Path,
    may_be_lost: &dyn Fn(&Content) -> bool,
) -> Result<Option<DeviceRefusal>, Failure> {
    let Ok(device) = session.devices().claim(path) else { return Ok(None) };
    let found = content(session, refusal, (path, &device), may_be_lost)?;
    drop(device);
    // The reader that looked at it lets go of it, and of its lock, a moment later.
    let mut pauses = 0..200;
    while session.devices().claim(path).is_err() && pauses.next().is_some() {
        session.sleep(Duration::from_millis(10))?;
    }
    Ok(found)
}

/// The process that has it does not serve a pool: one that does would not end by itself.
fn will_end(busy: &BusyDevice<'_>) -> bool {
    let holder = busy.holder();
    holder.is_some_and(|process| !process.command.iter().any(|word| word == b"serve"))
}

/// The file lies in the served pool itself.
fn is_in_own_mount(session: &Session, path: &Path) -> bool {
    let Some(client) = session.client() else { return false };
    let Ok(file) = std::fs::metadata(session.path(path)) else { return false };
    let is_there = |dir: &Path| std::fs::metadata(dir).is_ok_and(|dir| dir.dev() == file.dev());
    client.mounts.all().iter().any(|mounted| is_there(&mounted.dir))
}

/// Why a device is not taken for `pool`, or for a new one; `None`: the error is another.
pub fn not_taken(pool: Option<&str>, error: &Error) -> Option<Failure> {
    let Some(Place::Path(path)) = error.place() else { return None };
    let path = path.display().to_string();
    let words = |why| Failure::of_words(views::devices::refused(&path, pool, why));
    Some(match error.kind() {
        // One that is too small is for the pool to refuse.
        ErrorKind::DeviceRefused(why @ DeviceRefusal::TooSmall(_)) => words(why),
        ErrorKind::DeviceRefused(why) => words(why).at(Stage::Opening),
        ErrorKind::Device => {
            let failure = Failure::new(format!("cannot open '{path}'")).at(Stage::Opening);
            failure.because(error.to_string())
        }
        _ => return None,
    })
}

/// Why a layout makes no pool, or is not added to one; `doing` as for [`cannot`].
pub fn refused(doing: &str, pool: &str, error: impl Into<engine::Error>) -> Failure {
    let error = error.into();
    let start = format!("cannot {doing} '{pool}'");
    let words = |rule| views::refusals::rule(doing, rule);
    match (error.kind(), error.place()) {
        (ErrorKind::OwnDevice, Some(Place::Path(path))) => Failure::new(INVALID)
            .because(format!("{} is part of active pool '{pool}'", path.display()))
            .because(ONCE),
        (ErrorKind::Mismatched(why), _) => Failure::new(INVALID)
            .because(views::layout::mismatch(*why))
            .hint(views::hints::text(&Hint::Insist)),
        (ErrorKind::Against(rule @ Rule::NoTopLevel), _) => {
            Failure::new(format!("{INVALID}: {}", words(*rule)))
        }
        (ErrorKind::Against(rule @ Rule::NoClasses), _) => Failure::new(format!("{start}: {rule}"))
            .hint("enable it with -o feature@allocation_classes=enabled"),
        (ErrorKind::Against(rule @ Rule::SectorSize), _) => Failure::new(start)
            .because(words(*rule))
            .hint("use '--allow-ashift-mismatch' to override"),
        _ => cannot(doing, pool, error),
    }
}

/// The pool that uses the device with this label here: it is known, or served.
pub fn user(session: &Session, label: &LabelConfig, is_spare: bool) -> Option<String> {
    pool_of_label(label, is_spare, &Here(session))
}

/// The pools that are known here, and those that are served.
struct Here<'a>(&'a Session);

impl PoolRegistry for Here<'_> {
    fn with_device(&self, device: u64, pool: Option<u64>) -> Option<String> {
        let own = pool.and_then(|guid| known::pools(self.0).by_guid(guid));
        let own = own.filter(|known| known.has_device(device));
        own.or_else(|| known::with_device(self.0, device)).map(|known| known.name().to_owned())
    }

    fn held(&self, pool: u64) -> Option<String> {
        Server::all(self.0).into_iter().find(|s| s.guid == pool).map(|server| server.name)
    }
}
