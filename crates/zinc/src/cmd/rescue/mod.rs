//! `zinc rescue`: everything that can still be read, and a list of what cannot.
//!
//! It goes on past every error: an unreadable block becomes zeros in the copy, an unreadable
//! directory loses its names but not its files, which are found by their objects and put into
//! `lost+found`. Every loss is a line in the log ([`log`]), by file, range and cause.

mod log;

use crate::cmd::cp::has_posix_acls;
use crate::cmd::cp::local::{Keep, LocalDir, is_root};
use crate::cmd::cp::tree::{self, Copier, Existing, Sink, names};
use crate::common::PoolArgs;
use crate::failure::{FAILED, Failure};
use crate::place::Place;
use crate::progress::while_showing;
use crate::{objsets, ui};
use engine::dsl::DatasetKind;
use engine::rt::Progress;
use engine::zpl::{FileKind, Node};
use engine::{Dataset, Filesystem, Pool, Volume, ondisk};
use log::{LOG_NAME, Log};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
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
every loss; started again with the same DEST, files that are whole are not read again.

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
    /// Keep owners and set-id bits though not root
    #[arg(long)]
    owner: bool,
    /// What to rescue: POOL (everything in it), POOL/DATASET[@SNAPSHOT] or one with :PATH
    source: std::ffi::OsString,
    /// The directory to copy into; made when it is not there
    dest: PathBuf,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let place = Place::from(self.source.as_os_str());
        let pool = self.pool.open_devices(&place.pool())?;
        let cannot = |e: std::io::Error| {
            Failure::new(format!("cannot write to {}", self.dest.display())).because(e.to_string())
        };
        let dest = LocalDir::open_target(&self.dest).map_err(cannot)?;
        let log = Log::open(&self.dest).map_err(cannot)?;
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
        let rescue =
            Rescue { args: &self, pool: &pool, dest: &dest, log: &log, progress: &progress };
        while_showing(&progress, || rescue.run(&place))?;
        let count = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        let (files, losses) = (count(&log.files), count(&log.losses));
        let lost_bytes = count(&log.lost_bytes);
        let end = json!({ "files": files, "lost_bytes": lost_bytes, "losses": losses });
        log.write("end", object(end));
        if let Some(e) = log.broken() {
            return Err(cannot(e).hint("the log is not whole"));
        }
        let logged = self.dest.join(LOG_NAME);
        if losses == 0 {
            ui::error(&format!("zinc: {files} files rescued, nothing lost\n"));
            return Ok(ExitCode::SUCCESS);
        }
        let text = format!(
            "zinc: {files} files rescued, {losses} losses, {lost_bytes} bytes of files: see {}\n",
            logged.display()
        );
        ui::error(&text);
        Ok(ExitCode::from(FAILED))
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
    dest: &'a LocalDir,
    log: &'a Log,
    progress: &'a Progress,
}

