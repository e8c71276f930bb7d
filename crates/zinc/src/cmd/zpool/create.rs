//! `zinc zpool create`: a new pool on files and disks.

use super::claim::{not_taken, refused, with_claim};
use super::listed;
use super::settings::{self, CacheEntryOptions, PoolSetting};
use crate::args::divide;
use crate::cmd::verb::Verb;
use crate::cmd::zfs::Target;
use crate::cmd::zfs::owners::divided;
use crate::failure::Failure;
use crate::keys::key_at;
use crate::live::{LiveOptions, invocation, print_txgs};
use crate::refusals::cannot;
use crate::session::Session;
use crate::{stored_only, ui};
use engine::keys::{KeyOptions, is_of_key};
use engine::layout::{self, Layout};
use engine::live::CreateOptions;
use engine::pools::{CreatePool, check_name_is_free};
use engine::{DatasetKind, Error, Rt};
use hostfs::host;
use std::process::ExitCode;

/// Arguments of `zinc zpool create`.
#[derive(clap::Args)]
#[command(after_help = "\
VDEV: a file or disk, or mirror, raidz1, raidz2, raidz3, or draid1, draid2, draid3 (with the sizes
behind it: draid2:8d:12c:1s has groups of 8 data disks, 12 disks and one distributed spare)
followed by several; log, special, dedup, cache and spare say what those behind them are for.
Files must exist: `truncate -s 1G FILE` makes one. A disk may also be elsewhere: nbd://HOST/EXPORT,
nbds://…, nbd+unix:///EXPORT?socket=PATH, or in a store of objects: s3://BUCKET/PREFIX, gs://…,
az://…, dir:///FOLDER, which `zinc far create` makes.
The pool has all features enabled that zinc makes use of; -o feature@NAME=enabled adds one
(head_errlog and four more can be), -d leaves all out. It is known by its name until `zinc zpool
export` gives it up; -o cachefile= says where it is remembered: nothing for the usual place, none,
or a file for `zinc zpool import -c`.")]
pub struct Args {
    /// Use devices that hold data, and vdevs that do not match
    #[arg(short = 'f')]
    force: bool,
    /// Print the layout, and create nothing
    #[arg(short = 'n')]
    dry: bool,
    /// Enable only the features given with -o
    #[arg(short = 'd')]
    no_features: bool,
    /// Set a property of the pool, or a feature (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Set a property of the root file system (repeatable)
    #[arg(short = 'O', value_name = "PROPERTY=VALUE")]
    fs_properties: Vec<String>,
    /// Mount point of the root file system
    #[arg(short = 'm', value_name = "PATH")]
    mountpoint: Option<String>,
    /// Put mount points below this directory (altroot), and forget the pool when the machine
    /// restarts (cachefile=none)
    #[arg(short = 'R', value_name = "ROOT")]
    root: Option<String>,
    /// Temporary name of the pool, until it is exported or the machine restarts
    #[arg(short = 't', value_name = "NAME")]
    temporary: Option<String>,
    #[command(flatten)]
    how: LiveOptions,
    /// Name of the pool
    pool: String,
    /// The layout of the pool
    #[arg(required = true, value_name = "VDEV")]
    vdevs: Vec<String>,
}

