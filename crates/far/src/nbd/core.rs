//! What all threads of a client share: requests that wait, that are under way, and that were
//! answered and not flushed.

use super::KEPT_MAX;
use super::negotiate::ExportInfo;
use super::request::{Call, DueCompletion, Job};
use super::unflushed::{Data, Unflushed};
use crate::name::Name;
use device::ErrorKind;
use device::backend::{Counters, delivering};
use nbdwire::{Command, Connection, transmission};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Requests that may wait before callers do.
const WAITING_MAX: usize = 4096;
/// Requests of one connection that are under way, at most, and their bytes. Servers carry out 16 or
/// so at a time, and the rest must not be waited for.
const WINDOW: usize = 64;
const WINDOW_BYTES: usize = 16 << 20;
/// Requests that are sent with one call.
const AT_ONCE: usize = 16;
/// How far writes that may not be sent now are passed by others.
const PASSED_MAX: usize = 256;

/// A client.
pub(super) struct Core {
    pub(super) name: Name,
    pub(super) shown: Arc<str>,
    pub(super) agreed: ExportInfo,
    /// It is written to.
    pub(super) is_writer: bool,
    pub(super) counters: Counters,
    state: Mutex<State>,
    /// Told when there is something to send, or never will be by this connection.
    work: Condvar,
    /// Told when fewer requests wait.
    room: Condvar,
    /// Told when the keeper has to look.
    trouble: Condvar,
    /// Takes answers to the thread that gives them.
    answers: Sender<DueCompletion>,
}

/// Where a client is: see the theory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Down,
    Again,
    Connected,
    Dead(ErrorKind),
}

pub(super) struct State {
    phase: Phase,
    /// Counts connections: what a thread of an earlier one wants is over.
    generation: u64,
    links: Vec<LinkState>,
    waiting: VecDeque<Arc<Job>>,
    /// What is to be sent again, and how much of it was not answered.
    again: VecDeque<Arc<Job>>,
    again_left: usize,
    kept: Unflushed,
    /// Bytes of writes that are under way.
    writing: u64,
    /// A flush of the client's own waits or is under way.
    is_flushing: bool,
    /// A flush failed: none succeeds any more.
    has_lost: bool,
    next_cookie: u64,
    /// When a server last said something, or was first asked.
    heard: Instant,
    /// Since when a caller waits for an answer, and connections break or are not there.
    wanted: Option<Instant>,
    /// A caller was answered by the connections that are used, or that were.
    is_answering: bool,
    /// The connections that broke last brought nothing: see [`State::break_off`].
    is_stuck: bool,
    /// The keeper need not look before something is sent.
    is_quiet: bool,
    /// The device was dropped.
    is_closing: bool,
    /// What keeps other programs of this machine away.
    lock: Option<File>,
}

struct LinkState {
    line: Arc<dyn Connection>,
    under_way: HashMap<u64, Arc<Job>>,
    bytes: usize,
}

/// What the keeper finds.
pub(super) enum LinkEvent {
    /// A connection broke.
    Broken,
    /// The server says nothing.
    Silent,
    /// The device is not needed any more, and everything was answered.
    Over,
}

