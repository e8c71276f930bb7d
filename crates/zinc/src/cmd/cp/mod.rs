//! `zinc cp`: files, trees and volumes out of a pool, and files, trees and archives into one.

pub mod into;
pub mod preserve;
mod report;

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::known;
use crate::live::{LiveArgs, LiveOptions, Tuning};
use crate::objsets::Sets;
use crate::progress::while_showing;
use crate::served::Server;
use crate::session::Session;
use engine::Progress;
use engine::extract::{self, Existing, Extract};
use engine::files::FileKind;
use engine::places::{FoundPlace, GivenPlace};
use engine::properties::has_posix_acls;
use engine::{DatasetKind, Pool, Volume};
use hostfs::{Dir, names};
use preserve::KeepArgs;
use report::CopyReport;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use views::places::printable;

/// Arguments of `zinc cp`.
#[derive(clap::Args)]
#[command(
    override_usage = "zinc cp [OPTIONS] <SOURCE>... <DEST>",
    after_help = "\
POOL/DATASET: without a path copies a volume as an image, or with -r what is in the root of a file
system. Holes stay holes; times, modes, hard links and extended attributes are kept, owners when
zinc runs as root. A file that was copied whole before is left as it is, so an interrupted copy
is continued by the same command. A directory is closed to others until all that is in it is there.
A destination POOL/DATASET:PATH is in a pool: the sources are files and directories of this machine,
of which owners are kept in any case. SOURCE/. means what is in it."
)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Copy directories with their contents
    #[arg(short, long)]
    recursive: bool,
    /// Replace existing files that differ, and below directories also links, pipes and devices
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    keep: KeepArgs,
    /// Name every file that is copied
    #[arg(short, long)]
    verbose: bool,
    /// Unpack this archive into the destination in a pool; - is standard input
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    /// Print what each transaction group did, of a pool that is copied to
    #[arg(long)]
    txgs: bool,
    #[command(flatten)]
    tuning: Tuning,
    /// What to copy, as POOL/DATASET[@SNAPSHOT]:PATH, or into a pool files and directories; and
    /// last where to: a directory, the new name of one file, or POOL/DATASET:PATH
    #[arg(required = true, value_name = "SOURCE> <DEST")]
    paths: Vec<OsString>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. Exit code 1 when something was not copied.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let mut sources = self.paths.clone();
        let Some(dest) = sources.pop() else {
            return Err(Failure::usage("give the files to copy and a destination"));
        };
        let is_into = into::is_in_pool(session, &dest);
        if self.tar.is_some() || (is_into && sources.iter().all(|s| into::is_local(session, s))) {
            let sources = sources.iter().map(|s| session.argument(s)).collect();
            return self.copy_into(session, sources, dest);
        }
        if sources.is_empty() {
            return Err(Failure::usage("give the files to copy and a destination"));
        }
        if is_into {
            return Err(Failure::usage("copies from pool to pool are not possible yet")
                .hint("copy out to a directory, and from there into the other pool"));
        }
        if self.txgs {
            return Err(Failure::usage("--txgs is for copies into a pool"));
        }
        self.copy_out(session, &sources, &session.path(Path::new(&dest)))
    }
}

impl Args {
    fn copy_out(
        &self,
        session: &Session,
        sources: &[OsString],
        dest: &Path,
    ) -> Result<ExitCode, Failure> {
        let are_here = sources.iter().all(|s| session.path(Path::new(s)).exists());
        let sources: Vec<GivenPlace> = sources.iter().map(|s| s.as_os_str().into()).collect();
        let first = sources.first().map(GivenPlace::pool).unwrap_or_default();
        if let Some(other) = sources.iter().find(|s| s.pool() != first) {
            return Err(Failure::usage(format!("{}: one pool at a time", other.shown())));
        }
        if sources.len() > 1 && !dest.is_dir() {
            let what = format!("{}: no directory, to copy several to", dest.display());
            return Err(Failure::usage(what));
        }
        let is_known = || -> Result<bool, Failure> {
            let is_served = Server::find(session, &self.pool.search, &first)?.is_some();
            Ok(is_served || known::pools(session).find(&first).is_some())
        };
        if are_here && session.held(&first).is_none() && !is_known()? {
            let what = format!("'{}' is not a place in a pool to copy to", dest.display());
            return Err(Failure::usage(what)
                .because("the files to copy must be on this machine")
                .hint(
                    "a destination in a pool is written POOL/DATASET:/PATH, with the colon; a \
                     volume has no files, and `zinc nbd` makes it a disk to write to",
                ));
        }
        let pool = self.pool.clone().anywhere().open(session, &first)?;
        let progress = Progress::new();
        progress.begin("copied", 0);
        let sink = CopyReport::new(session, self.verbose);
        while_showing(session, &progress, || {
            let sets = Sets::new(session, &pool, &self.pool.open);
            let copy = |s| self.source(&pool, &sets, s, dest, &progress, &sink);
            sources.iter().try_for_each(copy)
        })?;
        Ok(sink.end())
    }

