//! Directories: names in columns, a line for each file, and JSON.

use super::{mode_text, time_text};
use crate::HostInfo;
use engine::files::FileKind;
use engine::hex::encode as hex;
use engine::inventory::json::{Json, Members};
use engine::inventory::{kind_name, nanoseconds};
use engine::{Filesystem, Node};
use term::escape;

/// A name with its file, or why there is none.
pub struct Line {
    /// The name, or the path of a file that is further down.
    pub name: Vec<u8>,
    /// The object that it names.
    pub object: u64,
    /// The file.
    pub node: engine::Result<Node>,
}

/// How wide the columns of the long form are at least, in characters.
pub type Widths = [usize; 6];

/// The long form: type and mode, links, owner, group, size, time, name.
pub struct LongListing<'a> {
    /// The file system.
    pub fs: &'a Filesystem,
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
            if let Ok(node) = &line.node
                && node.kind() == FileKind::Symlink
            {
                let target = node.read_link().map(|t| escape::name(&t));
                out.push_str(&format!(" -> {}", target.unwrap_or_else(|_| "?".to_owned())));
            }
            out.push('\n');
        }
        out
    }

    fn cells(&self, line: &Line) -> [String; 6] {
        let Ok(node) = &line.node else { return ["?"; 6].map(str::to_owned) };
        let named = |id: u64, name: Option<&str>| match name {
            Some(name) if !self.is_numeric => name.to_owned(),
            _ => self.fs.id_text(id),
        };
        let size = match node.kind() {
            FileKind::Block | FileKind::Char => {
                let (major, minor) = node.device();
                format!("{major}, {minor}")
            }
            _ => node.size.to_string(),
        };
        [
            mode_text(node),
            node.links.to_string(),
            named(node.uid, self.host_info.user_name(node.uid)),
            named(node.gid, self.host_info.group_name(node.gid)),
            size,
            time_text(self.host_info, node.mtime),
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
pub fn json(fs: &Filesystem, line: &Line) -> Json {
    let mut m: Members = Vec::new();
    let mut put = |name: &str, value: Json| m.push((name.into(), value));
    match std::str::from_utf8(&line.name) {
        Ok(name) => put("path", name.into()),
        Err(_) => put("path_hex", hex(&line.name).into()),
    }
    put("ino", line.object.into());
    let node = match &line.node {
        Ok(node) => node,
        Err(e) => {
            put("error", e.to_string().into());
            return Json::Map(m);
        }
    };
    put("type", kind_name(node.kind()).into());
    put("mode", format!("{:04o}", node.permissions()).into());
    put("nlink", node.links.into());
    put("uid", fs.id_text(node.uid).into());
    put("gid", fs.id_text(node.gid).into());
    put("size", node.size.into());
    put("mtime_ns", Json::Int(nanoseconds(node.mtime)));
    if node.kind() == FileKind::Symlink
        && let Ok(target) = node.read_link()
    {
        put("target", Json::Text(target));
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
