//! The connections that a server has: how many are open at once, which one makes room, and how all
//! of them end.
//!
//! # Making room
//!
//! A connection costs a thread, so there is a largest number of them. Those that only wait must not
//! keep out those that ask. So when another one comes and all places are taken, one is hung up:
//! first one that has sent no request at all, and then one that has sent none since its last
//! answer; of several the one that has waited longest. (Bytes that are not a whole request do not
//! count.) Where all are being answered the new one is refused.
//!
//! A connection that has just come in may have its request under way. It is spared for a moment,
//! and the new connection waits for the end of that.
//!
//! # Stopping
//!
//! A server that stops closes its register: no connection is admitted any more, and each connection
//! is asked to end in the same step, so that none slips in between. Then it waits until all have
//! gone.
//!
//! **Invariant:** knows nothing of what connections carry; what is hung up is forgotten at once,
//! and is told so when it begins with a request.
#![forbid(unsafe_code)]

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that can be ended from outside of its thread.
pub trait Disconnect {
    /// Nothing more is read or written.
    fn hang_up(&self);
}

impl Disconnect for std::os::unix::net::UnixStream {
    fn hang_up(&self) {
        // Where it has ended already nothing is left to do.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Disconnect for std::net::TcpStream {
    fn hang_up(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl<T: Disconnect> Disconnect for Arc<T> {
    fn hang_up(&self) {
        (**self).hang_up();
    }
}

/// All that are connected.
pub struct Connections<S> {
    max: usize,
    /// A connection that has waited no longer than this is not hung up.
    spared: Duration,
    open: Mutex<Open<S>>,
    /// A connection ended.
    ended: Condvar,
}

struct Open<S> {
    connections: Vec<Connection<S>>,
    next: u64,
    is_closed: bool,
}

impl<S> Open<S> {
    /// The one that makes room before all others: since when it waits, and its place.
    fn first_to_go(&self) -> Option<(Instant, usize)> {
        let waiting = |(at, g): (usize, &Connection<S>)| Some((g.is_used, g.waits_since?, at));
        let first = self.connections.iter().enumerate().filter_map(waiting).min();
        first.map(|(_, since, at)| (since, at))
    }
}

struct Connection<S> {
    number: u64,
    stream: S,
    /// It has sent a request.
    is_used: bool,
    /// Since when it waits; `None` while it is answered.
    waits_since: Option<Instant>,
}

/// The place of a connection, for as long as it lives.
pub struct Slot<S> {
    connections: Arc<Connections<S>>,
    number: u64,
}

impl<S: Disconnect> Connections<S> {
    /// None yet, and at most `max`. One that has waited no longer than `spared` is not hung up.
    #[must_use]
    pub fn new(max: usize, spared: Duration) -> Arc<Self> {
        let open = Mutex::new(Open { connections: Vec::new(), next: 0, is_closed: false });
        Arc::new(Self { max, spared, open, ended: Condvar::new() })
    }

    /// Gives a connection a place, when there is one; this may take as long as others are spared.
    pub fn admit(self: &Arc<Self>, stream: S) -> Option<Slot<S>> {
        loop {
            let mut open = self.open.lock();
            if open.is_closed {
                return None;
            }
            if open.connections.len() >= self.max {
                let (since, at) = open.first_to_go()?;
                let left = self.spared.saturating_sub(since.elapsed());
                if !left.is_zero() {
                    drop(open);
                    std::thread::sleep(left);
                    continue;
                }
                open.connections.remove(at).stream.hang_up();
            }
            let number = open.next;
            open.next += 1;
            let waits_since = Some(Instant::now());
            open.connections.push(Connection { number, stream, is_used: false, waits_since });
            return Some(Slot { connections: Arc::clone(self), number });
        }
    }

    /// Some that wait make room, as far as they are not spared: the system has no more files.
    pub fn make_room(&self, count: usize) {
        let mut open = self.open.lock();
        for _ in 0..count {
            let first = open.first_to_go().filter(|(since, _)| since.elapsed() > self.spared);
            let Some((_, at)) = first else { return };
            open.connections.remove(at).stream.hang_up();
        }
    }

    /// How many are connected.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// Whether no other is admitted.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.open.lock().is_closed
    }

    /// Admits none from now on, and does this with all that are connected.
    pub fn close(&self, end: impl Fn(&S)) {
        let mut open = self.open.lock();
        open.is_closed = true;
        open.connections.iter().for_each(|connection| end(&connection.stream));
    }

    /// Waits until none is connected, and no longer than `within`; whether none is.
    #[must_use]
    pub fn wait(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut open = self.open.lock();
        while !open.connections.is_empty() {
            if self.ended.wait_until(&mut open, until).timed_out() {
                return open.connections.is_empty();
            }
        }
        true
    }
}

impl<S> Slot<S> {
    fn set(&self, waits_since: Option<Instant>) -> bool {
        let mut open = self.connections.open.lock();
        let connection = open.connections.iter_mut().find(|g| g.number == self.number);
        connection.map(|g| (g.waits_since, g.is_used) = (waits_since, true)).is_some()
    }

    /// A request came in; false when the connection was hung up before.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.set(None)
    }

    /// It was answered.
    pub fn end(&self) {
        self.set(Some(Instant::now()));
    }
}

impl<S: Disconnect> Slot<S> {
    /// Some of the others make room ([`Connections::make_room`]).
    pub fn make_room(&self, count: usize) {
        self.connections.make_room(count);
    }
}

impl<S> Drop for Slot<S> {
    fn drop(&mut self) {
        self.connections.open.lock().connections.retain(|g| g.number != self.number);
        self.connections.ended.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Default)]
    struct Line(AtomicBool);