    fn copy_into(
        self,
        session: &Session,
        sources: Vec<OsString>,
        dest: OsString,
    ) -> Result<ExitCode, Failure> {
        if self.keep.no_devices {
            return Err(Failure::usage("--no-devices is for copies out of a pool"));
        }
        let open = &self.pool.open;
        let newest = "a copy into a pool changes its newest state";
        let no_use = [
            ("--txg", open.txg.is_some(), newest),
            ("--checkpoint", open.checkpoint, newest),
            ("--replay", open.replay, "a pool that is changed has its intent log replayed anyway"),
            (
                "--allow-missing",
                open.allow_missing,
                "a pool with a missing top-level vdev is opened for reading only",
            ),
        ];
        if let Some((option, _, why)) = no_use.iter().find(|(_, given, _)| *given) {
            let what = format!("{option} is for copies out of a pool");
            return Err(Failure::usage(what).because(*why));
        }
        match (&self.tar, sources.len()) {
            (Some(_), 0) | (None, 1..) => {}
            (Some(_), _) => return Err(Failure::usage("an archive, or files: not both")),
            (None, _) => return Err(Failure::usage("give the files to copy")),
        }
        let PoolArgs { search, open, .. } = self.pool;
        let how = LiveOptions {
            txgs: self.txgs,
            cache_mib: open.cache_mib,
            wait: open.wait,
            tuning: self.tuning,
            give_up: Vec::new(),
            txg: None,
        };
        let args = into::IntoArgs {
            live: LiveArgs { search, options: how },
            open,
            recursive: self.recursive,
            force: self.force,
            owner: !self.keep.no_owner,
            xattrs: !self.keep.no_xattrs,
            verbose: self.verbose,
            tar: self.tar.map(|t| if t == Path::new("-") { t } else { session.path(&t) }),
            sources,
            dest,
        };
        args.run(session)
    }

    fn source(
        &self,
        pool: &Pool,
        sets: &Sets<'_>,
        place: &GivenPlace,
        dest: &Path,
        progress: &Progress,
        sink: &CopyReport,
    ) -> Result<(), Failure> {
        let found = place.find(pool)?;
        if pool.datasets().kind(&found.dataset) == DatasetKind::Volume {
            return self.volume(sets, &found, dest, progress, sink);
        }
        let fs = sets.filesystem(&found.dataset)?;
        let node = found.node(&fs, false)?;
        let mut extract = Extract::new(&fs, self.keep.keep(), progress, sink);
        extract.existing = if self.force { Existing::Replace } else { Existing::Refuse };
        extract.posix_acls = has_posix_acls(pool, &found.dataset);
        if node.kind() == FileKind::Dir {
            if !self.recursive {
                let what = format!("{}: a directory, not copied", place.shown());
                return Err(Failure::new(what).hint("-r copies directories"));
            }
            // The root has no name to copy it under: what is in it goes into the target itself.
            let target = match found.last_name() {
                Some(name) if dest.is_dir() => open(dest)?.subdir(name).map(|(dir, _)| dir),
                _ => Dir::open_target(dest, true),
            };
            let target = target.map_err(|e| cannot(dest, &e))?;
            let target = Arc::new(target);
            return extract.tree(&node, target, found.path()).map_err(|e| cancelled(&e));
        }
        let target = target(dest, found.last_name().unwrap_or(b"file"))?;
        extract.one(&node, Arc::new(target.dir), &target.name, found.path());
        progress.check().map_err(|e| cancelled(&e))
    }

    fn volume(
        &self,
        sets: &Sets<'_>,
        found: &FoundPlace,
        dest: &Path,
        progress: &Progress,
        sink: &CopyReport,
    ) -> Result<(), Failure> {
        if !found.path().is_empty() {
            return Err(Failure::new(format!("{}: a volume, without files", found.dataset.name)));
        }
        let volume = Volume::open(&sets.open(&found.dataset)?)?;
        let last = found.dataset.name.rsplit('/').next().unwrap_or("volume");
        let Target { dir, name } = target(dest, last.as_bytes())?;
        let there = dir.look(&name)?;
        if there.is_some_and(|there| !there.is_file() || !self.force) {
            let what = format!("{}: exists", printable(&name));
            return Err(Failure::new(what).hint("--force replaces a file"));
        }
        let replaced = there.map(|there| there.identity);
        match extract::volume(&volume, &dir, &name, replaced, progress, sink) {
            Ok(_) => Ok(()),
            Err(e) => Err(Failure::new(format!("{}: not copied", found.dataset.name))
                .because(e.to_string())
                .hint("zinc rescue copies what can be read")),
        }
    }
}

/// Where one file is copied to.
struct Target {
    dir: Dir,
    name: Vec<u8>,
}

/// Directory and name to copy one file to. A name of the user that is not a file stays: for a
/// device or a pipe there is `zinc cat`.
fn target(dest: &Path, name: &[u8]) -> Result<Target, Failure> {
    use std::os::unix::ffi::OsStrExt as _;
    if dest.is_dir() {
        if let Some(why) = names::fault(name) {
            let what = format!("{}: {why}, which no file can have here", printable(name));
            return Err(Failure::new(what).hint("give the name of the copy"));
        }
        return Ok(Target { dir: open(dest)?, name: name.to_vec() });
    }
    let Some(name) = dest.file_name() else {
        return Err(Failure::usage(format!("{}: no name", dest.display())));
    };
    let parent = dest.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(Failure::new(format!("{}: no such directory", parent.display())));
    }
    let target = Target { dir: open(parent)?, name: name.as_bytes().to_vec() };
    match target.dir.look(&target.name)? {
        Some(there) if !there.is_file() => {
            let what = format!("{}: {}, not replaced", dest.display(), there.kind_name());
            Err(Failure::new(what).hint("zinc cat writes into devices and pipes"))
        }
        _ => Ok(target),
    }
}

fn open(path: &Path) -> Result<Dir, Failure> {
    Dir::open_target(path, false).map_err(|e| cannot(path, &e))
}

fn cannot(path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write to {}", path.display())).because(e.to_string())
}

/// The failure of a cancelled copy.
pub fn cancelled(e: &engine::Cancelled) -> Failure {
    Failure::new(format!("the copy is incomplete: {e}"))
}