impl State {
    fn new(lock: Option<File>) -> Self {
        Self {
            phase: Phase::Down,
            generation: 0,
            links: Vec::new(),
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            again_left: 0,
            kept: Unflushed::default(),
            writing: 0,
            is_flushing: false,
            has_lost: false,
            next_cookie: 0,
            heard: Instant::now(),
            wanted: None,
            is_answering: false,
            is_stuck: false,
            is_quiet: false,
            is_closing: false,
            lock,
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.again_left == 0 && self.links.iter().all(LinkState::is_idle)
    }

    /// A write may go: the client could keep it.
    fn may_send(&self, job: &Job) -> bool {
        let bytes = self.kept.bytes() + self.writing;
        !job.is_write() || bytes == 0 || bytes + job.len as u64 <= KEPT_MAX
    }

    /// The next request that may be sent.
    fn next(&mut self) -> Option<Arc<Job>> {
        match self.phase {
            Phase::Again => self.again.pop_front(),
            Phase::Connected => {
                if self.kept.bytes() + self.writing > KEPT_MAX / 2 && !self.is_flushing {
                    self.is_flushing = true;
                    return Some(Job::flush(self.kept.mark(), None));
                }
                let may = self.waiting.iter().take(PASSED_MAX).position(|job| self.may_send(job));
                self.waiting.remove(may?)
            }
            Phase::Down | Phase::Dead(_) => None,
        }
    }

    /// Takes requests for a connection, and notes that they are under way.
    fn take(&mut self, link: usize) -> Vec<(u64, Arc<Job>)> {
        let mut out = Vec::new();
        if self.links.iter().all(LinkState::is_idle) {
            self.heard = Instant::now();
        }
        while out.len() < AT_ONCE && self.links.get(link).is_some_and(LinkState::has_room) {
            let Some(job) = self.next() else { break };
            if job.is_write() {
                self.kept.will_change(job.offset, job.len);
                if job.whole.is_some() {
                    self.writing += job.len as u64;
                }
            }
            let cookie = self.next_cookie;
            self.next_cookie += 1;
            let Some(link) = self.links.get_mut(link) else { break };
            link.bytes += job.carried();
            link.under_way.insert(cookie, Arc::clone(&job));
            out.push((cookie, job));
        }
        out
    }

    /// A flush with this mark has succeeded.
    fn flushed(&mut self, mark: u64) {
        let jobs = self.links.iter().flat_map(|link| link.under_way.values());
        let writes = jobs.filter(|job| job.is_write());
        let changing: Vec<_> = writes.map(|job| (job.offset, job.len)).collect();
        self.kept.flushed(mark, &changing);
    }

    /// No connection is used any more; what was under way waits again.
    ///
    /// A server that is there may break every connection, at a request that it does not like. So
    /// the time that the name grants does not begin anew with each: it counts from the first
    /// connection that broke under the oldest request, or since which no request was answered,
    /// whichever was earlier. Others may be answered meanwhile.
    fn break_off(&mut self) {
        self.generation += 1;
        let now = Instant::now();
        let mut back: Vec<(u64, Arc<Job>)> = Vec::new();
        for link in self.links.drain(..) {
            link.line.hang_up();
            back.extend(link.under_way);
        }
        back.sort_unstable_by_key(|(cookie, _)| *cookie);
        // What was sent again is sent again once more, from what is kept.
        (self.again_left, self.writing) = (0, 0);
        self.again.clear();
        let of_callers = |job: &Arc<Job>| job.whole.is_some() || job.command == Command::Flush;
        for (_, job) in back.into_iter().rev().filter(|(_, job)| of_callers(job)) {
            job.broken_since.get_or_init(|| now);
            self.waiting.push_front(job);
        }
        let oldest = self.waiting.iter().filter_map(|job| job.broken_since.get()).min().copied();
        let waits = oldest.or_else(|| self.waiting.front().map(|_| now));
        self.wanted = self.wanted.into_iter().chain(waits).min();
        self.is_stuck = !self.is_answering || oldest.is_some_and(|since| since < now);
        self.is_answering = false;
    }
}

impl LinkState {
    fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    fn has_room(&self) -> bool {
        self.is_idle() || (self.under_way.len() < WINDOW && self.bytes < WINDOW_BYTES)
    }
}

impl Core {
    pub(super) fn new(
        name: Name,
        agreed: ExportInfo,
        is_writer: bool,
        lock: Option<File>,
        answers: Sender<DueCompletion>,
    ) -> Self {
        Self {
            shown: Arc::from(name.as_str()),
            name,
            agreed,
            is_writer,
            counters: Counters::default(),
            state: Mutex::new(State::new(lock)),
            work: Condvar::new(),
            room: Condvar::new(),
            trouble: Condvar::new(),
            answers,
        }
    }

