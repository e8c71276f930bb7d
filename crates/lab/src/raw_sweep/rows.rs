//! The rows of the sweep, its lines as the study's script prints them, and what they say.

use super::{ENOUGH, PUBLISHED, PUBLISHED_CACHED, PUBLISHED_TRANSFER, Size, size_in_words};
use crate::outcome::Outcome;
use crate::raw_disk::Pace;
use crate::row::{Bound, Row};
use std::fmt::Write as _;

/// A tenth, or the rounding of what was printed.
const NEAR: Bound = Bound::WithinOrRounding(0.1);
/// The size by which, with the cache, the disk's rate was chosen.
const FITTED_KIB: u64 = 8192;

const MIB: f64 = 1_048_576.0;

/// What was written in milliseconds of writing, in MiB.
fn written(pace: &Pace, ms: f64) -> f64 {
    pace.mib_per_second() * ms / 1e3
}

/// Where the study's time is not all written, that is not judged.
const SHORTER: &str = "a part of the study's time";

pub(super) fn rows(sizes: &[Size], full: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = sizes.iter().map(rate).collect();
    for size in sizes {
        let p = size.published;
        if let Some(pace) = &size.uncorrected {
            let (was, name) = (p.was.unwrap_or_default(), "before the correction");
            let name = format!("{} KiB, {name}", p.kib);
            rows.push(Row::fitted(name, "MB/s", was, NEAR, pace.mib_per_second()));
        }
    }
    for size in sizes {
        rows.extend(line(size, full));
    }
    for size in sizes {
        let Some(pace) = &size.cached else { continue };
        let name = format!("{} KiB, write cache on", size.published.kib);
        let rate = pace.mib_per_second();
        let row = Row::fitted(name, "MB/s", PUBLISHED_CACHED, NEAR, rate);
        rows.push(row.of_sentence("66 MB/s with the write cache"));
    }
    rows.extend(amortized(sizes));
    rows
}

/// What was corrected of three lines is their rate alone: their bytes and times, and what these
/// give, are of the machine before.
const BEFORE: &str = ", before the correction";

/// The bytes and the time of a line, and their rate where the line has another.
fn line(size: &Size, full: bool) -> Vec<Row> {
    let p = size.published;
    let (pace, before) = match &size.uncorrected {
        Some(pace) => (pace, BEFORE),
        None => (&size.safe, ""),
    };
    let name = |what: &str| format!("{} KiB{before}: {what}", p.kib);
    let ms = pace.seconds * 1e3;
    // A write that has begun is not broken off.
    let bound = Bound::Between(p.ms, p.ms * 1.2);
    let time = Row::input(name("time of writing"), "ms", p.ms, bound, ms);
    let mb = written(pace, p.ms);
    let mut rows = vec![
        time.judged_if(full, SHORTER),
        Row::derived(name("written in that time"), "MB", p.mb, NEAR, mb),
    ];
    if p.contradicts_itself() {
        let rate = pace.mib_per_second();
        let row =
            Row::derived(name("rate, by its MB and ms"), "MB/s", p.by_its_bytes(), NEAR, rate);
        rows.push(row.follows("its MB and ms"));
    }
    rows
}

/// Both readings of the lines that contradict themselves, beside what was measured.
pub(super) fn readings(sizes: &[Size]) -> String {
    let mut text = String::new();
    for size in sizes.iter().filter(|size| size.published.contradicts_itself()) {
        let p = size.published;
        let here = match &size.uncorrected {
            Some(before) => format!(
                "{:.1} before the correction, {:.1} after it",
                before.mib_per_second(),
                size.safe.mib_per_second()
            ),
            None => format!("{:.1}", size.safe.mib_per_second()),
        };
        let _ = writeln!(
            text,
            "{} KB: the line says {} MB/s; its {} MB in {} ms are {:.1}. Measured: {here}.",
            p.kib,
            p.mb_per_s,
            p.mb,
            p.ms,
            p.by_its_bytes(),
        );
    }
    text
}

/// The rate of a size.
fn rate(size: &Size) -> Row {
    let p = size.published;
    let (name, rate) = (format!("{} KiB", p.kib), size.safe.mib_per_second());
    match p.kib {
        FITTED_KIB => Row::fitted(name, "MB/s", p.mb_per_s, NEAR, rate),
        // The driver makes pieces of 8 MiB of it, one after the other.
        kib if kib > FITTED_KIB => Row::derived(name, "MB/s", p.mb_per_s, NEAR, rate),
        _ => Row::predicted(name, "MB/s", p.mb_per_s, NEAR, rate),
    }
}

/// What the text says of 8 MiB: that they take about 0.13 s to pass the head, that a seek comes on
/// top, and that 4 MiB are nearly as fast.
///
/// A write of 8 MiB less one of 4 MiB is half of the transfer, because both lose the same time
/// between two writes.
fn amortized(sizes: &[Size]) -> Vec<Row> {
    let of = |kib| sizes.iter().find(|size| size.published.kib == kib);
    let (Some(half), Some(whole)) = (of(4096), of(8192)) else { return Vec::new() };
    let seconds = |size: &Size| 1.0 / size.safe.per_second();
    let transfer = 2.0 * (seconds(whole) - seconds(half));
    let name = |what: &str| format!("8192 KiB: {what}");
    let near = Bound::Within(0.1);
    let rest = 1e3 * (seconds(whole) - transfer);
    let times = whole.published.mb_per_s / half.published.mb_per_s;
    let found = whole.safe.mib_per_second() / half.safe.mib_per_second();
    vec![
        Row::derived(name("transfer within one write"), "s", PUBLISHED_TRANSFER, near, transfer),
        // The study has one seek there, and says of no time how long it is: its 59 MB/s and 0.13 s
        // are rounded, and leave anything up to 10.6 ms.
        Row::own(name("seek within one write"), "ms", rest),
        Row::derived("8192 KiB over 4096 KiB", "times", times, near, found).follows("both rates"),
    ]
}

