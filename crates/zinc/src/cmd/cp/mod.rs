//! `zinc cp`: files, trees and volumes out of a pool.

pub mod data;
pub mod local;
pub mod sys;
pub mod tree;

use crate::common::PoolArgs;
use crate::failure::{FAILED, Failure};
use crate::place::{Found, Place, printable};
use crate::progress::while_showing;
use crate::{objsets, ui};
use data::Lost;
use engine::dsl::{DatasetKind, PropertyContext};
use engine::rt::Progress;
use engine::zpl::{FileKind, Node};
use engine::{Dataset, Pool, Volume};
use local::{Keep, LocalDir, is_root};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tree::{Copier, Existing, Sink};

/// Arguments of `zinc cp`.
#[derive(clap::Args)]
#[command(after_help = "\
POOL/DATASET: without a path copies a volume as an image, or with -r what is in the root of a file
system. Holes stay holes; times, modes, hard links and extended attributes are kept, owners when
zinc runs as root. A file that was copied whole before is left as it is, so an interrupted copy
is continued by the same command.")]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that exist and are different
    #[arg(short, long)]
    force: bool,
    /// Keep owners and set-id bits though not root
    #[arg(long)]
    owner: bool,
    /// Leave owners and set-id bits
    #[arg(long, conflicts_with = "owner")]
    no_owner: bool,
    /// Leave extended attributes and access lists
    #[arg(long)]
    no_xattrs: bool,
    /// Name every file that is copied
    #[arg(short, long)]
    verbose: bool,
    /// What to copy, as POOL/DATASET[@SNAPSHOT]:PATH
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<std::ffi::OsString>,
    /// Where to: a directory, or the new name of one file
    #[arg(value_name = "DEST")]
    dest: PathBuf,
}

/// Whether a dataset has POSIX access lists.
pub fn has_posix_acls(pool: &Pool, dataset: &Dataset) -> bool {
    let found = pool.dsl().property(dataset, &PropertyContext::default(), "acltype");
    matches!(found, Ok(Some(p)) if p.value == "posix")
}

/// Tells the user; what cannot be read ends the copy of its file.
struct Talk {
    verbose: bool,
    failures: AtomicU64,
    attributes: AtomicU64,
    told: AtomicBool,
}

impl Sink for Talk {
    fn is_done(&self, _: &[u8], _: &Node) -> bool {
        false
    }

    fn lost(&self, _: &[u8], _: u64, _: &Lost) -> bool {
        false
    }

    fn failed(&self, path: &[u8], object: u64, why: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        ui::error(&format!("zinc: {} (object {object}): {why}\n", printable(path)));
    }

    fn not_kept(&self, path: &[u8], what: &str, why: &str) {
        self.attributes.fetch_add(1, Ordering::Relaxed);
        // One is worth a line; thousands are worth a number at the end.
        if self.verbose || !self.told.swap(true, Ordering::Relaxed) {
            ui::error(&format!("zinc: {}: {what} not kept: {why}\n", printable(path)));
        }
    }

    fn done(&self, path: &[u8], _: &Node, _: u64) {
        if self.verbose {
            ui::error(&format!("{}\n", printable(path)));
        }
    }
}

