//! `zinc ls`: directories of a dataset.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::place::{Place, printable};
use crate::session::Session;
use crate::{local_time, ui};
use engine::Filesystem;
use engine::Node;
use engine::errors::ZplResult;
use engine::files;
use engine::files::{DirEntry, FileKind};
use engine::inventory::json::{Json, Members};
use engine::inventory::tree::Walk;
use engine::inventory::{kind_name, nanoseconds};
use std::process::ExitCode;

/// Arguments of `zinc ls`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// One line for each file: type and mode, links, owner, group, size, time, name
    #[arg(short, long)]
    long: bool,
    /// Show names that begin with a dot, too
    #[arg(short, long)]
    all: bool,
    /// Show everything below, with paths
    #[arg(short = 'R', long)]
    recursive: bool,
    /// One name on each line, also on a terminal
    #[arg(short = '1')]
    single: bool,
    /// Show the directory itself, not what is in it
    #[arg(short = 'D', long)]
    directory: bool,
    /// Show object numbers
    #[arg(short, long)]
    inode: bool,
    /// Show numbers instead of names of users and groups
    #[arg(short, long)]
    numeric: bool,
    /// Print JSON: one object a line
    #[arg(short, long)]
    json: bool,
    /// What to list, as POOL/DATASET[@SNAPSHOT]:PATH
    target: std::ffi::OsString,
}

/// Files that are shown at a time, where not all must be known.
const PORTION: usize = 512;

/// A name with the file it stands for, or why there is none.
struct Line {
    name: Vec<u8>,
    object: u64,
    node: ZplResult<Node>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. Exit code 1 when something could not be read.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let place = Place::from(self.target.as_os_str());
        let pool = self.pool.clone().anywhere().open(session, &place.pool())?;
        let found = place.find(&pool)?;
        let fs = found.filesystem(session, &pool, &self.pool.open)?;
        let node = found.node(&fs, !self.long && !self.directory)?;
        if node.kind() != FileKind::Dir || self.directory {
            let name = found.path().to_vec();
            let name = if name.is_empty() { b".".to_vec() } else { name };
            self.print(
                session,
                &fs,
                vec![Line { name, object: node.number(), node: Ok(node) }],
                [0; 6],
            );
            return Ok(ExitCode::SUCCESS);
        }
        let failures = if self.recursive {
            self.tree(session, &fs, &node)?
        } else {
            self.list(session, &fs, &node)?
        };
        for f in &failures {
            ui::error(session, &format!("zinc: {f}\n"));
        }
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

impl Args {
    fn is_shown(&self, name: &[u8]) -> bool {
        self.all || !name.starts_with(b".")
    }

