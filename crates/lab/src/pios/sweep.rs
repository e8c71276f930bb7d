//! Lists and ranges of values, and sizes as people write them.

use super::{PiosError, Result};

/// The values that an option goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep(Vec<u64>);

impl Sweep {
    /// One value.
    #[must_use]
    pub fn one(value: u64) -> Self {
        Self(vec![value])
    }

    /// A list: `1,8,40`.
    ///
    /// # Errors
    /// One of them is not a number.
    pub fn list(text: &str) -> Result<Self> {
        let values: Result<Vec<u64>> = text.split(',').map(parse_bytes).collect();
        Ok(Self(values?))
    }

    /// From `low` to `high`, each value `percent` larger than the one before, as pios counts; at
    /// least one larger. The last is never above `high`.
    ///
    /// # Errors
    /// The range is empty, or has no step.
    pub fn range(low: u64, high: u64, percent: u64) -> Result<Self> {
        if low == 0 || low > high {
            let what = format!("no range goes from {low} to {high}");
            return Err(PiosError::new(what).hint("_low is at least 1 and not above _high"));
        }
        if percent == 0 {
            return Err(PiosError::new("a range needs a step of at least 1 percent (_incr)"));
        }
        let mut values = Vec::new();
        let mut at = low;
        while at <= high {
            values.push(at);
            let step = u128::from(at) * u128::from(percent) / 100;
            at = at.saturating_add(u64::try_from(step.max(1)).unwrap_or(u64::MAX));
        }
        Ok(Self(values))
    }

    /// What the texts of an option say: its list, or the ends and the step of its range (100
    /// without one); `usual` when there is none.
    ///
    /// # Errors
    /// One of them is not a number, a range has no end, or there is a list beside it.
    pub fn of_texts(texts: [Option<&str>; 4], usual: u64) -> Result<Self> {
        let number = |text: Option<&str>| text.map(parse_bytes).transpose();
        match texts {
            [None, None, None, None] => Ok(Self::one(usual)),
            [Some(list), None, None, None] => Self::list(list),
            [None, low, high, incr] => match (number(low)?, number(high)?, number(incr)?) {
                (Some(low), Some(high), incr) => Self::range(low, high, incr.unwrap_or(100)),
                _ => Err(PiosError::new("a range needs _low and _high")),
            },
            _ => Err(PiosError::new("give a list or a range, not both")),
        }
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.0
    }
}

/// A number of bytes, as a property has them: `K`, `M`, `G` and so on are powers of 1024.
///
/// # Errors
/// It is malformed.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let wrong =
        || PiosError::new(format!("`{text}` is not a number with an optional K, M, G or T"));
    engine::parse_size(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes_and_ranges_grow_by_percent() {
        assert_eq!(parse_bytes("128K"), Ok(128 << 10));
        assert_eq!(parse_bytes(" 2m "), Ok(2 << 20));
        assert!(parse_bytes("2x").is_err() && parse_bytes("").is_err());
        assert!(parse_bytes("99999999t").is_err());
        assert_eq!(Sweep::list("1,8,40").expect("list").values(), [1, 8, 40]);
        assert!(Sweep::list("1,,2").is_err());
        assert_eq!(Sweep::range(1, 8, 100).expect("range").values(), [1, 2, 4, 8]);
        assert_eq!(Sweep::range(1, 5, 10).expect("range").values(), [1, 2, 3, 4, 5]);
        let of = |texts| Sweep::of_texts(texts, 3).map(|sweep| sweep.0);
        assert_eq!(of([None; 4]), Ok(vec![3]));
        assert_eq!(of([Some("5,1k"), None, None, None]), Ok(vec![5, 1024]));
        assert_eq!(of([None, Some("1"), Some("4"), None]), Ok(vec![1, 2, 4]));
        assert!(of([None, Some("1"), None, None]).is_err());
        assert!(of([Some("5"), Some("1"), Some("4"), None]).is_err());
        assert!(Sweep::range(4, 2, 100).is_err() && Sweep::range(1, 2, 0).is_err());
    }
}