    /// Lets requests wait for a connection; waits while there are many. When the device is dead
    /// they fail.
    pub(super) fn push(&self, jobs: Vec<Arc<Job>>) {
        let mut state = self.state.lock();
        if !delivering() {
            let is_full = |s: &mut State| {
                s.waiting.len() >= WAITING_MAX && !matches!(s.phase, Phase::Dead(_))
            };
            self.room.wait_while(&mut state, is_full);
        }
        if let Phase::Dead(kind) = state.phase {
            drop(state);
            return jobs.iter().for_each(|job| self.answer(job.end(Err(kind))));
        }
        if state.phase == Phase::Down {
            state.wanted.get_or_insert_with(Instant::now);
        }
        state.waiting.extend(jobs);
        drop(state);
        self.work.notify_all();
    }

    /// Asks for a flush of all that was acknowledged; `None` when none can succeed.
    pub(super) fn push_flush(&self, answer: super::request::Completion) -> Result<(), ErrorKind> {
        let job = {
            let state = self.state.lock();
            if state.has_lost {
                return Err(ErrorKind::Io { errno: libc::EIO });
            }
            Job::flush(state.kept.mark(), Some(answer))
        };
        self.push(vec![job]);
        Ok(())
    }

    /// Gives an answer, or has it given.
    fn answer(&self, due: Option<DueCompletion>) {
        match due {
            Some(due) if due.call == Call::Later => {
                // Without that thread the process ends.
                let _ = self.answers.send(due);
            }
            Some(due) => due.deliver(),
            None => {}
        }
    }

    /// The next requests for a connection; waits for them. `None` when the connection is over.
    pub(super) fn take(&self, link: usize, generation: u64) -> Option<Vec<(u64, Arc<Job>)>> {
        let mut state = self.state.lock();
        loop {
            if state.generation != generation {
                return None;
            }
            let was_full = state.waiting.len() >= WAITING_MAX;
            let jobs = state.take(link);
            if jobs.is_empty() {
                self.work.wait(&mut state);
                continue;
            }
            if was_full && state.waiting.len() < WAITING_MAX {
                self.room.notify_all();
            }
            if std::mem::take(&mut state.is_quiet) {
                self.trouble.notify_one();
            }
            return Some(jobs);
        }
    }

    /// The request that a reply is to; `None` when there is none.
    pub(super) fn under_way(&self, link: usize, generation: u64, cookie: u64) -> Option<Arc<Job>> {
        let state = self.state.lock();
        let link = state.links.get(link).filter(|_| state.generation == generation)?;
        link.under_way.get(&cookie).cloned()
    }

    /// A request was answered. Whether the connection is still used.
    pub(super) fn answered(
        &self,
        (link, generation): (usize, u64),
        cookie: u64,
        result: Result<(), ErrorKind>,
    ) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let Some(link) = state.links.get_mut(link) else { return false };
        let Some(job) = link.under_way.remove(&cookie) else { return false };
        link.bytes -= job.carried();
        state.heard = Instant::now();
        if job.whole.is_some() {
            (state.wanted, state.is_answering) = (None, true);
        }
        let mut fatal = None;
        match (job.command, job.whole.is_some()) {
            (Command::Flush, is_whole) => {
                state.is_flushing &= is_whole;
                match result {
                    Ok(()) => state.flushed(job.mark),
                    Err(_) => state.has_lost = true,
                }
            }
            (Command::Write | Command::WriteZeroes, true) => {
                state.writing -= job.len as u64;
                if result.is_ok() {
                    state.kept.add(job.offset, job.len, job.data.clone());
                }
            }
            (Command::Write | Command::WriteZeroes, false) => {
                state.again_left = state.again_left.saturating_sub(1);
                fatal = result.err();
                if state.again_left == 0 {
                    state.phase = Phase::Connected;
                }
            }
            _ => {}
        }
        let is_over = state.is_closing && state.is_idle();
        let has_work = !state.waiting.is_empty() || !state.again.is_empty();
        drop(state);
        if has_work {
            self.work.notify_all();
        }
        if is_over {
            self.trouble.notify_one();
        }
        self.answer(job.end(result));
        if let Some(kind) = fatal {
            self.fail_for_good(kind);
        }
        true
    }

    /// A connection does not work.
    pub(super) fn break_off(&self, generation: u64) {
        let mut state = self.state.lock();
        if state.generation != generation || matches!(state.phase, Phase::Dead(_)) {
            return;
        }
        state.phase = Phase::Down;
        state.break_off();
        drop(state);
        self.work.notify_all();
        self.trouble.notify_one();
    }

