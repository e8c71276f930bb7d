//! `zinc zpool set`, `upgrade`, `reguid` and `sync`: a pool's own settings.

use super::each;
use super::settings::{self, PoolSetting};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::found;
use crate::known;
use crate::live::{self, LiveArgs, print_txgs};
use crate::refusals::cannot;
use crate::served::Server;
use crate::session::Session;
use crate::{stored_only, ui};
use engine::ErrorKind;
use engine::features;
use engine::live::StoredPropertyValue;
use engine::properties::compatibility::FeatureSet;
use hostfs::compatibility;
use imported::{Cachefile, Found, SearchScope};
use std::process::ExitCode;
use views::upgrade::{self, MissingFeatures};

/// Arguments of `zinc zpool set`.
#[derive(clap::Args)]
pub struct Set {
    #[command(flatten)]
    live: LiveArgs,
    /// The property; feature@NAME=enabled enables a feature
    #[arg(value_name = "PROPERTY=VALUE")]
    setting: String,
    /// The pool
    pub(super) pool: String,
    /// A vdev of it, or `root`: the property is set of that
    vdev: Option<String>,
}

/// Arguments of `zinc zpool upgrade`.
#[derive(clap::Args)]
#[command(
    disable_version_flag = true,
    after_help = "\
head_errlog and four more features can be enabled with `zinc zpool set`."
)]
pub struct Upgrade {
    #[command(flatten)]
    live: LiveArgs,
    /// All pools found
    #[arg(short = 'a', conflicts_with = "list")]
    all: bool,
    /// List the features zinc enables, and the versions before features
    #[arg(short = 'v', conflicts_with = "pools")]
    list: bool,
    /// Accepted for the version that zinc writes: 5000, which has features
    #[arg(short = 'V', value_name = "VERSION", conflicts_with = "list")]
    version: Option<u64>,
    /// Pools; without one: which pools lack which features
    pub(super) pools: Vec<String>,
}

/// Arguments of `zinc zpool reguid`.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
pub struct Reguid {
    #[command(flatten)]
    live: LiveArgs,
    /// The new guid, in decimal [default: a random one]
    #[arg(short = 'g', value_name = "GUID", value_parser = parse_guid)]
    guid: Option<u64>,
    /// The pool
    pub(super) pool: String,
}

/// Arguments of `zinc zpool sync`.
#[derive(clap::Args)]
pub struct SyncPools {
    #[command(flatten)]
    live: LiveArgs,
    /// Accepted: a new state is always written
    #[arg(short = 'f')]
    force: bool,
    /// Pools; all that are active when none is named
    pub(super) pools: Vec<String>,
}

impl Verb for Set {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        let doing = format!("cannot set property for '{}'", self.pool);
        if let Some(vdev) = &self.vdev {
            return self.set_of_vdev(session, &doing, vdev);
        }
        let setting = settings::parse(&doing, &self.setting)?;
        setting.check_change().map_err(|e| cannot("set property for", &self.pool, e))?;
        match &setting {
            PoolSetting::Cachefile(text) => {
                let place = settings::cachefile(&doing, text)?;
                return self.set_cachefile(session, &place);
            }
            PoolSetting::Feature(name, true) => note_unwritten(session, name),
            PoolSetting::Stored("compatibility", StoredPropertyValue::Text(value)) => {
                let set = set_of(compatibility::read(value))?;
                if set.is_exceeded_by(&self.live.look(session, &self.pool)?) {
                    let what = "has features enabled that are not in this compatibility set";
                    ui::note(session, &format!("warning: '{}' {what}", self.pool));
                }
            }
            _ => {}
        }
        self.live.change(session, &self.pool, |pool| {
            let done = match setting {
                PoolSetting::Feature(name, _) => {
                    let set = set_of(compatibility::of(&pool.look()?))?;
                    features::enable(pool, &name, &set)
                }
                setting => setting.store(pool),
            };
            done.map_err(|e| cannot("set property for", &self.pool, e))
        })?;
        stored_only::note(session, [&self.setting]);
        Ok(ExitCode::SUCCESS)
    }
}

