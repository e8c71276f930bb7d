//! `zinc mkdir`, `rm`, `mv` and `ln`: small changes of names in a file system of a pool.

use crate::cmd::cp::into::now;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::progress::while_showing;
use crate::session::Session;
use engine::files::{FileName, NewFile, NewKind, RenameMode};
use engine::places::GivenPlace;
use engine::{Error, ErrorKind, Progress};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

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

/// The failure of what was to be done with a name, or with the one that the error is about.
fn cannot(doing: &str, file: &FileName, e: &Error) -> Failure {
    let shown = e.operand().unwrap_or(file.shown());
    let failure = Failure::new(format!("cannot {doing} '{shown}': {e}"));
    e.hint().into_iter().fold(failure, |failure, hint| failure.hint(views::hints::text(hint)))
}

/// Opens the pool of the places, and does something with each.
fn each(
    session: &Session,
    live: &LiveArgs,
    places: &[OsString],
    mut act: impl FnMut(&FileName) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let places: Vec<GivenPlace> = places.iter().map(|p| GivenPlace::from(p.as_os_str())).collect();
    let mut pools = places.iter().map(GivenPlace::pool);
    let first = pools.next().unwrap_or_default();
    if pools.any(|p| p != first) {
        return Err(Failure::usage("all names must be of one pool"));
    }
    live.change_files(session, &first, |pool| {
        places.iter().try_for_each(|place| act(&FileName::find(pool, place)?))
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
            let new = new_file(session, NewKind::Dir, self.mode);
            let made = match self.parents {
                true => file.make_directories(&new),
                false => file.make_directory(&new),
            };
            made.map_err(|e| cannot("create directory", file, &e))
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
            let removed = match self.recursive {
                true => while_showing(session, &progress, || file.remove(&now, &progress)),
                false => file.remove_file(now()),
            };
            match removed {
                Err(e) if self.force && is_absent(&e) => Ok(()),
                removed => removed.map_err(|e| cannot("remove", file, &e)),
            }
        })
    }
}

/// There is no such file.
fn is_absent(e: &Error) -> bool {
    use ErrorKind::{InvalidName, NotDirectory, NotFound};
    matches!(e.kind(), InvalidName | NotDirectory | NotFound)
}

impl Verb for Mv {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let how = if self.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
        let [from, to] = [&self.from, &self.to].map(|text| GivenPlace::from(text.as_os_str()));
        self.live.change_files(session, &from.pool(), |pool| {
            let from = FileName::find(pool, &from)?;
            let fail = |e: &Error| {
                let is_target = e.operand().is_some_and(|shown| shown != from.shown());
                cannot(if is_target { "move to" } else { "move" }, &from, e)
            };
            let to = match to.is_in(pool.view()) {
                true => FileName::find(pool, &to)?,
                false => return Err(fail(&from.elsewhere())),
            };
            from.rename(&to, how, now()).map_err(|e| fail(&e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Ln {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let place = GivenPlace::from(self.place.as_os_str());
        self.live.change_files(session, &place.pool(), |pool| {
            let new = FileName::find(pool, &place)?;
            if self.symbolic {
                let text = self.target.as_bytes();
                let link = new_file(session, NewKind::Symlink(Vec::new()), 0o777);
                return new.symlink(text, &link).map_err(|e| cannot("create link", &new, &e));
            }
            let old = FileName::find(pool, &GivenPlace::from(self.target.as_os_str()))?;
            new.link(&old, now()).map_err(|e| {
                let is_old = e.operand() == Some(old.shown());
                cannot(if is_old { "link" } else { "create link" }, &new, &e)
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
