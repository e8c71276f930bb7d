//! How vdevs are named: the options `-P`, `-L` and `-g`.

use std::path::Path;
use views::naming::Names;

/// Which names to show.
#[derive(clap::Args, Clone, Copy)]
pub struct Naming {
    /// Full paths of devices
    #[arg(short = 'P')]
    full: bool,
    /// Paths with symbolic links followed
    #[arg(short = 'L')]
    follow: bool,
    /// Guids instead of names
    #[arg(short = 'g')]
    guid: bool,
}

impl Naming {
    /// The requested names.
    pub fn names(self) -> Names {
        let followed =
            |path: &str| Some(Path::new(path).canonicalize().ok()?.display().to_string());
        let follow = self.follow.then_some(followed as fn(&str) -> Option<String>);
        Names { full: self.full, follow, guid: self.guid }
    }
}