    fn list(&self, session: &Session, fs: &Filesystem, dir: &Node) -> Result<Vec<String>, Failure> {
        let mut failures = Vec::new();
        let mut found = Vec::new();
        for entry in dir.entries()? {
            match entry {
                Ok(e) if self.is_shown(&e.name) => found.push(e),
                Ok(_) => {}
                Err(e) => failures.push(format!("entries are lost: {e}")),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let mut open = |e: DirEntry| {
            let node = fs.node(e.object);
            failures
                .extend(node.as_ref().err().map(|why| format!("{}: {why}", printable(&e.name))));
            Line { name: e.name, object: e.object, node }
        };
        // Names are sorted, so all of them are kept, and of a million files nothing else.
        if self.json || self.long {
            let mut widths = [0; 6];
            if self.long && found.len() > PORTION {
                // The columns of the first file are as wide as those of the last one.
                for e in &found {
                    session.check()?;
                    let line = Line { name: Vec::new(), object: e.object, node: fs.node(e.object) };
                    widen(&mut widths, &self.cells(session, fs, &line));
                }
            }
            let mut found = found.into_iter().map(&mut open).peekable();
            while found.peek().is_some() {
                session.check()?;
                self.print(session, fs, found.by_ref().take(PORTION).collect(), widths);
            }
        } else {
            let name = |line: Line| (line.name, line.object);
            let names: Vec<_> = found.into_iter().map(|e| name(open(e))).collect();
            self.print_names(session, &names);
        }
        Ok(failures)
    }

    /// Prints everything below, in portions so that a large tree needs little memory.
    fn tree(&self, session: &Session, fs: &Filesystem, top: &Node) -> Result<Vec<String>, Failure> {
        // The path of a file that is deep down may be as long as a megabyte.
        const PORTION_BYTES: usize = 1 << 20;
        let mut bytes = 0;
        let mut walk = Walk::new(fs, top.number());
        let mut failures = Vec::new();
        let mut lines = Vec::new();
        let hidden = |path: &[u8]| path.split(|b| *b == b'/').any(|n| !self.is_shown(n));
        for found in walk.by_ref().skip(1) {
            session.check()?;
            if hidden(&found.path) {
                continue;
            }
            let node = fs.node(found.object);
            if let Err(e) = &node {
                failures.push(format!("{}: {e}", printable(&found.path)));
            }
            bytes += found.path.len();
            lines.push(Line { name: found.path, object: found.object, node });
            if lines.len() >= PORTION || bytes >= PORTION_BYTES {
                bytes = 0;
                self.print(session, fs, std::mem::take(&mut lines), [0; 6]);
            }
        }
        self.print(session, fs, lines, [0; 6]);
        let lost = walk.into_errors();
        failures.extend(lost.iter().map(|e| format!("{}: {}", printable(&e.path), e.error)));
        Ok(failures)
    }

    /// Prints lines; the columns of the long form are at least so wide.
    fn print(&self, session: &Session, fs: &Filesystem, lines: Vec<Line>, widths: [usize; 6]) {
        if self.json {
            for l in lines {
                ui::json_line(session, &json(fs, &l).dump());
            }
            return;
        }
        if self.long {
            return ui::out(session, &self.long_text(session, fs, &lines, widths));
        }
        let names: Vec<_> = lines.into_iter().map(|line| (line.name, line.object)).collect();
        self.print_names(session, &names);
    }

    fn print_names(&self, session: &Session, names: &[(Vec<u8>, u64)]) {
        let width = (!self.single && !self.recursive).then(|| ui_columns(session)).flatten();
        let shown = names.iter().map(|(name, object)| match self.inode {
            true => format!("{object} {}", printable(name)),
            false => printable(name),
        });
        match width {
            Some(width) => ui::out(session, &columns(&shown.collect::<Vec<_>>(), width)),
            // Not for eyes: the bytes of the names as they are.
            None if !ui::is_output_terminal(session) && !self.inode => {
                for (name, _) in names {
                    let _ = ui::out_bytes(session, &[name.as_slice(), b"\n"].concat());
                }
            }
            None => shown.for_each(|s| ui::out(session, &format!("{s}\n"))),
        }
    }

    fn long_text(
        &self,
        session: &Session,
        fs: &Filesystem,
        lines: &[Line],
        mut widths: [usize; 6],
    ) -> String {
        let rows: Vec<[String; 6]> = lines.iter().map(|l| self.cells(session, fs, l)).collect();
        rows.iter().for_each(|row| widen(&mut widths, row));
        let mut out = String::new();
        for (row, line) in rows.iter().zip(lines) {
            if self.inode {
                out.push_str(&format!("{:>8} ", line.object));
            }
            let [mode, links, owner, group, size, time] = row;
            out.push_str(&format!(
                "{mode} {links:>w1$} {owner:<w2$} {group:<w3$} {size:>w4$} {time} {}",
                printable(&line.name),
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3],
                w4 = widths[4],
            ));
            if let Ok(node) = &line.node
                && node.kind() == FileKind::Symlink
            {
                let target = node.read_link().map(|t| printable(&t));
                out.push_str(&format!(" -> {}", target.unwrap_or_else(|_| "?".to_owned())));
            }
            out.push('\n');
        }
        out
    }

    fn cells(&self, session: &Session, fs: &Filesystem, l: &Line) -> [String; 6] {
        let Ok(node) = &l.node else { return ["?"; 6].map(str::to_owned) };
        let named = |id: u64, name: fn(&Session, u64) -> Option<&str>| match name(session, id) {
            Some(n) if !self.numeric => n.to_owned(),
            _ => fs.id_text(id),
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
            named(node.uid, Session::user_name),
            named(node.gid, Session::group_name),
            size,
            time_text(session, node.mtime),
        ]
    }
}

/// Makes columns wide enough for a row.
fn widen(widths: &mut [usize; 6], row: &[String; 6]) {
    for (width, cell) in widths.iter_mut().zip(row) {
        *width = (*width).max(cell.chars().count());
    }
}

/// Width of the terminal that standard output is.
fn ui_columns(session: &Session) -> Option<usize> {
    let known = session.variable("COLUMNS");
    let known = known.and_then(|c| c.to_str()?.parse().ok());
    ui::is_output_terminal(session).then(|| known.unwrap_or(80))
}

/// Names in columns, read downwards.
fn columns(names: &[String], width: usize) -> String {
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

/// Type and permissions in ten letters.
pub fn mode_text(node: &Node) -> String {
    let kind = match node.kind() {
        FileKind::File => '-',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::Block => 'b',
        FileKind::Char => 'c',
        FileKind::Unknown => '?',
    };
    let m = node.permissions();
    let mut out = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = m >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, m & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// `2026-11-21 20:18:34` in local time; before 1970 as if the zone had been then what it was in
/// 1970.
pub fn time_text(session: &Session, t: files::Time) -> String {
    let offset = local_time::utc_offset(session, u64::try_from(t.seconds).unwrap_or(0));
    civil(t.seconds.saturating_add(offset))
}

/// A date of the Gregorian calendar from seconds since 1970.
fn civil(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year.
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}")
}

fn json(fs: &Filesystem, l: &Line) -> Json {
    let mut m: Members = Vec::new();
    let mut put = |name: &str, value: Json| m.push((name.into(), value));
    match std::str::from_utf8(&l.name) {
        Ok(name) => put("path", name.into()),
        Err(_) => put("path_hex", engine::inventory::json::hex(&l.name).into()),
    }
    put("ino", l.object.into());
    let node = match &l.node {
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
    fn dates_of_the_calendar() {
        assert_eq!(civil(-1), "1969-12-31 23:59:59");
        assert_eq!(civil(-2_203_977_600), "1900-02-28 00:00:00");
        assert!(civil(i64::MIN).starts_with('-') && civil(i64::MAX).starts_with('2'));
        assert_eq!(civil(0), "1970-01-01 00:00:00");
        assert_eq!(civil(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(civil(4_102_444_799), "2099-12-31 23:59:59");
    }

    #[test]
    fn columns_are_read_downwards() {
        let names: Vec<String> = ["a", "b", "c", "dd", "e"].map(str::to_owned).to_vec();
        assert_eq!(columns(&names, 12), "a   c   e\nb   dd\n");
        assert_eq!(columns(&names, 1), "a\nb\nc\ndd\ne\n");
    }
}
