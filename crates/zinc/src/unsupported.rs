//! Verbs and options of OpenZFS that zinc does not have, and words that are no verbs at all.
//!
//! A script that calls `zpool prefetch` has to see that zinc lacks it. Neither clap's guess of a
//! similar verb nor its list of ours says that, and the guess may be dangerous.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// The verbs of OpenZFS 2.3's `zpool` that zinc does not do.
pub const ZPOOL: [&str; 2] = ["ddtprune", "prefetch"];

/// The verbs of OpenZFS 2.3's `zfs` that zinc does not do.
pub const ZFS: [&str; 16] = [
    "allow",
    "change-key",
    "jail",
    "load-key",
    "program",
    "project",
    "receive",
    "recv",
    "redact",
    "share",
    "unallow",
    "unjail",
    "unload-key",
    "unshare",
    "unzone",
    "zone",
];

/// The verbs of OpenZFS 2.3's `zstream` that zinc does not do.
pub const ZSTREAM: [&str; 4] = ["decompress", "recompress", "redup", "token"];

/// The end of the help of `zpool` or `zfs`: the verbs of OpenZFS's that it lacks.
pub fn lacking(verbs: &[&str]) -> String {
    format!("Not supported by zinc yet: {}.", verbs.join(", "))
}

/// A word that is not a verb of zinc's, and all behind it, under a command whose verbs of OpenZFS
/// that zinc does not do are these.
pub struct Word(pub &'static str, pub Vec<OsString>, pub &'static [&'static str]);

impl Verb for Word {
    fn run(self: Box<Self>, _: &Session) -> Result<ExitCode, Failure> {
        Err(failure(self.0, &self.1, self.2))
    }
}

/// Why such a word does nothing.
fn failure(command: &str, words: &[OsString], known: &[&str]) -> Failure {
    let verb = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    if known.contains(&verb.as_str()) {
        return Failure::new(format!("{command} {verb}: not supported by zinc yet"))
            .hint(format!("`zinc {command} --help` lists what it does"));
    }
    Failure::usage(format!("unrecognized command '{verb}'"))
        .hint(format!("`zinc {command} --help` lists the commands there are"))
}

const SIDES: &str = "zinc keeps the sector size of the vdev";
const SCRIPTS: &str = "zinc runs no scripts for the columns of a table";
const REWIND: &str = "zinc goes back to an older txg only to read: --txg N of ls, cat and cp";

const ENCLOSURES: &str = "zinc switches no enclosures";

const MOUNT_KEYS: &str = "zinc mounts no encrypted file systems yet";

const SENDS: &str = "zinc sends one snapshot at a time, decrypted and without properties";

/// The options of OpenZFS 2.3 that a verb has there and not here, and why not.
const OPTIONS: [(&str, &[&str], &str); 20] = [
    (
        "zfs send",
        &["-b", "-D", "-h", "-I", "-p", "-R", "-s", "-S", "-t", "-V", "-w", "-X", "--redact"],
        SENDS,
    ),
    ("zstream dump", &["-d"], "zinc shows records without their data"),
    ("zfs mount", &["-l"], MOUNT_KEYS),
    ("zfs unmount", &["-u"], MOUNT_KEYS),
    ("zpool attach", &["-o"], SIDES),
    ("zpool replace", &["-o"], SIDES),
    ("zpool clear", &["-F", "-n", "-X"], REWIND),
    ("zpool split", &["-l"], MOUNT_KEYS),
    ("zpool offline", &["--power"], ENCLOSURES),
    ("zpool online", &["--power"], ENCLOSURES),
    ("zpool clear", &["--power"], ENCLOSURES),
    ("zpool scrub", &["-a"], "zinc scrubs the pools that are named"),
    ("zpool import", &["-F", "-n", "-X", "-T"], REWIND),
    ("zpool import", &["-l"], "zinc keeps no keys: verbs take them with --keys, --key or --ask"),
    ("zpool iostat", &["-c"], SCRIPTS),
    ("zpool status", &["-c"], SCRIPTS),
    ("zpool status", &["-D"], "`zinc zdb -D POOL` shows the tables of deduplication"),
    ("zdb", &["-U"], "zinc finds pools by its own list of known pools, or at -p PATH"),
    (
        "zdb",
        &["-M", "-y", "-T", "-Z"],
        "`zinc check` verifies; -m and -D show space maps and dedup",
    ),
    ("zdb", &["-B", "-I", "-N", "-o", "-x"], "zinc's zdb has no such part"),
];

/// Why a command line that has an option of OpenZFS does nothing, when it is one that zinc lacks.
pub fn option(words: &[OsString], e: &clap::Error) -> Option<Failure> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = e.get(ContextKind::InvalidArg) else { return None };
    let option = option.split('=').next()?;
    let mut words = words.iter().skip(1).filter_map(|w| w.to_str());
    let command = words.next()?;
    let verb = match command {
        "zdb" => command.to_owned(),
        _ => format!("{command} {}", words.next()?),
    };
    let (.., why) = OPTIONS.iter().find(|(of, names, _)| *of == verb && names.contains(&option))?;
    Some(Failure::new(format!("{verb} {option}: not supported by zinc yet")).because(*why))
}
