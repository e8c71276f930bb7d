//! `zinc zpool list`: pools, and with `-v` their vdevs, as a table.

use super::naming::Naming;
use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::{json, ui};
use engine::Pool;
use engine::dsl::nicenum::nicenum;
use engine::ondisk::pool_props::POOL;
use engine::ondisk::props::{self, Shown};
use engine::pool::{PoolProperty, Section, VdevView};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::process::ExitCode;

/// Arguments of `zinc zpool list`.
#[derive(clap::Args)]
pub struct Args {
    /// Also the vdevs of each pool
    #[arg(short = 'v')]
    verbose: bool,
    #[command(flatten)]
    naming: Naming,
    /// No headings, tabs between columns
    #[arg(short = 'H')]
    script: bool,
    /// Exact numbers
    #[arg(short = 'p')]
    parsable: bool,
    /// Columns, separated by commas: properties of pools
    #[arg(
        short = 'o',
        value_name = "PROPERTY,…",
        default_value = "name,size,allocated,free,checkpoint,expandsize,fragmentation,\
                         capacity,dedupratio,health,altroot"
    )]
    columns: String,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write numbers as numbers in JSON
    #[arg(long)]
    json_int: bool,
    #[command(flatten)]
    pool: PoolArgs,
    /// Pools; all found ones when none is named
    pools: Vec<String>,
}

/// A line of the table; of a vdev or the heading of a section some cells are missing at the end.
struct Row {
    indent: usize,
    cells: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let columns = columns(&self.columns)?;
        let rows = RefCell::new(Vec::new());
        let content = RefCell::new(Map::new());
        let code = super::for_each_pool(&self.pool, &self.pools, |pool| {
            let space = pool.space();
            let properties = pool.properties(&space);
            let mut view = pool.vdev_view(&space);
            self.naming.apply(pool, &mut view);
            let section = |s| view.section(s);
            if self.json {
                let mut map = super::pool_json(pool, self.json_int);
                map.insert("properties".to_owned(), self.properties_json(&columns, &properties));
                if self.verbose {
                    let all = Section::ALL.into_iter().flat_map(section);
                    map.insert("vdevs".to_owned(), self.vdevs_json(&columns, all));
                }
                content.borrow_mut().insert(pool.name().to_owned(), Value::Object(map));
                return Ok(());
            }
            let mut rows = rows.borrow_mut();
            rows.push(self.pool_row(pool, &columns, &properties));
            if self.verbose {
                for s in Section::ALL {
                    self.section_rows(&mut rows, &columns, s, section(s));
                }
            }
            Ok(())
        })?;
        if self.json {
            ui::json(&json::document("zpool list", "pools", content.into_inner()));
        } else {
            self.print(&columns, &rows.into_inner());
        }
        Ok(code)
    }

    fn pool_row(&self, pool: &Pool, columns: &[Column], properties: &[PoolProperty]) -> Row {
        let cell = |c: &Column| match c.name.as_str() {
            "name" => pool.name().to_owned(),
            name => {
                let property = properties.iter().find(|p| p.name == name);
                property.map_or_else(dash, |p| super::get::text(p, self.parsable))
            }
        };
        Row { indent: 0, cells: columns.iter().map(cell).collect() }
    }

    fn section_rows(
        &self,
        rows: &mut Vec<Row>,
        columns: &[Column],
        section: Section,
        vdevs: &[VdevView],
    ) {
        let heading = match section {
            Section::Normal => None,
            Section::Dedup => Some("dedup"),
            Section::Special => Some("special"),
            Section::Logs => Some("logs"),
            Section::Cache => Some("cache"),
            Section::Spares => Some("spare"),
        };
        if let (Some(title), false) = (heading, vdevs.is_empty()) {
            let of_vdevs = columns.iter().filter(|c| is_of_vdevs(&c.name));
            let cell = |c: &Column| if c.name == "name" { title.to_owned() } else { dash() };
            rows.push(Row { indent: 0, cells: of_vdevs.map(cell).collect() });
        }
        for v in vdevs {
            self.vdev_rows(rows, columns, v, 2);
        }
    }

    // Depth is bounded: the configuration's decoder limits it.
    fn vdev_rows(&self, rows: &mut Vec<Row>, columns: &[Column], v: &VdevView, indent: usize) {
        let of_vdevs = columns.iter().filter(|c| is_of_vdevs(&c.name));
        let cells = of_vdevs.map(|c| vdev_cell(v, &c.name, self.parsable)).collect();
        rows.push(Row { indent, cells });
        for child in &v.children {
            self.vdev_rows(rows, columns, child, indent + 2);
        }
    }

    fn print(&self, columns: &[Column], rows: &[Row]) {
        if self.script {
            for row in rows {
                let lead = if row.indent > 0 { "\t" } else { "" };
                ui::out(&format!("{lead}{}\n", row.cells.join("\t")));
            }
            return;
        }
        if rows.is_empty() {
            return;
        }
        let length = |r: &Row, i: usize| {
            let indent = if i == 0 { r.indent } else { 0 };
            r.cells.get(i).map_or(0, |c| c.chars().count() + indent)
        };
        let width = |(i, c): (usize, &Column)| {
            let widest = rows.iter().map(|r| length(r, i)).max().unwrap_or(0);
            let first = if i == 0 && self.verbose { 10 } else { 0 };
            widest.max(c.heading.len()).max(c.width).max(first)
        };
        let widths: Vec<usize> = columns.iter().enumerate().map(width).collect();
        let headings = columns.iter().map(|c| c.heading.clone()).collect();
        let mut text = line(&Row { indent: 0, cells: headings }, columns, &widths);
        for row in rows {
            text.push_str(&line(row, columns, &widths));
        }
        ui::out(&text);
    }

    fn properties_json(&self, columns: &[Column], properties: &[PoolProperty]) -> Value {
        let shown = columns.iter().filter_map(|c| properties.iter().find(|p| p.name == c.name));
        let style = super::get::Style { parsable: self.parsable, json_int: self.json_int };
        Value::Object(shown.map(|p| (p.name.clone(), super::get::value(p, &style))).collect())
    }

    // Depth is bounded: the configuration's decoder limits it.
    fn vdevs_json<'v>(
        &self,
        columns: &[Column],
        vdevs: impl Iterator<Item = &'v VdevView>,
    ) -> Value {
        let one = |v: &'v VdevView| {
            let of_vdevs = columns.iter().filter(|c| c.name != "name" && is_of_vdevs(&c.name));
            let property = |c: &Column| {
                let text = vdev_cell(v, &c.name, self.parsable || self.json_int);
                let value = json::text_or_number(&text, self.json_int);
                (c.name.clone(), json::property(&value, "NONE", "-"))
            };
            let mut map = Map::new();
            map.insert("name".to_owned(), json!(v.name));
            map.insert("vdev_type".to_owned(), json!(v.kind.name()));
            map.insert("guid".to_owned(), json::number(v.guid, self.json_int));
            map.insert("state".to_owned(), json!(v.state));
            map.insert("properties".to_owned(), Value::Object(of_vdevs.map(property).collect()));
            if !v.children.is_empty() {
                let below: Vec<&VdevView> = v.children.iter().collect();
                map.insert("vdevs".to_owned(), self.vdevs_json(columns, below.into_iter()));
            }
            (v.name.clone(), Value::Object(map))
        };
        Value::Object(vdevs.map(one).collect::<Vec<_>>().into_iter().collect())
    }
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

