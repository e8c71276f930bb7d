//! Waiting for the next request without sleeping.
//!
//! A program that makes one call after the other has its next request here a few microseconds after
//! the last answer. To sleep meanwhile and to be woken costs both sides more than most requests
//! take. So a thread that has answered looks for [`WITHIN`] whether there is another, and sleeps
//! only then. Where that is in vain, because nothing comes or because other programs have the
//! processors, it is done more and more rarely: at one request in [`REST_MAX`] at last.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// About what two changes of threads take. Twice as long gained nothing (decision 0023).
const WITHIN: Duration = Duration::from_micros(30);

/// Requests, at most, at which a thread sleeps at once after one at which it waited in vain.
const REST_MAX: u32 = 63;

/// What a thread expects.
pub(super) struct Eager {
    /// Waiting takes nothing from the one that is waited for.
    has_room: bool,
    /// Requests at which it was last decided to sleep at once.
    rest: u32,
    /// Those of them that are still to come.
    left: u32,
}

impl Eager {
    pub(super) fn new() -> Self {
        let has_room = std::thread::available_parallelism().is_ok_and(|all| all.get() > 1);
        Self { has_room, rest: 0, left: 0 }
    }

    /// Waits a moment for something to read, where that has paid lately.
    pub(super) fn wait(&mut self, device: impl AsFd) {
        if !self.is_due() {
            return;
        }
        let began = Instant::now();
        loop {
            let is_there = is_there(&device);
            // Time that another program had is as good as time in which nothing came.
            let is_late = began.elapsed() >= WITHIN;
            if is_there || is_late {
                return self.learn(!is_late);
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.has_room && self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    fn learn(&mut self, has_paid: bool) {
        self.rest = if has_paid { 0 } else { (self.rest * 2 + 1).min(REST_MAX) };
        self.left = self.rest;
    }
}

/// Whether a read would return at once, be it with the end of the mount or an error.
fn is_there(device: impl AsFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&at_once)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_in_vain_does_so_more_and_more_rarely() {
        let mut eager = Eager { has_room: true, rest: 0, left: 0 };
        let mut asleep = Vec::new();
        for _ in 0..8 {
            let mut rested = 0;
            while !eager.is_due() {
                rested += 1;
            }
            asleep.push(rested);
            eager.learn(false);
        }
        assert_eq!(asleep, [0, 1, 3, 7, 15, 31, 63, 63]);
        while !eager.is_due() {}
        eager.learn(true);
        assert!(eager.is_due() && eager.is_due());
    }

    #[test]
    fn what_is_there_ends_the_wait_and_where_one_processor_is_alone_there_is_none() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_there(&reader));
        drop(writer);
        assert!(is_there(&reader));
        let mut alone = Eager { has_room: false, rest: 0, left: 0 };
        assert!(!alone.is_due());
    }
}