impl Set {
    fn set_of_vdev(&self, session: &Session, doing: &str, vdev: &str) -> Result<ExitCode, Failure> {
        let setting = settings::parse_of_vdev(doing, &self.setting)?;
        self.live.change(session, &self.pool, |pool| {
            let done = engine::properties::vdev::set(pool, vdev, setting);
            done.map_err(|e| match e.kind() {
                ErrorKind::Unfit(_) => {
                    let what = format!("{doing}: no such vdev '{vdev}' in pool '{}'", self.pool);
                    Failure::new(what)
                }
                _ => Failure::from(e).about(doing),
            })
        })?;
        stored_only::note(session, [&self.setting]);
        Ok(ExitCode::SUCCESS)
    }

    /// The pool is remembered elsewhere from now on.
    fn set_cachefile(&self, session: &Session, place: &Cachefile) -> Result<ExitCode, Failure> {
        let Some(known) = known::pools(session).find(&self.pool) else {
            return Err(Failure::opening(&self.pool, "no such pool")
                .because("only a pool that was created or imported here is remembered"));
        };
        let doing = format!("cannot set property for '{}'", self.pool);
        known::pools(session)
            .remember(&known, place)
            .map_err(|why| known::not_remembered(&doing, place, &why))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Upgrade {
    fn served(&self, session: &Session) -> Served {
        // Every user may learn that a pool lacks nothing.
        Served::everyone_if(self.live.is_for_everyone(session, &self.pools))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.pools.iter().try_for_each(|name| each::require_pool_name(name))?;
        // With -a, a server gets the name of its own pool.
        let is_server = session.client().is_some();
        if self.all && !self.pools.is_empty() && !is_server {
            return Err(Failure::usage("-a is for all pools: name none"));
        }
        if !self.all && self.pools.is_empty() && session.is_for_a_part() {
            return self.show_part(session);
        }
        if !self.all {
            // Before anything is printed that a server would print again.
            let mut names = self.pools.iter();
            names.try_for_each(|name| crate::served::forward(session, &self.live.search, name))?;
        }
        if !(self.all && is_server) {
            ui::out(session, "This system supports ZFS pool feature flags.\n\n");
        }
        if self.list {
            ui::out(session, &upgrade::supported());
            return Ok(ExitCode::SUCCESS);
        }
        if self.version.is_some_and(|v| v != 5000) {
            return Err(Failure::usage("zinc writes pools of version 5000 only"));
        }
        if !self.all && self.pools.is_empty() {
            return self.show(session);
        }
        let mut code = ExitCode::SUCCESS;
        let names = match self.all && !is_server {
            true => {
                let (served, worst) = crate::served::forward_each(session, &self.live.search)?;
                code = ExitCode::from(worst);
                let mut names = Vec::new();
                for found in found::all(session, &self.live.search, &served)? {
                    match found {
                        Ok(found) => names.push(found.guid().to_string()),
                        Err(failure) => code = failure.report(session),
                    }
                }
                names
            }
            false => self.pools.clone(),
        };
        for name in &names {
            if let Err(failure) = self.upgrade(session, name) {
                code = failure.report(session);
            }
        }
        Ok(code)
    }
}

impl Upgrade {
    fn upgrade(&self, session: &Session, name: &str) -> Result<(), Failure> {
        let pool = self.live.look(session, name)?;
        let set = set_of(compatibility::of(&pool))?;
        let lacks_some = !features::missing(&pool, &set).is_empty();
        let shown = pool.name().to_owned();
        // A pool is opened for writing once it is not open any more.
        drop(pool);
        if !lacks_some {
            ui::out(
                session,
                &format!(
                    "Pool '{shown}' already has all supported and requested features enabled.\n"
                ),
            );
            return Ok(());
        }
        let mut enabled = Vec::new();
        self.live.change(session, name, |pool| {
            let done = features::upgrade(pool, &set);
            enabled = done.map_err(|e| cannot("upgrade", &shown, e))?;
            Ok(())
        })?;
        ui::out(session, &upgrade::enabled(&shown, &enabled));
        Ok(())
    }

    /// The part of a client that shows all pools.
    fn show_part(&self, session: &Session) -> Result<ExitCode, Failure> {
        let Some(client) = session.client() else { return Ok(ExitCode::SUCCESS) };
        let lacks = lacking(&client.pool.look()?);
        let line = serde_json::to_string(&lacks).map_err(|e| Failure::new(e.to_string()))?;
        ui::json_line(session, &line);
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, session: &Session) -> Result<ExitCode, Failure> {
        let mut all: Vec<MissingFeatures> = Vec::new();
        let mut served = Vec::new();
        for server in &mut Server::own_in(session, &self.live.search)? {
            all.push(server.part(session)?);
            served.push(server.guid);
        }
        // A pool that cannot be opened does not hide the others.
        let mut code = ExitCode::SUCCESS;
        for found in found::all(session, &self.live.search, &served)? {
            let opened = |found: Found| self.live.look(session, &found.guid().to_string());
            match found.and_then(opened) {
                Ok(pool) => all.push(lacking(&pool)),
                Err(failure) => code = failure.report(session),
            }
        }
        ui::out(session, &upgrade::lacking(all));
        Ok(code)
    }
}

/// The features that a pool lacks; of one whose set cannot be read nothing is known.
fn lacking(pool: &engine::Pool) -> MissingFeatures {
    let version = pool.config().version;
    if version < engine::features::VERSION_FEATURES {
        return MissingFeatures::before_features(pool.name(), version);
    }
    let set = compatibility::of(pool).unwrap_or_else(|_| FeatureSet::none());
    MissingFeatures::new(pool.name(), &features::missing(pool, &set))
}

/// A compatibility set that was read, or why it was not.
pub fn set_of(read: Result<FeatureSet, String>) -> Result<FeatureSet, Failure> {
    read.map_err(|why| Failure::new("cannot read the compatibility set").because(why))
}

/// A guid as it is typed: a number other than 0, or as C reads one, a negative one of 64 bits.
fn parse_guid(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().or_else(|| text.parse().ok().map(i64::cast_unsigned));
    number.filter(|n| *n != 0).ok_or_else(|| "a guid is a 64-bit number other than 0".to_owned())
}

/// Says what becomes of a pool with this feature when another implementation uses it.
pub fn note_unwritten(session: &Session, name: &str) {
    if let Some(note) = upgrade::unwritten(name) {
        ui::error(session, &note);
    }
}

impl Verb for Reguid {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        each::require_pool_name(&self.pool)?;
        self.live.change(session, &self.pool, |pool| {
            pool.reguid(self.guid).map_err(|e| cannot("reguid", &self.pool, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for SyncPools {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.pools.iter().try_for_each(|name| each::require_pool_name(name))?;
        let (names, served) = each::or_all_active(session, &self.live.search, &self.pools)?;
        let sync = |name: &str| self.sync(session, name);
        let here = each::in_turn(session, &self.live.search, &names, sync)?;
        Ok(if here == ExitCode::SUCCESS { ExitCode::from(served) } else { here })
    }
}

impl SyncPools {
    fn sync(&self, session: &Session, name: &str) -> Result<(), Failure> {
        crate::served::forward(session, &self.live.search, name)?;
        if let Some(pool) = session.held(name) {
            pool.sync()?;
            return live::warn_displaced(session, &pool);
        }
        let find = || found::find(session, &self.live.search, name, SearchScope::Known);
        let is_readonly = |known: &imported::Known| known.is_readonly();
        let there = find()?;
        if there.is_exported() || there.listed.known().is_some_and(is_readonly) {
            // Nothing waits in it, and it is not for this system to write.
            return Ok(());
        }
        let (found, pool) = live::take(
            session,
            find,
            &self.live.options,
            &self.live.options.tuning.all(session)?,
            |_| {},
        )?;
        pool.sync()?;
        live::wait_for_resilver(session, &pool);
        found.refresh(&known::pools(session), &pool);
        print_txgs(session, &pool, &self.live.options)?;
        Ok(pool.close()?)
    }
}
