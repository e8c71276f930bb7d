//! Looks after the devices of the pool that a server holds: hot spares, devices that are back, new
//! ones in the place of others. What is done is decided in [`engine::upkeep`]; here are the thread
//! that runs it and the words for the log. A thread beside it looks whether the spares that wait
//! and the cache devices are there.

use crate::Held;
use control::Presence;
use engine::LivePool;
use engine::devices::DeviceSource;
use engine::live::NotUsed;
use engine::upkeep::{PoolAccess, Upkeep, UpkeepEvent, UpkeepWork};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the devices are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often spares that wait and cache devices are looked at.
const PROBE: Duration = Duration::from_secs(5);

/// Starts the threads, which open devices by `source`. They end when the pool is gone.
///
/// # Errors
/// A thread cannot be started.
pub fn watch(held: &Arc<Held>, source: &Arc<dyn DeviceSource>) -> std::io::Result<()> {
    let Some(pool) = held.pool() else { return Ok(()) };
    let upkeep = Upkeep::new(pool.rt(), Arc::clone(source));
    drop(pool);
    let source = Arc::clone(source);
    let held = Arc::downgrade(held);
    let begin = |name: &str, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    };
    let idle = Weak::clone(&held);
    begin("idle", Box::new(move || probe(&idle, &*source)))?;
    begin("spares", Box::new(move || run(&held, upkeep)))
}

/// Looks whether what nothing reads is there. A device that hangs holds up this thread alone.
fn probe(held: &Weak<Held>, source: &dyn DeviceSource) {
    let look = || held.upgrade().and_then(|held| held.pool());
    let mut since = PROBE;
    loop {
        std::thread::sleep(LOOK);
        // Not kept over the time that the probe takes.
        let Some(pool) = look() else { return };
        since += LOOK;
        if since < PROBE {
            continue;
        }
        since = Duration::ZERO;
        let mut idle = pool.idle_devices();
        drop(pool);
        idle.probe(source);
        if idle.has_returned() {
            let Some(held) = held.upgrade() else { return };
            let relabel = |pool: &LivePool| pool.relabel_returned(&mut idle);
            // One that fails is found by the next probe again.
            let _ = work(&held, "labelling spares that are back", relabel);
        }
        let Some(pool) = look() else { return };
        pool.note_idle(&idle);
    }
}

fn run(held: &Weak<Held>, mut upkeep: Upkeep) {
    loop {
        std::thread::sleep(LOOK);
        let Some(held) = held.upgrade() else { return };
        let tell = &mut |event| log(held.name(), &event);
        if upkeep.step(&Served(&held), tell).is_none() {
            return;
        }
    }
}

/// Works on the pool of a server, which `shown` says meanwhile. One that is being closed does
/// nothing more.
fn work<T>(held: &Held, shown: &str, work: impl FnOnce(&LivePool) -> T) -> Option<T> {
    let presence = Arc::new(Presence::default());
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    held.work(shown, pid, &presence, |pool| Ok(work(pool))).ok()
}

/// The pool of a server.
struct Served<'a>(&'a Held);

impl PoolAccess for Served<'_> {
    fn look<T>(&self, look: impl FnOnce(&LivePool) -> T) -> Option<T> {
        self.0.pool().map(|pool| look(&pool))
    }

    fn work<T>(&self, what: UpkeepWork, work: impl FnOnce(&LivePool) -> T) -> Option<T> {
        let shown = match what {
            UpkeepWork::UseReturned => "using returned devices",
            UpkeepWork::NoteMoved => "noting where devices are",
            UpkeepWork::TakeSpares => "taking hot spares",
            UpkeepWork::Resilver => "resilvering devices that missed a write",
            UpkeepWork::Expand => "using what devices have grown by",
        };
        self::work(self.0, shown, work)
    }
}

fn log(pool: &str, event: &UpkeepEvent) {
    match event {
        UpkeepEvent::UsedAgain { leaf } => {
            tracing::warn!(target: "zinc::pool", "{pool}: {leaf} is back and used again");
        }
        UpkeepEvent::Moved { leaf, place } => {
            tracing::warn!(target: "zinc::pool", "{pool}: {leaf} is now {}", place.display());
        }
        UpkeepEvent::Replaced { leaf } => {
            tracing::warn!(target: "zinc::pool", "{pool}: {leaf} is replaced by a new device");
        }
        UpkeepEvent::NotUsed { leaf, path, why } => {
            let path = path.display();
            let hint = match why {
                NotUsed::Unfit(_) => {
                    format!("`zinc zpool replace {pool} DEVICE` uses it as a new device")
                }
                NotUsed::Failed(_) => "it is tried again".to_owned(),
                NotUsed::TooSmall { .. } => "a larger one in its place is used".to_owned(),
                _ => format!(
                    "`zinc zpool online {pool} {path}` discards the changes that only it has"
                ),
            };
            tracing::warn!(
                target: "zinc::pool",
                "{pool}: {path} is not used as {leaf}: {why}; {hint}"
            );
        }
        UpkeepEvent::SpareTaken { leaf, spare } => {
            tracing::warn!(target: "zinc::pool", "{pool}: spare {spare} stands in for {leaf}");
        }
        UpkeepEvent::Expanded => {
            tracing::info!(target: "zinc::pool", "{pool}: what its devices have grown by is used");
        }
    }
}
