//! `zinc zfs create`: file systems and volumes.

use super::changes::{Target, names_of, number};
use super::reserve;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::ui;
use engine::dsl::write::{NameKind, PropertyChange, check_name};
use engine::dsl::{DatasetKind, Dsl, StoredValue};
use engine::{LivePool, Pool};
use std::process::ExitCode;

/// Block size of volumes when nothing else is said.
const VOLBLOCKSIZE: u64 = 16 << 10;
/// Largest block size of a volume.
const VOLBLOCKSIZE_MAX: u64 = 128 << 10;

/// Arguments of `zinc zfs create`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Make what is missing above it too
    #[arg(short = 'p')]
    parents: bool,
    /// Print what would be made, and make nothing
    #[arg(short = 'n')]
    dry: bool,
    /// Print what is made
    #[arg(short = 'v')]
    verbose: bool,
    /// Print it for programs
    #[arg(short = 'P')]
    parsable: bool,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'u')]
    unmounted: bool,
    /// A volume that reserves no space
    #[arg(short = 's', requires = "volume")]
    sparse: bool,
    /// A volume of this size
    #[arg(short = 'V', value_name = "SIZE")]
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

/// A volume to be made.
struct NewVolume {
    size: u64,
    block_size: u64,
}

/// Names above `name` that are not there, the highest first.
pub fn missing_above(dsl: &Dsl, name: &str) -> Vec<String> {
    let ends = name.match_indices('/').map(|(at, _)| at);
    let above = ends.filter_map(|at| name.get(..at));
    above.filter(|n| n.contains('/') && dsl.dir_by_name(n).is_err()).map(str::to_owned).collect()
}

/// Makes them.
pub fn make_above(pool: &LivePool, name: &str, doing: &str) -> Result<(), Failure> {
    for missing in missing_above(pool.view().dsl(), name) {
        let parent = missing.rsplit_once('/').map_or("", |(p, _)| p);
        let new = names_of(pool.view().dsl(), parent, &[])?;
        let made = pool.create_filesystem(&missing, new, Vec::new());
        made.map_err(|e| cannot(doing, name, e))?;
    }
    Ok(())
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match check_name(&self.name) {
            Ok(NameKind::Dataset) if self.name.contains('/') => {}
            Ok(NameKind::Dataset) => {
                let what = format!("cannot create '{}': missing dataset name", self.name);
                return Err(Failure::new(what).hint("`zinc zpool create` makes pools"));
            }
            Ok(_) => {
                let what = format!("cannot create '{}': it has '@' or '#'", self.name);
                return Err(Failure::new(what).hint("`zinc zfs snapshot` makes snapshots"));
            }
            Err(e) => return Err(cannot("create", &self.name, e)),
        }
        let kind = match self.volume {
            Some(_) => DatasetKind::Volume,
            None => DatasetKind::Filesystem,
        };
        let target = Target { doing: "create", name: &self.name, kind, is_new: true };
        let mut given = self.properties.clone();
        given.extend(self.block_size.iter().map(|b| format!("volblocksize={b}")));
        let mut changes = target.all(&given)?;
        let volume = self.new_volume(&target, &mut changes)?;
        if self.dry {
            let pool = self.live.look(&self.name)?;
            self.check(&pool)?;
            self.say(pool.dsl(), &changes);
            return Ok(ExitCode::SUCCESS);
        }
        self.live.change(&self.name, |pool| {
            if self.parents && pool.view().dsl().dir_by_name(&self.name).is_ok() {
                return Ok(());
            }
            if self.verbose {
                self.say(pool.view().dsl(), &changes);
            }
            if self.parents {
                make_above(pool, &self.name, "create")?;
            }
            self.make(pool, changes, volume.as_ref())
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn new_volume(
        &self,
        target: &Target<'_>,
        changes: &mut Vec<PropertyChange>,
    ) -> Result<Option<NewVolume>, Failure> {
        let Some(text) = &self.volume else { return Ok(None) };
        let size = target.change("volsize", text)?;
        let size = number(&[size], "volsize").unwrap_or(0);
        let block_size = number(changes, "volblocksize").unwrap_or(VOLBLOCKSIZE);
        if block_size > VOLBLOCKSIZE_MAX {
            let what = "'volblocksize' must be power of 2 from 512B to 128K";
            return Err(Failure::new(format!("cannot create '{}': {what}", self.name)));
        }
        changes.retain(|c| c.name != "volblocksize" && c.name != "volsize");
        Ok(Some(NewVolume { size: size.next_multiple_of(block_size), block_size }))
    }

    fn check(&self, pool: &Pool) -> Result<(), Failure> {
        let missing = missing_above(pool.dsl(), &self.name);
        if self.parents && !missing.is_empty() {
            return Ok(());
        }
        let checked = engine::dsl::write::check_create(pool.dsl(), &self.name);
        checked.map_err(|e| cannot("create", &self.name, e))?;
        Ok(())
    }

    fn say(&self, dsl: &Dsl, changes: &[PropertyChange]) {
        let above = if self.parents { missing_above(dsl, &self.name) } else { Vec::new() };
        let mut text = String::new();
        for name in above.iter().chain([&self.name]) {
            text.push_str(&match (self.parsable, self.dry) {
                (true, _) => format!("create\t{name}\n"),
                (false, true) => format!("would create {name}\n"),
                (false, false) => format!("create {name}\n"),
            });
        }
        for given in &self.properties {
            let (name, value) = given.split_once('=').unwrap_or((given, ""));
            if changes.iter().any(|c| c.name == name) {
                text.push_str(&match self.parsable {
                    true => format!("property\t{name}\t{value}\n"),
                    false => format!("\t{name}={value}\n"),
                });
            }
        }
        if self.verbose || self.parsable {
            ui::out(&text);
        }
    }

    fn make(
        &self,
        pool: &LivePool,
        mut changes: Vec<PropertyChange>,
        volume: Option<&NewVolume>,
    ) -> Result<(), Failure> {
        let dsl = pool.view().dsl();
        let fail = |e| cannot("create", &self.name, e);
        let Some(volume) = volume else {
            let parent = self.name.rsplit_once('/').map_or("", |(p, _)| p);
            let checked = engine::dsl::write::check_create(dsl, &self.name);
            checked.map_err(|e| fail(e.into()))?;
            let new = names_of(dsl, parent, &changes)?;
            return pool.create_filesystem(&self.name, new, changes).map_err(fail);
        };
        let reserved =
            changes.iter().any(|c| ["refreservation", "reservation"].contains(&&*c.name));
        if !self.sparse && !reserved {
            let copies = number(&changes, "copies").unwrap_or(1);
            let bytes = reserve::for_volume(
                volume.size,
                volume.block_size,
                copies,
                &pool.view().config().vdev_tree,
            );
            let value = Some(StoredValue::Number(bytes));
            changes.push(PropertyChange { name: "refreservation".to_owned(), value });
        }
        let block_size = u32::try_from(volume.block_size).unwrap_or(u32::MAX);
        pool.create_volume(&self.name, volume.size, block_size, changes).map_err(fail)
    }
}
