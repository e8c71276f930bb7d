//! Money, and what a store of objects asks for.
//!
//! The list that is built in is Amazon's; another is text, with a line `NAME = NUMBER` for each
//! price that differs.

use crate::name::is_bucket;
use core::fmt;
use device::StoreUsage;

/// Cost, in billionths of a dollar: a read costs some hundreds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u64);

/// Billionths in a whole.
const WHOLE: u64 = 1_000_000_000;
/// Prices above this many dollars are mistakes.
const PRICE_MAX: f64 = 1e6;

/// What a store asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// Where they are from.
    pub source: String,
    /// Of which day.
    pub date: String,
    /// For a million creates.
    pub create: Cost,
    /// For a million reads.
    pub get: Cost,
    /// For a million lists.
    pub list: Cost,
    /// For a million deletes.
    pub delete: Cost,
    /// For a GiB that is kept for a month.
    pub keep: Cost,
    /// For a GiB that is read out of the store: nothing within its region.
    pub out: Cost,
}

impl Default for Prices {
    /// Amazon S3 Standard in us-east-1.
    fn default() -> Self {
        Self {
            source: "list prices of Amazon S3 Standard, us-east-1, read from within the region"
                .to_owned(),
            date: "2026-11".to_owned(),
            create: Cost(5 * WHOLE),
            get: Cost(WHOLE / 10 * 4),
            list: Cost(5 * WHOLE),
            delete: Cost(0),
            keep: Cost(WHOLE / 1000 * 23),
            out: Cost(0),
        }
    }
}

impl Prices {
    /// Whether what a disk asks for costs these prices: it is in a bucket, of Amazon's or another
    /// server that speaks S3 if this is the list that is built in.
    #[must_use]
    pub fn are_of(&self, name: &str) -> bool {
        is_bucket(name) && (name.starts_with("s3://") || *self != Self::default())
    }

    /// Reads a list: a line `NAME = VALUE` for each price that is not that of the list that is
    /// built in, in dollars, and `source` and `date`; `#` begins a comment.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut own = Self {
            source: "a list of your own".to_owned(),
            date: "no date".to_owned(),
            ..Self::default()
        };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) =
                line.split_once('=').ok_or_else(|| format!("'{line}': it is not NAME = VALUE"))?;
            let (name, value) = (name.trim(), value.trim());
            let price = match name {
                "source" | "date" => {
                    let text = if name == "date" { &mut own.date } else { &mut own.source };
                    value.clone_into(text);
                    continue;
                }
                "create" => &mut own.create,
                "get" => &mut own.get,
                "list" => &mut own.list,
                "delete" => &mut own.delete,
                "keep" => &mut own.keep,
                "out" => &mut own.out,
                _ => {
                    let known = "create, get, list, delete, keep, out, source and date";
                    return Err(format!("'{name}' has no price: there are {known}"));
                }
            };
            *price = Cost::read(value).ok_or_else(|| format!("'{line}': it is not a price"))?;
        }
        Ok(own)
    }

    /// What a number of requests cost, of a price for a million.
    pub(crate) fn requests(price: Cost, count: u64) -> Cost {
        Cost::share(price, count, 1_000_000)
    }

    /// What bytes cost, of a price for a GiB.
    pub(crate) fn bytes(price: Cost, bytes: u64) -> Cost {
        Cost::share(price, bytes, 1 << 30)
    }

    /// What was asked of a store costs.
    #[must_use]
    pub fn of(&self, usage: &StoreUsage) -> Cost {
        [
            Self::requests(self.create, usage.creates),
            Self::requests(self.get, usage.gets),
            Self::requests(self.list, usage.lists),
            Self::requests(self.delete, usage.deletes),
            Self::bytes(self.out, usage.received_bytes),
        ]
        .into_iter()
        .fold(Cost(0), Cost::plus)
    }
}

impl Cost {
    /// Reads dollars.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let dollars: f64 = text.parse().ok()?;
        let is_price = (0.0..=PRICE_MAX).contains(&dollars);
        // Between nothing and what fits.
        is_price.then(|| Self((dollars * 1e9).round() as u64))
    }

    fn share(price: Self, count: u64, of: u64) -> Self {
        let exact = u128::from(price.0) * u128::from(count) / u128::from(of.max(1));
        Self(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Cost {
    /// Dollars and cents; of less than a cent as much as can be told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.0.saturating_add(WHOLE / 200) / (WHOLE / 100);
        match self.0 {
            0 => f.write_str("0"),
            small if small < WHOLE / 100 => {
                let text = format!("{:.6}", small as f64 / 1e9);
                f.write_str(match text.trim_end_matches('0') {
                    "0." => "<0.000001",
                    text => text,
                })
            }
            _ => write!(f, "{}.{:02}", cents / 100, cents % 100),
        }
    }
}
