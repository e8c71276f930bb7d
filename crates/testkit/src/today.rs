//! The part of the random tests that one run does.
//!
//! All of them take longer than one run of `./test` may. So a run does one part of several, which
//! the date decides, and as many days do all. `ZINC_STEP=1` does all at once, and `ZINC_DAY=N` does
//! what was done on day N; the number of a day stands in what a test that fails prints.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

std::thread_local! {
    static IS_PRINTED: Cell<bool> = const { Cell::new(false) };
}

/// The number of this day: days since 1970, or what `ZINC_DAY` says. Each test prints it once.
#[expect(clippy::print_stderr, reason = "a test that fails shows what it printed")]
pub fn day() -> usize {
    let number = std::env::var("ZINC_DAY").map_or_else(
        |_| {
            let since = SystemTime::UNIX_EPOCH.elapsed().expect("a date after 1970");
            (since.as_secs() / DAY.as_secs()) as usize
        },
        |n| n.parse().expect("ZINC_DAY is a number"),
    );
    if !IS_PRINTED.replace(true) {
        eprintln!("the part of day {number}: ZINC_DAY={number} repeats it");
    }
    number
}

/// How many parts there are, or one in how many things is tried: `usual`, or what `ZINC_STEP` says.
pub fn parts(usual: usize) -> usize {
    std::env::var("ZINC_STEP").map_or(usual, |n| n.parse().expect("ZINC_STEP is a number"))
}

/// One in `usual` of these ([`parts`]), beginning with another one each day.
pub fn today<I: IntoIterator>(usual: usize, all: I) -> impl Iterator<Item = I::Item> {
    let parts = parts(usual);
    all.into_iter().skip(day() % parts).step_by(parts)
}

/// A part of this range, which is cut into `usual` of them ([`parts`]): another one each day.
pub fn range_of_today(usual: usize, all: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let parts = parts(usual);
    let (part, length) = (day() % parts, (all.end - all.start).div_ceil(parts as u64));
    let first = all.start + part as u64 * length;
    first.min(all.end)..(first + length).min(all.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_of_the_day_and_the_parts_are_all() {
        let mut parts: Vec<usize> = (0..3).flat_map(|part| (0..10).skip(part).step_by(3)).collect();
        parts.sort_unstable();
        assert_eq!(parts, (0..10).collect::<Vec<_>>());
        if std::env::var_os("ZINC_STEP").is_none() {
            let first = day() % 3;
            assert_eq!(today(3, 0..10).collect::<Vec<_>>()[..3], [first, first + 3, first + 6]);
            let range = range_of_today(3, 10..70);
            assert_eq!(range, 10 + 20 * first as u64..30 + 20 * first as u64);
        }
    }
}
