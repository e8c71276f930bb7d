//! Numbers as the commands of ZFS print them for people.
//!
//! Five characters and a unit that is a power of 1024: as many digits behind the point, at most
//! two, as fit. A whole multiple of its unit has none. Scripts read these texts, so they must be
//! the same to the last digit.

/// Units of [`nicenum`].
const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// A count, such as `1.5K` for 1536.
#[must_use]
pub fn nicenum(n: u64) -> String {
    format_with(n, "")
}

/// A size, such as `512B` for 512 and `1.5K` for 1536.
#[must_use]
pub fn nicebytes(n: u64) -> String {
    format_with(n, "B")
}

fn format_with(n: u64, smallest: &str) -> String {
    let mut index = 0;
    while index + 1 < UNITS.len() && n >> (10 * (index + 1)) != 0 {
        index += 1;
    }
    let shift = 10 * index;
    let unit = if index == 0 { smallest } else { UNITS[index] };
    if n & ((1u64 << shift) - 1) == 0 {
        return format!("{}{unit}", n >> shift);
    }
    let value = n as f64 / (1u64 << shift) as f64;
    let wide = [2, 1].map(|digits| format!("{value:.digits$}{unit}"));
    let fitting = wide.into_iter().find(|t| t.len() <= 5);
    fitting.unwrap_or_else(|| format!("{value:.0}{unit}"))
}

/// Seconds since 1970 as `(year, month 1-12, day 1-31, hour, minute, second, weekday 0 = Sunday)`
/// in the Gregorian calendar, UTC.
#[must_use]
pub fn civil(seconds: u64) -> (u64, u64, u64, u64, u64, u64, u64) {
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year.
    let days = seconds / 86_400;
    let of_day = seconds % 86_400;
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    (year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, (days + 4) % 7)
}

/// Days of the week, Sunday first.
pub const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Months.
#[rustfmt::skip]
pub const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time as `zfs get creation` prints it: `Sat Nov 21 22:38 2026` (day and hour padded with a
/// blank).
#[must_use]
pub fn date(seconds: u64) -> String {
    let (y, m, d, h, min, _, wd) = civil(seconds);
    let (day, month) = (DAYS[wd as usize % 7], MONTHS[(m as usize + 11) % 12]);
    format!("{day} {month} {d:>2} {h:>2}:{min:02} {y}")
}

/// A time as C's `ctime` prints it: `Sat Nov 21 22:38:36 2026` (day padded with a blank).
#[must_use]
pub fn ctime(seconds: u64) -> String {
    let (y, m, d, h, min, s, wd) = civil(seconds);
    let (day, month) = (DAYS[wd as usize % 7], MONTHS[(m as usize + 11) % 12]);
    format!("{day} {month} {d:>2} {h:02}:{min:02}:{s:02} {y}")
}

/// A time as `2026-11-21 22:38:36`; with another separator `.` as `zpool history` has it.
#[must_use]
pub fn stamp(seconds: u64, between: char) -> String {
    let (y, m, d, h, min, s, _) = civil(seconds);
    format!("{y:04}-{m:02}-{d:02}{between}{h:02}:{min:02}:{s:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_characters() {
        for (n, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1K"),
            (1536, "1.50K"),
            (10 * 1024 + 512, "10.5K"),
            (7_755_264, "7.40M"),
            (109_685_248, "105M"),
            (1_073_741_823, "1024M"),
            (1 << 60, "1E"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(nicenum(n), text);
        }
        assert_eq!(nicebytes(0), "0B");
        assert_eq!(nicebytes(512), "512B");
        assert_eq!(nicebytes(2048), "2K");
    }

    #[test]
    fn calendar() {
        assert_eq!(date(0), "Thu Jan  1  0:00 1970");
        assert_eq!(ctime(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(stamp(1_795_289_107, '.'), "2026-11-21.19:25:07");
        assert_eq!(date(4_107_542_399), "Sun Feb 28 23:59 2100");
    }
}
