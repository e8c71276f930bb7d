//! Datasets, a line each, and the order in which they are listed.

use super::text;
use crate::HostInfo;
use engine::props;
use engine::props::ListAlignment;
use engine::select::Selected;
use std::cmp::Ordering;
use term::Table;

/// A table of datasets; the columns are properties by their full names, and `name`.
#[must_use]
pub fn table(
    host_info: &dyn HostInfo,
    all: &[Selected],
    columns: &[String],
    script: bool,
    parsable: bool,
) -> Table {
    let native = |c: &String| props::find(&props::DATASET, c);
    let heading = |c: &String| match native(c) {
        Some(p) => p.column.to_owned(),
        None => c.to_uppercase(),
    };
    let headings: Vec<String> = columns.iter().map(heading).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let is_right = |c: &String| {
        c.starts_with("written@") || native(c).is_some_and(|p| p.shown == ListAlignment::Right)
    };
    let right: Vec<bool> = columns.iter().map(is_right).collect();
    let mut table = Table::new(&headings, &right, script);
    for s in all {
        let cell = |c: &String| match c.as_str() {
            "name" => s.name.clone(),
            c => s.property(c).map_or_else(|| "-".to_owned(), |p| text(host_info, p, parsable)),
        };
        table.row(columns.iter().map(cell).collect());
    }
    table
}

/// The order of two datasets by properties, each with whether it is descending; what lacks one
/// comes after what has it.
#[must_use]
pub fn compare(a: &Selected, b: &Selected, order: &[(String, bool)]) -> Ordering {
    for (name, descending) in order {
        let ordering = match (a.property(name), b.property(name)) {
            _ if name == "name" => a.name.cmp(&b.name),
            (None, None) => continue,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(x), Some(y)) => match (x.number(), y.number()) {
                (Some(m), Some(n)) => m.cmp(&n),
                _ => x.value.cmp(&y.value),
            },
        };
        let ordering = if *descending { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}