impl Args {
    /// Runs it. Exit code 1 when something was not copied.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let sources: Vec<Place> = self.sources.iter().map(|s| s.as_os_str().into()).collect();
        let first = sources.first().map(Place::pool).unwrap_or_default();
        if let Some(other) = sources.iter().find(|s| s.pool() != first) {
            return Err(Failure::usage(format!("{}: one pool at a time", other.shown())));
        }
        if sources.len() > 1 && !self.dest.is_dir() {
            let what = format!("{}: no directory, to copy several to", self.dest.display());
            return Err(Failure::usage(what));
        }
        let pool = self.pool.open(&first)?;
        let progress = Progress::new();
        progress.begin("copied", 0);
        let sink = Talk {
            verbose: self.verbose,
            failures: AtomicU64::new(0),
            attributes: AtomicU64::new(0),
            told: AtomicBool::new(false),
        };
        while_showing(&progress, || {
            sources.iter().try_for_each(|s| self.source(&pool, s, &progress, &sink))
        })?;
        let refused = sink.attributes.into_inner();
        if refused > 1 && !self.verbose {
            ui::error(&format!("zinc: {refused} attributes not kept; -v names them\n"));
        }
        let failures = sink.failures.into_inner();
        Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    fn source(
        &self,
        pool: &Pool,
        place: &Place,
        progress: &Progress,
        sink: &Talk,
    ) -> Result<(), Failure> {
        let found = place.find(pool)?;
        if pool.dsl().kind(&found.dataset) == DatasetKind::Volume {
            return self.volume(pool, &found, progress, sink);
        }
        let fs = found.filesystem(pool, &self.pool.open)?;
        let node = found.node(&fs, false)?;
        let mut copier = Copier::new(&fs, progress, sink);
        let owner = self.owner || (is_root() && !self.no_owner);
        copier.keep = Keep { owner, xattrs: !self.no_xattrs };
        copier.existing = if self.force { Existing::Replace } else { Existing::Refuse };
        copier.posix_acls = has_posix_acls(pool, &found.dataset);
        if node.kind() == FileKind::Dir {
            if !self.recursive {
                let what = format!("{}: a directory, not copied", place.shown());
                return Err(Failure::new(what).hint("-r copies directories"));
            }
            // The root has no name to copy it under: what is in it goes into the target itself.
            let target = match found.last_name() {
                Some(name) if self.dest.is_dir() => open(&self.dest)?.subdir(name),
                _ => LocalDir::open_target(&self.dest),
            };
            copier.tree(&node, &target.map_err(|e| cannot(&self.dest, &e))?, found.path());
            return Ok(());
        }
        let (dir, name) = self.target(found.last_name().unwrap_or(b"file"))?;
        copier.one(&node, &dir, &name, found.path());
        Ok(())
    }

    /// Directory and name to copy one file to.
    fn target(&self, name: &[u8]) -> Result<(LocalDir, Vec<u8>), Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        if self.dest.is_dir() {
            return Ok((open(&self.dest)?, name.to_vec()));
        }
        let Some(name) = self.dest.file_name() else {
            return Err(Failure::usage(format!("{}: no name", self.dest.display())));
        };
        let parent = self.dest.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        if !parent.is_dir() {
            return Err(Failure::new(format!("{}: no such directory", parent.display())));
        }
        Ok((open(parent)?, name.as_bytes().to_vec()))
    }

    fn volume(
        &self,
        pool: &Pool,
        found: &Found,
        progress: &Progress,
        sink: &Talk,
    ) -> Result<(), Failure> {
        if !found.path().is_empty() {
            return Err(Failure::new(format!("{}: a volume, without files", found.dataset.name)));
        }
        let volume = Volume::open(&objsets::open(pool, &found.dataset, &self.pool.open)?)?;
        let last = found.dataset.name.rsplit('/').next().unwrap_or("volume");
        let (dir, name) = self.target(last.as_bytes())?;
        if dir.look(&name)?.is_some_and(|m| !m.is_file() || !self.force) {
            let what = format!("{}: exists", printable(&name));
            return Err(Failure::new(what).hint("--force replaces a file"));
        }
        match tree::volume(&volume, &dir, &name, progress, sink) {
            Ok(_) => Ok(()),
            Err(e) => Err(Failure::new(format!("{}: not copied", found.dataset.name))
                .because(e.to_string())
                .hint("zinc rescue copies what can be read")),
        }
    }
}

fn open(path: &Path) -> Result<LocalDir, Failure> {
    LocalDir::open_target(path).map_err(|e| cannot(path, &e))
}

fn cannot(path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write to {}", path.display())).because(e.to_string())
}
