//! How far two histograms are apart.

/// Buckets of equal width; the last one has no end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    /// Width of one.
    pub(super) width: f64,
    /// Begin of the last one.
    pub(super) last: f64,
}

impl Buckets {
    /// The begin of the bucket that a value falls into.
    fn begin(self, value: f64) -> f64 {
        ((value / self.width).floor() * self.width).min(self.last)
    }
}

/// The distance at which one of 20 pairs of samples of one distribution would be, with this many
/// values each as the histogram has.
pub(super) fn most(histogram: &[(f64, u32)]) -> f64 {
    const FIVE_PERCENT: f64 = 1.358;
    let count: u32 = histogram.iter().map(|bucket| bucket.1).sum();
    (FIVE_PERCENT * (2.0 / f64::from(count.max(1))).sqrt()).min(1.0)
}

/// The largest difference between the parts of both that are not beyond a bucket: 0 for the same
/// shape, 1 where they have nothing in common, and where there are no values.
pub(super) fn distance(
    buckets: Buckets,
    histogram: &[(f64, u32)],
    values: &mut dyn Iterator<Item = f64>,
) -> f64 {
    let values: Vec<f64> = values.map(|value| buckets.begin(value)).collect();
    let count: u32 = histogram.iter().map(|bucket| bucket.1).sum();
    if values.is_empty() || count == 0 {
        return 1.0;
    }
    let begins = histogram.iter().map(|bucket| bucket.0).chain(values.iter().copied());
    let apart = |begin: f64| {
        let theirs: u32 = histogram.iter().filter(|b| b.0 <= begin).map(|b| b.1).sum();
        let ours = values.iter().filter(|value| **value <= begin).count();
        (f64::from(theirs) / f64::from(count) - ours as f64 / values.len() as f64).abs()
    };
    begins.map(apart).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_that_of_the_cumulated_parts() {
        let buckets = Buckets { width: 200.0, last: 4000.0 };
        let far = |study: &[(f64, u32)], ours: &[f64]| {
            distance(buckets, study, &mut ours.iter().copied())
        };
        assert_eq!(far(&[(0.0, 2), (400.0, 2)], &[10.0, 190.0, 400.0, 599.0]), 0.0);
        assert_eq!(far(&[(0.0, 2), (400.0, 2)], &[10.0, 400.0, 450.0, 599.0]), 0.25);
        assert_eq!(far(&[(0.0, 3)], &[200.0, 5000.0]), 1.0);
        assert_eq!(far(&[(4000.0, 3)], &[4000.0, 9000.0]), 0.0);
        assert_eq!(far(&[(0.0, 3)], &[]), 1.0);
        assert!((most(&[(0.0, 9), (3000.0, 2)]) - 0.579).abs() < 0.001);
        assert_eq!(most(&[(0.0, 1)]), 1.0);
    }
}
