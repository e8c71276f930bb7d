//! `zinc cp LOCAL... POOL/DATASET:PATH`: files, trees and archives into a file system of a pool.

use super::report::CopyReport;
use crate::args::OpenArgs;
use crate::failure::{Failure, one_line, system_text};
use crate::live::LiveArgs;
use crate::progress::while_showing;
use crate::session::Session;
use control::input::Amount;
use engine::files::{FileKind, Time};
use engine::ingest::{Ingest, IngestObserver};
use engine::places::{GivenPlace, divided};
use engine::properties::has_posix_acls;
use engine::{DatasetKind, Error, Filesystem, LivePool, Progress};
use hostfs::ingest::unpack::{self, UnpackError};
use hostfs::ingest::{self, IngestError, TreeIn};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use views::places::printable;

/// A copy into a pool, and its options.
pub struct IntoArgs {
    pub live: LiveArgs,
    /// The keys that were given.
    pub open: OpenArgs,
    pub recursive: bool,
    pub force: bool,
    pub owner: bool,
    pub xattrs: bool,
    pub verbose: bool,
    /// An archive instead of files; `-` is standard input.
    pub tar: Option<PathBuf>,
    pub sources: Vec<OsString>,
    pub dest: OsString,
}

impl IngestObserver for CopyReport {
    fn not_kept(&self, file: PathBuf, attribute: &[u8], why: &Error) {
        Self::not_kept(self, file.as_os_str().as_bytes(), attribute, why);
    }

    fn done(&self, file: &dyn Fn() -> PathBuf) {
        Self::done(self, || file().into_os_string().into_vec());
    }
}

/// The time.
pub fn now() -> Time {
    ingest::time(SystemTime::now())
}

/// The name under which a source is copied; `None` when it ends in `/.`, for what is in it.
fn last_name(source: &OsStr) -> Option<Vec<u8>> {
    let bytes = source.as_bytes();
    if matches!(bytes, b"." | b"..") || bytes.ends_with(b"/.") || bytes.ends_with(b"/..") {
        return None;
    }
    Path::new(source).file_name().map(|n| n.as_bytes().to_vec())
}

/// Whether a place to copy to is in a pool: it has a colon, and is not written as a path.
pub fn is_in_pool(session: &Session, dest: &OsStr) -> bool {
    let bytes = dest.as_bytes();
    let is_path = bytes.starts_with(b"/") || bytes.starts_with(b".");
    !is_path && bytes.contains(&b':') && !session.path(Path::new(dest)).exists()
}

/// Whether a thing to copy is on this machine.
pub fn is_local(session: &Session, source: &OsStr) -> bool {
    !source.as_bytes().contains(&b':') || session.path(Path::new(source)).symlink_metadata().is_ok()
}

fn cannot_copy(source: &OsStr) -> Failure {
    Failure::new(format!("cannot copy '{}'", source.display()))
}

impl IntoArgs {
    /// Copies. Exit code 1 when something was not.
    pub fn run(self, session: &Session) -> Result<ExitCode, Failure> {
        let place = GivenPlace::from(self.dest.as_os_str());
        for source in &self.sources {
            if let Err(e) = std::fs::symlink_metadata(source) {
                return Err(cannot_copy(source).because(system_text(&e)));
            }
        }
        let report = CopyReport::new(session, self.verbose);
        let progress = Progress::new();
        progress.begin("copied", 0);
        self.live.change_files(session, &place.pool(), |pool| {
            self.open.load_keys(session, pool.view())?;
            while_showing(session, &progress, || self.copy(pool, &place, &progress, &report))
        })?;
        Ok(report.end())
    }

