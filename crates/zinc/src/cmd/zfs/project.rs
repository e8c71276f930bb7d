//! `zinc zfs project`: the projects of files and directories below a mount.

use crate::cmd::cp::into::now;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{Failure, system_text};
use crate::live::{self, LiveOptions};
use crate::progress::while_showing;
use crate::session::Session;
use crate::ui;
use ::mount::system;
use engine::Progress;
use engine::files::{FileKind, ProjectDepth, ProjectOf, ProjectTask, each_project};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use views::projects;

/// Arguments of `zinc zfs project`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    how: LiveOptions,
    /// List files that differ from the directory's project, or lack the flag
    #[arg(short = 'c', conflicts_with_all = ["clear", "inherit", "keep"])]
    check: bool,
    /// Clear the flag and the project
    #[arg(short = 'C', conflicts_with_all = ["id", "inherit", "itself"])]
    clear: bool,
    /// With -C: keep the project
    #[arg(short = 'k')]
    keep: bool,
    /// With -c: print only names, each followed by a zero byte
    #[arg(short = '0')]
    zero: bool,
    /// Only the directory itself
    #[arg(short = 'd')]
    itself: bool,
    /// Also everything below directories
    #[arg(short = 'r')]
    recursive: bool,
    /// Set this project; with -c: compare with this project
    #[arg(short = 'p', value_name = "ID")]
    id: Option<u32>,
    /// Set the flag: new files in a directory inherit its project
    #[arg(short = 's', conflicts_with = "itself")]
    inherit: bool,
    /// Files and directories below a mount
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

impl Args {
    fn task(&self) -> ProjectTask {
        match () {
            () if self.check => ProjectTask::Check { project: self.id.map(u64::from) },
            () if self.clear => ProjectTask::Clear { keeps_project: self.keep },
            () if self.inherit || self.id.is_some() => {
                ProjectTask::Set { project: self.id.map(u64::from), inherits: self.inherit }
            }
            () => ProjectTask::List,
        }
    }

    fn depth(&self, task: ProjectTask) -> ProjectDepth {
        match task {
            _ if self.recursive => ProjectDepth::Tree,
            ProjectTask::List | ProjectTask::Check { .. } if !self.itself => ProjectDepth::Entries,
            _ => ProjectDepth::Itself,
        }
    }

    /// Does it for what a path leads to, in the file system that is mounted above it.
    fn one(&self, session: &Session, typed: &str) -> Result<(), Failure> {
        let doing = format!("cannot open '{typed}'");
        // As the system finds it: links lead through other file systems.
        let path = session.path(Path::new(typed)).canonicalize();
        let path = path.map_err(|e| Failure::new(format!("{doing}: {}", system_text(&e))))?;
        let Some(mount) = system::whole_at(&path) else {
            return Err(Failure::new(format!("{doing}: not below a mount of a ZFS filesystem")));
        };
        if mount.name.contains('@') {
            return Err(Failure::new(format!("{doing}: a snapshot cannot be changed")));
        }
        let inside = path.strip_prefix(&mount.dir).unwrap_or(&path);
        live::change(session, &[], &self.how, &mount.name, |pool| {
            let fs = pool.filesystem(&mount.name)?;
            let start = fs.by_path(inside.as_os_str().as_bytes(), false);
            let start = start.map_err(|e| Failure::new(format!("{doing}: {e}")))?;
            if start.kind() != FileKind::Dir && (self.itself || self.recursive) {
                return Err(Failure::new(format!("{doing}: -d and -r are for directories")));
            }
            let depth = self.depth(self.task());
            let task = self.task().of(&start, depth);
            let show = |of: &ProjectOf| {
                let name = [typed.trim_end_matches('/').as_bytes(), &of.below[..]].concat();
                let text = projects::lines(&String::from_utf8_lossy(&name), of, task);
                if !self.zero {
                    ui::out(session, &text);
                } else if !text.is_empty() {
                    ui::out_bytes(session, &[&name[..], b"\0"].concat())?;
                }
                Ok::<_, Failure>(task.change())
            };
            let progress = Progress::new();
            while_showing(session, &progress, || {
                each_project(&fs, &start, depth, &now, &progress, show)
            })
        })
    }
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let shows = self.check || (self.id.is_none() && !self.inherit && !self.clear);
        for (is_given, fits, what) in [
            (self.itself, shows, "-d is for showing and checking"),
            (self.zero, self.check, "-0 is for checking with -c"),
            (self.keep, self.clear, "-k is for clearing with -C"),
        ] {
            if is_given && !fits {
                return Err(Failure::usage(what));
            }
        }
        self.paths.iter().try_for_each(|path| self.one(session, path))?;
        Ok(ExitCode::SUCCESS)
    }
}
