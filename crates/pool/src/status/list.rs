//! The table of `zpool list -v`.

use super::view::{Section, VdevTreeView, VdevView};
use crate::open::Pool;
use crate::props::percentage;
use crate::space::PoolSpace;
use dsl::nicenum::nicenum;
use ondisk::config::VdevKind;
use std::fmt::Write as _;

/// Headings and widths of the columns between the name and the last.
const COLUMNS: [(&str, usize); 9] = [
    ("SIZE", 5),
    ("ALLOC", 5),
    ("FREE", 5),
    ("CKPOINT", 7),
    ("EXPANDSZ", 8),
    ("FRAG", 5),
    ("CAP", 5),
    ("DEDUP", 5),
    ("HEALTH", 8),
];

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRow {
    /// Columns by which the name is moved in.
    pub indent: usize,
    /// Name of the pool, of a vdev, or heading of a section.
    pub name: String,
    /// Size, allocated, free, checkpoint, expandable, fragmentation, capacity, dedup ratio,
    /// health; `-` where it does not apply.
    pub cells: [String; 9],
    /// `altroot`, of the pool only.
    pub altroot: Option<String>,
}

/// The table of `zpool list -v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevList {
    /// Its lines, the pool first.
    pub rows: Vec<ListRow>,
    /// Width of the column of names.
    pub name_width: usize,
}

impl Pool {
    /// The table of `zpool list -v`.
    #[must_use]
    pub fn vdev_list(&self, space: &PoolSpace) -> VdevList {
        let view = self.vdev_view(space);
        let name_width = view.name_width(self.name());
        let mut rows = vec![self.list_row(space)];
        for section in Section::ALL {
            section_rows(&mut rows, &view, section);
        }
        VdevList { rows, name_width }
    }

    /// The line of `zpool list`.
    #[must_use]
    pub fn list_row(&self, space: &PoolSpace) -> ListRow {
        let total = space.total();
        let dedup = space.dedup_percent();
        let cells = [
            nicenum(total.size),
            nicenum(total.allocated),
            nicenum(total.size.saturating_sub(total.allocated)),
            nonzero(space.checkpoint()),
            nonzero(self.expand_size(space)),
            space.fragmentation().map_or_else(dash, |f| format!("{f}%")),
            format!("{}%", percentage(total.allocated, total.size)),
            format!("{}.{:02}x", dedup / 100, dedup % 100),
            self.health(),
        ];
        let altroot = self.altroot().map_or_else(dash, str::to_owned);
        ListRow { indent: 0, name: self.name().to_owned(), cells, altroot: Some(altroot) }
    }
}

impl VdevList {
    /// The text of `zpool list -vP`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let width = self.name_width;
        let mut out = format!("{:<width$}", "NAME");
        for (heading, w) in COLUMNS {
            let _ = write!(out, "  {heading:>w$}");
        }
        out.push_str("  ALTROOT\n");
        for row in &self.rows {
            let name = format!("{:1$}{2}", "", row.indent, row.name);
            let _ = write!(out, "{name:<width$}");
            // Headings of sections have a last cell of another width.
            for (cell, (_, w)) in row.cells.iter().zip(COLUMNS) {
                let _ = write!(out, "  {cell:>w$}");
            }
            if let Some(altroot) = &row.altroot {
                let _ = write!(out, "  {altroot}");
            }
            out.push('\n');
        }
        out
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn nonzero(n: u64) -> String {
    if n == 0 { dash() } else { nicenum(n) }
}

fn section_rows(rows: &mut Vec<ListRow>, view: &VdevTreeView, section: Section) {
    let vdevs = view.section(section);
    let heading = match section {
        Section::Normal => None,
        Section::Dedup => Some("dedup"),
        Section::Special => Some("special"),
        Section::Logs => Some("logs"),
        Section::Cache => Some("cache"),
        Section::Spares => Some("spare"),
    };
    if let (Some(name), false) = (heading, vdevs.is_empty()) {
        let cells = [(); 9].map(|()| dash());
        rows.push(ListRow { indent: 0, name: name.to_owned(), cells, altroot: None });
    }
    for v in vdevs {
        vdev_rows(rows, v, 2);
    }
}

/// One vdev and those below. Depth is bounded: the configuration's decoder limits it.
fn vdev_rows(rows: &mut Vec<ListRow>, v: &VdevView, indent: usize) {
    let [space, allocated, checkpoint] = v.space;
    let top = |text: String| if v.is_top { text } else { dash() };
    let fragmentation = v.fragmentation.map_or_else(dash, |f| format!("{f}%"));
    let size =
        if v.size == 0 && v.kind != VdevKind::Indirect { top("0".into()) } else { nonzero(v.size) };
    let cells = [
        size,
        top(nicenum(allocated)),
        top(nicenum(space.saturating_sub(allocated))),
        top(nonzero(checkpoint)),
        top(nonzero(v.expand_size)),
        top(fragmentation),
        top(capacity(allocated, space)),
        dash(),
        v.state.clone(),
    ];
    rows.push(ListRow { indent, name: v.name.clone(), cells, altroot: None });
    for child in &v.children {
        vdev_rows(rows, child, indent + 2);
    }
}

/// Percent with as many digits as fit into five columns.
fn capacity(part: u64, all: u64) -> String {
    let parts = u128::from(part) * 10_000;
    let n = parts.checked_div(u128::from(all)).unwrap_or(0);
    let percent = n as f64 / 100.0;
    match n {
        0..=999 => format!("{percent:.2}%"),
        1000..=9999 => format!("{percent:.1}%"),
        _ => format!("{percent:3.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::capacity;

    #[test]
    fn capacity_takes_five_columns() {
        assert_eq!(capacity(1, 10_000), "0.01%");
        assert_eq!(capacity(108, 1000), "10.8%");
        assert_eq!(capacity(1, 1), "100%");
        assert_eq!(capacity(1, 0), "0.00%");
    }
}
