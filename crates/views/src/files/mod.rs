//! Files of a pool: directories as `zinc ls` lists them ([`list`]), and everything about one file
//! as `zinc stat` says it ([`stat`]).

pub mod list;
pub mod stat;

use crate::Here;
use engine::Node;
use engine::files::{FileKind, Time};

/// `2026-11-21 20:18:34` in local time; before 1970 as if the zone had been then what it was in
/// 1970.
#[must_use]
pub fn time_text(here: &dyn Here, t: Time) -> String {
    let offset = here.utc_offset(u64::try_from(t.seconds).unwrap_or(0));
    civil(t.seconds.saturating_add(offset))
}

/// Type and permissions in ten letters.
#[must_use]
pub fn mode_text(node: &Node) -> String {
    let kind = match node.kind() {
        FileKind::File => '-',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::Block => 'b',
        FileKind::Char => 'c',
        FileKind::Unknown => '?',
    };
    let m = node.permissions();
    let mut out = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = m >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, m & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// A date of the Gregorian calendar from seconds since 1970.
fn civil(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year.
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        assert_eq!(civil(-1), "1969-12-31 23:59:59");
        assert_eq!(civil(-2_203_977_600), "1900-02-28 00:00:00");
        assert!(civil(i64::MIN).starts_with('-') && civil(i64::MAX).starts_with('2'));
        assert_eq!(civil(0), "1970-01-01 00:00:00");
        assert_eq!(civil(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(civil(4_102_444_799), "2099-12-31 23:59:59");
    }
}
