//! Pools and their vdevs in rows and columns, as `zpool list` has them.

use crate::json;
use crate::status::View;
use engine::features::FEATURES;
use engine::inventory::Reports;
use engine::live::SpaceClass;
use engine::pools::{PoolProperty, PoolPropertySource, Section, Status, VdevTreeView, VdevView};
use engine::props::{self, ListAlignment, POOL};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use term::human::nicenum;

/// The value for people, as `zpool get` prints it without `-p`.
#[must_use]
pub fn pretty(property: &PoolProperty) -> String {
    let number = property.value.parse::<u64>();
    match (property.name.as_str(), number) {
        ("capacity" | "fragmentation", Ok(n)) => format!("{n}%"),
        ("dedupratio" | "bcloneratio", _) => format!("{}x", property.value),
        (
            "size" | "allocated" | "free" | "freeing" | "leaked" | "expandsize" | "checkpoint"
            | "bcloneused" | "bclonesaved" | "dedup_table_size" | "dedup_table_quota",
            Ok(n),
        ) => nicenum(n),
        _ => property.value.clone(),
    }
}

/// The text of the column SOURCE.
#[must_use]
pub fn source(source: PoolPropertySource) -> &'static str {
    match source {
        PoolPropertySource::None => "-",
        PoolPropertySource::Default => "default",
        PoolPropertySource::Local => "local",
    }
}

/// The default columns of the table.
pub const COLUMNS: [&str; 11] = [
    "name",
    "size",
    "allocated",
    "free",
    "checkpoint",
    "expandsize",
    "fragmentation",
    "capacity",
    "dedupratio",
    "health",
    "altroot",
];

/// The table of `zpool list -vP` of one pool.
#[must_use]
pub fn vdev_list(pool: &str, properties: &[PoolProperty], view: &VdevTreeView) -> String {
    let columns: Vec<Column> = COLUMNS.iter().filter_map(|name| Column::of(name)).collect();
    let cell = |c: &Column| match c.name.as_str() {
        "name" => pool.to_owned(),
        name => properties.iter().find(|p| p.name == name).map_or_else(dash, pretty),
    };
    let mut rows = vec![Row { indent: 0, cells: columns.iter().map(cell).collect() }];
    for section in Section::ALL {
        section_rows(&mut rows, &columns, section, view.section(section), false);
    }
    text(&columns, &rows, true, true)
}

/// The reports that a manifest of a pool quotes.
#[must_use]
pub fn reports(status: &Status, properties: &[PoolProperty], view: &VdevTreeView) -> Reports {
    Reports {
        status: View::default().report(status),
        vdev_list: vdev_list(&status.pool, properties, view),
    }
}

/// A line of the table; of a vdev or the heading of a section some cells are missing at the end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// Columns that its first cell is moved to the right.
    pub indent: usize,
    /// Its cells.
    pub cells: Vec<String>,
}

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    /// The property.
    pub name: String,
    heading: String,
    right: bool,
    width: usize,
}

impl Column {
    /// Those of all properties and features that pools have, with the name in front.
    pub fn all() -> impl Iterator<Item = Self> {
        let properties = POOL.iter().filter(|p| p.is_visible() && p.name != "name");
        let names = properties.map(|p| p.name.to_owned());
        let features = FEATURES.iter().map(|f| format!("feature@{}", f.name()));
        let all = std::iter::once("name".to_owned()).chain(names).chain(features);
        all.filter_map(|name| Self::of(&name))
    }

    /// That of a property, by its name or heading; `None` where there is none.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        if word == "name" {
            let (name, heading) = (word.to_owned(), "NAME".to_owned());
            return Some(Self { name, heading, right: false, width: 0 });
        }
        let by_heading =
            || POOL.iter().find(|p| p.is_visible() && p.column.to_ascii_lowercase() == word);
        if let Some(p) = props::find(&POOL, word).or_else(by_heading) {
            // Space for the widest usual value.
            let width = match p.name {
                "size" | "allocated" | "free" | "fragmentation" | "capacity" | "dedupratio" => 5,
                "health" => 8,
                _ => 0,
            };
            let (name, heading) = (p.name.to_owned(), p.column.to_owned());
            return Some(Self { name, heading, right: p.shown == ListAlignment::Right, width });
        }
        if word.starts_with("feature@") || word.contains(':') {
            let (name, heading) = (word.to_owned(), word.to_uppercase());
            return Some(Self { name, heading, right: false, width: 0 });
        }
        None
    }
}

