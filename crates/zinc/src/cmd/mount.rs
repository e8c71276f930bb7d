//! `zinc mount` and `zinc unmount`.
//!
//! A mounted file system needs a process that holds its pool. Where the pool is served, that
//! process mounts; where it is not, one is started that serves it as `zinc serve` does, and ends
//! when the last mount is gone:
//!
//! ```text
//! zinc mount tank/home /mnt -- served? --yes--> run there
//!                                |
//!                                no
//!                                v
//!             zinc mount --serve-now tank/home /mnt    a process of its own: serve, with mounts
//! ```

use crate::cmd::serve::{self, background};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::mounting::{follower, made, made_to_read, not_unmounted, report_failures};
use crate::served::{self, Server};
use crate::session::Session;
use crate::ui;
use ::mount::UnmountMode;
use ::mount::datasets::{MountRequest, mount};
use ::mount::reading;
use ::mount::system::{self, Listed};
use control::protocol::word_to_json;
use engine::datasets::pool_of;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `zinc mount`.
#[derive(clap::Args)]
#[command(after_help = "\
Where the pool is served (`zinc serve`), its server mounts. Otherwise a process is started that
serves the pool until the last mount is gone. Without DIR the property mountpoint says where.
`zinc unmount` takes a mount away.")]
pub struct Mount {
    #[command(flatten)]
    live: LiveArgs,
    /// Options: ro, rw, suid, nosuid, dev, nodev, exec, noexec, atime, noatime, xattr, noxattr
    /// (comma-separated, repeatable); the others follow from the properties
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Also mount over a directory that is not empty
    #[arg(short = 'O', long)]
    overlay: bool,
    /// If the pool is not served: serve it in this process instead of a new one
    #[arg(long)]
    foreground: bool,
    /// If the pool is not served: open it read-only, and write nothing to its devices
    #[arg(long)]
    read_only: bool,
    /// What the process of its own is
    #[arg(long = background::INNER, hide = true)]
    inner: bool,
    /// A file system or snapshot
    #[arg(value_name = "DATASET")]
    name: String,
    /// Where
    dir: Option<PathBuf>,
}

/// Arguments of `zinc unmount`.
#[derive(clap::Args)]
pub struct Unmount {
    /// Also when programs use it: they lose access to the files they have open
    #[arg(short, long)]
    force: bool,
    /// Mount points, file systems or snapshots
    #[arg(required = true, value_name = "DIR|DATASET")]
    names: Vec<PathBuf>,
}

impl Verb for Mount {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let dir = self.dir.as_deref().map(|dir| session.path(dir));
        let (name, overlay) = (self.name.clone(), self.overlay);
        let mut options = self.options.clone();
        options.extend(self.read_only.then(|| "ro".to_owned()));
        let wanted = MountRequest { dir, overlay, ..MountRequest::new(&name, &options)? };
        let wanted = vec![wanted];
        let how = Begin {
            live: &self.live,
            is_inner: self.inner,
            in_foreground: self.foreground,
            read_only: self.read_only,
        };
        how.mount(session, &name, &wanted, MountReport::What)
    }
}

/// The output for mounts that were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountReport {
    /// Each dataset with its directory.
    What,
    /// Nothing, as OpenZFS does.
    Nothing,
}

/// How a pool comes to be held that is not served.
pub struct Begin<'a> {
    /// How it is found and opened.
    pub live: &'a LiveArgs,
    /// This is the process that was started for it.
    pub is_inner: bool,
    /// It is held by this process.
    pub in_foreground: bool,
    /// It is only read.
    pub read_only: bool,
}