/// A column of the table.
struct Column {
    name: String,
    heading: String,
    right: bool,
    width: usize,
}

fn columns(text: &str) -> Result<Vec<Column>, Failure> {
    text.split(',').map(column).collect()
}

fn column(word: &str) -> Result<Column, Failure> {
    if word == "name" {
        let (name, heading) = (word.to_owned(), "NAME".to_owned());
        return Ok(Column { name, heading, right: false, width: 0 });
    }
    let by_heading = || POOL.iter().find(|p| p.is_visible() && p.column.eq_ignore_ascii_case(word));
    if let Some(p) = props::find(&POOL, word).or_else(by_heading) {
        // Space for the widest usual value.
        let width = match p.name {
            "size" | "allocated" | "free" | "fragmentation" | "capacity" | "dedupratio" => 5,
            "health" => 8,
            _ => 0,
        };
        let (name, heading) = (p.name.to_owned(), p.column.to_owned());
        return Ok(Column { name, heading, right: p.shown == Shown::Right, width });
    }
    if word.starts_with("feature@") || word.contains(':') {
        let (name, heading) = (word.to_owned(), word.to_uppercase());
        return Ok(Column { name, heading, right: false, width: 0 });
    }
    Err(Failure::usage(format!("bad property list: invalid property {word:?}"))
        .hint("`zinc zpool get all POOL` shows the properties there are"))
}

fn dash() -> String {
    "-".to_owned()
}

/// The column has a cell for vdevs.
fn is_of_vdevs(name: &str) -> bool {
    let known = [
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
    ];
    known.contains(&name)
}

fn vdev_cell(v: &VdevView, column: &str, parsable: bool) -> String {
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
        "health" => v.state.clone(),
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
