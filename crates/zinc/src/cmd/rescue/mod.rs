//! `zinc rescue`: everything that can still be read, and a list of what cannot.
//!
//! It goes on past every error: an unreadable block becomes zeros in the copy, an unreadable
//! directory loses its names but not its files, which are found by their objects and put into
//! `lost+found`. Every loss is a line in the log ([`log`]), by file, range and cause.

mod log;

use crate::args::PoolArgs;
use crate::cmd::cp::keep::KeepArgs;
use crate::cmd::cp::{cancelled, has_posix_acls};
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure};
use crate::place::Place;
use crate::progress::while_showing;
use crate::session::Session;
use crate::{objsets, ui};
use engine::Node;
use engine::files::FileKind;
use engine::{Cancelled, Progress};
use engine::{Dataset, Filesystem, Pool, Volume};
use engine::{DatasetKind, files};
use hostfs::extract::{self, Copier, Existing, Sink};
use hostfs::{Dir, names};
use log::{LOG_NAME, Log};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Where files go whose directories are lost.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Arguments of `zinc rescue`.
#[derive(clap::Args)]
#[command(after_help = "\
Each dataset becomes a folder of DEST, named like it with % for /; a volume becomes an image with
.img behind its name. With a path, what is there is copied into DEST itself. DEST/rescue.jsonl lists
every loss; started again with the same DEST, files that are whole are not read again. A name that
no file can have here becomes another (a/b is a%2Fb), and the log says which.

Exit code 1: something is lost, the log says what.")]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// The datasets below, too
    #[arg(short, long)]
    recursive: bool,
    /// Snapshots, too
    #[arg(long)]
    snapshots: bool,
    /// Replace links, pipes, sockets and devices that are in the way, too
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    keep: KeepArgs,
    /// What to rescue: POOL (everything in it), POOL/DATASET[@SNAPSHOT] or one with :PATH
    source: std::ffi::OsString,
    /// The directory to copy into; made when it is not there
    dest: PathBuf,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let place = Place::from(self.source.as_os_str());
        let pool = self.pool.clone().anywhere().open_devices(session, &place.pool())?;
        let cannot = |e: std::io::Error| {
            Failure::new(format!("cannot write to {}", self.dest.display())).because(e.to_string())
        };
        let path = session.path(&self.dest);
        let dest = Dir::open_target(&path, false).map_err(cannot)?;
        let log = Log::open(&dest).map_err(|e| {
            let what = format!("cannot write to {}", path.join(LOG_NAME).display());
            Failure::new(what).because(e.to_string())
        })?;
        let progress = Progress::new();
        progress.begin("rescued", 0);
        log.write(
            "start",
            object(json!({
                "pool": pool.name(),
                "guid": pool.guid().to_string(),
                "txg": pool.uberblock().txg,
                "source": place.shown(),
            })),
        );
        if let Some(older) = self.pool.open.older_state(&pool) {
            log.of(pool.name()).failed(b"", 0, &older);
        }
        let rescue =
            Rescue { args: &self, pool: &pool, dest: &dest, log: &log, progress: &progress };
        while_showing(session, &progress, || rescue.run(session, &place))?;
        progress.check().map_err(|e| cancelled(&e))?;
        // "Nothing lost" is said of what is on the disk.
        dest.sync().map_err(cannot)?;
        let count = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        let (files, losses) = (count(&log.files), count(&log.losses));
        let lost_bytes = count(&log.lost_bytes);
        let end = json!({ "files": files, "lost_bytes": lost_bytes, "losses": losses });
        log.write("end", object(end));
        if let Some(e) = log.broken() {
            return Err(cannot(e).hint("the log is not whole"));
        }
        let lost = match losses {
            0 => "nothing lost".to_owned(),
            _ => format!("{losses} losses, {lost_bytes} bytes of files"),
        };
        let renamed = match count(&log.renamed) {
            0 => String::new(),
            n => format!(", {n} under other names"),
        };
        let logged = self.dest.join(LOG_NAME);
        let see = match losses == 0 && renamed.is_empty() {
            true => String::new(),
            false => format!(": see {}", logged.display()),
        };
        ui::error(session, &format!("zinc: {files} files rescued, {lost}{renamed}{see}\n"));
        Ok(if losses == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

fn object(v: Value) -> Map<String, Value> {
    match v {
        Value::Object(m) => m,
        _ => Map::new(),
    }
}

struct Rescue<'a> {
    args: &'a Args,
    pool: &'a Pool,
    dest: &'a Dir,
    log: &'a Log,
    progress: &'a Progress,
}

