//! `zinc zpool labelclear`: a device that shall belong to no pool any more.

use super::claim;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use engine::config::LabelConfig;
use engine::layout::device_path;
use engine::pools::{ClearLabels, Content, DeviceClaim, DeviceRefusal};
use engine::{Error, ErrorKind, Rt};
use std::process::ExitCode;

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
        let (rt, disks) = (Rt::real(), session.devices());
        let device = DeviceClaim::new(&rt, &*disks).open(path.as_ref());
        let untaken = |e| claim::not_taken(None, &e).unwrap_or_else(|| e.into());
        let device = device.map_err(untaken)?;
        let user = |label: &LabelConfig, is_spare| claim::user(session, label, is_spare);
        let clear = ClearLabels { force: self.force, user: &user };
        clear.run(path.as_ref(), &device).map_err(|e| refused(&path, &e))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Why the labels of a device stay.
fn refused(path: &str, error: &Error) -> Failure {
    let is = |what: String| {
        Failure::new("use '-f' to override the following error")
            .because(format!("{path} is {what}"))
            .hint("use '-f' to clear its labels; its pool has to do without it then")
    };
    match error.kind() {
        ErrorKind::NotFound => {
            Failure::new(format!("failed to check state for {path}: there is no ZFS label on it"))
        }
        ErrorKind::DeviceRefused(DeviceRefusal::InPool(pool)) => {
            let what = format!("{path} is a member (ACTIVE) of pool \"{pool}\"");
            Failure::new(what).hint(views::devices::give_up(pool))
        }
        ErrorKind::DeviceRefused(DeviceRefusal::Holds(Content::Exported(pool))) => {
            is(format!("a member of exported pool \"{pool}\""))
        }
        ErrorKind::DeviceRefused(DeviceRefusal::Holds(Content::PerhapsActive(pool))) => {
            is(format!("a member of potentially active pool \"{pool}\""))
        }
        ErrorKind::DeviceRefused(DeviceRefusal::Holds(Content::Aux(pool))) => {
            let what = format!("{path} is a spare or cache device of pool \"{pool}\"");
            Failure::new("labelclear operation failed").because(what)
        }
        _ => Failure::new(format!("failed to clear label for {path}")).because(error.to_string()),
    }
}
