//! Which class is next.

use super::class::{CLASSES, IoClass};
use super::limits::QueueLimits;

/// Requests at the device, by class, and what the choice remembers.
#[derive(Default)]
pub(super) struct Schedule {
    active: [u64; CLASSES],
    all: u64,
    /// Interactive ones among them.
    interactive: u64,
    /// Housekeeping requests that may begin while work that is waited for is active; without that,
    /// how many have ended since.
    credit: u64,
    /// The class served last.
    last: usize,
}

impl Schedule {
    pub(super) fn active(&self, class: IoClass) -> u64 {
        self.active[class as usize]
    }

    pub(super) fn begin(&mut self, class: IoClass) {
        self.active[class as usize] += 1;
        self.all += 1;
        if class.is_interactive() {
            self.interactive += 1;
            if self.interactive == 1 {
                self.credit = 1;
            }
        } else if self.interactive > 0 {
            self.credit = self.credit.saturating_sub(1);
        }
    }

    pub(super) fn end(&mut self, class: IoClass, limits: &QueueLimits) {
        let active = &mut self.active[class as usize];
        *active = active.saturating_sub(1);
        self.all = self.all.saturating_sub(1);
        if class.is_interactive() {
            self.interactive = self.interactive.saturating_sub(1);
            self.credit = if self.interactive == 0 { 0 } else { limits.nia_credit() };
        } else if self.interactive == 0 {
            self.credit = self.credit.saturating_add(1);
        }
    }

    fn min(&self, class: IoClass, limits: &QueueLimits) -> u64 {
        let least = limits.min_active(class);
        match class.is_interactive() || self.interactive == 0 {
            true => least,
            false => least.min(self.credit),
        }
    }

    fn max(&self, class: IoClass, limits: &QueueLimits) -> u64 {
        if class.is_interactive() {
            return limits.max_active(class);
        }
        let least = limits.min_active(class);
        if self.interactive > 0 {
            least.min(self.credit)
        } else if self.credit < limits.nia_delay() {
            least
        } else {
            limits.max_active(class)
        }
    }

    /// Only requests of the class are active, and fewer than `most`.
    pub(super) fn has_only(&self, class: IoClass, most: u64) -> bool {
        self.all == self.active[class as usize] && self.all < most
    }

    /// Whether a request of the class could begin now.
    pub(super) fn admits(&self, class: IoClass, limits: &QueueLimits) -> bool {
        let active = self.active[class as usize];
        self.all < limits.all_max()
            && (active < self.min(class, limits) || active < self.max(class, limits))
    }

    /// The class whose request begins next, of those that `waits` says have one.
    pub(super) fn choose(
        &mut self,
        limits: &QueueLimits,
        waits: impl Fn(IoClass) -> bool,
    ) -> Option<IoClass> {
        if self.all >= limits.all_max() {
            return None;
        }
        let active = |class: IoClass| self.active[class as usize];
        // In turn, so that none starves where the limit of all together is lower than the sum.
        let turn = (1..=CLASSES).map(|step| IoClass::ALL[(self.last + step) % CLASSES]);
        let below_min = |c: &IoClass| waits(*c) && active(*c) < self.min(*c, limits);
        let below_max = |c: &IoClass| waits(*c) && active(*c) < self.max(*c, limits);
        let found = turn.into_iter().find(below_min);
        let found = found.or_else(|| IoClass::ALL.into_iter().find(below_max))?;
        self.last = found as usize;
        Some(found)
    }
}