    impl Disconnect for Line {
        fn hang_up(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_one_that_waited_longest_makes_room() {
        let connections = Connections::new(2, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..4).map(|_| Arc::default()).collect();
        let gone = |i: usize| lines[i].0.load(Ordering::Relaxed);
        let first = connections.admit(Arc::clone(&lines[0])).unwrap();
        assert!(first.begin());
        let second = connections.admit(Arc::clone(&lines[1])).unwrap();
        let third = connections.admit(Arc::clone(&lines[2])).unwrap();
        assert!(!gone(0) && gone(1) && !gone(2));
        assert!(!second.begin(), "it was hung up");
        assert!(third.begin());
        assert!(connections.admit(Arc::clone(&lines[3])).is_none(), "all are being answered");
        first.end();
        assert!(connections.admit(Arc::clone(&lines[3])).is_some() && gone(0));
        drop((first, second, third));
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn one_that_never_asked_makes_room_before_one_that_did() {
        let connections = Connections::new(2, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..4).map(|_| Arc::default()).collect();
        let gone = |i: usize| lines[i].0.load(Ordering::Relaxed);
        let active = connections.admit(Arc::clone(&lines[0])).unwrap();
        assert!(active.begin());
        active.end();
        let _silent = connections.admit(Arc::clone(&lines[1])).unwrap();
        let _silent_too = connections.admit(Arc::clone(&lines[2])).unwrap();
        let _more = connections.admit(Arc::clone(&lines[3])).unwrap();
        assert!(!gone(0) && gone(1) && gone(2) && !gone(3));
        assert!(active.begin());
    }

    #[test]
    fn one_that_came_in_just_now_has_a_moment_to_ask() {
        let connections = Connections::new(1, Duration::from_millis(100));
        let lines: Vec<Arc<Line>> = (0..2).map(|_| Arc::default()).collect();
        let first = connections.admit(Arc::clone(&lines[0])).unwrap();
        let began = Instant::now();
        assert!(
            connections.admit(Arc::clone(&lines[1])).is_some()
                && lines[0].0.load(Ordering::Relaxed)
        );
        assert!(began.elapsed() > Duration::from_millis(50), "it had its moment");
        assert!(!first.begin());
    }

    #[test]
    fn one_that_closes_tells_all_and_waits_for_them() {
        let connections = Connections::new(3, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..3).map(|_| Arc::default()).collect();
        let first = connections.admit(Arc::clone(&lines[0])).unwrap();
        let second = connections.admit(Arc::clone(&lines[1])).unwrap();
        assert!(second.begin());
        let notified = AtomicUsize::new(0);
        connections.close(|_| {
            notified.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(notified.into_inner(), 2, "those that wait and those that are answered");
        assert!(connections.is_closed() && connections.admit(Arc::clone(&lines[2])).is_none());
        assert!(!connections.wait(Duration::from_millis(10)), "both are still there");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop((first, second));
        });
        assert!(connections.wait(Duration::from_secs(60)));
        ends.join().unwrap();
    }
}
