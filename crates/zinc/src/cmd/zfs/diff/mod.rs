//! `zinc zfs diff`: what changed between a snapshot and something later of the same line.
//!
//! # Theory
//!
//! Dnodes are blocks of the meta dnode, so every file that changed has a new block there: walking
//! that one tree, and leaving out whatever was born before the earlier snapshot, finds all changed
//! files at a cost proportional to the changes ([`objects`]). Each of them is then compared as a
//! file, with its path in both states ([`side`]):
//!
//! ```text
//! only later               +   made
//! only earlier             -   removed
//! another generation       - and +   the object's number was used again
//! same change time         nothing
//! another path             R   renamed
//! else                     M   with the change in links, if any
//! ```

mod objects;
mod side;

use crate::common::{PoolArgs, Pools, filesystem};
use crate::failure::Failure;
use crate::ui;
use engine::files::FileKind;
use engine::{Dataset, Dsl, Filesystem};
use serde_json::{Value, json};
use side::{Seen, Side};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments of `zinc zfs diff`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Show the type of each file, as `ls -F` does
    #[arg(short = 'F')]
    classify: bool,
    /// Show the time of the change
    #[arg(short = 't')]
    time: bool,
    /// Tabs between columns, no arrows
    #[arg(short = 'H')]
    script: bool,
    /// Print names as they are, without octal escapes
    #[arg(short = 'h')]
    raw: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pool: PoolArgs,
    /// The earlier state
    #[arg(value_name = "SNAPSHOT")]
    from: String,
    /// The later state: a snapshot, a file system, or a clone of the first; the snapshot's file
    /// system when left out
    #[arg(value_name = "SNAPSHOT|FILESYSTEM")]
    to: Option<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Some((path, _)) = self.from.split_once('@') else {
            return Err(Failure::usage(format!("{:?} is not a snapshot", self.from)));
        };
        let to = match &self.to {
            None => path.to_owned(),
            Some(short) if short.starts_with('@') => format!("{path}{short}"),
            Some(name) => name.clone(),
        };
        let mut pools = Pools::new(self.pool.clone());
        let pool = pools.of(&self.from)?;
        let dsl = pool.dsl();
        let (earlier, later) = (dsl.by_name(&self.from)?, dsl.by_name(&to)?);
        if !is_ancestor(dsl, &earlier, &later)? {
            let what = format!("cannot compare {:?} with {to:?}", self.from);
            return Err(Failure::new(what)
                .because("the first is not an earlier snapshot of the second".to_owned())
                .hint("name the older snapshot first"));
        }
        let prefix = mount_point(dsl, &later)?;
        let mut a = Side::new(Filesystem::open(dsl.objset(&earlier)?)?, prefix.clone());
        let mut b = Side::new(filesystem(pool, &later, &self.pool.open)?, prefix);
        let mut all = Vec::new();
        for number in objects::changed(a.objset(), b.objset(), earlier.phys.creation_txg)? {
            crate::asked::check()?;
            for change in compare(a.see(number)?, b.see(number)?) {
                if self.json {
                    all.push(change.json(number));
                } else {
                    ui::out(&self.line(&change));
                }
            }
        }
        if self.json {
            let of = json!({ "from": self.from, "to": to, "changes": all });
            let content = serde_json::Map::from_iter([(later.name.clone(), of)]);
            ui::json(&crate::json::document("zfs diff", "datasets", content));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn line(&self, change: &Change) -> String {
        let Change { sign, seen, was, links } = change;
        let mut t = String::new();
        // Writing to a String cannot fail.
        if self.time {
            let _ = write!(t, "{:10}.{:09}\t", seen.ctime.seconds, seen.ctime.nanos);
        }
        let _ = write!(t, "{sign}\t");
        if self.classify {
            let _ = write!(t, "{}\t", type_sign(seen.kind));
        }
        if let Some(was) = was {
            t.push_str(&self.name(was));
            t.push_str(if self.script { "\t" } else { " -> " });
        }
        t.push_str(&self.name(&seen.path));
        if *links != 0 {
            let _ = write!(t, "\t({links:+})");
        }
        t.push('\n');
        t
    }

    /// A path for the terminal: blanks, backslashes and what is not ASCII as `\0ooo`.
    fn name(&self, path: &[u8]) -> String {
        if self.raw {
            return String::from_utf8_lossy(path).into_owned();
        }
        let mut out = String::new();
        for b in path {
            match b {
                b'!'..=b'~' if *b != b'\\' => out.push(char::from(*b)),
                _ => {
                    let _ = write!(out, "\\{b:04o}");
                }
            }
        }
        out
    }
}

