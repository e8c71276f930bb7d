//! `zinc zfs create`: file systems and volumes.

use super::changes::{Target, names_of, number};
use super::reserve;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::kept;
use crate::live::LiveArgs;
use crate::ui;
use engine::config::VdevConfig;
use engine::{DatasetKind, Dsl, StoredValue};
use engine::{LivePool, Pool};
use engine::{NameKind, PropertyChange, check_name};
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
    #[arg(short = 'u', conflicts_with = "volume")]
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
            self.say(&pool.config().vdev_tree, &changes, volume.as_ref());
            return Ok(ExitCode::SUCCESS);
        }
        self.live.change(&self.name, |pool| {
            if self.parents && pool.view().dsl().dir_by_name(&self.name).is_ok() {
                return Ok(());
            }
            self.say(&pool.view().config().vdev_tree, &changes, volume.as_ref());
            if self.parents {
                make_above(pool, &self.name, "create")?;
            }
            self.make(pool, changes, volume.as_ref())
        })?;
        kept::note(&self.properties);
        Ok(ExitCode::SUCCESS)
    }

    fn new_volume(
        &self,
        target: &Target<'_>,
        changes: &mut Vec<PropertyChange>,
    ) -> Result<Option<NewVolume>, Failure> {
        let Some(text) = &self.volume else { return Ok(None) };
        let units = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if units.starts_with(['z', 'Z']) {
            let what = format!("cannot create '{}': bad numeric value '{text}'", self.name);
            return Err(Failure::new(what).because("the value is too large"));
        }
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
        let checked = engine::check_create(pool.dsl(), &self.name);
        checked.map_err(|e| cannot("create", &self.name, e))?;
        Ok(())
    }

    fn say(&self, tree: &VdevConfig, changes: &[PropertyChange], volume: Option<&NewVolume>) {
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
        for (name, value) in self.shown(tree, changes, volume) {
            text.push_str(&match self.parsable {
                true => format!("property\t{name}\t{value}\n"),
                false => format!("\t{name}={value}\n"),
            });
        }
        ui::out(&text);
    }

    /// The properties that it gets: those given, and of a volume what makes it one.
    fn shown(
        &self,
        tree: &VdevConfig,
        changes: &[PropertyChange],
        volume: Option<&NewVolume>,
    ) -> Vec<(String, String)> {
        let given = self.properties.iter().filter_map(|text| text.split_once('='));
        let given = given.filter(|(name, _)| changes.iter().any(|c| c.name == *name));
        let mut out: Vec<_> = given.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let Some(volume) = volume else { return out };
        let mut put = |name: &str, n: u64| out.push((name.to_owned(), n.to_string()));
        if self.block_size.is_some() || self.properties.iter().any(|p| p.contains("volblocksize="))
        {
            put("volblocksize", volume.block_size);
        }
        put("volsize", volume.size);
        if let Some(bytes) = self.reserved(tree, changes, volume) {
            put("refreservation", bytes);
        }
        out
    }

    /// What a volume reserves when nothing else was said.
    fn reserved(
        &self,
        tree: &VdevConfig,
        changes: &[PropertyChange],
        volume: &NewVolume,
    ) -> Option<u64> {
        let said = changes.iter().any(|c| ["refreservation", "reservation"].contains(&&*c.name));
        let copies = number(changes, "copies").unwrap_or(1);
        let bytes = || reserve::for_volume(volume.size, volume.block_size, copies, tree);
        (!self.sparse && !said).then(bytes)
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
            let checked = engine::check_create(dsl, &self.name);
            checked.map_err(|e| fail(e.into()))?;
            let new = names_of(dsl, parent, &changes)?;
            return pool.create_filesystem(&self.name, new, changes).map_err(fail);
        };
        if let Some(bytes) = self.reserved(&pool.view().config().vdev_tree, &changes, volume) {
            let value = Some(StoredValue::Number(bytes));
            changes.push(PropertyChange { name: "refreservation".to_owned(), value });
        }
        let block_size = u32::try_from(volume.block_size).unwrap_or(u32::MAX);
        pool.create_volume(&self.name, volume.size, block_size, changes).map_err(fail)
    }
}
