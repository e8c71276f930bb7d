//! The remaining work of the background activities of a pool, in columns, as `zpool wait` prints
//! them.

use engine::activity::Activity;
use term::human::nicenum;

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Tabs between columns.
    pub script: bool,
    /// Exact numbers.
    pub parsable: bool,
}

impl Style {
    /// The line above the others.
    #[must_use]
    pub fn heading(self, wanted: &[Activity]) -> String {
        let cell = |a: &Activity| format!("{:>1$}", a.name().to_uppercase(), self.width(*a));
        let cells: Vec<_> = wanted.iter().map(cell).collect();
        format!("{}\n", cells.join("  "))
    }

    /// Bytes that are left of each.
    #[must_use]
    pub fn row(self, wanted: &[Activity], left: &[Option<u64>]) -> String {
        let cell = |(activity, left): (&Activity, &Option<u64>)| {
            let left = left.unwrap_or(0);
            let text = match (left, self.parsable) {
                (0, false) if !self.script => "-".to_owned(),
                (left, true) => left.to_string(),
                (left, false) => nicenum(left),
            };
            if self.script { text } else { format!("{text:>0$}", self.width(*activity)) }
        };
        let cells: Vec<_> = wanted.iter().zip(left).map(cell).collect();
        format!("{}\n", cells.join(if self.script { "\t" } else { "  " }))
    }

    fn width(self, activity: Activity) -> usize {
        let least = if self.parsable { 12 } else { 6 };
        activity.name().len().max(least)
    }
}