/// One line: what became of a file.
struct Change {
    /// `+`, `-`, `R` or `M`.
    sign: char,
    seen: Seen,
    /// The former path, of a renamed file.
    was: Option<Vec<u8>>,
    /// Change of the number of links, of a file that was modified.
    links: i128,
}

impl Change {
    fn new(sign: char, seen: Seen) -> Self {
        Self { sign, seen, was: None, links: 0 }
    }

    fn json(&self, object: u64) -> Value {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        json!({
            "change": self.sign.to_string(),
            "type": type_sign(self.seen.kind).to_string(),
            "object": object,
            "path": text(&self.seen.path),
            "old_path": self.was.as_deref().map(text),
            "links": i64::try_from(self.links).unwrap_or(i64::MAX),
            "ctime": [self.seen.ctime.seconds, self.seen.ctime.nanos.cast_signed()],
        })
    }
}

/// What became of one object.
fn compare(was: Option<Seen>, is: Option<Seen>) -> Vec<Change> {
    let (was, is) = match (was, is) {
        (None, None) => return Vec::new(),
        (Some(was), None) => return vec![Change::new('-', was)],
        (None, Some(is)) => return vec![Change::new('+', is)],
        (Some(was), Some(is)) => (was, is),
    };
    if was.generation != is.generation {
        return vec![Change::new('-', was), Change::new('+', is)];
    }
    if was.ctime == is.ctime {
        return Vec::new();
    }
    if was.path != is.path {
        return vec![Change { was: Some(was.path), ..Change::new('R', is) }];
    }
    let links = match is.kind {
        FileKind::Dir => 0,
        _ => i128::from(is.links) - i128::from(was.links),
    };
    vec![Change { links, ..Change::new('M', is) }]
}

fn type_sign(kind: FileKind) -> char {
    match kind {
        FileKind::File => 'F',
        FileKind::Dir => '/',
        FileKind::Symlink => '@',
        FileKind::Fifo => '|',
        FileKind::Socket => '=',
        FileKind::Block => 'B',
        FileKind::Char => 'C',
        FileKind::Unknown => '?',
    }
}

/// `earlier` is a snapshot on the line of snapshots (origins included) that leads to `later`.
fn is_ancestor(dsl: &Dsl, earlier: &Dataset, later: &Dataset) -> Result<bool, Failure> {
    let mut at = (later.phys.prev_snap, later.phys.prev_snap_txg);
    while at.0 != 0 {
        if at.0 == earlier.object {
            return Ok(true);
        }
        let before = dsl.dataset(at.0, String::new(), &later.dir)?;
        // Each is older than the next, so a damaged line that loops ends here.
        if before.phys.prev_snap_txg >= at.1 {
            break;
        }
        at = (before.phys.prev_snap, before.phys.prev_snap_txg);
    }
    Ok(false)
}

/// What is put before the paths: where the file system would be mounted.
fn mount_point(dsl: &Dsl, dataset: &Dataset) -> Result<Vec<u8>, Failure> {
    let name = dataset.name.split('@').next().unwrap_or_default();
    let head = dsl.by_name(name)?;
    let context = engine::PropertyContext::default();
    let property = dsl.property(&head, &context, "mountpoint")?;
    let path = property.map(|p| p.value).filter(|v| v.starts_with('/'));
    let path = path.unwrap_or_else(|| format!("/{name}"));
    Ok(path.trim_end_matches('/').as_bytes().to_vec())
}
