//! `zinc zfs create`: file systems and volumes.

use super::changes::Target;
use super::owners::divided;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::keys::{key_at, load_for};
use crate::live::LiveArgs;
use crate::mounting::with_created;
use crate::refusals::cannot;
use crate::session::Session;
use crate::stored_only;
use crate::ui;
use engine::datasets::Create;
use engine::props::{find_dataset, is_user_property};
use engine::{DatasetKind, Error, ErrorKind, Pool, Refusal};
use std::process::ExitCode;
use std::slice::from_ref;

/// Properties of a volume that are shown as what becomes of them.
const VOLUMES_OWN: [&str; 2] = ["volsize", "volblocksize"];

/// Arguments of `zinc zfs create`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Also create missing parents
    #[arg(short = 'p')]
    parents: bool,
    /// Print what would be created, and create nothing
    #[arg(short = 'n')]
    dry: bool,
    /// Print what is created
    #[arg(short = 'v')]
    verbose: bool,
    /// Print for programs (tabs between columns)
    #[arg(short = 'P')]
    parsable: bool,
    /// Do not mount it
    #[arg(short = 'u', conflicts_with = "volume")]
    unmounted: bool,
    /// A volume that reserves no space
    #[arg(short = 's', requires = "volume")]
    sparse: bool,
    /// A volume of this size
    #[arg(short = 'V', value_name = "SIZE", allow_hyphen_values = true)]
    volume: Option<String>,
    /// Block size of the volume, as -o volblocksize=SIZE
    #[arg(short = 'b', value_name = "SIZE", requires = "volume")]
    block_size: Option<String>,
    /// Set a property (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The new dataset
    name: String,
}

/// A property by its own name, not by the heading of its column.
fn is_property(name: &str) -> bool {
    find_dataset(name).map_or(is_user_property(name), |p| p.name == name)
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, from_ref(&self.name)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.parents && self.volume.is_none() && !self.name.contains(['/', '@', '#']) {
            // The request is fulfilled if the pool exists.
            self.live.look(session, &self.name)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (limits, properties) = match self.volume {
            None => divided(session, &self.properties)?,
            Some(_) => (Vec::new(), self.properties.clone()),
        };
        let mut new = limits.into_iter().fold(self.new_dataset(properties)?, Create::limit);
        if session.user() != 0 {
            // Where the pool is an ordinary user's, so are its file systems.
            new = new.owned_by(session.user(), session.group());
        }
        if self.dry {
            let pool = self.live.look(session, &self.name)?;
            new.check(&pool).map_err(|e| cannot("create", &self.name, e))?;
            self.print_plan(session, &pool, &new);
            return Ok(ExitCode::SUCCESS);
        }
        let code = self.live.change(session, &self.name, |pool| {
            if new.is_done(pool.view()) {
                return Ok(ExitCode::SUCCESS);
            }
            self.print_plan(session, pool.view(), &new);
            let fail = |e| cannot("create", &self.name, e);
            if let Some(wanted) = new.required_key(pool.view()).map_err(fail)? {
                let place = (wanted.format, wanted.location.as_str());
                let key = key_at(session, &self.name, place, true)?;
                new = new.clone().with_key(pool, &key).map_err(fail)?;
            } else if new.uses_key_above(pool.view()) {
                load_for(session, pool, &self.name, true)?;
            }
            let make = || new.run(pool).map_err(fail);
            match self.unmounted {
                true => make().map(|()| ExitCode::SUCCESS),
                false => with_created(session, &self.name, make),
            }
        })?;
        stored_only::note(session, &self.properties);
        Ok(code)
    }
}

impl Args {
    /// The new dataset of the command line, of which these are the properties.
    fn new_dataset(&self, mut given: Vec<String>) -> Result<Create, Failure> {
        let fail = |e| cannot("create", &self.name, e);
        let (made, kind) = match self.volume {
            Some(_) => (Create::volume(&self.name, 0), DatasetKind::Volume),
            None => (Create::filesystem(&self.name), DatasetKind::Filesystem),
        };
        let mut new = made.map_err(|e| self.bad_name(e))?;
        given.extend(self.block_size.iter().map(|b| format!("volblocksize={b}")));
        let target = Target { doing: "create", name: &self.name, kind, is_new: true };
        new = new.with(target.all(&given)?).map_err(fail)?;
        if let Some(size) = &self.volume {
            let units = size.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            if units.starts_with(['z', 'Z']) {
                let what = format!("cannot create '{}': bad numeric value '{size}'", self.name);
                return Err(Failure::new(what).because("the value is too large"));
            }
            new = new.set("volsize", size).map_err(fail)?;
        }
        if self.sparse {
            new = new.sparse();
        }
        Ok(if self.parents { new.with_parents() } else { new })
    }

    fn bad_name(&self, e: Error) -> Failure {
        let name = &self.name;
        match e.kind() {
            ErrorKind::Refused(Refusal::PoolRoot) => {
                Failure::new(format!("cannot create '{name}': missing dataset name"))
                    .hint("`zinc zpool create` makes pools")
            }
            ErrorKind::Against(_) => {
                let sign = if name.contains('@') { '@' } else { '#' };
                let what = format!("cannot create '{name}': invalid character '{sign}' in name");
                Failure::new(what).hint("`zinc zfs snapshot` makes snapshots")
            }
            _ => cannot("create", name, e),
        }
    }

    fn print_plan(&self, session: &Session, pool: &Pool, new: &Create) {
        if !(self.verbose || self.parsable) {
            return;
        }
        let would = if self.dry { "would create" } else { "create" };
        let mut text = String::new();
        if self.parents {
            text.push_str(&match self.parsable {
                true => format!("create_ancestors\t{}\n", self.name),
                false => format!("{would} ancestors of {}\n", self.name),
            });
        }
        text.push_str(&match self.parsable {
            true => format!("create\t{}\n", self.name),
            false => format!("{would} {}\n", self.name),
        });
        for (name, value) in self.shown(pool, new) {
            text.push_str(&match self.parsable {
                true => format!("property\t{name}\t{value}\n"),
                false => format!("\t{name}={value}\n"),
            });
        }
        ui::out(session, &text);
    }

    /// The properties that it gets: those given, and of a volume what makes it one.
    fn shown(&self, pool: &Pool, new: &Create) -> Vec<(String, String)> {
        let given = self.properties.iter().filter_map(|text| text.split_once('='));
        let given = given.filter(|(name, _)| !VOLUMES_OWN.contains(name) && is_property(name));
        let mut out: Vec<_> = given.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let Some(size) = new.volume_size() else { return out };
        let mut put = |name: &str, n: u64| out.push((name.to_owned(), n.to_string()));
        if self.block_size.is_some() || self.properties.iter().any(|p| p.contains("volblocksize="))
        {
            put("volblocksize", new.block_size().unwrap_or(0));
        }
        put("volsize", size);
        if let Some(bytes) = new.reserves(pool) {
            put("refreservation", bytes);
        }
        out
    }
}
