//! Verbs of OpenZFS that zinc does not have, and words that are no verbs at all.
//!
//! A script that calls `zpool replace` has to see that zinc lacks it. Neither clap's guess of a
//! similar verb nor its list of ours says that, and the guess may be dangerous: `create` for
//! `replace`.

use crate::failure::Failure;
use std::ffi::OsString;

/// The verbs of OpenZFS 2.3's `zpool` that zinc does not do.
pub const ZPOOL: [&str; 18] = [
    "attach",
    "checkpoint",
    "clear",
    "ddtprune",
    "detach",
    "events",
    "initialize",
    "offline",
    "online",
    "prefetch",
    "remove",
    "reopen",
    "replace",
    "resilver",
    "scrub",
    "split",
    "trim",
    "wait",
];

/// The verbs of OpenZFS 2.3's `zfs` that zinc does not do.
pub const ZFS: [&str; 22] = [
    "allow",
    "change-key",
    "jail",
    "load-key",
    "mount",
    "program",
    "project",
    "receive",
    "recv",
    "redact",
    "send",
    "share",
    "umount",
    "unallow",
    "unjail",
    "unload-key",
    "unmount",
    "unshare",
    "unzone",
    "upgrade",
    "wait",
    "zone",
];

/// Why a word that is none of zinc's verbs does nothing: `words` are it and all behind it.
pub fn failure(command: &str, words: &[OsString], known: &[&str]) -> Failure {
    let verb = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    if known.contains(&verb.as_str()) {
        return Failure::new(format!("{command} {verb}: zinc does not do this yet"))
            .hint(format!("`zinc {command} --help` lists what it does"));
    }
    Failure::usage(format!("unrecognized command '{verb}'"))
        .hint(format!("`zinc {command} --help` lists the commands there are"))
}
