//! Tunables: the knobs of a pool that is open for writing.
//!
//! # Theory
//!
//! Each tunable is a line of the table in `table.rs`: name, unit, default, range, meaning, and how
//! a new value reaches what uses it. Names are those of OpenZFS's zfs(4) where it has them. The
//! values belong to one pool; there is no state of the process.
//!
//! A value is a number. There are two ways from it to what it steers, and a line may use both:
//! - *asked*: code that has the pool's [`Tunables`] reads [`Tunables::get`], an atomic load, each
//!   time it needs the value;
//! - *pushed*: the line says what takes it ([`Push`]), and the pool brings the value there
//!   (`tune.rs`), right after it was set, and for all lines once when the pool is opened. A push
//!   must be short, and wait for nothing.
//!
//! So a new tunable is one line in the table, and a reader or a push.

mod table;

pub use table::Tunable;

use super::txg::TxgLimits;
use rt::Rt;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use vdev::queue::QueueLimit;

/// What a tunable's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; suffixes are powers of 1024.
    Bytes,
    /// Hundredths.
    Percent,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// A binary logarithm: of 17 bits are 128 KiB.
    Bits,
    /// 0 for off, 1 for on.
    Switch,
    /// One of these words; the number is its place.
    Word(&'static [&'static str]),
}

impl Unit {
    /// Its name in a list.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Percent => "%",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Nanoseconds => "ns",
            Self::Count => "number",
            Self::Bits => "bits",
            Self::Switch => "0 or 1",
            Self::Word(_) => "word",
        }
    }

    /// A value as it is written on the command line and in files.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Bytes => suffixed(value),
            Self::Word(words) => {
                let word = usize::try_from(value).ok().and_then(|i| words.get(i));
                word.map_or_else(|| value.to_string(), |w| (*w).to_owned())
            }
            _ => value.to_string(),
        }
    }

    fn parse(self, text: &str) -> Option<u64> {
        if let Self::Word(words) = self {
            return words.iter().position(|w| *w == text).map(|i| i as u64);
        }
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().ok()?;
        // Bytes are counted in powers of two, everything else in powers of ten.
        let base: u64 = if self == Self::Bytes { 1024 } else { 1000 };
        let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" => 0,
            "b" if self == Self::Bytes => 0,
            "k" | "kib" => 1,
            "m" | "mib" => 2,
            "g" | "gib" => 3,
            "t" | "tib" => 4,
            _ => return None,
        };
        base.checked_pow(power)?.checked_mul(number)
    }
}

/// Bytes with the largest suffix that loses nothing.
fn suffixed(bytes: u64) -> String {
    let exact = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let fits = exact.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| bytes.to_string(), |(shift, suffix)| format!("{}{suffix}", bytes >> shift))
}

/// What a value is brought down to when it is set (`tune.rs`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Push {
    /// Nothing: it is asked for where it is used.
    OnUse,
    Timeout,
    DirtyMax,
    SyncPercent,
    DirtyUntilDurable,
    AwaitedIsUrgent,
    /// The records of txgs.
    History,
    /// What the throttle is made of.
    Throttle,
    IndirectShift,
    RecordMax,
    Checksum,
    /// A limit of the queues of the devices.
    Queue(QueueLimit),
    IssueThreads,
    InFlightMax,
    /// Whether anything is counted.
    Counting,
    /// The same, in each txg. When it is set one is wanted, for an idle pool has none.
    Txg,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What its number counts.
    pub unit: Unit,
    /// See [`Self::default`].
    default: fn() -> u64,
    /// The smallest value.
    pub min: u64,
    /// The largest one.
    pub max: u64,
    /// What it does, in a sentence or two.
    pub meaning: &'static str,
    /// What its value is brought down to.
    pub(super) push: Push,
}

impl Row {
    /// Its value in a pool where it was not set.
    #[must_use]
    pub fn default(&self) -> u64 {
        (self.default)()
    }

