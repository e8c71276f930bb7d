//! Rows and columns.

use super::escape;

/// Rows with columns padded as OpenZFS pads them, or tab separated with `-H`.
///
/// The text of cells comes from pools, so cells are escaped: for people everything that a terminal
/// would obey, for programs only what would break the row.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
    script: bool,
}

impl Table {
    /// A table with these headings; `right` marks the columns that are flush right. With `script`
    /// headings are left out and columns are separated by a tab (`-H`).
    pub fn new(headings: &[&str], right: &[bool], script: bool) -> Self {
        let mut rows = Vec::new();
        if !script {
            rows.push(headings.iter().map(|h| (*h).to_owned()).collect());
        }
        Self { rows, right: right.to_vec(), script }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        let cell = |c: String| if self.script { c } else { escape::line(&c).into_owned() };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// It is for programs.
    #[must_use]
    pub fn is_script(&self) -> bool {
        self.script
    }

    /// All rows as they are printed.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let length = |s: &String| s.chars().count();
        let width = |c| self.rows.iter().filter_map(|r| r.get(c)).map(length).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            if self.script {
                text.push_str(&script_row(row));
            } else {
                text.push_str(self.padded(row, &widths).trim_end());
                text.push('\n');
            }
        }
        text
    }

    fn padded(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            if i > 0 {
                line.push_str("  ");
            }
            if self.right.get(i).copied().unwrap_or(false) {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
        }
        line
    }
}

/// One line for programs (`-H`): the cells with tabs between them. No cell ends its row or column.
pub fn script_row(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|c| escape::cell(c)).collect();
    cells.join("\t") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_in_its_place() {
        for (script, shown) in
            [(false, "NAME  VALUE\nx     a\\x0ab\\x1b\n"), (true, "x\ta\\x0ab\u{1b}\n")]
        {
            let mut table = Table::new(&["NAME", "VALUE"], &[], script);
            table.row(vec!["x".to_owned(), "a\nb\u{1b}".to_owned()]);
            assert_eq!(table.text(), shown);
        }
    }
}
