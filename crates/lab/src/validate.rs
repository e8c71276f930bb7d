//! A fitted model against its disk, with patterns that it was not fitted to.
//!
//! [`crate::fit`] looks at small reads of one place, long reads in a row, pairs of small reads so
//! far apart, and small random reads with more and more under way. Here are the sizes and numbers
//! in between: reads in a row of other sizes, larger random reads, and several of those at once.
//! The disk and its model get the same reads.
//!
//! [`crate::fit::with_writes`] looks at small writes of one place, at random ones of 4 or 64 KiB
//! one at a time, and on flash at long random ones with many under way. Here, too, are the sizes
//! and numbers between, and writes in a row.

use crate::disk::{Preset, Spec};
use crate::error::LabError;
use crate::fit::{self, Effort};
use crate::raw_disk::{Fitted, ModelDisk};
use engine::inside::rt::{Rng as _, Xoshiro256};

/// What was measured with a pattern, and what the model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// The pattern: "random, 64 KiB, 8 under way".
    pub pattern: String,
    /// MiB that the disk reads or writes in a second.
    pub measured: f64,
    /// The same of the model.
    pub predicted: f64,
    /// The part by which they may be apart.
    pub part: f64,
}

impl Validation {
    /// Predicted over measured.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.predicted / self.measured.max(1e-9)
    }

    /// Whether the model says what was measured, as well as such models do.
    #[must_use]
    pub fn is_within(&self) -> bool {
        (self.ratio() - 1.0).abs() <= self.part
    }
}

/// The part by which a model of this kind of disk may be off in reads, or in writes.
fn part(preset: &Preset, writes: bool) -> f64 {
    match (&preset.disk, writes) {
        (Spec::Rotating(_), false) => 0.15,
        (Spec::Rotating(_), true) => 0.2,
        (_, false) => 0.25,
        (_, true) => 0.4,
    }
}

/// KiB of a request, requests under way, and whether they are at random places.
type Pattern = (u64, usize, bool);

const READS: [Pattern; 8] = [
    (8, 1, false),
    (32, 1, false),
    (256, 1, false),
    (32, 1, true),
    (128, 1, true),
    (1024, 1, true),
    (32, 8, true),
    (256, 4, true),
];

/// Those of one kind of places follow each other.
const WRITES: [Pattern; 6] = [
    (16, 1, true),
    (256, 1, true),
    (1024, 1, true),
    (256, 8, true),
    (256, 1, false),
    (1024, 1, false),
];

/// Requests that are measured at once.
const ROUND: usize = 64;
/// KiB of the writes that fill a write cache, and how many times as much as it holds they are.
const FILLING_KIB: u64 = 64;
const FILLING_TIMES: u64 = 2;

/// What is done with a disk beside reading it for a preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// It is written, too: what is on it is lost.
    pub write: bool,
    /// The preset is compared with the disk.
    pub validate: bool,
}

/// The preset of a disk, and how it compares.
///
/// # Errors
/// Those of [`fit::fit`], [`fit::with_writes`], [`validate`] and [`validate_writes`].
pub fn fitted(
    disk: &mut dyn Fitted,
    name: &str,
    effort: Effort,
    steps: Steps,
    progress: &dyn Fn(&str),
) -> Result<(Preset, Vec<Validation>), LabError> {
    let mut preset = fit::fit(disk, name, effort, progress)?;
    let mut found = Vec::new();
    if steps.validate {
        // Before any write: reads would wait for what the write cache then holds.
        found = validate(disk, &preset, effort, progress)?;
    }
    if steps.write {
        preset = fit::with_writes(disk, preset, effort, progress)?;
    }
    if steps.write && steps.validate {
        found.extend(validate_writes(disk, &preset, effort, progress)?);
    }
    Ok((preset, found))
}