    /// The values it may have, in words.
    #[must_use]
    pub fn range(&self) -> String {
        match self.unit {
            Unit::Word(words) => words.join(", "),
            unit => format!("{} to {}", unit.show(self.min), unit.show(self.max)),
        }
    }
}

/// Why a tunable was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunableError {
    /// There is none of that name.
    Unknown {
        /// The name.
        name: String,
        /// One that looks like it.
        like: Option<&'static str>,
    },
    /// The value cannot be read.
    NotAValue {
        /// The tunable.
        name: &'static str,
        /// What was given.
        text: String,
        /// What would be right.
        range: String,
    },
    /// The value is too small or too large.
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// What was given.
        text: String,
        /// What would be right, with the unit.
        range: String,
    },
    /// A line or word is not of the form NAME=VALUE.
    NotASetting {
        /// What was given.
        text: String,
    },
}

impl fmt::Display for TunableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, .. } => write!(f, "there is no tunable `{name}`"),
            Self::NotAValue { name, text, range } => {
                write!(f, "{name}: `{text}` is not a valid value (range: {range})")
            }
            Self::OutOfRange { name, text, range } => {
                write!(f, "{name}: {text} is out of range ({range})")
            }
            Self::NotASetting { text } => write!(f, "`{text}` is not of the form NAME=VALUE"),
        }
    }
}

impl std::error::Error for TunableError {}

impl TunableError {
    /// The tunable that was meant, perhaps.
    #[must_use]
    pub fn like(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { like, .. } => *like,
            _ => None,
        }
    }
}

/// A tunable and its new value, known to be in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which.
    pub tunable: Tunable,
    /// Its value.
    pub value: u64,
}

impl Setting {
    /// A value for a tunable.
    ///
    /// # Errors
    /// It is out of range.
    pub fn new(tunable: Tunable, value: u64) -> Result<Self, TunableError> {
        let row = tunable.row();
        if (row.min..=row.max).contains(&value) {
            return Ok(Self { tunable, value });
        }
        let unit = if matches!(row.unit, Unit::Word(_)) { "" } else { row.unit.name() };
        let range = format!("{} {unit}", row.range()).trim_end().to_owned();
        Err(TunableError::OutOfRange { name: row.name, text: row.unit.show(value), range })
    }

    /// Reads `NAME=VALUE`.
    ///
    /// # Errors
    /// It has not that form, there is no such tunable, or the value is not in its range.
    pub fn parse(text: &str) -> Result<Self, TunableError> {
        let parts = text.split_once('=');
        let (name, value) =
            parts.ok_or_else(|| TunableError::NotASetting { text: text.trim().to_owned() })?;
        let (tunable, value) = (Tunable::named(name.trim())?, value.trim());
        let row = tunable.row();
        let number = row.unit.parse(value).ok_or_else(|| TunableError::NotAValue {
            name: row.name,
            text: value.to_owned(),
            range: row.range(),
        })?;
        Self::new(tunable, number)
    }

    /// Reads a file of such lines. Empty lines, and what stands behind `#`, mean nothing.
    ///
    /// # Errors
    /// As [`Self::parse`], with the number of the line.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, (usize, TunableError)> {
        let mut out = Vec::new();
        for (n, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                out.push(Self::parse(line).map_err(|e| (n, e))?);
            }
        }
        Ok(out)
    }
}

impl Tunable {
    /// Its line of the table.
    #[must_use]
    pub fn row(self) -> &'static Row {
        &table::ROWS[self as usize]
    }

    /// The tunable of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self, TunableError> {
        let found = Self::ALL.iter().find(|t| t.row().name == name);
        found.copied().ok_or_else(|| TunableError::Unknown {
            name: name.to_owned(),
            like: Self::ALL.iter().map(|t| t.row().name).find(|n| is_like(n, name)),
        })
    }
}

/// Whether a user who wrote `wrong` may have meant `name`.
fn is_like(name: &str, wrong: &str) -> bool {
    let tail = |s: &str| s.trim_start_matches("zfs_").replace(['-', '_'], "");
    let (name, wrong) = (tail(name), tail(wrong));
    wrong.len() > 3 && (name.contains(&wrong) || wrong.contains(&name))
}