impl Rescue<'_> {
    fn run(&self, session: &Session, place: &Place) -> Result<(), Failure> {
        // The pool's name alone means all of it, also when its root dataset is lost.
        if place.is_pool(self.pool) {
            self.below(session, "", true);
            return Ok(());
        }
        let found = place.find(self.pool)?;
        if let Some(path) = found.path.as_ref().filter(|p| p.iter().any(|b| *b != b'/')) {
            let fs = found.filesystem(session, self.pool, &self.args.pool.open)?;
            let node = found.node(&fs, false)?;
            let name = found.last_name().unwrap_or(b"file");
            self.node(&found.dataset, &fs, &node, name, path);
            return Ok(());
        }
        if found.dataset.is_snapshot() {
            self.dataset(session, &found.dataset);
            return Ok(());
        }
        self.below(session, &found.dataset.name, self.args.recursive);
        Ok(())
    }

    /// Datasets by name: that of `top` and, with `all`, those below; of the whole pool also those
    /// that damage has cut off from the tree.
    fn below(&self, session: &Session, top: &str, all: bool) {
        let inside = |n: &str| n.strip_prefix(top).is_some_and(|r| r.starts_with('/'));
        for (name, dataset) in self.pool.dsl().datasets() {
            let (head, snapshot) = match name.split_once('@') {
                Some((head, _)) => (head, true),
                None => (name.as_str(), false),
            };
            if snapshot && !self.args.snapshots {
                continue;
            }
            if !(top.is_empty() || head == top || (all && inside(head))) {
                continue;
            }
            if self.progress.is_cancelled() {
                return;
            }
            match dataset {
                Ok(dataset) => self.dataset(session, &dataset),
                Err(e) => self.log.of(&name).failed(b"", 0, &e.to_string()),
            }
        }
    }

    fn dataset(&self, session: &Session, dataset: &Dataset) {
        let log = self.log.of(&dataset.name);
        if let Err(e) = self.try_dataset(session, dataset) {
            log.failed(b"", dataset.object, &e);
        }
    }

    fn try_dataset(&self, session: &Session, dataset: &Dataset) -> Result<(), String> {
        let text = |e: std::io::Error| e.to_string();
        let log = self.log.of(&dataset.name);
        if !self.pool.dsl().is_unlocked(dataset).unwrap_or(true) {
            return Err("encrypted, and its key is not loaded".to_owned());
        }
        let objset = objsets::open(session, self.pool, dataset, &self.args.pool.open);
        let objset = objset.map_err(|e| e.to_string())?;
        let folder = self.own_name(dataset.name.replace('/', "%").as_bytes());
        if self.pool.dsl().kind(dataset) == DatasetKind::Volume {
            let volume = Volume::open(&objset).map_err(|e| e.to_string())?;
            let name = [&folder[..], b".img"].concat();
            let there = self.dest.look(&name).map_err(text)?;
            if let Some(there) = there.filter(|there| !there.is_file()) {
                return Err(format!("{} is in the way", there.kind_name()));
            }
            let replaced = there.map(|there| there.identity);
            let lost = extract::volume(&volume, self.dest, &name, replaced, self.progress, &log);
            lost.map_err(|e| e.to_string())?;
            self.log.files.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let fs = Filesystem::open(objset).map_err(|e| e.to_string())?;
        let (into, _) = self.dest.subdir(&folder).map_err(text)?;
        let copier = self.copier(dataset, &fs, &log);
        let ended = match fs.root() {
            Ok(root) => copier.tree(&root, into.again().map_err(text)?, b""),
            Err(e) => {
                log.failed(b".", fs.root_object(), &e.to_string());
                Ok(())
            }
        };
        match ended {
            Ok(()) => self.nameless(&copier, &fs, &into, &log).map_err(text),
            // It is said once, of all.
            Err(Cancelled) => Ok(()),
        }
    }

    /// A name in the destination, where the log has its own.
    fn own_name(&self, name: &[u8]) -> Vec<u8> {
        match name == LOG_NAME.as_bytes() {
            true => [name, b"%"].concat(),
            false => name.to_vec(),
        }
    }

    fn copier<'a>(
        &'a self,
        dataset: &Dataset,
        fs: &'a Filesystem,
        log: &'a dyn Sink,
    ) -> Copier<'a> {
        let mut copier = Copier::new(fs, self.args.keep.keep(), self.progress, log);
        copier.existing = Existing::Renew { force: self.args.force };
        copier.escapes = true;
        copier.posix_acls = has_posix_acls(self.pool, dataset);
        copier
    }

    /// A file or directory of a dataset, by path.
    fn node(&self, dataset: &Dataset, fs: &Filesystem, node: &Node, name: &[u8], path: &[u8]) {
        let log = self.log.of(&dataset.name);
        let copier = self.copier(dataset, fs, &log);
        let mut name = self.own_name(name);
        if names::fault(&name).is_some() {
            name = names::escaped(&name);
            log.renamed(path, node.number(), &name);
        }
        let copied = match node.kind() {
            FileKind::Dir => self.dest.subdir(&name).map(|(into, _)| copier.tree(node, into, path)),
            _ => self.dest.again().map(|dir| {
                copier.one(node, dir, &name, path);
                Ok(())
            }),
        };
        if let Err(e) = copied {
            log.failed(path, node.number(), &e.to_string());
        }
    }

    /// Files that no directory names any more: their objects are still there.
    fn nameless(
        &self,
        copier: &Copier<'_>,
        fs: &Filesystem,
        into: &Dir,
        log: &dyn Sink,
    ) -> std::io::Result<()> {
        let known = |object| copier.has_seen(object);
        let mut failed = |object, why: &dyn std::fmt::Display| {
            log.failed(b".", object, &format!("objects are lost: {why}"));
        };
        // That it was told to stop is said once, of all.
        let Ok(lost) = files::orphans(fs, &known, self.progress, &mut failed) else {
            return Ok(());
        };
        if lost.is_empty() {
            return Ok(());
        }
        // The pool may have a directory of this name, with files of the same names.
        let folder = free_name(fs, LOST_AND_FOUND);
        let (place, _) = into.subdir(&folder)?;
        for node in &lost {
            if copier.has_seen(node.number()) {
                continue;
            }
            let name = format!("#{}", node.number()).into_bytes();
            let shown = [&folder, &b"/"[..], &name].concat();
            log.failed(&shown, node.number(), "no directory names it; found by its object");
            if node.kind() != FileKind::Dir {
                copier.one(node, place.again()?, &name, &shown);
            } else if copier.tree(node, place.subdir(&name)?.0, &shown).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A name that the root of a file system does not have.
fn free_name(fs: &Filesystem, wanted: &[u8]) -> Vec<u8> {
    let mut name = wanted.to_vec();
    let Ok(root) = fs.root() else { return name };
    while matches!(root.lookup(&name), Ok(Some(_))) {
        name.push(b'%');
    }
    name
}
