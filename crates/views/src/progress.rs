//! How far long work is, on one line.

use engine::ProgressSnapshot;
use indicatif::HumanBytes;
use std::time::Duration;

/// The operation, its progress, its speed, and the time that it will take.
#[must_use]
pub fn line(now: &ProgressSnapshot, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = HumanBytes((now.bytes as f64 / seconds) as u64);
    let count = match now.total {
        0 => now.done.to_string(),
        total => format!("{} of {total}", now.done),
    };
    let mut text = format!("{} {count}, {}, {rate}/s", now.phase, HumanBytes(now.bytes));
    if now.total > now.done && now.done > 0 {
        let left = seconds / now.done as f64 * (now.total - now.done) as f64;
        text.push_str(&format!(", {} s left", left.ceil() as u64));
    }
    text
}

/// The same for work on at most `total` bytes, of which nothing says how many items they are.
#[must_use]
pub fn line_of_bytes(now: &ProgressSnapshot, elapsed: Duration, total: u64) -> String {
    let rate = now.bytes as f64 / elapsed.as_secs_f64().max(0.001) / 1e6;
    let (phase, items, mib) = (&now.phase, now.done, now.bytes >> 20);
    format!("{phase}: {items} items, {mib} MiB of at most {}, {rate:.0} MB/s", total >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_it_will_take() {
        let now = ProgressSnapshot { phase: "files", done: 1, total: 4, bytes: 4 << 20 };
        let text = line(&now, Duration::from_secs(2));
        assert_eq!(text, "files 1 of 4, 4.00 MiB, 2.00 MiB/s, 6 s left");
        let text = line_of_bytes(&now, Duration::from_secs(2), 8 << 20);
        assert_eq!(text, "files: 1 items, 4 MiB of at most 8, 2 MB/s");
    }
}