/// The values of one pool.
#[derive(Debug)]
pub struct Tunables(Vec<AtomicU64>);

impl Default for Tunables {
    /// As on this machine.
    fn default() -> Self {
        Self(table::ROWS.iter().map(|r| AtomicU64::new(r.default())).collect())
    }
}

impl Tunables {
    /// As on this machine; in a simulation, as on every machine.
    pub(super) fn of(rt: &Rt) -> Self {
        let out = Self::default();
        if rt.is_simulated() {
            out.store(Tunable::DirtyDataMax, TxgLimits::default().dirty_max);
        }
        out
    }

    /// The value now.
    #[must_use]
    pub fn get(&self, tunable: Tunable) -> u64 {
        self.0[tunable as usize].load(Ordering::Relaxed)
    }

    /// Stores a value without pushing it; [`super::LivePool::set_tunable`] does both.
    pub(super) fn store(&self, tunable: Tunable, value: u64) {
        self.0[tunable as usize].store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_name_of_its_own_and_a_default_in_range() {
        let mut names: Vec<_> = Tunable::ALL.iter().map(|t| t.row().name).collect();
        for t in Tunable::ALL {
            let r = t.row();
            let default = r.default();
            assert!((r.min..=r.max).contains(&default), "{}", r.name);
            let prefixes = ["zfs_", "zio_", "raidz_", "zinc_"];
            assert!(prefixes.iter().any(|p| r.name.starts_with(p)), "{}", r.name);
            assert!(!r.meaning.is_empty() && r.meaning.ends_with('.'), "{}", r.name);
            if let Unit::Word(words) = r.unit {
                assert_eq!((r.min, r.max), (0, words.len() as u64 - 1), "{}", r.name);
            }
            assert_eq!(Tunable::named(r.name), Ok(*t));
            // What is shown can be read again.
            let text = format!("{}={}", r.name, r.unit.show(default));
            assert_eq!(Setting::parse(&text), Ok(Setting { tunable: *t, value: default }));
        }
        let len = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), len);
    }

    #[test]
    fn values_are_read_with_suffixes_and_judged_by_their_range() {
        let parse = |text: &str| Setting::parse(text).map(|s| s.value);
        assert_eq!(parse("zfs_dirty_data_max=64M"), Ok(64 << 20));
        assert_eq!(parse(" zfs_dirty_data_max = 1GiB "), Ok(1 << 30));
        assert_eq!(parse("zfs_txg_timeout=30"), Ok(30));
        let error = parse("zfs_txg_timeout=0").unwrap_err();
        assert_eq!(error.to_string(), "zfs_txg_timeout: 0 is out of range (1 to 86400 s)");
        assert!(parse("zfs_txg_timeout=soon").unwrap_err().to_string().contains("1 to 86400"));
        assert!(matches!(parse("zfs_txg_timeout"), Err(TunableError::NotASetting { .. })));
        let error = parse("txg_timeout=5").unwrap_err();
        assert_eq!(error.like(), Some("zfs_txg_timeout"));
        assert!(parse("zfs_dirty_data_max=99999999999999999999").is_err());
        assert!(parse("zfs_dirty_data_max=99999999T").is_err());
        assert_eq!(suffixed(0), "0");
        assert_eq!(suffixed(1536), "1536");
        assert_eq!(suffixed(5 << 20), "5M");
    }

    #[test]
    fn a_file_of_settings_has_comments_and_numbered_lines() {
        let good = "# mine\n\nzfs_txg_timeout=7  # seconds\nzfs_dirty_data_max=32M\n";
        let values: Vec<u64> =
            Setting::parse_lines(good).unwrap().iter().map(|s| s.value).collect();
        assert_eq!(values, [7, 32 << 20]);
        assert_eq!(Setting::parse_lines("#\nzfs_nonsense=1").unwrap_err().0, 2);
    }
}
