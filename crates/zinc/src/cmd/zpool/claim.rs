//! Taking devices for a pool: they are opened for this process alone, and what is on them is looked
//! at first, so that nothing of value is overwritten by a slip.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::known;
use crate::queue::holder;
use crate::refusals::cannot;
use crate::served::Server;
use crate::session::Session;
use engine::config::LabelConfig;
use engine::devices::{self, AnyDevices, DeviceErrorKind, DeviceSource as _, WriteDeviceRef};
use engine::layout::Layout;
use engine::live::{Devices, VdevSpec};
use engine::pools::{DeviceCheck, PoolRegistry, pool_of_label};
use engine::{ErrorKind, Hint, Place, Pool, Rule};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use views::devices::{INVALID, ONCE, system_use};
use views::exit_codes::Stage;

/// Opens every device of a layout for a pool, or for a new one. Refuses those of active pools, and
/// unless `force` all that hold something.
pub fn claim(
    session: &Session,
    layout: &Layout,
    pool: Option<&Pool>,
    force: bool,
    wait: Wait,
) -> Result<Devices, Failure> {
    let (began, patience) = (Instant::now(), wait.patience(session)?);
    let disks = AnyDevices::default();
    let user = |label: &LabelConfig, is_spare| user(session, label, is_spare);
    let check = DeviceCheck { pool, force, user: &user };
    let mut out = Devices::new();
    let spares: Vec<&str> = layout.spares.iter().flat_map(VdevSpec::leaves).collect();
    for path in layout.paths() {
        let refused =
            |why| Failure::of_words(views::devices::refused(path, pool.map(Pool::name), &why));
        refuse_own_file(session, path)?;
        check.by_name(Path::new(path)).map_err(refused)?;
        let device = loop {
            match open(&disks, path) {
                // A command that is about to end may have it.
                Err(_) if is_locked(path) && began.elapsed() < patience => session.sleep(PAUSE)?,
                other => break other?,
            }
        };
        check.opened(Path::new(path), &device, spares.contains(&path)).map_err(refused)?;
        out.insert(path.to_owned(), device);
    }
    Ok(out)
}

/// A file that lies in the served pool itself would wait for the pool, and the pool for it.
fn refuse_own_file(session: &Session, path: &str) -> Result<(), Failure> {
    let Some(client) = session.client() else { return Ok(()) };
    let Ok(file) = std::fs::metadata(session.path(Path::new(path))) else { return Ok(()) };
    let is_there = |dir: &Path| std::fs::metadata(dir).is_ok_and(|dir| dir.dev() == file.dev());
    match client.mounts.all().iter().any(|mounted| is_there(&mounted.dir)) {
        true => Err(Failure::new(format!("cannot use '{path}'"))
            .because("it is a file in the pool itself")
            .hint("a pool cannot be stored in itself")),
        false => Ok(()),
    }
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

/// Another process of ours has it, and no server: that one does not end by itself.
fn is_locked(path: &str) -> bool {
    let process = devices::locked_by(&[PathBuf::from(path)]);
    process.is_some_and(|process| !process.command.iter().any(|word| word == b"serve"))
}

/// Opens one device for this process alone.
pub fn open(disks: &AnyDevices, path: &str) -> Result<WriteDeviceRef, Failure> {
    disks.claim(Path::new(path)).map_err(|e| match e.kind {
        DeviceErrorKind::InUse => {
            let locked = || Some(format!("{} has it", holder(&[PathBuf::from(path)])?));
            let by = devices::use_by_system(Path::new(path)).map(|by| system_use(&by));
            let holder = by.or_else(locked);
            Failure::opening(path, "Device or resource busy")
                .because(holder.unwrap_or_else(|| "another program writes to it".to_owned()))
        }
        _ => {
            Failure::new(format!("cannot open '{path}'")).at(Stage::Opening).because(e.to_string())
        }
    })
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
