//! What it may cost to move living bytes together.
//!
//! A segment that is moved is read, and written with others; outside of the store's region what is
//! read costs most. The money of a month comes in evenly. What is not spent is kept for a day at
//! most, so that a quiet month pays for no expensive hour.

use crate::money::{Cost, Prices};
use core::time::Duration;
use device::StoreUsage;

/// Seconds in which the budget comes in once.
const MONTH: u64 = 30 * 24 * 3600;
/// Parts of a month that are there at first, and that are kept at most: an hour, and a day.
const FIRST: u64 = 30 * 24;
const KEPT: u64 = 30;

/// What moving may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// In a month.
    pub month: Cost,
    /// What requests cost.
    pub prices: Prices,
}

/// What of it is there.
#[derive(Default)]
pub(super) struct Purse {
    /// When it was last counted, and the billionths of a dollar that it had: less than none after
    /// something expensive.
    counted: Option<(Duration, i128)>,
}

impl Purse {
    /// Whether something may be bought.
    pub(super) fn has_some(&mut self, budget: &Budget, now: Duration) -> bool {
        self.count(budget, now) > 0
    }

    /// Pays for a segment that is moved, of this number of bytes.
    pub(super) fn pay(&mut self, budget: &Budget, bytes: u64, now: Duration) {
        // At most: several that are moved share a create.
        let usage = StoreUsage { creates: 1, gets: 1, received_bytes: bytes, ..Default::default() };
        let left = self.count(budget, now) - i128::from(budget.prices.of(&usage).0);
        self.counted = Some((now, left));
    }

    fn count(&mut self, budget: &Budget, now: Duration) -> i128 {
        let month = i128::from(budget.month.0);
        let left = match self.counted {
            None => month / i128::from(FIRST),
            Some((then, left)) => {
                let millis = now.saturating_sub(then).as_millis();
                let millis = i128::try_from(millis).unwrap_or(i128::MAX / month.max(1));
                let came = month.saturating_mul(millis) / i128::from(MONTH * 1000);
                if came == 0 {
                    // The time is not lost.
                    return left;
                }
                left.saturating_add(came).min(month / i128::from(KEPT))
            }
        };
        self.counted = Some((now, left));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn budget(dollars: u64) -> Budget {
        Budget { month: Cost(dollars * 1_000_000_000), prices: Prices::default() }
    }

    /// Segments that are moved in a time, one after the other.
    fn moved(purse: &mut Purse, budget: &Budget, from: Duration, to: Duration) -> u64 {
        let (mut now, mut count) = (from, 0);
        while now < to {
            if purse.has_some(budget, now) {
                purse.pay(budget, 16 << 20, now);
                count += 1;
            }
            now += Duration::from_millis(500);
        }
        count
    }

    #[test]
    fn what_is_moved_costs_the_budget_and_no_more() {
        // A create and a read are 5.4 millionths of a dollar: 133 of them for an hour of 52 cents
        // a month, and as many for that which is there at first.
        let mut purse = Purse::default();
        let cents = Budget { month: Cost(518_400_000), ..budget(0) };
        let all = moved(&mut purse, &cents, HOUR, 2 * HOUR);
        assert!((266..=267).contains(&all), "{all}");
        // Of a quiet month a day is kept.
        assert_eq!(purse.count(&cents, 2 * HOUR + 30 * 24 * HOUR), 518_400_000 / 30);
    }

    #[test]
    fn without_a_dollar_nothing_is_moved() {
        assert_eq!(moved(&mut Purse::default(), &budget(0), HOUR, 2 * HOUR), 0);
    }

    #[test]
    fn what_leaves_the_region_is_paid_for() {
        let prices = Prices { out: Cost(90_000_000), ..Prices::default() };
        let costly = Budget { prices, ..budget(1) };
        let mut purse = Purse::default();
        let month = moved(&mut purse, &costly, HOUR, HOUR + 24 * HOUR);
        // 16 MiB cost 0.14 cents: a 30th of a dollar pays for 24 of them.
        assert!((20..30).contains(&month), "{month}");
    }
}
