//! Directories: names in columns, a line for each file, and JSON.

use super::{mode_text, time_text};
use crate::HostInfo;
use engine::files::{FileKind, FileSummary};
use engine::hex::encode as hex;
use engine::inventory::json::{Json, Members};
use engine::inventory::{kind_name, nanoseconds};
use term::escape;

/// A name with its file, or why there is none.
pub struct Line {
    /// The name, or the path of a file that is further down.
    pub name: Vec<u8>,
    /// The object that it names.
    pub object: u64,
    /// The file.
    pub file: engine::Result<FileSummary>,
}

/// How wide the columns of the long form are at least, in characters.
pub type Widths = [usize; 6];

/// The long form: type and mode, links, owner, group, size, time, name.
pub struct LongListing<'a> {
    /// For names and times.
    pub host_info: &'a dyn HostInfo,
    /// Numbers of users and groups, and no names.
    pub is_numeric: bool,
    /// Numbers of objects before the lines.
    pub with_objects: bool,
}

impl LongListing<'_> {
    /// Makes columns wide enough for a line.
    pub fn widen(&self, widths: &mut Widths, line: &Line) {
        widen(widths, &self.cells(line));
    }

    /// The lines.
    #[must_use]
    pub fn text(&self, lines: &[Line], mut widths: Widths) -> String {
        let rows: Vec<[String; 6]> = lines.iter().map(|line| self.cells(line)).collect();
        rows.iter().for_each(|row| widen(&mut widths, row));
        let mut out = String::new();
        for (row, line) in rows.iter().zip(lines) {
            if self.with_objects {
                out.push_str(&format!("{:>8} ", line.object));
            }
            let [mode, links, owner, group, size, time] = row;
            let [_, w1, w2, w3, w4, _] = widths;
            let name = escape::name(&line.name);
            out.push_str(&format!(
                "{mode} {links:>w1$} {owner:<w2$} {group:<w3$} {size:>w4$} {time} {name}"
            ));
            if let Ok(FileSummary { target: Some(target), .. }) = &line.file {
                let target = target.as_ref().map_or_else(|_| "?".to_owned(), |t| escape::name(t));
                out.push_str(&format!(" -> {target}"));
            }
            out.push('\n');
        }
        out
    }

    fn cells(&self, line: &Line) -> [String; 6] {
        let Ok(file) = &line.file else { return ["?"; 6].map(str::to_owned) };
        let named = |id: &str, name: Option<&str>| match name {
            Some(name) if !self.is_numeric => name.to_owned(),
            _ => id.to_owned(),
        };
        let size = match (file.kind, file.device) {
            (FileKind::Block | FileKind::Char, (major, minor)) => format!("{major}, {minor}"),
            _ => file.size.to_string(),
        };
        [
            mode_text(file),
            file.links.to_string(),
            named(&file.owner, self.host_info.user_name(file.uid)),
            named(&file.group, self.host_info.group_name(file.gid)),
            size,
            time_text(self.host_info, file.mtime),
        ]
    }
}

fn widen(widths: &mut Widths, row: &[String; 6]) {
    for (width, cell) in widths.iter_mut().zip(row) {
        *width = (*width).max(cell.chars().count());
    }
}

/// Names in columns, read downwards.
#[must_use]
pub fn columns(names: &[String], width: usize) -> String {
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0) + 2;
    let across = (width / longest).max(1);
    let rows = names.len().div_ceil(across);
    let mut out = String::new();
    for row in 0..rows {
        let line: Vec<&String> = names.iter().skip(row).step_by(rows).collect();
        for (i, name) in line.iter().enumerate() {
            let pad = if i + 1 < line.len() { longest - name.chars().count() } else { 0 };
            out.push_str(name);
            out.push_str(&" ".repeat(pad));
        }
        out.push('\n');
    }
    out
}

/// A file as a JSON object.
#[must_use]
pub fn json(line: &Line) -> Json {
    let mut m: Members = Vec::new();
    let mut put = |name: &str, value: Json| m.push((name.into(), value));
    match std::str::from_utf8(&line.name) {
        Ok(name) => put("path", name.into()),
        Err(_) => put("path_hex", hex(&line.name).into()),
    }
    put("ino", line.object.into());
    let file = match &line.file {
        Ok(file) => file,
        Err(e) => {
            put("error", e.to_string().into());
            return Json::Map(m);
        }
    };
    put("type", kind_name(file.kind).into());
    put("mode", format!("{:04o}", file.permissions).into());
    put("nlink", file.links.into());
    put("uid", file.owner.as_str().into());
    put("gid", file.group.as_str().into());
    put("size", file.size.into());
    put("mtime_ns", Json::Int(nanoseconds(file.mtime)));
    if let Some(Ok(target)) = &file.target {
        put("target", Json::Text(target.clone()));
    }
    Json::Map(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_downwards() {
        let names: Vec<String> = ["a", "b", "c", "dd", "e"].map(str::to_owned).to_vec();
        assert_eq!(columns(&names, 12), "a   c   e\nb   dd\n");
        assert_eq!(columns(&names, 1), "a\nb\nc\ndd\ne\n");
    }
}
