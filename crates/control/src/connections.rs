//! How many connections are open at once, and which one makes room.
//!
//! A connection costs a thread, so there is a largest number of them. Those that only wait must not
//! keep out those that ask. So when another one comes and all places are taken, one is hung up:
//! first one that has sent no request at all, and then one that has sent none since its last
//! answer; of several the one that has waited longest. (Bytes that are no whole request do not
//! count.) Where all are being answered the new one is refused.
//!
//! A connection that has just come in may have its request under way. It is spared for a moment,
//! and the new connection waits for the end of that.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that can be ended from outside of its thread.
pub(crate) trait HangUp {
    fn hang_up(&self);
}

impl HangUp for std::os::unix::net::UnixStream {
    fn hang_up(&self) {
        // Where it has ended already nothing is left to do.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl HangUp for std::net::TcpStream {
    fn hang_up(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

/// All that are connected.
pub(crate) struct Connections<S> {
    max: usize,
    /// A connection that has waited no longer than this is not hung up.
    spared: Duration,
    open: Mutex<Open<S>>,
}

struct Open<S> {
    connections: Vec<Connection<S>>,
    next: u64,
}

struct Connection<S> {
    number: u64,
    stream: Arc<S>,
    /// It has sent a request.
    has_asked: bool,
    /// Since when it waits; `None` while it is answered.
    waits_since: Option<Instant>,
}

/// The place of a connection, for as long as it lives.
pub(crate) struct Slot<S> {
    connections: Arc<Connections<S>>,
    number: u64,
}

impl<S: HangUp> Connections<S> {
    pub(crate) fn new(max: usize, spared: Duration) -> Arc<Self> {
        let open = Mutex::new(Open { connections: Vec::new(), next: 0 });
        Arc::new(Self { max, spared, open })
    }

    /// Gives a connection a place, when there is one; this may take as long as others are spared.
    pub(crate) fn admit(self: &Arc<Self>, stream: &Arc<S>) -> Option<Slot<S>> {
        loop {
            let mut open = self.open.lock();
            if open.connections.len() >= self.max {
                let waiting =
                    |(at, g): (usize, &Connection<S>)| Some((g.has_asked, g.waits_since?, at));
                let (_, since, at) =
                    open.connections.iter().enumerate().filter_map(waiting).min()?;
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
            let (stream, waits_since) = (Arc::clone(stream), Some(Instant::now()));
            open.connections.push(Connection { number, stream, has_asked: false, waits_since });
            return Some(Slot { connections: Arc::clone(self), number });
        }
    }
}

impl<S> Slot<S> {
    fn set(&self, waits_since: Option<Instant>) -> bool {
        let mut open = self.connections.open.lock();
        let connection = open.connections.iter_mut().find(|g| g.number == self.number);
        connection.map(|g| (g.waits_since, g.has_asked) = (waits_since, true)).is_some()
    }

    /// A request came in; false when the connection was hung up before.
    pub(crate) fn begin(&self) -> bool {
        self.set(None)
    }

    /// It was answered.
    pub(crate) fn end(&self) {
        self.set(Some(Instant::now()));
    }
}

impl<S> Drop for Slot<S> {
    fn drop(&mut self) {
        self.connections.open.lock().connections.retain(|g| g.number != self.number);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Line(AtomicBool);

    impl HangUp for Line {
        fn hang_up(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_one_that_waited_longest_makes_room() {
        let connections = Connections::new(2, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..4).map(|_| Arc::default()).collect();
        let gone = |i: usize| lines[i].0.load(Ordering::Relaxed);
        let first = connections.admit(&lines[0]).unwrap();
        assert!(first.begin());
        let second = connections.admit(&lines[1]).unwrap();
        let third = connections.admit(&lines[2]).unwrap();
        assert!(!gone(0) && gone(1) && !gone(2));
        assert!(!second.begin(), "it was hung up");
        assert!(third.begin());
        assert!(connections.admit(&lines[3]).is_none(), "all are being answered");
        first.end();
        assert!(connections.admit(&lines[3]).is_some() && gone(0));
        drop((first, second, third));
        assert_eq!(connections.open.lock().connections.len(), 0);
    }

    #[test]
    fn one_that_never_asked_makes_room_before_one_that_did() {
        let connections = Connections::new(2, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..4).map(|_| Arc::default()).collect();
        let gone = |i: usize| lines[i].0.load(Ordering::Relaxed);
        let asked = connections.admit(&lines[0]).unwrap();
        assert!(asked.begin());
        asked.end();
        let _silent = connections.admit(&lines[1]).unwrap();
        let _silent_too = connections.admit(&lines[2]).unwrap();
        let _more = connections.admit(&lines[3]).unwrap();
        assert!(!gone(0) && gone(1) && gone(2) && !gone(3));
        assert!(asked.begin());
    }

    #[test]
    fn one_that_came_in_just_now_has_a_moment_to_ask() {
        let connections = Connections::new(1, Duration::from_millis(100));
        let lines: Vec<Arc<Line>> = (0..2).map(|_| Arc::default()).collect();
        let first = connections.admit(&lines[0]).unwrap();
        let began = Instant::now();
        assert!(connections.admit(&lines[1]).is_some() && lines[0].0.load(Ordering::Relaxed));
        assert!(began.elapsed() > Duration::from_millis(50), "it had its moment");
        assert!(!first.begin());
    }
}
