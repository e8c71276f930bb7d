//! `zinc zfs set` and `zinc zfs inherit`: properties of datasets that are there.

use super::owners::limit;
use super::snapshot::one_pool;
use crate::args::divide;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::mounting::with_properties;
use crate::refusals::cannot;
use crate::session::Session;
use crate::stored_only;
use ::mount::datasets::Changes;
use engine::properties::{self, DatasetSetting};
use engine::props::{self, PropertyDesc};
use engine::{ErrorKind, Hint, Place};
use std::process::ExitCode;

/// Arguments of `zinc zfs set`.
#[derive(clap::Args)]
pub struct Set {
    #[command(flatten)]
    live: LiveArgs,
    /// Leave mounts where they are, whatever the properties say
    #[arg(short = 'u')]
    unmounted: bool,
    /// Properties, then the datasets of one pool that get them
    #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE|DATASET")]
    words: Vec<String>,
}

/// Arguments of `zinc zfs inherit`.
#[derive(clap::Args)]
pub struct Inherit {
    #[command(flatten)]
    live: LiveArgs,
    /// Also of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// Revert to the received value, if there is one
    #[arg(short = 'S')]
    received: bool,
    /// The property
    property: String,
    /// Datasets of one pool
    #[arg(required = true, value_name = "DATASET")]
    names: Vec<String>,
}

/// Refuses what OpenZFS sets and zinc does not.
fn refuse_unwritten(dataset: &str, setting: &str) -> Result<(), Failure> {
    let (property, _) = divide(setting)?;
    let fail =
        |why: String| Err(Failure::new(format!("cannot set property for '{dataset}': {why}")));
    match property {
        "encryption" => fail(format!(
            "'{property}' is readonly: encryption is chosen when a dataset is created"
        )),
        _ if properties::is_default_quota(property) => {
            fail(format!("'{property}': zinc does not set quotas of all owners yet"))
        }
        _ => Ok(()),
    }
}

impl Verb for Set {
    fn served(&self, session: &Session) -> Served {
        let names: Vec<_> = self.words.iter().filter(|w| !w.contains('=')).cloned().collect();
        Served::everyone_if(self.live.is_for_everyone(session, &names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (settings, names): (Vec<_>, Vec<_>) = self.words.iter().partition(|w| w.contains('='));
        let names: Vec<String> = names.into_iter().cloned().collect();
        let Some(first) = names.first() else {
            return Err(Failure::usage("missing dataset name"));
        };
        if settings.is_empty() {
            return Err(Failure::usage("missing property=value argument"));
        }
        one_pool(&names)?;
        settings.iter().try_for_each(|setting| refuse_unwritten(first, setting))?;
        let (mut all, mut quotas) = (Vec::new(), Vec::new());
        // A dataset that is named twice is one.
        let seen = |at: usize| names[..at].contains(&names[at]);
        for dataset in (0..names.len()).filter(|at| !seen(*at)).map(|at| names[at].as_str()) {
            for setting in &settings {
                let (property, value) = divide(setting)?;
                match limit(session, property, value)? {
                    Some(quota) => quotas.push((dataset, quota)),
                    None => all.push(DatasetSetting { dataset, property, value }),
                }
            }
        }
        let fail = |e| cannot("set property for", first, e);
        // Before anything is unmounted for the change.
        properties::check_once(&all, &quotas).map_err(fail)?;
        let values: Vec<_> = all.iter().map(|one| (one.property, Some(one.value))).collect();
        let changes = Changes { names: &names, values: &values, stays: self.unmounted };
        let code = self.live.change(session, first, |pool| {
            with_properties(session, &changes, || {
                properties::set_with_quotas(pool, &all, &quotas).map_err(fail)
            })
        })?;
        stored_only::note(session, settings);
        Ok(code)
    }
}

impl Verb for Inherit {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, &self.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        one_pool(&self.names)?;
        let found = match self.received {
            true => properties::Inherit::or_received(&self.property),
            false => properties::Inherit::new(&self.property),
        };
        let mut inherit = found.map_err(|e| {
            let property = match e.place() {
                Some(Place::Property(name)) => name,
                _ => &self.property,
            };
            match e.kind() {
                ErrorKind::Against(_)
                    if props::find_dataset(property).is_some_and(PropertyDesc::is_fixed) =>
                {
                    Failure::new(format!("{property} property is read-only"))
                }
                ErrorKind::Against(_) => {
                    Failure::new(format!("'{property}' property cannot be inherited"))
                        .hint(views::hints::text(&Hint::SetDefault))
                }
                _ => Failure::usage(format!("invalid property '{property}'")),
            }
        })?;
        if self.recursive {
            inherit = inherit.recursive();
        }
        let first = self.names.first().map_or("", String::as_str);
        let values = [(self.property.as_str(), None)];
        let changes = Changes { names: &self.names, values: &values, stays: false };
        self.live.change(session, first, |pool| {
            with_properties(session, &changes, || {
                let done = inherit.run(pool, &self.names);
                done.map_err(|e| cannot("inherit property for", first, e))
            })
        })
    }
}
