//! A fitted model against its disk, with patterns that it was not fitted to.
//!
//! [`crate::fit`] looks at small reads of one place, long reads in a row, pairs of small reads so
//! far apart, and small random reads with more and more under way. Here are the sizes and numbers
//! in between: reads in a row of other sizes, larger random reads, and several of those at once.
//! The disk and its model get the same reads.

use crate::disk::Preset;
use crate::error::LabError;
use crate::fit::Effort;
use crate::raw_disk::Fitted;
use crate::raw_disk::ModelDisk;
use engine::inside::rt::{Rng as _, Xoshiro256};

/// What was measured with a pattern, and what the model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// The pattern: "random, 64 KiB, 8 under way".
    pub pattern: String,
    /// MiB that the disk reads in a second.
    pub measured: f64,
    /// The same of the model.
    pub predicted: f64,
}

impl Validation {
    /// Predicted over measured.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.predicted / self.measured.max(1e-9)
    }
}

/// KiB of a read, reads under way, and whether they are at random places.
const PATTERNS: [(u64, usize, bool); 8] = [
    (8, 1, false),
    (32, 1, false),
    (256, 1, false),
    (32, 1, true),
    (128, 1, true),
    (1024, 1, true),
    (32, 8, true),
    (256, 4, true),
];

/// Reads that are measured at once.
const ROUND: usize = 64;

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
    let one = |(kib, depth, random): (u64, usize, bool)| {
        let place = if random { "random" } else { "in a row" };
        let pattern = format!("{place}, {kib} KiB, {depth} under way");
        progress(&pattern);
        let failed = |e| LabError::new(format!("cannot read {pattern}"), e);
        let mut reads = Reads { len: kib << 10, random, size: disk.size(), read: Vec::new() };
        let mut rng = Xoshiro256::seeded(2);
        let mut seconds = 0.0;
        while reads.read.is_empty()
            || ((reads.read.len() as u64) < effort.requests && seconds < effort.seconds)
        {
            let round = reads.round(&mut rng);
            seconds += disk.read_many(depth, reads.len, &round).map_err(failed)?;
        }
        let mib = (reads.read.len() as u64 * reads.len) as f64 / f64::from(1 << 20);
        let model = ModelDisk::new(preset, 1).read_many(depth, reads.len, &reads.read);
        let model = model.map_err(failed)?.max(1e-9);
        Ok(Validation { measured: mib / seconds.max(1e-9), predicted: mib / model, pattern })
    };
    PATTERNS.into_iter().map(one).collect()
}

/// The reads of a pattern.
struct Reads {
    len: u64,
    random: bool,
    size: u64,
    /// Where it was read.
    read: Vec<u64>,
}

impl Reads {
    /// Places of the next reads.
    fn round(&mut self, rng: &mut Xoshiro256) -> Vec<u64> {
        let places = (self.size / self.len).max(1);
        let first = self.read.len() as u64;
        let place = |n: u64| match self.random {
            true => rng.below(places) * self.len,
            false => (first + n) % places * self.len,
        };
        let round: Vec<u64> = (0..ROUND as u64).map(place).collect();
        self.read.extend(&round);
        round
    }
}
