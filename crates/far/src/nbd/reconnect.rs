//! The thread that keeps a device connected.

use super::core::{Core, LinkEvent};
use super::link::{Link, connect, is_the_same, receive, send_disconnect, send_jobs};
use super::negotiate::{ExportInfo, Failed};
use super::{LINKS, LINKS_TO_READ};
use crate::name::Name;
use device::ErrorKind;
use nbdwire::transmission;
use rt::{Rt, Task};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long one try to connect may take, at least.
const CONNECTING: Duration = Duration::from_secs(5);
/// Who lets a server be silent for long lets it begin as slowly: one try may take this part of it.
const OF_SILENCE: u32 = 6;
/// Between two tries: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long one try to connect may take, and to read the first bytes.
pub(super) fn connecting(name: &Name) -> Duration {
    CONNECTING.max(name.silence / OF_SILENCE).min(name.silence)
}

/// Connects as often as is of use.
pub(super) fn connect_all(name: &Name, is_writer: bool) -> Result<Vec<Link>, Failed> {
    let within = connecting(name);
    let first = connect(name, within)?;
    let wanted = match first.agreed.has(transmission::MULTI_CONN) {
        true if is_writer => LINKS,
        true => LINKS_TO_READ,
        false => 1,
    };
    let agreed = first.agreed;
    let mut links = vec![first];
    while links.len() < wanted {
        // A server that lets in no more is served by those that there are.
        let Ok(next) = connect(name, within) else { break };
        if next.agreed != agreed {
            return Err(CHANGED);
        }
        links.push(next);
    }
    Ok(links)
}

const CHANGED: Failed = Failed::Refused("the size or the abilities of the export have changed");
const OTHER: ErrorKind = ErrorKind::Refused(
    "data flushed to the export is missing: it is another export, or has lost data",
);

/// Keeps the device connected until it is dead or not needed any more.
pub(super) fn keep(core: &Arc<Core>, links: Vec<Link>) {
    let mut threads = match start(core, links) {
        Ok(threads) => threads,
        Err(e) => return core.fail_for_good(ErrorKind::from_io(&e)),
    };
    let mut pause = PAUSE;
    loop {
        let trouble = core.wait_for_disconnect();
        match trouble {
            LinkEvent::Over => core.lines().iter().for_each(|line| send_disconnect(&**line)),
            LinkEvent::Silent => core.fail_for_good(ErrorKind::NoAnswer),
            LinkEvent::Broken => {}
        }
        if !matches!(trouble, LinkEvent::Broken) {
            core.fail_for_good(ErrorKind::Gone);
        }
        for thread in threads.drain(..) {
            // One that panicked has ended too.
            let _ = thread.join();
        }
        if !matches!(trouble, LinkEvent::Broken) {
            return;
        }
        // A server that breaks each connection is not asked for one after the other.
        let before = core.is_stuck().then_some(pause);
        pause = before.map_or(PAUSE, |pause| (pause * 2).min(PAUSE_MAX));
        match come_back(core, before)
            .and_then(|links| start(core, links).map_err(|e| ErrorKind::from_io(&e)))
        {
            Ok(started) => threads = started,
            Err(kind) => return core.fail_for_good(kind),
        }
    }
}

/// Connects again, to what was there before; after a pause, when there is to be one.
fn come_back(core: &Core, before: Option<Duration>) -> Result<Vec<Link>, ErrorKind> {
    if before.is_some_and(|pause| !core.wait_for_next_try(pause)) {
        return Err(ErrorKind::Gone);
    }
    let mut pause = PAUSE;
    loop {
        if let Some(links) = try_again(core)? {
            return Ok(links);
        }
        if !core.wait_for_next_try(pause) {
            return Err(ErrorKind::Gone);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One try; `None` when another may succeed.
fn try_again(core: &Core) -> Result<Option<Vec<Link>>, ErrorKind> {
    let Ok(mut links) = connect_all(&core.name, core.is_writer) else { return Ok(None) };
    let Some(first) = links.first_mut() else { return Ok(None) };
    if let Failed::Refused(why) = CHANGED
        && first.agreed != core.agreed
    {
        return Err(ErrorKind::Refused(why));
    }
    match is_the_same(first, &core.samples(), core.name.silence) {
        Ok(true) => Ok(Some(links)),
        Ok(false) => Err(OTHER),
        Err(_) => Ok(None),
    }
}

/// Starts the threads of connections.
fn start(core: &Arc<Core>, links: Vec<Link>) -> io::Result<Vec<Task<()>>> {
    let generation = core.connect(links.iter().map(|link| Arc::clone(&link.line)).collect());
    let mut threads = Vec::new();
    for (n, Link { line, input, .. }) in links.into_iter().enumerate() {
        let (own, to) = (Arc::clone(core), Arc::clone(&line));
        let send = move || send_jobs(&own, (n, generation), &*to);
        threads.push(Rt::real().spawn("nbd send", send)?);
        let own = Arc::clone(core);
        let receive = move || receive(&own, (n, generation), &*line, input);
        threads.push(Rt::real().spawn("nbd receive", receive)?);
    }
    Ok(threads)
}

/// What an export says of itself, judged for a device that is to be written to.
pub(super) fn may_write(agreed: &ExportInfo) -> Result<(), ErrorKind> {
    if agreed.has(transmission::READ_ONLY) {
        return Err(ErrorKind::Io { errno: libc::EROFS });
    }
    match agreed.has(transmission::FLUSH) {
        true => Ok(()),
        false => Err(ErrorKind::Refused("the server cannot flush, so that no write would be safe")),
    }
}
