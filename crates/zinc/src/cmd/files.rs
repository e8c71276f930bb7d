//! `zinc mkdir`, `rm`, `mv` and `ln`: small changes of names in a file system of a pool.

use crate::cmd::cp::into::now;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::progress::while_showing;
use crate::session::Session;
use engine::Progress;
use engine::files::{FileKind, NewFile, NewKind, RenameMode, make_directories, remove_tree};
use engine::places::{GivenPlace, divided};
use engine::{ErrorKind, Filesystem, LivePool};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use views::places::printable;

/// Arguments of `zinc mkdir`.
#[derive(clap::Args)]
pub struct Mkdir {
    #[command(flatten)]
    live: LiveArgs,
    /// Also create missing parents; a directory that exists is not an error
    #[arg(short, long)]
    parents: bool,
    /// Permissions, octal
    #[arg(short, long, value_name = "MODE", default_value = "755", value_parser = parse_mode)]
    mode: u32,
    /// Directories of one pool, as POOL/DATASET:PATH
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<OsString>,
}

/// Arguments of `zinc rm`.
#[derive(clap::Args)]
pub struct Rm {
    #[command(flatten)]
    live: LiveArgs,
    /// Remove directories with their contents
    #[arg(short, long)]
    recursive: bool,
    /// Ignore files that do not exist
    #[arg(short, long)]
    force: bool,
    /// Files of one pool, as POOL/DATASET:PATH
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<OsString>,
}

/// Arguments of `zinc mv`.
#[derive(clap::Args)]
pub struct Mv {
    #[command(flatten)]
    live: LiveArgs,
    /// Do not replace files
    #[arg(short = 'n', long)]
    no_clobber: bool,
    /// What there is, as POOL/DATASET:PATH
    from: OsString,
    /// Its new name, or the directory it goes to, in the same dataset
    to: OsString,
}

/// Arguments of `zinc ln`.
#[derive(clap::Args)]
pub struct Ln {
    #[command(flatten)]
    live: LiveArgs,
    /// A symbolic link: TARGET is the text it leads to
    #[arg(short, long)]
    symbolic: bool,
    /// The file, as POOL/DATASET:PATH
    target: OsString,
    /// Its second name, as POOL/DATASET:PATH
    place: OsString,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
    mode.ok_or_else(|| format!("invalid mode '{text}'"))
}

/// A place in a file system that is open for writing.
struct FileLocation {
    fs: Filesystem,
    dataset: u64,
    path: Vec<u8>,
    shown: String,
}

impl FileLocation {
    fn find(pool: &LivePool, text: &OsStr) -> Result<Self, Failure> {
        let place = GivenPlace::from(text);
        let found = place.find(pool.view())?;
        if found.dataset.is_snapshot() {
            let what = format!("'{}': a snapshot cannot be changed", place.shown());
            return Err(Failure::new(what));
        }
        let fs = pool.filesystem(&found.dataset.name)?.unless_suspended();
        let path = found.path().to_vec();
        Ok(Self { fs, dataset: found.dataset.object, path, shown: place.shown() })
    }

    fn fail(&self, doing: &str, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("cannot {doing} '{}': {why}", self.shown))
    }

    /// The directory above it, and its name there.
    fn above(&self, doing: &str) -> Result<(u64, Vec<u8>), Failure> {
        let (above, name) = divided(&self.path);
        let Some(name) = name else { return Err(self.fail(doing, &"it has no name")) };
        let dir = self.fs.by_path(above, true).map_err(|e| self.fail(doing, &e))?;
        Ok((dir.number(), name.to_vec()))
    }

    /// A directory that is there goes before what was named: then that is its name in it.
    fn target(&self, doing: &str, name: &[u8]) -> Result<(u64, Vec<u8>), Failure> {
        match self.fs.by_path(&self.path, true) {
            Ok(node) if node.kind() == FileKind::Dir => Ok((node.number(), name.to_vec())),
            _ => self.above(doing),
        }
    }
}

