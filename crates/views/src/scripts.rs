//! Columns of tables of vdevs that scripts fill (`zpool status -c`, `zpool iostat -c`).
//!
//! A table is made by the process that serves the pool, and the scripts run with the rights of the
//! user of the command. So the table is made with marks at the ends of its lines: a control
//! character, which no name in a table contains, and the kind of the line. The process that prints
//! the table runs the scripts for the marked devices, and [`fill`] replaces the marks by columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The first character of a mark, which ends with the line.
const MARK: char = '\u{1}';
/// The line has the titles of the columns.
pub const TITLES: &str = "\u{1}titles";
/// The line has dashes.
pub const DASHES: &str = "\u{1}dashes";

/// A column of a script for a device: the title, which may be empty, and the value.
pub type ScriptColumn = (String, String);

/// The mark of a device's line.
#[must_use]
pub fn device(guid: u64) -> String {
    format!("{MARK}{guid}")
}

/// Puts the paths of devices in place of their guids in the marks of a table.
#[must_use]
pub fn with_paths(table: &str, paths: &BTreeMap<u64, String>) -> String {
    let line = |line: &str| match line.split_once(MARK) {
        Some((text, mark)) => match mark.parse().ok().and_then(|guid: u64| paths.get(&guid)) {
            Some(path) => format!("{text}{MARK}{path}\n"),
            None if mark.parse::<u64>().is_ok() => format!("{text}\n"),
            None => format!("{line}\n"),
        },
        None => format!("{line}\n"),
    };
    table.lines().map(line).collect()
}

/// The paths of the devices in a table, each once.
#[must_use]
pub fn devices(table: &str) -> Vec<&str> {
    let marks = table.lines().filter_map(|line| line.split_once(MARK));
    let mut out: Vec<&str> = marks.map(|(_, mark)| mark).filter(|m| m.starts_with('/')).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Replaces the marks by the columns of each device, by path. A device without a value in a column
/// has `-` there. `scripted`: columns are separated by tabs.
#[must_use]
pub fn fill(table: &str, filled: &BTreeMap<String, Vec<ScriptColumn>>, scripted: bool) -> String {
    let mut columns: Vec<(&str, usize)> = Vec::new();
    for (title, value) in filled.values().flatten() {
        let width = title.chars().count().max(value.chars().count()).max(1);
        match columns.iter_mut().find(|(known, _)| known == title) {
            Some((_, known)) => *known = width.max(*known),
            None => columns.push((title, width)),
        }
    }
    let mut out = String::new();
    for line in table.lines() {
        let Some((text, mark)) = line.split_once(MARK) else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        out.push_str(text);
        let is = |whole: &str| whole.strip_prefix(MARK) == Some(mark);
        for (title, width) in &columns {
            let _ = match () {
                () if is(TITLES) => write!(out, "  {title:>width$}"),
                () if is(DASHES) => write!(out, "  {:-<width$}", ""),
                () => {
                    let of = filled.get(mark).and_then(|all| all.iter().find(|(t, _)| t == title));
                    let value = of.map_or("", |(_, value)| value.as_str());
                    let value = if value.is_empty() { "-" } else { value };
                    match scripted {
                        true => write!(out, "\t{value}"),
                        false => write!(out, "  {value:>width$}"),
                    }
                }
            };
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_behind_devices_alone() {
        let table = format!(
            "NAME{TITLES}\n----{DASHES}\nraid\n a{}\n b{}\n c{}\nend\n",
            device(7),
            device(8),
            device(9)
        );
        let paths = [(7, "/a".to_owned()), (8, "/b".to_owned())].into();
        let table = with_paths(&table, &paths);
        assert_eq!(devices(&table), ["/a", "/b"]);
        let column = |title: &str, value: &str| (title.to_owned(), value.to_owned());
        let all = [
            ("/a".to_owned(), vec![column("size", "12.5G"), column("kind", "")]),
            ("/b".to_owned(), vec![column("kind", "ssd")]),
        ];
        let filled = fill(&table, &all.into(), false);
        let wanted = [
            "NAME   size  kind",
            "----  -----  ----",
            "raid",
            " a  12.5G     -",
            " b      -   ssd",
            " c",
            "end",
            "",
        ];
        let wanted = wanted.join("\n");
        assert_eq!(filled, wanted);
        assert_eq!(fill(&table, &BTreeMap::new(), false), "NAME\n----\nraid\n a\n b\n c\nend\n");
    }
}
