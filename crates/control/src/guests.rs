//! How many connections are open at once, and which one makes room.
//!
//! A connection costs a thread, so there is a largest number of them. Those that only wait (no
//! request has come in, or none since the last answer) must not keep out those that ask: when
//! another one comes and all places are taken, the one that has waited longest is hung up. Where
//! all are being answered the newcomer is refused.

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
pub(crate) struct Guests<S> {
    max: usize,
    /// Whoever has waited no longer than this is not hung up.
    spared: Duration,
    open: Mutex<Open<S>>,
}

struct Open<S> {
    guests: Vec<Guest<S>>,
    next: u64,
}

struct Guest<S> {
    number: u64,
    stream: Arc<S>,
    /// Since when it waits; `None` while it is answered.
    waits_since: Option<Instant>,
}

/// The place of a connection, for as long as it lives.
pub(crate) struct Seat<S> {
    guests: Arc<Guests<S>>,
    number: u64,
}

impl<S: HangUp> Guests<S> {
    pub(crate) fn new(max: usize, spared: Duration) -> Arc<Self> {
        let open = Mutex::new(Open { guests: Vec::new(), next: 0 });
        Arc::new(Self { max, spared, open })
    }

    /// Gives a connection a place, when there is one.
    pub(crate) fn admit(self: &Arc<Self>, stream: &Arc<S>) -> Option<Seat<S>> {
        let mut open = self.open.lock();
        if open.guests.len() >= self.max {
            let waiting = |(at, g): (usize, &Guest<S>)| Some((g.waits_since?, at));
            let (since, at) = open.guests.iter().enumerate().filter_map(waiting).min()?;
            if since.elapsed() < self.spared {
                return None;
            }
            open.guests.remove(at).stream.hang_up();
        }
        let number = open.next;
        open.next += 1;
        let (stream, waits_since) = (Arc::clone(stream), Some(Instant::now()));
        open.guests.push(Guest { number, stream, waits_since });
        Some(Seat { guests: Arc::clone(self), number })
    }
}

impl<S> Seat<S> {
    fn set(&self, waits_since: Option<Instant>) -> bool {
        let mut open = self.guests.open.lock();
        let guest = open.guests.iter_mut().find(|g| g.number == self.number);
        guest.map(|g| g.waits_since = waits_since).is_some()
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

impl<S> Drop for Seat<S> {
    fn drop(&mut self) {
        self.guests.open.lock().guests.retain(|g| g.number != self.number);
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
        let guests = Guests::new(2, Duration::ZERO);
        let lines: Vec<Arc<Line>> = (0..4).map(|_| Arc::default()).collect();
        let gone = |i: usize| lines[i].0.load(Ordering::Relaxed);
        let first = guests.admit(&lines[0]).unwrap();
        assert!(first.begin());
        let second = guests.admit(&lines[1]).unwrap();
        let third = guests.admit(&lines[2]).unwrap();
        assert!(!gone(0) && gone(1) && !gone(2));
        assert!(!second.begin(), "it was hung up");
        assert!(third.begin());
        assert!(guests.admit(&lines[3]).is_none(), "all are being answered");
        first.end();
        assert!(guests.admit(&lines[3]).is_some() && gone(0));
        drop((first, second, third));
        assert_eq!(guests.open.lock().guests.len(), 0);
    }

    #[test]
    fn nobody_is_hung_up_at_once() {
        let guests = Guests::new(1, Duration::from_secs(60));
        let line = Arc::new(Line::default());
        let _seat = guests.admit(&line).unwrap();
        assert!(guests.admit(&line).is_none() && !line.0.load(Ordering::Relaxed));
    }
}
