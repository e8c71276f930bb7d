//! `zinc zpool labelclear`: a device that shall belong to no pool any more.

use super::claim;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use engine::config::{LabelConfig, PoolState};
use engine::devices::{AnyDevices, clear_labels};
use engine::layout::device_path;
use engine::pools;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `zinc zpool labelclear`.
#[derive(clap::Args)]
pub struct Args {
    /// Also when its pool is exported, or may be active elsewhere
    #[arg(short = 'f')]
    force: bool,
    /// The file or disk
    device: String,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let path = device_path(&self.device)?;
        let device = claim::open(&AnyDevices::default(), &path)?;
        let reader = Arc::clone(&device).as_device();
        let Some(found) = pools::look_at_device(&reader, PathBuf::from(&path)) else {
            return Err(Failure::new(format!(
                "failed to check state for {path}: no label is on it"
            )));
        };
        if let Some(name) = claim::user(session, &found.config, false) {
            let what = format!("{path} is a member (ACTIVE) of pool \"{name}\"");
            return Err(Failure::new(what).hint(claim::give_up(&name)));
        }
        let what = match &found.config {
            LabelConfig::Member(c) => match c.state {
                PoolState::Destroyed => None,
                PoolState::Exported => Some(format!("a member of exported pool \"{}\"", c.name)),
                _ if c.txg == 0 => None,
                _ => Some(format!("a member of potentially active pool \"{}\"", c.name)),
            },
            LabelConfig::Aux(c) => {
                let is_active = |s| s == pools::CandidateState::Active;
                if let Some(name) = pools::owner_of_aux(c.guid, path.as_ref(), is_active) {
                    let what = format!("{path} is a spare or cache device of pool \"{name}\"");
                    return Err(Failure::new("labelclear operation failed").because(what));
                }
                // Its label stays when its pool is gone, and says nothing of another's use.
                None
            }
        };
        if let (Some(what), false) = (what, self.force) {
            return Err(Failure::new("use '-f' to override the following error")
                .because(format!("{path} is {what}"))
                .hint("use '-f' to clear its labels; its pool has to do without it then"));
        }
        // What else is there is not a label, and may be of use.
        let good = |l: &&pools::LabelView| l.nvlist.is_some();
        let labels: Vec<usize> = found.labels.iter().filter(good).map(|l| l.index).collect();
        clear_labels(&device, &labels).map_err(|e| {
            Failure::new(format!("failed to clear label for {path}")).because(e.to_string())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