/// Refuses names that a new pool cannot have (docs/format/config.md). Pools that have such a name
/// already are opened.
pub fn check_pool_name(name: &str, doing: &str) -> Result<(), Failure> {
    let fail = |fault| {
        let why = views::names::bad_pool_name(fault);
        Failure::new(format!("cannot {doing} '{name}': {why}"))
    };
    engine::pools::check_new_name(name).map_err(fail)
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        check_pool_name(&self.pool, "create")?;
        if let Some(name) = &self.temporary {
            check_pool_name(name, "create")?;
        }
        let remembered = self.remembered()?;
        let altroot = remembered.altroot.clone();
        let list = listed::list(session, remembered);
        let name = self.temporary.as_ref().unwrap_or(&self.pool);
        check_name_is_free(&list, name).map_err(|e| cannot("create", name, e))?;
        self.check_mountpoint(altroot.as_deref())?;
        let layout = layout::parse(&self.vdevs)?;
        let (limits, of_root) = divided(session, &self.fs_properties)?;
        let making = self.making(session, layout, &of_root)?;
        let making = limits.into_iter().fold(making, CreatePool::limit_root);
        let fail = |e: Error| refused("create", &self.pool, e);
        let untaken = |e| not_taken(None, &e).unwrap_or_else(|| fail(e));
        let devices = with_claim(session, self.force, self.how.wait, |claim| {
            making.claim(claim).map_err(untaken)
        })?;
        let layout = making.layout();
        if self.dry {
            let text = views::layout::text(layout, &self.pool, &[], &Default::default());
            ui::out(
                session,
                &format!("would create '{}' with the following layout:\n\n{text}", self.pool),
            );
            return Ok(ExitCode::SUCCESS);
        }
        let prices = crate::prices::prices(session, None)?;
        let made = making.run_listed(&Rt::real(), &devices, &list).map_err(fail)?;
        let shown = print_txgs(session, made.pool(), &self.how);
        made.close(&list).map_err(fail)?;
        drop(devices);
        if let Some(text) = views::far::advice(layout, &prices) {
            ui::error(session, &text);
        }
        stored_only::note(session, self.properties.iter().chain(&self.fs_properties));
        shown?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn remembered(&self) -> Result<CacheEntryOptions, Failure> {
        let doing = format!("cannot create '{}'", self.pool);
        let is_passing = self.temporary.is_some();
        settings::remembered(&doing, &self.settings()?, self.root.as_deref(), is_passing)
    }

    /// OpenZFS would mount the root file system there at once, over what is there.
    fn check_mountpoint(&self, altroot: Option<&str>) -> Result<(), Failure> {
        let Some(path) = self.mountpoint.as_deref() else { return Ok(()) };
        if matches!(path, "legacy" | "none") {
            return Ok(());
        }
        if !path.starts_with('/') {
            let what = "must be an absolute path, 'legacy', or 'none'";
            return Err(Failure::new(format!("invalid mountpoint '{path}': {what}")));
        }
        let shown = format!("{}{path}", altroot.unwrap_or_default().trim_end_matches('/'));
        let hint = "use '-m' option to provide a different default";
        match std::fs::read_dir(&shown).map(|mut entries| entries.next().is_none()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Failure::new(format!("mountpoint '{shown}' : {e}")).hint(hint)),
            Ok(true) => Ok(()),
            Ok(false) => {
                let what = format!("mountpoint '{shown}' exists and is not empty");
                Err(Failure::new(what).hint(hint))
            }
        }
    }

    fn settings(&self) -> Result<Vec<PoolSetting>, Failure> {
        let doing = format!("cannot create '{}'", self.pool);
        settings::parse_all(&doing, &self.properties)
    }

    /// How the pool is made, whose root file system has these properties.
    fn making(
        &self,
        session: &Session,
        layout: Layout,
        of_root: &[String],
    ) -> Result<CreatePool, Failure> {
        let mut options = CreateOptions::new(&self.pool, Vec::new());
        options.no_features = self.no_features;
        // Where the pool is an ordinary user's, so are its file systems.
        if session.user() != 0 {
            options.root_owner = (session.user(), session.group(), options.root_owner.2);
        }
        options.hostid = host::id();
        options.hostname = host::name();
        options.invocation = invocation(session);
        options.cache_bytes = crate::args::cache_bytes(self.how.cache_mib);
        options.tunables = self.how.tuning.all(session)?;
        let kind = DatasetKind::Filesystem;
        let target = Target { doing: "create", name: &self.pool, kind, is_new: true };
        let wish = KeyOptions::of(&mut target.all(of_root)?);
        let fail = |e: Error| cannot("create", &self.pool, e);
        if let Some(wanted) = wish.required_key(false).map_err(fail)? {
            let place = (wanted.format, wanted.location.as_str());
            let key = key_at(session, &self.pool, place, true)?;
            let key = wish.root_key(&Rt::real(), &wanted, &key).map_err(fail)?;
            options.encryption = wish.encryption(Some(key));
        }
        let mut making = CreatePool::new(layout, options).despite_mismatch(self.force);
        if let Some(name) = &self.temporary {
            making = making.named_for_now(name).map_err(fail)?;
        }
        for setting in self.settings()? {
            making = making.set(setting).map_err(fail)?;
        }
        let set = super::set::set_of(hostfs::compatibility::read(making.compatibility()))?;
        making = making.confined_to(&set);
        making.named_features().for_each(|name| super::set::note_unwritten(session, name));
        for text in of_root {
            let (name, value) = divide(text)?;
            if !is_of_key(name) {
                making = making.set_root(name, value);
            }
        }
        Ok(match &self.mountpoint {
            Some(path) => making.set_root("mountpoint", path),
            None => making,
        })
    }
}