/// Opens the pool of the places, and does something with each.
fn each(
    session: &Session,
    live: &LiveArgs,
    places: &[OsString],
    mut act: impl FnMut(&FileLocation) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let mut pools = places.iter().map(|p| GivenPlace::from(p.as_os_str()).pool());
    let first = pools.next().unwrap_or_default();
    if pools.any(|p| p != first) {
        return Err(Failure::usage("all names must be of one pool"));
    }
    live.change_files(session, &first, |pool| {
        places.iter().try_for_each(|text| act(&FileLocation::find(pool, text)?))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn new_file(session: &Session, kind: NewKind, mode: u32) -> NewFile {
    let (uid, gid) = (session.user(), session.group());
    NewFile { uid, gid, ..NewFile::new(kind, mode, now()) }
}

impl Verb for Mkdir {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each(session, &self.live, &self.places, |file| {
            let fail = |e| file.fail("create directory", &e);
            if !self.parents {
                let (dir, name) = file.above("create directory")?;
                file.fs
                    .create(dir, &name, &new_file(session, NewKind::Dir, self.mode))
                    .map_err(fail)?;
                return Ok(());
            }
            let new = new_file(session, NewKind::Dir, self.mode);
            make_directories(&file.fs, &file.path, &new).map_err(|e| {
                match (e.kind(), e.place()) {
                    (ErrorKind::NotDirectory, Some(engine::Place::File(name))) => {
                        file.fail("create directory", &format!("'{name}' is not a directory"))
                    }
                    _ => file.fail("create directory", &e),
                }
            })?;
            Ok(())
        })
    }
}

impl Verb for Rm {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let progress = Progress::new();
        progress.begin("removed", 0);
        each(session, &self.live, &self.places, |file| {
            let fail = |e| file.fail("remove", &e);
            let (dir, name) = match file.above("remove") {
                Ok(above) => above,
                Err(_) if self.force => return Ok(()),
                Err(e) => return Err(e),
            };
            let parent = file.fs.node(dir).map_err(fail)?;
            let Some(entry) = parent.lookup(&name).map_err(fail)? else {
                let gone = || file.fail("remove", &"No such file or directory");
                return if self.force { Ok(()) } else { Err(gone()) };
            };
            let is_dir = file.fs.node(entry.object).map_err(fail)?.kind() == FileKind::Dir;
            match (is_dir, self.recursive) {
                (false, _) => file.fs.unlink(dir, &name, now()).map_err(fail),
                (true, false) => {
                    Err(file.fail("remove", &"Is a directory").hint("-r removes directories"))
                }
                (true, true) => {
                    while_showing(session, &progress, || tree(file, (dir, &name), &progress))
                }
            }
        })
    }
}

/// Removes a directory with all in it.
fn tree(file: &FileLocation, top: (u64, &[u8]), progress: &Progress) -> Result<(), Failure> {
    remove_tree(&file.fs, top, &now, progress).map_err(|e| {
        let path: Vec<String> = e.names.iter().map(|name| printable(name)).collect();
        file.fail("remove", &format!("'{}': {}", path.join("/"), e.cause))
    })
}

impl Verb for Mv {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let how = if self.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
        let name = GivenPlace::from(self.from.as_os_str()).pool();
        self.live.change_files(session, &name, |pool| {
            let from = FileLocation::find(pool, &self.from)?;
            let elsewhere = || {
                from.fail("move", &"it goes to another dataset").hint(
                    "`zinc cp` copies out of one to this machine, and from there into another",
                )
            };
            let other = GivenPlace::from(self.to.as_os_str()).pool();
            if other != name && other != pool.name() && other.parse() != Ok(pool.guid()) {
                return Err(elsewhere());
            }
            let to = FileLocation::find(pool, &self.to)?;
            if from.dataset != to.dataset {
                return Err(elsewhere());
            }
            let (old_dir, old) = from.above("move")?;
            let (dir, name) = to.target("move to", &old)?;
            let done = from.fs.rename((old_dir, &old), (dir, &name), how, now());
            done.map_err(|e| from.fail("move", &e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Ln {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.live.change_files(
            session,
            &GivenPlace::from(self.place.as_os_str()).pool(),
            |pool| {
                let file = FileLocation::find(pool, &self.place)?;
                let fail = |e| file.fail("create link", &e);
                let text = self.target.as_bytes();
                if self.symbolic {
                    let last = divided(text).1.unwrap_or(text);
                    let (dir, name) = file.target("create link", last)?;
                    let kind = NewKind::Symlink(text.to_vec());
                    file.fs.create(dir, &name, &new_file(session, kind, 0o777)).map_err(fail)?;
                    return Ok(());
                }
                let old = FileLocation::find(pool, &self.target)?;
                if old.dataset != file.dataset {
                    return Err(file.fail("create link", &"the file is in another dataset"));
                }
                let (_, last) = old.above("link")?;
                let node = old.fs.by_path(&old.path, false).map_err(|e| old.fail("link", &e))?;
                let (dir, name) = file.target("create link", &last)?;
                file.fs.link(node.number(), dir, &name, now()).map_err(fail)
            },
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
