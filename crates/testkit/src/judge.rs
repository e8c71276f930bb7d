//! OpenZFS's kernel module in a virtual machine, which judges what was written here.

use crate::shared_dir;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of the kernel judge.
pub struct KernelJudge(PathBuf);

impl KernelJudge {
    /// Those of `../shared/judge`; without them the test fails, and says why.
    pub fn find() -> Self {
        let programs = shared_dir().map(|shared| shared.join("judge"));
        let programs = programs.filter(|programs| programs.join("run-job").is_file());
        Self(programs.expect("this needs the kernel judge (../shared/judge)"))
    }

    /// Their folder.
    pub fn programs(&self) -> &Path {
        &self.0
    }

    /// Runs a script in the machine, with the folder `job` and these images as its devices; whether
    /// it succeeded. What it puts into its `/out` is then in `out`.
    pub fn run(&self, script: &str, job: &Path, out: &Path, images: &[PathBuf]) -> bool {
        std::fs::create_dir_all(job).unwrap();
        std::fs::write(job.join("run.sh"), script).unwrap();
        let mut run = self.machine(1200);
        run.arg("--out").arg(out).arg(job).args(images);
        run.status().unwrap().success()
    }

    /// The command that starts the machine, which is stopped after this time. Its options, folder
    /// and images are still to be added.
    pub fn machine(&self, seconds: usize) -> Command {
        let mut run = Command::new(self.0.join("run-job"));
        run.args(["--timeout", &seconds.to_string()]);
        // An emulated timer can be late on a busy host, and Linux gives up if it is while it boots.
        run.args(["--kargs", "no_timer_check"]);
        run
    }

    /// The command that compares a dataset in a description with another in another one.
    pub fn diff(&self, datasets: [impl AsRef<OsStr>; 2], described: [PathBuf; 2]) -> Command {
        let [from, to] = datasets;
        let mut diff = Command::new(self.0.join("manifest-diff"));
        diff.arg("--from").arg(from).arg("--to").arg(to).args(described);
        diff
    }
}