/// The table; nothing without rows. A table that is repeated has its headings the first time, and
/// each time with vdevs: its rows are many then.
#[must_use]
pub fn text(columns: &[Column], rows: &[Row], with_vdevs: bool, is_first: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let length = |r: &Row, i: usize| {
        let indent = if i == 0 { r.indent } else { 0 };
        r.cells.get(i).map_or(0, |c| c.chars().count() + indent)
    };
    let width = |(i, c): (usize, &Column)| {
        let widest = rows.iter().map(|r| length(r, i)).max().unwrap_or(0);
        let first = if i == 0 && with_vdevs { 10 } else { 0 };
        widest.max(c.heading.len()).max(c.width).max(first)
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(width).collect();
    let headings = columns.iter().map(|c| c.heading.clone()).collect();
    let heading = Row { indent: 0, cells: headings };
    let heading = Some(&heading).filter(|_| is_first || with_vdevs);
    heading.into_iter().chain(rows).map(|row| line(row, columns, &widths)).collect()
}

/// One line with its columns padded; the last one is, when it is flush left, as long as it is.
fn line(row: &Row, columns: &[Column], widths: &[usize]) -> String {
    let mut text = String::new();
    for (i, ((cell, column), width)) in row.cells.iter().zip(columns).zip(widths).enumerate() {
        if i > 0 {
            text.push_str("  ");
        }
        let lead = if i == 0 { row.indent } else { 0 };
        let width = width - lead.min(*width);
        text.push_str(&" ".repeat(lead));
        if column.right {
            text.push_str(&format!("{cell:>width$}"));
        } else if i + 1 == columns.len() {
            text.push_str(cell);
        } else {
            text.push_str(&format!("{cell:width$}"));
        }
    }
    text.push('\n');
    text
}

/// Adds the vdevs of a section below its heading.
pub fn section_rows(
    rows: &mut Vec<Row>,
    columns: &[Column],
    section: Section,
    vdevs: &[VdevView],
    parsable: bool,
) {
    let heading = match section {
        Section::Tops(SpaceClass::Normal) => None,
        Section::Tops(SpaceClass::Dedup) => Some("dedup"),
        Section::Tops(SpaceClass::Special) => Some("special"),
        Section::Tops(SpaceClass::Log) => Some("logs"),
        Section::Cache => Some("cache"),
        Section::Spares => Some("spare"),
    };
    if let (Some(title), false) = (heading, vdevs.is_empty()) {
        let of_vdevs = columns.iter().filter(|c| is_of_vdevs(&c.name));
        let cell = |c: &Column| if c.name == "name" { title.to_owned() } else { dash() };
        rows.push(Row { indent: 0, cells: of_vdevs.map(cell).collect() });
    }
    for v in vdevs {
        vdev_rows(rows, columns, v, 2, parsable);
    }
}

// Depth is bounded: the configuration's decoder limits it.
fn vdev_rows(rows: &mut Vec<Row>, columns: &[Column], v: &VdevView, indent: usize, parsable: bool) {
    let of_vdevs = columns.iter().filter(|c| is_of_vdevs(&c.name));
    let cells = of_vdevs.map(|c| vdev_cell(v, &c.name, parsable)).collect();
    rows.push(Row { indent, cells });
    for child in &v.children {
        vdev_rows(rows, columns, child, indent + 2, parsable);
    }
}

/// The text in place of a value that does not exist.
#[must_use]
pub fn dash() -> String {
    "-".to_owned()
}

/// The column has a cell for vdevs.
#[must_use]
pub fn is_of_vdevs(name: &str) -> bool {
    name != "altroot" && COLUMNS.contains(&name)
}

/// The cell of a vdev in a column.
#[must_use]
pub fn vdev_cell(v: &VdevView, column: &str, parsable: bool) -> String {
    let number = |n: u64| if parsable { n.to_string() } else { nicenum(n) };
    let nonzero = |n: u64| if n == 0 { dash() } else { number(n) };
    let top = |text: String| if v.is_top { text } else { dash() };
    let [space, allocated, checkpoint] = v.space;
    match column {
        "name" => v.name.clone(),
        "size" if v.is_top && v.size == 0 => number(0),
        "size" => nonzero(v.size),
        "allocated" => top(number(allocated)),
        "free" => top(number(space.saturating_sub(allocated))),
        "checkpoint" => top(nonzero(checkpoint)),
        "expandsize" => top(nonzero(v.expand_size)),
        "fragmentation" => top(v.fragmentation.map_or_else(dash, |f| match parsable {
            true => f.to_string(),
            false => format!("{f}%"),
        })),
        "capacity" => top(capacity(allocated, space, parsable)),
        "health" => v.state.name().to_owned(),
        _ => dash(),
    }
}

/// Percent with as many digits as fit into five columns; whole percent with `-p`.
fn capacity(part: u64, all: u64, parsable: bool) -> String {
    let parts = (u128::from(part) * 10_000).checked_div(u128::from(all)).unwrap_or(0);
    let percent = parts as f64 / 100.0;
    match parts {
        _ if parsable => (parts / 100).to_string(),
        0..=999 => format!("{percent:.2}%"),
        1000..=9999 => format!("{percent:.1}%"),
        _ => format!("{percent:3.0}%"),
    }
}

/// Vdevs as JSON, each with the columns that vdevs have, and with those below it.
// Depth is bounded: the configuration's decoder limits it.
#[must_use]
pub fn vdevs_json<'v>(
    columns: &[Column],
    vdevs: impl IntoIterator<Item = &'v VdevView>,
    parsable: bool,
    json_int: bool,
) -> Value {
    let one = |v: &'v VdevView| {
        let of_vdevs = columns.iter().filter(|c| c.name != "name" && is_of_vdevs(&c.name));
        let property = |c: &Column| {
            let text = vdev_cell(v, &c.name, parsable || json_int);
            let value = json::text_or_number(&text, json_int);
            (c.name.clone(), json::property(&value, "NONE", "-"))
        };
        let mut map = Map::new();
        map.insert("name".to_owned(), json!(v.name));
        map.insert("vdev_type".to_owned(), json!(v.kind.name()));
        map.insert("guid".to_owned(), json::number(v.guid, json_int));
        map.insert("state".to_owned(), json!(v.state.name()));
        map.insert("properties".to_owned(), Value::Object(of_vdevs.map(property).collect()));
        if !v.children.is_empty() {
            let below: Vec<&VdevView> = v.children.iter().collect();
            map.insert("vdevs".to_owned(), vdevs_json(columns, below, parsable, json_int));
        }
        (v.name.clone(), Value::Object(map))
    };
    Value::Object(vdevs.into_iter().map(one).collect::<Vec<_>>().into_iter().collect())
}