impl Rescue<'_> {
    fn run(&self, place: &Place) -> Result<(), Failure> {
        // The pool's name alone means all of it, also when its root dataset is lost.
        if place.shown() == self.pool.name() {
            self.below("", true);
            return Ok(());
        }
        let found = place.find(self.pool)?;
        if let Some(path) = found.path.as_ref().filter(|p| names(p).next().is_some()) {
            let fs = found.filesystem(self.pool, &self.args.pool.open)?;
            let node = found.node(&fs, false)?;
            let name = found.last_name().unwrap_or(b"file");
            self.node(&found.dataset, &fs, &node, name, path);
            return Ok(());
        }
        if found.dataset.is_snapshot() {
            self.dataset(&found.dataset);
            return Ok(());
        }
        self.below(&found.dataset.name, self.args.recursive);
        Ok(())
    }

    /// Datasets by name: that of `top` and, with `all`, those below; of the whole pool also those
    /// that damage has cut off from the tree.
    fn below(&self, top: &str, all: bool) {
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
            match dataset {
                Ok(dataset) => self.dataset(&dataset),
                Err(e) => self.log.of(&name).failed(b"", 0, &e.to_string()),
            }
        }
    }

    fn dataset(&self, dataset: &Dataset) {
        let log = self.log.of(&dataset.name);
        if let Err(e) = self.try_dataset(dataset) {
            log.failed(b"", dataset.object, &e);
        }
    }

    fn try_dataset(&self, dataset: &Dataset) -> Result<(), String> {
        let text = |e: std::io::Error| e.to_string();
        let log = self.log.of(&dataset.name);
        if !self.pool.dsl().is_unlocked(dataset).unwrap_or(true) {
            return Err("encrypted, and its key is not loaded".to_owned());
        }
        let objset = objsets::open(self.pool, dataset, &self.args.pool.open);
        let objset = objset.map_err(|e| e.to_string())?;
        let folder = dataset.name.replace('/', "%");
        if self.pool.dsl().kind(dataset) == DatasetKind::Volume {
            let volume = Volume::open(&objset).map_err(|e| e.to_string())?;
            let name = format!("{folder}.img").into_bytes();
            let lost = tree::volume(&volume, self.dest, &name, self.progress, &log);
            lost.map_err(|e| e.to_string())?;
            self.log.files.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let fs = Filesystem::open(objset).map_err(|e| e.to_string())?;
        let into = self.dest.subdir(folder.as_bytes()).map_err(text)?;
        let copier = self.copier(dataset, &fs, &log);
        match fs.root() {
            Ok(root) => copier.tree(&root, &into, b""),
            Err(e) => log.failed(b".", fs.root_object(), &e.to_string()),
        }
        self.nameless(&copier, &fs, &into, &log).map_err(text)
    }

    fn copier<'a>(
        &'a self,
        dataset: &Dataset,
        fs: &'a Filesystem,
        log: &'a dyn Sink,
    ) -> Copier<'a> {
        let mut copier = Copier::new(fs, self.progress, log);
        copier.keep = Keep { owner: self.args.owner || is_root(), xattrs: true };
        copier.existing = Existing::Renew;
        copier.posix_acls = has_posix_acls(self.pool, dataset);
        copier
    }

    /// A file or directory of a dataset, by path.
    fn node(&self, dataset: &Dataset, fs: &Filesystem, node: &Node, name: &[u8], path: &[u8]) {
        let log = self.log.of(&dataset.name);
        let copier = self.copier(dataset, fs, &log);
        if node.kind() != FileKind::Dir {
            return copier.one(node, self.dest, name, path);
        }
        match self.dest.subdir(name) {
            Ok(into) => copier.tree(node, &into, path),
            Err(e) => log.failed(path, node.number(), &e.to_string()),
        }
    }

    /// Files that no directory names any more: their objects are still there.
    fn nameless(
        &self,
        copier: &Copier<'_>,
        fs: &Filesystem,
        into: &LocalDir,
        log: &dyn Sink,
    ) -> std::io::Result<()> {
        let (mut lost, mut known) = (Vec::new(), self.not_files(fs));
        for object in fs.objset().objects() {
            let object = match object {
                Ok(object) => object,
                Err(e) => {
                    log.failed(b".", e.object, &format!("objects are lost: {e}"));
                    continue;
                }
            };
            let number = object.number();
            if known.contains(&number) || copier.has_seen(number) {
                continue;
            }
            // Tables and the like have no attributes of files.
            let Ok(node) = Node::from_object(fs, object) else { continue };
            let hidden = node.flags & ondisk::znode::flags::XATTR != 0;
            if !hidden && node.links > 0 && node.kind() != FileKind::Unknown {
                known.insert(number);
                lost.push(node);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let place = into.subdir(LOST_AND_FOUND)?;
        // Directories first, and those first whose own directory is not lost as well: what is in
        // them then has a name.
        let numbers: HashSet<u64> = lost.iter().map(Node::number).collect();
        let rank = |n: &Node| (n.kind() != FileKind::Dir, numbers.contains(&n.parent));
        lost.sort_by_key(|n| (rank(n), n.number()));
        for node in &lost {
            if copier.has_seen(node.number()) {
                continue;
            }
            let name = format!("#{}", node.number()).into_bytes();
            let shown = [LOST_AND_FOUND, b"/", &name].concat();
            log.failed(&shown, node.number(), "no directory names it; found by its object");
            if node.kind() == FileKind::Dir {
                copier.tree(node, &place.subdir(&name)?, &shown);
            } else {
                copier.one(node, &place, &name, &shown);
            }
        }
        Ok(())
    }

    /// Objects that look like files and have no name on purpose: files unlinked while open, and
    /// the directory of shares.
    fn not_files(&self, fs: &Filesystem) -> HashSet<u64> {
        let mut out: HashSet<u64> = fs.unlinked().unwrap_or_default().into_iter().collect();
        let shares = fs.master().and_then(|m| Ok(m.get_u64(ondisk::znode::master::SHARES)?));
        out.extend(shares.ok().flatten());
        out
    }
}
