//! `zinc zpool version` and `zinc zfs version`.

use crate::common::JsonArgs;
use crate::failure::Failure;
use crate::ui;
use serde_json::json;
use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    output: JsonArgs,
}

impl Args {
    /// Runs it for `zpool` or `zfs`.
    pub fn run(self, command: &str) -> Result<ExitCode, Failure> {
        let version = concat!("zinc-", env!("CARGO_PKG_VERSION"));
        if self.output.json {
            let what = format!("{command} version");
            let head = json!({ "command": what, "vers_major": 0, "vers_minor": 1 });
            ui::json(&json!({
                "output_version": head,
                "zfs_version": { "userland": version },
            }));
        } else {
            ui::out(&format!("{version}\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