impl Begin<'_> {
    /// Mounts datasets of the pool of `name`.
    pub fn mount(
        &self,
        session: &Session,
        name: &str,
        wanted: &[MountRequest],
        report: MountReport,
    ) -> Result<ExitCode, Failure> {
        if let Some(pool) = session.held(name) {
            let Some(client) = session.client() else { return Ok(ExitCode::FAILURE) };
            for one in wanted {
                let dir = mount(&(&pool).into(), &client.mounts, one)?;
                if report == MountReport::What {
                    ui::out(session, &made(&one.name, &dir));
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(mut reader) = Server::reader(session, &self.live.search, name)? {
            for one in wanted {
                mount_by(session, &mut reader, Some(one), report)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        served::or_forward(session, &self.live.search, name, || {
            if self.is_inner || self.in_foreground {
                let pool = pool_of(name);
                let args =
                    serve::Args::for_mounts(self.live, pool, wanted.to_vec(), self.read_only);
                return Box::new(args).run(session);
            }
            background::start(session, None, report == MountReport::What)
        })
    }
}

/// Has a process that only reads its pool mount something of it, or what its properties say.
pub fn mount_by(
    session: &Session,
    reader: &mut Server,
    wanted: Option<&MountRequest>,
    report: MountReport,
) -> Result<(), Failure> {
    let answer = match wanted {
        Some(wanted) => reader.call("mount", reading::parameters(wanted)?)?,
        None => reader.call("mount", Value::Null)?,
    };
    for made in reading::made(&answer) {
        let text = made_to_read(session, &made, reader.pid);
        if report == MountReport::What {
            ui::out(session, &text);
        }
    }
    Ok(())
}

impl Verb for Unmount {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        // Each may be of another pool, and a command line goes to one server as a whole.
        let names = self.names.iter();
        let found = names.map(|name| find(session, name)).collect::<Result<Vec<_>, _>>()?;
        unmount_all(session, &found, self.force)
    }
}

/// The mount that is at a directory, or of a dataset.
pub fn find(session: &Session, name: &Path) -> Result<Listed, Failure> {
    let listed = system::listed();
    let typed = session.path(name);
    // One whose process died cannot be looked at, and one whose process is stopped never answers.
    let plain = std::path::absolute(&typed).unwrap_or_else(|_| typed.clone());
    let is_listed = listed.iter().any(|one| one.dir == plain);
    let dir = if is_listed { plain } else { typed.canonicalize().unwrap_or(plain) };
    let shown = name.to_string_lossy();
    let (at_dir, of_name): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .filter(|one| one.dir == dir || OsStr::new(&one.name) == name.as_os_str())
        .partition(|one| one.dir == dir);
    // Other servers may have pools of the same name.
    let named = of_name.last().map(|one| one.name.clone());
    let of_name = answered_for(session, of_name)?.pop();
    if let Some(one) = at_dir.into_iter().next_back().or(of_name) {
        return Ok(one);
    }
    if let Some(name) = named {
        served::check_answering(session, &name)?;
    }
    Err(Failure::new(format!("cannot unmount '{shown}': not currently mounted"))
        .hint("`zinc zfs mount` lists what is mounted"))
}

/// Those of these mounts that this process answers for, or a server of this user that can be
/// reached, and those whose process died. The others belong to others.
pub fn answered_for(session: &Session, mounts: Vec<Listed>) -> Result<Vec<Listed>, Failure> {
    let mut dirs = Vec::new();
    match session.client() {
        _ if mounts.is_empty() => {}
        Some(client) => dirs.extend(client.mounts.all().into_iter().map(|one| one.dir)),
        None => {
            for mut server in Server::mounting(session) {
                dirs.extend(server.mounts()?);
            }
        }
    }
    let is_ours = |one: &Listed| dirs.contains(&one.dir) || system::is_dead(&one.dir);
    Ok(mounts.into_iter().filter(is_ours).collect())
}

/// Takes mounts away, each by the process that answers for it; what a process that died left, this
/// one takes away. One that stays keeps none of the others.
pub fn unmount_all(session: &Session, found: &[Listed], force: bool) -> Result<ExitCode, Failure> {
    // Not for each: it takes its time.
    sync(session, found)?;
    let each = found.iter().map(|one| take_away(session, std::slice::from_ref(one), force));
    let code = each.fold(ExitCode::SUCCESS, |worst, done| match done {
        Ok(()) => worst,
        Err(failure) => failure.report(session),
    });
    // What was written meanwhile.
    sync(session, found)?;
    Ok(code)
}

/// Makes durable what was written to mounts of the pool that this process holds.
fn sync(session: &Session, found: &[Listed]) -> Result<(), Failure> {
    let held = found.first().and_then(|one| session.held(&one.name));
    held.map_or(Ok(()), |pool| Ok(pool.sync()?))
}

/// Takes mounts of one process away, the first first. One that stays keeps them all.
pub fn unmount_group(session: &Session, found: &[Listed], force: bool) -> Result<(), Failure> {
    sync(session, found)?;
    take_away(session, found, force)
}

fn take_away(session: &Session, found: &[Listed], force: bool) -> Result<(), Failure> {
    // They may have gone with one that they were mounted in, or by another command.
    let is_there = |one: &&Listed| system::listed().contains(one);
    let (dead, alive): (Vec<_>, Vec<_>) =
        found.iter().filter(is_there).partition(|one| system::is_dead(&one.dir));
    for one in dead {
        system::clear_dead(&one.dir).map_err(|e| not_unmounted(&one.dir, &e))?;
    }
    let Some(last) = alive.last() else { return Ok(()) };
    let dirs: Vec<PathBuf> = alive.iter().map(|one| one.dir.clone()).collect();
    let done = match (session.held(&last.name), session.client()) {
        (Some(_), Some(client)) => {
            let how = if force { UnmountMode::Forcibly } else { UnmountMode::Politely };
            follower(client).unmount(&dirs, how).map_err(|(e, left)| {
                report_failures(session, left);
                e.into()
            })
        }
        _ => match Server::holding(session, &[], &last.name)? {
            Some(mut server) => {
                let dirs: Value = dirs.iter().map(|dir| word_to_json(dir.as_os_str())).collect();
                server.call("unmount", json!({ "dirs": dirs, "force": force })).map(drop)
            }
            None => {
                // The system would wait for it without end.
                served::check_answering(session, &last.name)?;
                dirs.iter().try_for_each(|dir| {
                    system::unmount(dir, force).map_err(|e| not_unmounted(dir, &e))
                })
            }
        },
    };
    if alive.iter().any(is_there) { done } else { Ok(()) }
}
