//! `zinc zfs hold`, `release` and `bookmark`: what is kept of snapshots.

use super::below::snapshots;
use super::snapshot::one_pool;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::live::LiveArgs;
use engine::LivePool;
use std::process::ExitCode;

/// Arguments of `zinc zfs hold` and `zinc zfs release`.
#[derive(clap::Args)]
pub struct Hold {
    #[command(flatten)]
    live: LiveArgs,
    /// Snapshots of that name of all datasets below too
    #[arg(short = 'r')]
    recursive: bool,
    /// The tag
    tag: String,
    /// Snapshots of one pool
    #[arg(required = true, value_name = "SNAPSHOT")]
    names: Vec<String>,
}

/// Arguments of `zinc zfs bookmark`.
#[derive(clap::Args)]
pub struct Bookmark {
    #[command(flatten)]
    live: LiveArgs,
    /// The snapshot
    snapshot: String,
    /// The new bookmark, as DATASET#NAME or #NAME
    name: String,
}

/// Longest tag in bytes.
const TAG_MAX: usize = 255;

impl Hold {
    /// Holds.
    pub fn hold(self) -> Result<ExitCode, Failure> {
        if self.tag.starts_with('.') {
            return Err(Failure::usage(format!("tag may not start with '.': '{}'", self.tag)));
        }
        if self.tag.is_empty() || self.tag.len() > TAG_MAX {
            return Err(Failure::usage("a tag has 1 to 255 characters"));
        }
        self.each("hold", |pool, names, tag| match pool.hold(names, tag) {
            Err(engine::errors::PoolError::Dsl(engine::errors::DslError::Refused {
                why: engine::Refusal::Exists | engine::Refusal::Held(_),
                name,
            })) => {
                let what = format!("cannot hold snapshot '{name}'");
                Err(Failure::new(format!("{what}: tag already exists on this dataset")))
            }
            other => other.map_err(|e| cannot("hold snapshot", &names[0], e)),
        })
    }

    /// Lets go.
    pub fn release(self) -> Result<ExitCode, Failure> {
        self.each("release", |pool, names, tag| {
            let done = pool.release(names, tag);
            done.map_err(|e| cannot("release hold from snapshot", &names[0], e))
        })
    }

    fn each(
        &self,
        doing: &str,
        act: impl FnOnce(&LivePool, &[String], &str) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        one_pool(&self.names)?;
        let first = self.names.first().map_or("", String::as_str);
        self.live.change(first, |pool| {
            let mut all = Vec::new();
            let still = pool.view().hold_still();
            for name in &self.names {
                let found = snapshots(pool.view().dsl(), name, self.recursive, true)?;
                if found.is_empty() {
                    let what = format!("cannot {doing} snapshot '{name}'");
                    return Err(Failure::new(format!("{what}: dataset does not exist")));
                }
                all.extend(found);
            }
            drop(still);
            act(pool, &all, &self.tag)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Bookmark {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let source = match (self.snapshot.strip_prefix('@'), self.name.split_once('#')) {
            (Some(short), Some((base, _))) if !base.is_empty() => format!("{base}@{short}"),
            _ => self.snapshot.clone(),
        };
        let Some((head, _)) = source.split_once('@').filter(|(head, _)| !head.is_empty()) else {
            let what = format!("invalid source name '{source}': must contain a '@'");
            return Err(Failure::usage(what).hint("snapshots are named DATASET@SNAPSHOT"));
        };
        let name = match self.name.strip_prefix('#') {
            Some(short) => format!("{head}#{short}"),
            None => self.name.clone(),
        };
        let Some((base, _)) = name.split_once('#') else {
            return Err(Failure::usage(format!("invalid bookmark name '{name}': no '#'")));
        };
        if base != head {
            let what = "source is not an ancestor of the new bookmark's dataset";
            return Err(Failure::new(format!("cannot create bookmark '{name}': {what}")));
        }
        self.live.change(head, |pool| {
            let done = pool.bookmark(&name, &source);
            done.map_err(|e| match e {
                engine::errors::PoolError::Dsl(engine::errors::DslError::NoSuchDataset(n))
                    if n == source =>
                {
                    cannot("open", &n, engine::errors::DslError::NoSuchDataset(n.clone()))
                }
                other => cannot("create bookmark", &name, other),
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
