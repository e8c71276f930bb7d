//! How long a head takes to another cylinder.
//!
//! Short seeks are spent accelerating (the time grows with the root of the distance), long ones
//! coasting (with the distance itself), and both end with settling:
//! `time(x) = one + a·√x + b·x`, where x is the distance as part of the full stroke. Data sheets
//! give three points of it: one track, the average over random pairs of places, the full stroke.
//! Random pairs have the density 2(1-x), so that the mean of √x is 8/15 and that of x is 1/3; two
//! linear equations then give a and b.

use super::Nanos;
use serde::{Deserialize, Serialize};

/// Seek times, as data sheets give them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// To the next cylinder, in milliseconds.
    pub one_track_ms: f64,
    /// Mean of seeks between random places.
    pub average_ms: f64,
    /// From the first cylinder to the last.
    pub full_ms: f64,
}

impl Seek {
    /// All of them this many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            one_track_ms: self.one_track_ms * factor,
            average_ms: self.average_ms * factor,
            full_ms: self.full_ms * factor,
        }
    }
}

/// The curve through a [`Seek`]'s points, over a number of cylinders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    one: f64,
    root: f64,
    linear: f64,
    cylinders: f64,
}

impl Curve {
    pub(crate) fn new(seek: &Seek, cylinders: u64) -> Self {
        let one = seek.one_track_ms * 1e6;
        let (average, full) = (seek.average_ms * 1e6 - one, seek.full_ms * 1e6 - one);
        // average = 8/15·root + 1/3·linear, full = root + linear
        let root = (average - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        Self { one, root, linear: full - root, cylinders: cylinders.max(2) as f64 }
    }

    /// Over this many cylinders; nothing for none.
    pub(crate) fn time(&self, cylinders: u64) -> Nanos {
        if cylinders == 0 {
            return 0;
        }
        let part = (cylinders as f64 / (self.cylinders - 1.0)).min(1.0);
        let time = self.one + self.root * part.sqrt() + self.linear * part;
        // A curve through odd points may bend down between them, but never below one track.
        time.max(self.one) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_the_three_points() {
        let seek = Seek { one_track_ms: 0.7, average_ms: 4.7, full_ms: 9.5 };
        let cylinders = 20_001;
        let curve = Curve::new(&seek, cylinders);
        let ms = |d| curve.time(d) as f64 * 1e-6;
        assert_eq!(ms(0), 0.0);
        assert!((ms(1) - 0.7).abs() < 0.1, "{}", ms(1));
        assert!((ms(20_000) - 9.5).abs() < 1e-3);
        // Over all pairs of places: d apart lie 2(n-d) of them.
        let (mut sum, mut pairs) = (0.0, 0.0);
        for d in (0..cylinders).step_by(7) {
            sum += 2.0 * (cylinders - d) as f64 * ms(d);
            pairs += 2.0 * (cylinders - d) as f64;
        }
        let mean = sum / pairs;
        assert!((mean - 4.7).abs() < 0.01, "{mean}");
        assert!((1..20_000).all(|d| curve.time(d) <= curve.time(d + 1)));
    }
}