/// The lines of the study's script for what was measured.
pub(super) fn script(sizes: &[Size]) -> String {
    let mut text = String::new();
    for size in sizes {
        let pace = &size.safe;
        let bytes = pace.count as f64 * pace.len as f64;
        let _ = writeln!(
            text,
            "{:>5} MB; {:>5} ms of phys; avg sz : {} KB; throughput {} MB/s",
            (bytes / MIB) as u64,
            (pace.seconds * 1e3) as u64,
            pace.len >> 10,
            // The script divides by this.
            (bytes / (pace.seconds * 1_048_676.0)) as u64,
        );
    }
    text
}

/// From which size on single writes are enough, and what the cache does.
pub(super) fn meaning(outcome: &Outcome) -> String {
    let rate = |kib: u64| outcome.measured(&format!("{kib} KiB"));
    let rates = PUBLISHED.iter().filter_map(|p| Some((p.kib, rate(p.kib)?)));
    let rates: Vec<(u64, f64)> = rates.collect();
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let Some((kib, reached)) = rates.iter().find(|(_, rate)| *rate >= ENOUGH * best) else {
        return String::new();
    };
    let mut text = format!(
        "On {}: single synchronous writes reach {:.0} % of the best rate from {} on ({reached:.1} \
         of {best:.1} MB/s).",
        outcome.place,
        ENOUGH * 100.0,
        size_in_words(*kib as f64),
    );
    if let (Some((_, small)), Some(cached)) =
        (rates.first(), outcome.measured("16 KiB, write cache on"))
        && cached > 2.0 * small
    {
        let _ = write!(
            text,
            " With 16 KiB the write cache makes it {cached:.0} instead of {small:.1} MB/s, and \
             what it holds is not safe before a flush.",
        );
    }
    text
}

/// Every row, of nothing that was measured.
#[cfg(test)]
pub(crate) fn sample() -> Vec<Row> {
    let sizes: Vec<Size> = (0..PUBLISHED.len()).map(|n| size(n, 1.0)).collect();
    rows(&sizes, true)
}

#[cfg(test)]
fn size(published: usize, seconds: f64) -> Size {
    let published = &PUBLISHED[published];
    let len = published.kib << 10;
    let safe = Pace { count: 10, len, seconds, cpu_seconds: None };
    let some = |wanted: bool| wanted.then_some(safe);
    Size { published, safe, cached: some(true), uncorrected: some(published.was.is_some()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Kind;

    #[test]
    fn each_row_is_of_the_kind_that_the_preset_says() {
        let rows = sample();
        let kind = |name: &str| rows.iter().find(|row| row.row == name).map(Row::kind);
        assert_eq!(kind("16 KiB"), Some(Kind::Predicted));
        assert_eq!(kind("4096 KiB"), Some(Kind::Predicted));
        // The rate of the disk was chosen by these.
        assert_eq!(kind("8192 KiB"), Some(Kind::Fitted));
        assert_eq!(kind("16 KiB, write cache on"), Some(Kind::Fitted));
        assert_eq!(kind("2048 KiB, before the correction"), Some(Kind::Fitted));
        assert_eq!(kind("32768 KiB"), Some(Kind::Derived));
        assert_eq!(kind("16 KiB: written in that time"), Some(Kind::Derived));
        assert_eq!(kind("16 KiB: time of writing"), Some(Kind::Input));
        // The rates of 2 to 32 MiB are not their bytes over their times.
        let name = "8192 KiB, before the correction: rate, by its MB and ms";
        assert_eq!(kind(name), Some(Kind::Derived));
        assert_eq!(rows.len(), 12 + 3 + 24 + 5 + 12 + 3);
    }

    #[test]
    fn a_line_is_the_script_s() {
        let text = script(&[size(4, 0.1)]);
        let expected = "    2 MB;   100 ms of phys; avg sz : 256 KB; throughput 24 MB/s\n";
        assert_eq!(text, expected);
    }

    /// The script's typing error, 1048676 for 2^20, is a ten thousandth.
    #[test]
    fn the_table_is_the_published_one() {
        let section = crate::DOCUMENTS.split("[raw_sweep]").nth(1).expect("the section");
        let rows = section.lines().find_map(|l| l.strip_prefix("rows = ")).expect("rows");
        let mine = PUBLISHED.iter().map(|p| format!("[{},{}]", p.kib, p.mb_per_s));
        assert_eq!(rows.trim(), format!("[{}]", mine.collect::<Vec<_>>().join(",")));
        assert!(section.contains(&format!("write_cache_on_mb_per_s = {PUBLISHED_CACHED}\n")));
    }
}