    fn copy(
        &self,
        pool: &LivePool,
        place: &GivenPlace,
        progress: &Progress,
        report: &CopyReport,
    ) -> Result<(), Failure> {
        let found = place.find(pool.view())?;
        if found.dataset.is_snapshot() {
            let what = format!("cannot copy to '{}': a snapshot cannot be changed", place.shown());
            return Err(Failure::new(what));
        }
        if pool.view().datasets().kind(&found.dataset) == DatasetKind::Volume {
            let what = format!("cannot copy to '{}': a volume has no files", place.shown());
            return Err(Failure::new(what)
                .hint("`zinc nbd` makes a volume a disk that other programs write to"));
        }
        let fs = pool.filesystem(&found.dataset.name)?.unless_suspended();
        let ingest = Ingest {
            fs: &fs,
            progress,
            observer: report,
            clock: &now,
            replace: self.force,
            owner: self.owner,
            xattrs: self.xattrs,
            posix_acls: has_posix_acls(pool.view(), &found.dataset),
            made: self.tar.is_some().then(Default::default),
        };
        if let Some(archive) = &self.tar {
            let dir = directory(&fs, found.path(), place)?;
            return unpack_archive(&ingest, report, dir, archive);
        }
        let failed = |path: &Path, why: &Error| {
            report.failed(path.as_os_str().as_bytes(), &one_line(why));
        };
        let into = TreeIn { ingest, failed: &failed };
        let there = fs.by_path(found.path(), true).ok();
        if let Some(node) = there.filter(|n| n.kind() == FileKind::Dir) {
            return self.each(&into, |source| (node.number(), last_name(source)));
        }
        if self.sources.len() != 1 {
            let what = format!("'{}' is not a directory, to copy several to", place.shown());
            return Err(Failure::new(what));
        }
        let (above, name) = divided(found.path());
        let Some(name) = name else {
            return Err(Failure::new(format!("'{}' names no file", place.shown())));
        };
        let dir = directory(&fs, above, place)?;
        self.each(&into, |_| (dir, Some(name.to_vec())))
    }

    /// Copies each source to a directory and name; without a name what is in it goes there.
    fn each(
        &self,
        into: &TreeIn<'_>,
        target: impl Fn(&OsStr) -> (u64, Option<Vec<u8>>),
    ) -> Result<(), Failure> {
        for source in &self.sources {
            let mut path = PathBuf::from(source);
            if !self.recursive && path.is_symlink() {
                // As with cp: a link that is named is followed, unless trees are kept.
                let failed = |e| cannot_copy(source).because(system_text(&e));
                path = path.canonicalize().map_err(failed)?;
            }
            let path = path.as_path();
            let is_dir = std::fs::symlink_metadata(path)?.is_dir();
            if is_dir && !self.recursive {
                let what = format!("{}: a directory, not copied", source.display());
                return Err(Failure::new(what).hint("-r copies directories"));
            }
            let (dir, name) = target(source);
            ingest::copy(into, path, dir, name.as_deref()).map_err(
                |IngestError { path, why }| {
                    let path = printable(path.as_os_str().as_bytes());
                    Failure::new(format!("cannot copy '{path}'")).because(one_line(&why))
                },
            )?;
        }
        Ok(())
    }
}

/// Unpacks an archive into the directory `dir`. `-` is standard input.
fn unpack_archive(
    ingest: &Ingest<'_>,
    report: &CopyReport,
    dir: u64,
    path: &Path,
) -> Result<(), Failure> {
    let fail = |why: &Error| {
        let what = format!("cannot read archive '{}'", printable(path.as_os_str().as_bytes()));
        Failure::new(what).because(one_line(why))
    };
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => report.session.input(Amount::All, ingest.progress).map_err(|e| fail(&e.into()))?,
        false => Box::new(File::open(path).map_err(|e| fail(&e.into()))?),
    };
    let failed = |member: &[u8], why: &Error| report.failed(member, &one_line(why));
    unpack::unpack(ingest, &failed, dir, source).map_err(|e| match e {
        UnpackError::Archive(why) => fail(&why),
        UnpackError::Member { name, why } => {
            Failure::new(format!("cannot unpack '{}'", printable(&name))).because(one_line(&why))
        }
    })
}

/// The object of a directory that is there.
fn directory(fs: &Filesystem, path: &[u8], place: &GivenPlace) -> Result<u64, Failure> {
    let fail = |why: String| Failure::new(format!("cannot copy to '{}': {why}", place.shown()));
    let node = fs.by_path(path, true).map_err(|e| fail(e.to_string()))?;
    match node.kind() {
        FileKind::Dir => Ok(node.number()),
        _ => Err(fail(format!("'{}' is not a directory", String::from_utf8_lossy(path)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_pools_have_a_colon() {
        let session = &crate::session::Session::of_test();
        assert!(is_in_pool(session, OsStr::new("tank/fs:/a")));
        assert!(!is_in_pool(session, OsStr::new("./tank:x")));
        assert!(!is_in_pool(session, OsStr::new("/tmp/a:b")));
        assert!(!is_in_pool(session, OsStr::new("out")));
        assert!(
            is_local(session, OsStr::new("out")) && !is_local(session, OsStr::new("tank/fs:/x"))
        );
    }
}
