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

/// A moment of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// The year, which may be 0 or below.
    pub year: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
    /// 0 is Sunday.
    pub weekday: i64,
}

impl Civil {
    /// That of seconds since 1970.
    #[must_use]
    pub fn of(seconds: i64) -> Self {
        // Days are counted from 1 March of year 0, so that a leap day is the last of its year.
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let z = days + 719_468;
        let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        Self {
            month,
            day: doy - (153 * mp + 2) / 5 + 1,
            year: yoe + era * 400 + i64::from(month <= 2),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// `Jan` to `Dec`.
    #[must_use]
    pub fn month_name(&self) -> &'static str {
        MONTHS[(self.month as usize + 11) % 12]
    }

    /// `2026-11-21 22:38:36`, with this separator of date and time.
    #[must_use]
    pub fn stamp(&self, between: char) -> String {
        let Self { month, day, year, hour, minute, second, .. } = self;
        format!("{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}")
    }

    fn day_name(&self) -> &'static str {
        DAYS[self.weekday as usize % 7]
    }
}

/// Days of the week, Sunday first.
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
#[rustfmt::skip]
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time as `zfs get creation` prints it: `Sat Nov 21 22:38 2026` (day and hour padded with a
/// blank).
#[must_use]
pub fn date(seconds: u64) -> String {
    let c = civil(seconds);
    let (day, month) = (c.day_name(), c.month_name());
    format!("{day} {month} {:>2} {:>2}:{:02} {}", c.day, c.hour, c.minute, c.year)
}

/// A time as C's `ctime` prints it: `Sat Nov 21 22:38:36 2026` (day padded with a blank).
#[must_use]
pub fn ctime(seconds: u64) -> String {
    let c = civil(seconds);
    let (day, month) = (c.day_name(), c.month_name());
    format!("{day} {month} {:>2} {:02}:{:02}:{:02} {}", c.day, c.hour, c.minute, c.second, c.year)
}

fn civil(seconds: u64) -> Civil {
    Civil::of(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// A time as `2026-11-21 22:38:36`; with another separator `.` as `zpool history` has it.
#[must_use]
pub fn stamp(seconds: u64, between: char) -> String {
    civil(seconds).stamp(between)
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
        let of = |seconds| Civil::of(seconds).stamp(' ');
        assert_eq!(of(-1), "1969-12-31 23:59:59");
        assert_eq!(of(-2_203_977_600), "1900-02-28 00:00:00");
        assert!(of(i64::MIN).starts_with('-') && of(i64::MAX).starts_with('2'));
        assert_eq!(of(4_102_444_799), "2099-12-31 23:59:59");
        assert_eq!(Civil::of(-1).weekday, 3);
    }
}