    /// Uses new connections, after what is kept was sent again by them. Their generation.
    pub(super) fn connect(&self, lines: Vec<Arc<dyn Connection>>) -> u64 {
        let mut state = self.state.lock();
        let link = |line| LinkState { line, under_way: HashMap::new(), bytes: 0 };
        state.links = lines.into_iter().map(link).collect();
        let can_zero = self.agreed.has(transmission::WRITE_ZEROES);
        let mut again = VecDeque::new();
        for (offset, len, data) in state.kept.all() {
            let payload = self.agreed.payload as usize;
            for at in (0..len).step_by(payload) {
                let n = payload.min(len - at);
                let (data, can_zero) = match data.slice(at, at + n) {
                    Data::Zeros if !can_zero => (zeros(n), false),
                    data => (data, can_zero),
                };
                again.push_back(Job::again(offset + at as u64, n, data, can_zero));
            }
        }
        state.again_left = again.len();
        state.again = again;
        state.phase = if state.again_left == 0 { Phase::Connected } else { Phase::Again };
        state.heard = Instant::now();
        state.generation
    }

    /// No request succeeds any more, and other programs may have the leaf.
    pub(super) fn fail_for_good(&self, kind: ErrorKind) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Dead(_)) {
            return;
        }
        state.break_off();
        state.phase = Phase::Dead(kind);
        state.lock = None;
        state.kept = Unflushed::default();
        let lost: Vec<_> = state.waiting.drain(..).collect();
        drop(state);
        self.work.notify_all();
        self.room.notify_all();
        self.trouble.notify_one();
        lost.iter().for_each(|job| self.answer(job.end(Err(kind))));
    }

    /// The device was dropped: it ends when all was answered.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.trouble.notify_one();
    }

    /// Waits until the connections are over.
    pub(super) fn wait_for_disconnect(&self) -> LinkEvent {
        let mut state = self.state.lock();
        loop {
            if matches!(state.phase, Phase::Dead(_)) {
                return LinkEvent::Over;
            }
            if state.phase == Phase::Down {
                return LinkEvent::Broken;
            }
            if state.is_closing && state.is_idle() {
                return LinkEvent::Over;
            }
            let is_busy = state.links.iter().any(|link| !link.is_idle());
            if !is_busy {
                state.is_quiet = true;
                self.trouble.wait(&mut state);
                continue;
            }
            let silence = self.name.silence;
            if state.heard.elapsed() >= silence {
                return LinkEvent::Silent;
            }
            // Not to the moment: what is heard meanwhile does not wake it.
            self.trouble.wait_for(&mut state, silence / 8);
        }
    }

    /// The lines that are in use, for a last word.
    pub(super) fn lines(&self) -> Vec<Arc<dyn Connection>> {
        self.state.lock().links.iter().map(|link| Arc::clone(&link.line)).collect()
    }

    /// A try to connect failed, or what it brought: waits for the next. Whether there is to be one.
    pub(super) fn wait_for_next_try(&self, pause: std::time::Duration) -> bool {
        let mut state = self.state.lock();
        let is_over = |state: &State| {
            let is_late = state.wanted.is_some_and(|since| since.elapsed() >= self.name.silence);
            is_late || (state.is_closing && state.is_idle())
        };
        if is_over(&state) {
            return false;
        }
        self.trouble.wait_for(&mut state, pause);
        !is_over(&state)
    }

    /// The connections that broke last brought nothing: the next ones may be like them.
    pub(super) fn is_stuck(&self) -> bool {
        self.state.lock().is_stuck
    }

    /// What must be on the device.
    pub(super) fn samples(&self) -> Vec<super::unflushed::Sample> {
        self.state.lock().kept.samples()
    }

    /// What was read is known to be on the device, until it is written to.
    pub(super) fn add_sample(&self, sample: super::unflushed::Sample) {
        self.state.lock().kept.add_sample(sample);
    }
}

/// Zeros as bytes.
fn zeros(len: usize) -> Data {
    Data::Parts(vec![device::Shared::copy_of(&vec![0; len])])
}
