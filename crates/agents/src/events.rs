//! Events of the pool that is served: a line of the log for each change of state, and a command of
//! the administrator's for each event, as OpenZFS's daemon zed has.
//!
//! # Theory
//!
//! One thread waits for events and logs them; once a second it looks for changes that nothing
//! reports, as described for events in `engine`. Another one starts the command (`--hook`), so that
//! a command that hangs does not keep the log waiting.
//!
//! The command (`--hook`) is run as described in `control::hook`. Events wait for it in the pool's
//! own memory; if more come than that keeps, the number of those skipped is logged. When the pool
//! is let go, the last events (its export) are still reported, for [`AT_END`].

use crate::Held;
use control::hook::Hook;
use engine::live::{Event, Events};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use views::events::{Weight, environment, log_line, replay_line};

/// How often it is looked for what nothing reports.
const LOOK: Duration = Duration::from_secs(1);
/// How often to check whether the last events are reported.
const BETWEEN: Duration = Duration::from_millis(20);
/// How long the end of the server waits for the last events to be reported.
const AT_END: Duration = Duration::from_secs(5);

/// The threads that tell.
pub struct EventThreads(Vec<JoinHandle<()>>);

/// Starts reporting events: to the log, and to the command `hook`.
///
/// # Errors
/// A thread cannot be started.
pub fn watch(held: &Arc<Held>, hook: Option<PathBuf>) -> std::io::Result<Option<EventThreads>> {
    let Some(events) = held.pool().map(|pool| pool.events()) else { return Ok(None) };
    let begin = |name: &str, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(run)
    };
    let (held, kept) = (Arc::downgrade(held), Arc::clone(&events));
    let mut threads = vec![begin("events", Box::new(move || log_new(&held, &kept)))?];
    if let Some(program) = hook {
        threads.push(begin("hook", Box::new(move || run(&events, program)))?);
    }
    Ok(Some(EventThreads(threads)))
}

/// Logs which intent logs were replayed when the pool was opened.
pub fn log_replays(held: &Held) {
    for (dataset, report) in held.pool().map(|pool| pool.replayed_logs()).unwrap_or_default() {
        replay_line(&dataset, report.applied, report.problem()).into_iter().for_each(write);
    }
}

impl EventThreads {
    /// The pool is gone: waits until its last events are reported, but not for long.
    pub fn finish(self) {
        let until = Instant::now() + AT_END;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(BETWEEN);
        }
    }
}

fn log_new(held: &Weak<Held>, events: &Events) {
    let followed = events.follow(LOOK, |new, passed| {
        if passed > 0 {
            tracing::warn!(target: "zinc::pool", "{passed} events came too fast to be logged");
        }
        new.iter().for_each(log);
        if let Some(pool) = held.upgrade().and_then(|held| held.pool()) {
            drop(pool.events());
        }
        Ok(())
    });
    followed.unwrap_or_else(|never: Infallible| match never {});
}

fn run(events: &Events, program: PathBuf) {
    let mut hook = Hook::new(program);
    let run = events.follow(LOOK, |new, passed| {
        if passed > 0 {
            tracing::warn!(target: "zinc::pool", "{passed} events came too fast for the hook");
        }
        new.iter().for_each(|event| hook.run(environment(event, std::process::id())));
        hook.reap();
        Ok(())
    });
    run.unwrap_or_else(|never: Infallible| match never {});
}

fn log(event: &Event) {
    write(log_line(event));
}

fn write((weight, text): (Weight, String)) {
    match weight {
        Weight::Error => tracing::error!(target: "zinc::pool", "{text}"),
        Weight::Warning => tracing::warn!(target: "zinc::pool", "{text}"),
        Weight::Note => tracing::info!(target: "zinc::pool", "{text}"),
        Weight::Detail => tracing::debug!(target: "zinc::pool", "{text}"),
    }
}
