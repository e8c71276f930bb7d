//! Which attributes a copy out of a pool gets: the options that `cp` and `rescue` share.

use engine::extract::Preserve;
use hostfs::is_root;

/// What is kept of a file beside its content.
#[derive(Clone, Copy, clap::Args)]
pub struct KeepArgs {
    /// Keep owners, set-id bits and attributes that grant rights, even when not root
    #[arg(long)]
    pub owner: bool,
    /// Do not keep owners, nor set-id bits and security.* and trusted.* attributes; only their new
    /// owner may use devices
    #[arg(long, conflicts_with = "owner")]
    pub no_owner: bool,
    /// Do not keep extended attributes and access lists
    #[arg(long)]
    pub no_xattrs: bool,
    /// Do not create block and character devices
    #[arg(long)]
    pub no_devices: bool,
}

impl KeepArgs {
    /// The attributes that are kept when this user runs it.
    pub fn keep(self) -> Preserve {
        Preserve {
            owner: self.owner || (is_root() && !self.no_owner),
            declined: self.no_owner,
            xattrs: !self.no_xattrs,
            devices: !self.no_devices,
        }
    }
}
