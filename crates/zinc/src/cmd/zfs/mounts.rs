//! `zinc zfs mount` and `zinc zfs unmount`, with OpenZFS's options.

use super::keys::{check_unloadable, load_all, load_if_served, unload_unmounted};
use super::select::mounted_of;
use super::snapshot::one_pool;
use crate::cmd::mount::{
    Begin, MountReport, answered_for, find, mount_by, unmount_all, unmount_group,
};
use crate::cmd::serve::{self, background};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveArgs};
use crate::mounting::{follower, report_failures};
use crate::served::Server;
use crate::session::Session;
use crate::{known, served, ui};
use ::mount::datasets::{MountRequest, all_wanted, is_mounted_by_hand, wanted_below};
use ::mount::system::{self, Listed};
use engine::datasets::pool_of;
use engine::keys::roots_below;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc zfs mount`.
#[derive(clap::Args)]
#[command(after_help = "\
Without arguments it lists what is mounted. A pool that is not served is served until its last mount
is gone, as by `zinc mount`.")]
pub struct Mount {
    #[command(flatten)]
    live: LiveArgs,
    /// All file systems of known pools, by their properties
    #[arg(short = 'a')]
    all: bool,
    /// The file systems and all below, by their properties
    #[arg(short = 'R', conflicts_with_all = ["all", "load_key"], requires = "names")]
    recursive: bool,
    /// List what is mounted as JSON
    #[arg(short = 'j', long, conflicts_with_all = ["all", "names"])]
    json: bool,
    /// Also mount over a directory that is not empty
    #[arg(short = 'O')]
    overlay: bool,
    /// Options, comma-separated, that override the properties
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Load the keys first, into the process that serves the pool
    #[arg(short = 'l')]
    load_key: bool,
    /// Accepted without effect
    #[arg(short = 'f')]
    force: bool,
    /// Accepted; progress is not shown
    #[arg(short = 'v')]
    verbose: bool,
    /// What the process that serves is
    #[arg(long = background::INNER, hide = true)]
    inner: bool,
    /// A file system; with -R: several of a pool; with -a: only that pool
    #[arg(value_name = "FILESYSTEM")]
    names: Vec<String>,
}

/// Arguments of `zinc zfs unmount`.
#[derive(clap::Args)]
pub struct Unmount {
    /// Everything, but file systems with canmount=noauto or mountpoint=legacy
    #[arg(short = 'a')]
    all: bool,
    /// Also when programs use it: they lose access to the files they have open
    #[arg(short = 'f')]
    force: bool,
    /// Unload the keys of encryption roots that are unmounted
    #[arg(short = 'u')]
    unload_keys: bool,
    /// A file system, or where it is mounted
    #[arg(value_name = "FILESYSTEM|MOUNTPOINT")]
    name: Option<PathBuf>,
}

impl Verb for Mount {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        one_pool(&self.names)?;
        if self.names.len() > 1 && !self.recursive {
            return Err(Failure::usage("several file systems are mounted with -R"));
        }
        let name = self.names.first();
        if let Some(name) = name.filter(|_| self.load_key && !self.all) {
            load_if_served(session, &self.live.search, name)?;
        }
        match (name, self.all) {
            (None, false) => {
                list(session, self.json);
                Ok(ExitCode::SUCCESS)
            }
            (Some(name), false) if self.recursive => {
                let view = live::look(session, &self.live.search, &self.live.options, name)?;
                let mounted = mounted_of(session, view.guid());
                let wanted = wanted_below(&view, &self.names, &mounted)?;
                drop(view);
                match wanted.is_empty() {
                    true => Ok(ExitCode::SUCCESS),
                    false => self.begin().mount(session, name, &wanted, MountReport::Nothing),
                }
            }
            (Some(name), false) => {
                let wanted = MountRequest {
                    overlay: self.overlay,
                    ..MountRequest::new(name, &self.options)?
                };
                self.begin().mount(session, name, &[wanted], MountReport::Nothing)
            }
            (Some(name), true) => self.mount_all(session, name),
            (None, true) => {
                let (served, worst) = served::forward_each(session, &self.live.search)?;
                let mut worst = ExitCode::from(worst);
                let known = known::pools(session).all();
                for pool in known.iter().filter(|pool| !served.contains(&pool.guid())) {
                    let done = self.mount_all(session, pool.name());
                    let code = done.unwrap_or_else(|failure| failure.report(session));
                    if code != ExitCode::SUCCESS {
                        worst = code;
                    }
                }
                Ok(worst)
            }
        }
    }
}

impl Mount {
    fn begin(&self) -> Begin<'_> {
        Begin { live: &self.live, is_inner: self.inner, in_foreground: false, read_only: false }
    }

    /// Mounts all of a pool that its properties say and that is not mounted.
    fn mount_all(&self, session: &Session, pool: &str) -> Result<ExitCode, Failure> {
        if let Some(held) = session.held(pool) {
            let Some(client) = session.client() else { return Ok(ExitCode::FAILURE) };
            let loaded = if self.load_key { load_all(session, &held)? } else { ExitCode::SUCCESS };
            let mounted = report_failures(session, follower(client).mount_new(|_| true));
            return Ok(if mounted == ExitCode::SUCCESS { loaded } else { mounted });
        }
        if let Some(mut reader) = Server::reader(session, &self.live.search, pool)? {
            mount_by(session, &mut reader, None, MountReport::Nothing)?;
            return Ok(ExitCode::SUCCESS);
        }
        served::or_forward(session, &self.live.search, pool, || {
            if self.inner {
                let args = serve::Args::for_mounts(&self.live, pool, Vec::new(), false);
                return Box::new(args).run(session);
            }
            // Where nothing is to be mounted, nothing is started.
            let view = live::look(session, &self.live.search, &self.live.options, pool)?;
            if self.load_key && !roots_below(&view, view.name())?.is_empty() {
                drop(view);
                return background::with_keys(session, &self.live.search, pool, true);
            }
            let is_empty = all_wanted(&view)?.is_empty();
            drop(view);
            if is_empty {
                return Ok(ExitCode::SUCCESS);
            }
            let more = self.names.is_empty().then(|| pool.into());
            background::start_with(session, more, None, false)
        })
    }
}

/// What is to be said of servers with mounts that do not answer.
fn silent_servers(session: &Session) -> Vec<Failure> {
    let mut pools: Vec<String> =
        system::listed().iter().map(|one| pool_of(&one.name).to_owned()).collect();
    pools.sort();
    pools.dedup();
    pools.iter().filter_map(|pool| served::check_answering(session, pool).err()).collect()
}

/// Whether it is of a process that serves its pool, and not of one that only reads it or died.
fn is_served(session: &Session, one: &Listed) -> bool {
    !system::is_dead(&one.dir)
        && Server::find(session, &[], &one.name).is_ok_and(|server| server.is_some())
}

/// Lists the mounts, without those that a dead process left.
fn list(session: &Session, as_json: bool) {
    let mut all = serde_json::Map::new();
    for one in system::listed().into_iter().filter(|one| !system::is_dead(&one.dir)) {
        let (name, dir) = (one.name, one.dir.to_string_lossy());
        if !as_json {
            ui::out(session, &format!("{name:<30}  {dir}\n"));
        }
        all.insert(name.clone(), json!({ "filesystem": name, "mountpoint": dir }));
    }
    if as_json {
        ui::json(session, &crate::json::document("zfs mount", "datasets", all));
    }
}

impl Verb for Unmount {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let is_here = session.client().is_some();
        let mut worst = ExitCode::SUCCESS;
        if self.all && !is_here {
            // Each knows what the properties of its pool say.
            worst = ExitCode::from(served::forward_each_inner_first(session)?);
            for failure in silent_servers(session) {
                worst = failure.report(session);
            }
        }
        let is_left = |one: &Listed| match session.held(&one.name) {
            Some(pool) => is_mounted_by_hand(pool.view(), &one.name),
            None => is_served(session, one),
        };
        let found = match (&self.name, self.all) {
            (Some(name), false) => system::with_inherited(find(session, name)?, name.as_os_str()),
            (name, true) if name.is_none() || is_here => {
                let all = answered_for(session, system::listed())?.into_iter().rev();
                all.filter(|one| !is_left(one)).collect()
            }
            _ => return Err(Failure::usage("unmount takes a file system, or -a")),
        };
        if let Some(outer) = found.last().filter(|_| self.unload_keys && !self.all && !is_here) {
            // The process that has the keys takes the mounts away.
            served::forward(session, &[], &outer.name)?;
        }
        for one in found.iter().filter(|_| self.unload_keys && !self.all) {
            let goes = |name: &str| found.iter().any(|one| one.name == name);
            check_unloadable(session, &one.name, &goes)?;
        }
        let code = match self.all {
            true => unmount_all(session, &found, self.force)?,
            false => {
                unmount_group(session, &found, self.force)?;
                ExitCode::SUCCESS
            }
        };
        for one in found.iter().filter(|_| self.unload_keys) {
            if let Err(failure) = unload_unmounted(session, &one.name) {
                worst = failure.report(session);
            }
        }
        Ok(if code == ExitCode::SUCCESS { worst } else { code })
    }
}