/// Compares a disk with the model that was fitted to it.
///
/// # Errors
/// When the disk or the model cannot be read.
pub fn validate(
    disk: &mut dyn Fitted,
    preset: &Preset,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Vec<Validation>, LabError> {
    let one = |pattern: Pattern| {
        let name = name(pattern);
        progress(&name);
        let failed = |e| LabError::new(format!("cannot read {name}"), e);
        let (kib, depth, _) = pattern;
        let mut reads = Requests::new(pattern, disk.size());
        let mut seconds = 0.0;
        while reads.want_more(effort, seconds) {
            seconds += disk.read_many(depth, kib << 10, reads.next_round()).map_err(failed)?;
        }
        let model = ModelDisk::new(preset, 1).read_many(depth, kib << 10, &reads.places);
        let model = model.map_err(failed)?;
        Ok(reads.validation(name, (seconds, model), part(preset, false)))
    };
    READS.into_iter().map(one).collect()
}

/// The same with writes. What is on the disk is lost.
///
/// A write cache takes whatever comes in no time, until it is full. So before the first random
/// pattern, and before the first in a row, twice as much as it holds is written like that, and then
/// one pattern follows the other without a pause: the writes are as fast as the disk behind the
/// cache. The model gets all the same writes.
///
/// # Errors
/// When the disk or the model cannot be written.
pub fn validate_writes(
    disk: &mut dyn Fitted,
    preset: &Preset,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Vec<Validation>, LabError> {
    let model = ModelDisk::new(preset, 1);
    let mut pair = Pair { disk, model, seconds: 0.0, predicted: 0.0 };
    let mut filled = None;
    let mut out = Vec::new();
    for pattern in WRITES {
        let name = format!("writes {}", name(pattern));
        progress(&name);
        let failed = |e| LabError::new(format!("cannot do {name}"), e);
        if filled != Some(pattern.2) {
            pair.fill(preset, pattern.2, effort).map_err(failed)?;
            filled = Some(pattern.2);
        }
        let mut writes = Requests::new(pattern, pair.disk.size());
        (pair.seconds, pair.predicted) = (0.0, 0.0);
        while writes.want_more(effort, pair.seconds) {
            pair.write(&mut writes, pattern.1).map_err(failed)?;
        }
        let seconds = (pair.seconds, pair.predicted);
        out.push(writes.validation(name, seconds, part(preset, true)));
    }
    Ok(out)
}

/// A disk and its model, which get the same writes, and the seconds that each took.
struct Pair<'a> {
    disk: &'a mut dyn Fitted,
    model: ModelDisk,
    seconds: f64,
    predicted: f64,
}

impl Pair<'_> {
    fn write(&mut self, writes: &mut Requests, depth: usize) -> std::io::Result<()> {
        let len = writes.len;
        let round = writes.next_round();
        self.seconds += self.disk.write_many(depth, len, round)?;
        self.predicted += self.model.write_many(depth, len, round)?;
        Ok(())
    }

    /// Fills the write cache, if there is one: as far as that takes ten times as long as a pattern.
    fn fill(&mut self, preset: &Preset, random: bool, effort: Effort) -> std::io::Result<()> {
        let enough = FILLING_TIMES * cache_bytes(preset);
        let mut writes = Requests::new((FILLING_KIB, 1, random), self.disk.size());
        self.seconds = 0.0;
        while writes.bytes() < enough && self.seconds < 10.0 * effort.seconds {
            self.write(&mut writes, 1)?;
        }
        Ok(())
    }
}

fn name((kib, depth, random): Pattern) -> String {
    let place = if random { "random" } else { "in a row" };
    format!("{place}, {kib} KiB, {depth} under way")
}

/// Bytes of the write cache of a disk that has one, on.
fn cache_bytes(preset: &Preset) -> u64 {
    match &preset.disk {
        Spec::Rotating(spec) if spec.write_cache => spec.write_cache_bytes,
        Spec::Ssd(spec) if spec.write_cache => spec.write_cache_bytes,
        _ => 0,
    }
}

/// The requests of a pattern.
struct Requests {
    len: u64,
    random: bool,
    size: u64,
    rng: Xoshiro256,
    /// Where they were.
    places: Vec<u64>,
}

impl Requests {
    fn new((kib, _, random): Pattern, size: u64) -> Self {
        Self { len: kib << 10, random, size, rng: Xoshiro256::seeded(2), places: Vec::new() }
    }

    fn bytes(&self) -> u64 {
        self.places.len() as u64 * self.len
    }

    /// Whether what took these seconds is not enough.
    fn want_more(&self, effort: Effort, seconds: f64) -> bool {
        let count = self.places.len() as u64;
        count == 0 || (count < effort.requests && seconds < effort.seconds)
    }

    /// Places of the next requests.
    fn next_round(&mut self) -> &[u64] {
        let places = (self.size / self.len).max(1);
        let first = self.places.len();
        for n in 0..ROUND as u64 {
            let place = match self.random {
                true => self.rng.below(places),
                false => (first as u64 + n) % places,
            };
            self.places.push(place * self.len);
        }
        &self.places[first..]
    }

    /// What they come to, by the seconds that they took on the disk and on the model.
    fn validation(&self, pattern: String, (seconds, model): (f64, f64), part: f64) -> Validation {
        let mib = self.bytes() as f64 / f64::from(1 << 20);
        let (measured, predicted) = (mib / seconds.max(1e-9), mib / model.max(1e-9));
        Validation { pattern, measured, predicted, part }
    }
}
