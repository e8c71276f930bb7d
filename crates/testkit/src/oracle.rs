//! Programs of OpenZFS that judge ours, as `scripts/oracle` lays them under `target/oracle`.

use crate::{skip, workspace_root};
use std::path::Path;
use std::process::Command;

/// `zdb`; `None`, after a loud word on stderr, when `scripts/oracle` has not been run.
pub fn zdb() -> Option<Command> {
    program("zdb")
}

/// `ztest`, which makes lively pools of plain objects; `None` as for [`zdb`].
pub fn ztest() -> Option<Command> {
    program("ztest")
}

/// `zstream`, which reads send streams; `None` as for [`zdb`].
pub fn zstream() -> Option<Command> {
    program("zstream")
}

/// What a run of an oracle said.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Whether it ended with exit code 0.
    pub success: bool,
    /// Its stdout, then its stderr.
    pub text: String,
}

/// Runs `zdb -e -p DIR` with further `arguments` on the pool whose images are in `dir`;
/// `None` as for [`zdb`].
pub fn zdb_on(dir: &Path, arguments: &[&str]) -> Option<Verdict> {
    let mut command = zdb()?;
    command.args(["-e", "-p"]).arg(dir).args(arguments);
    let output = command.output().expect("zdb runs");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Some(Verdict { success: output.status.success(), text })
}

fn program(name: &str) -> Option<Command> {
    let path = workspace_root().join("target/oracle/bin").join(name);
    if !path.is_file() {
        skip(&format!("needs {name} (scripts/oracle)"));
        return None;
    }
    Some(Command::new(path))
}
