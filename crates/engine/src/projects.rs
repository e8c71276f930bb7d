//! Projects of files: shown, checked and changed in trees, as `zfs project` does.
//!
//! A directory whose entries are to be of its project has the flag "inherit". Only regular files
//! and directories have projects; what else is in a tree is passed over. A tree is walked with a
//! list of directories that are still to be read, so that its depth costs memory and no stack.

use crate::{Error, Filesystem, Result};
use ondisk::znode::flags::PROJINHERIT;
use rt::Progress;
use zpl::{FileKind, FlagChange, Node, SetAttrs, Time};

/// How much of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectDepth {
    /// The named file or directory alone.
    Itself,
    /// And what is in it.
    Entries,
    /// And all that is below.
    Tree,
}

/// The project of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectOf {
    /// Where it is, from what was named on; empty for that itself.
    pub below: Vec<u8>,
    /// Its project.
    pub project: u64,
    /// Files made in it belong to its project.
    pub inherits: bool,
}

/// A change of the projects of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectChange {
    /// The project from now on.
    pub project: Option<u64>,
    /// The flag from now on.
    pub inherits: Option<bool>,
}

/// An operation on projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectTask {
    /// They are shown.
    List,
    /// They are compared with a project: this one, or that of what is named.
    Check {
        /// Its number; `None`: that of what is named.
        project: Option<u64>,
    },
    /// The flag is taken away, and the project.
    Clear {
        /// But not the project.
        keeps_project: bool,
    },
    /// They are set.
    Set {
        /// The project from now on.
        project: Option<u64>,
        /// The flag is set.
        inherits: bool,
    },
}

impl ProjectTask {
    /// The same for a tree that begins with `start`: where no project is named, and one is needed,
    /// that of `start` is meant.
    #[must_use]
    pub fn of(self, start: &Node, depth: ProjectDepth) -> Self {
        let own = Some(start.project);
        match self {
            Self::Check { project } => Self::Check { project: project.or(own) },
            Self::Set { project, inherits: true } if depth == ProjectDepth::Tree => {
                Self::Set { project: project.or(own), inherits: true }
            }
            task => task,
        }
    }

    /// The change of each file.
    #[must_use]
    pub fn change(self) -> ProjectChange {
        match self {
            Self::List | Self::Check { .. } => ProjectChange::default(),
            Self::Clear { keeps_project } => {
                ProjectChange { project: (!keeps_project).then_some(0), inherits: Some(false) }
            }
            Self::Set { project, inherits } => {
                ProjectChange { project, inherits: inherits.then_some(true) }
            }
        }
    }
}

impl ProjectOf {
    fn of(node: &Node, below: Vec<u8>) -> Self {
        let inherits = node.flags & PROJINHERIT != 0;
        Self { below, project: node.project, inherits }
    }
}

/// Passes each regular file and directory of a tree to `visit`, the named one first; `visit`
/// returns the change to make.
///
/// # Errors
/// An error of `visit`; a file cannot be read or changed, or was removed meanwhile; projects are
/// not counted in this file system; it was cancelled.
pub fn each_project<E: From<Error>>(
    fs: &Filesystem,
    start: &Node,
    depth: ProjectDepth,
    now: &dyn Fn() -> Time,
    progress: &Progress,
    mut visit: impl FnMut(&ProjectOf) -> std::result::Result<ProjectChange, E>,
) -> std::result::Result<(), E> {
    let mut one = |node: &Node, below: Vec<u8>| -> std::result::Result<(), E> {
        let change = visit(&ProjectOf::of(node, below))?;
        apply(fs, node, change, now()).map_err(E::from)
    };
    one(start, Vec::new())?;
    let mut todo = Vec::new();
    if start.kind() == FileKind::Dir && depth != ProjectDepth::Itself {
        todo.push((start.number(), Vec::new()));
    }
    while let Some((number, below)) = todo.pop() {
        let dir = fs.node(number).map_err(Error::from)?;
        for entry in dir.entries().map_err(Error::from)? {
            progress.check().map_err(Error::from)?;
            let entry = entry.map_err(Error::from)?;
            let node = match fs.node(entry.object) {
                // It was removed meanwhile.
                Err(zpl::Error::NotFound(_)) => continue,
                node => node.map_err(Error::from)?,
            };
            let below = [&below[..], b"/", &entry.name[..]].concat();
            if node.kind() == FileKind::Dir && depth == ProjectDepth::Tree {
                todo.push((node.number(), below.clone()));
            }
            if matches!(node.kind(), FileKind::Dir | FileKind::File) {
                one(&node, below)?;
            }
        }
    }
    Ok(())
}

fn apply(fs: &Filesystem, node: &Node, change: ProjectChange, now: Time) -> Result<()> {
    let flags = change.inherits.map_or_else(FlagChange::default, |inherits| FlagChange {
        which: PROJINHERIT,
        value: if inherits { PROJINHERIT } else { 0 },
    });
    let project = change.project.filter(|project| *project != node.project);
    let is_flag_new = flags.which != 0 && node.flags & PROJINHERIT != flags.value;
    if project.is_none() && !is_flag_new {
        return Ok(());
    }
    let set = SetAttrs { flags, project, ..SetAttrs::default() };
    Ok(fs.set_attrs(node.number(), &set, now)?)
}
