//! `zinc zpool`: verbs about pools.

mod add;
mod claim;
pub mod create;
pub mod each;
mod get;
mod history;
mod holders;
mod import;
pub mod iostat;
mod labelclear;
mod layout;
mod leave;
mod list;
mod naming;
mod set;
pub mod settings;
mod signatures;
mod status;

use crate::failure::Failure;
use crate::missing;
use engine::Pool;
use engine::pools::CandidateState;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::process::ExitCode;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a pool on files and disks
    Create(create::Args),
    /// Destroy a pool
    Destroy(leave::Destroy),
    /// Say goodbye to pools, so that any system takes them
    Export(leave::Export),
    /// Show which pools can be opened, and why others cannot; or take pools over
    Import(Box<import::Args>),
    /// Add vdevs to a pool
    Add(add::Args),
    /// Set a property of a pool, or enable a feature
    Set(set::Set),
    /// Enable the features zinc can write, or show which pools lack them
    Upgrade(set::Upgrade),
    /// Give a pool a new guid
    Reguid(set::Reguid),
    /// Write a new txg, so that everything is on disk, where it is after every command
    Sync(set::Sync),
    /// Take the labels off a device
    Labelclear(labelclear::Args),
    /// List pools, their size and health
    List(list::Args),
    /// Show what pools and their devices read and write
    Iostat(iostat::Args),
    /// Show the health of pools, device by device
    Status(status::Args),
    /// Show properties of pools and vdevs
    Get(get::Args),
    /// Show the commands that made the pool what it is
    History(history::Args),
    /// Print the version of zinc
    #[command(disable_version_flag = true)]
    Version(crate::version::Args),
    /// Any other word.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// Whether a server runs it for its clients.
    pub fn is_for_servers(&self) -> bool {
        let changes = matches!(self, Self::Set(_) | Self::Upgrade(_) | Self::Reguid(_));
        let shows = matches!(self, Self::List(_) | Self::Status(_) | Self::Get(_));
        changes || shows || matches!(self, Self::Sync(_) | Self::History(_))
    }

    /// Whether a server of root runs it for other users.
    pub fn is_for_everyone(&self) -> bool {
        match self {
            Self::List(a) => a.is_for_everyone(),
            Self::Status(a) => a.is_for_everyone(),
            Self::Get(a) => a.is_for_everyone(),
            _ => false,
        }
    }

    /// The pools that it changes, as they were named. Verbs that look check names by themselves,
    /// because there are numbers and vdevs among them.
    fn changed(&self) -> Vec<&String> {
        match self {
            Self::Destroy(a) => vec![&a.pool],
            Self::Export(a) => a.pools.iter().collect(),
            Self::Add(a) => vec![&a.pool],
            Self::Set(a) => vec![&a.pool],
            Self::Upgrade(a) => a.pools.iter().collect(),
            Self::Reguid(a) => vec![&a.pool],
            Self::Sync(a) => a.pools.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        self.changed().into_iter().try_for_each(|name| each::must_be_a_pool(name))?;
        match self {
            Self::Create(a) => a.run(),
            Self::Destroy(a) => a.run(),
            Self::Export(a) => a.run(),
            Self::Import(a) => a.run(),
            Self::Add(a) => a.run(),
            Self::Set(a) => a.run(),
            Self::Upgrade(a) => a.run(),
            Self::Reguid(a) => a.run(),
            Self::Sync(a) => a.run(),
            Self::Labelclear(a) => a.run(),
            Self::List(a) => a.run(),
            Self::Iostat(a) => a.run(),
            Self::Status(a) => a.run(),
            Self::Get(a) => a.run(),
            Self::History(a) => a.run(),
            Self::Version(a) => a.run("zpool"),
            Self::Other(words) => Err(missing::failure("zpool", &words, &missing::ZPOOL)),
        }
    }
}

/// What the labels say of a pool's use, as JSON has it.
fn label_state(pool: &Pool) -> &'static str {
    match pool.label_state() {
        CandidateState::Exported => "EXPORTED",
        CandidateState::Destroyed => "DESTROYED",
        CandidateState::Active => "ACTIVE",
        CandidateState::Other => "UNKNOWN",
    }
}

/// It was exported, and is not imported here to be read only, which its labels do not tell.
fn is_exported(pool: &Pool) -> bool {
    let is_known = || crate::known::by_guid(pool.config().pool_guid).is_some();
    pool.label_state() == CandidateState::Exported && !is_known()
}

/// What JSON says of every pool.
fn pool_json(pool: &Pool, as_int: bool) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
    put("name", json!(pool.name()));
    put("type", json!("POOL"));
    put("state", json!(pool.health()));
    put("pool_guid", crate::json::number(pool.guid(), as_int));
    put("txg", crate::json::number(pool.uberblock().txg, as_int));
    put("spa_version", crate::json::number(pool.config().version, as_int));
    let zpl = engine::files::VERSION_MAX;
    put("zpl_version", crate::json::number(zpl, as_int));
    map
}
