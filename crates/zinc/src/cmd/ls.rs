//! `zinc ls`: directories of a dataset.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::objsets::Sets;
use crate::session::Session;
use crate::ui;
use engine::files::{DirEntry, FileKind, FileSummary};
use engine::inventory::tree::Walk;
use engine::places::GivenPlace;
use engine::{Error, Filesystem, Node};
use std::process::ExitCode;
use views::files::list::{Line, LongListing, Widths, columns, json};
use views::places::printable;

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

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. Exit code 1 when something could not be read.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let place = GivenPlace::from(self.target.as_os_str());
        let pool = self.pool.clone().anywhere().open(session, &place.pool())?;
        let found = place.find(&pool)?;
        let fs = Sets::new(session, &pool, &self.pool.open).filesystem(&found.dataset)?;
        let node = found.node(&fs, !self.long && !self.directory)?;
        if node.kind() != FileKind::Dir || self.directory {
            let name = found.path().to_vec();
            let name = if name.is_empty() { b".".to_vec() } else { name };
            let line = Line { name, object: node.number(), file: Ok(FileSummary::of(&fs, &node)) };
            self.print(session, vec![line], Widths::default());
            return Ok(ExitCode::SUCCESS);
        }
        let failures = if self.recursive {
            self.tree(session, &fs, &node)?
        } else {
            self.list(session, &fs, &node)?
        };
        for f in &failures {
            ui::note(session, &f.to_string());
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
            let file = summary(fs, e.object, FileSummary::of);
            failures
                .extend(file.as_ref().err().map(|why| format!("{}: {why}", printable(&e.name))));
            Line { name: e.name, object: e.object, file }
        };
        // Names are sorted, so all of them are kept, and of a million files nothing else.
        if self.json || self.long {
            let mut widths = Widths::default();
            if self.long && found.len() > PORTION {
                let long = self.long_form(session);
                // The columns of the first file are as wide as those of the last one.
                for e in &found {
                    session.check()?;
                    let file = summary(fs, e.object, FileSummary::without_target);
                    let line = Line { name: Vec::new(), object: e.object, file };
                    long.widen(&mut widths, &line);
                }
            }
            let mut found = found.into_iter().map(&mut open).peekable();
            while found.peek().is_some() {
                session.check()?;
                self.print(session, found.by_ref().take(PORTION).collect(), widths);
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
            let file = summary(fs, found.object, FileSummary::of);
            if let Err(e) = &file {
                failures.push(format!("{}: {e}", printable(&found.path)));
            }
            bytes += found.path.len();
            lines.push(Line { name: found.path, object: found.object, file });
            if lines.len() >= PORTION || bytes >= PORTION_BYTES {
                bytes = 0;
                self.print(session, std::mem::take(&mut lines), Widths::default());
            }
        }
        self.print(session, lines, Widths::default());
        let lost = walk.into_errors();
        failures.extend(lost.iter().map(|e| format!("{}: {}", printable(&e.path), e.error)));
        Ok(failures)
    }

    /// Prints lines; the columns of the long form are at least so wide.
    fn print(&self, session: &Session, lines: Vec<Line>, widths: Widths) {
        if self.json {
            for l in lines {
                ui::json_line(session, &json(&l).dump());
            }
            return;
        }
        if self.long {
            return ui::out(session, &self.long_form(session).text(&lines, widths));
        }
        let names: Vec<_> = lines.into_iter().map(|line| (line.name, line.object)).collect();
        self.print_names(session, &names);
    }

    fn long_form<'a>(&self, session: &'a Session) -> LongListing<'a> {
        LongListing { host_info: session, is_numeric: self.numeric, with_objects: self.inode }
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
}

/// What is shown of a file.
fn summary(
    fs: &Filesystem,
    object: u64,
    of: fn(&Filesystem, &Node) -> FileSummary,
) -> Result<FileSummary, Error> {
    Ok(of(fs, &fs.node(object)?))
}

/// Width of the terminal that standard output is.
fn ui_columns(session: &Session) -> Option<usize> {
    let known = session.variable("COLUMNS");
    let known = known.and_then(|c| c.to_str()?.parse().ok());
    ui::is_output_terminal(session).then(|| known.unwrap_or(80))
}
