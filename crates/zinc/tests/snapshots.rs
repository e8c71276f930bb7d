//! Snapshots at the command line: several at once, and which of them are younger.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::{Run, zinc_in};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let disk = std::fs::File::create(place.0.path().join("disk")).unwrap();
        disk.set_len(128 << 20).unwrap();
        let disk = place.0.path().join("disk");
        place.ok(&format!("zpool create tank {}", disk.display()));
        place.ok("zfs create -d . tank/a");
        place
    }

    fn run(&self, command: &str) -> Run {
        zinc_in(self.0.path(), &command.split_whitespace().collect::<Vec<_>>())
    }

    fn ok(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}: {}", run.out);
        run.out
    }

    fn snapshots(&self) -> Vec<String> {
        let run = self.run("zfs list -d . -t snapshot -Ho name");
        // Nothing to list is not a failure with OpenZFS, and nothing is said to a script.
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        run.out.lines().map(str::to_owned).collect()
    }
}

#[test]
fn several_snapshots_of_one_file_system_are_refused_in_openzfs_s_words() {
    let place = Place::new();
    for command in [
        "zfs snapshot -d . tank/a@x tank/a@y",
        "zfs snapshot -d . -r tank@x tank/a@y",
        "zfs snapshot -d . tank@x tank/a@x tank@y",
    ] {
        let run = place.run(command);
        let message = "cannot create snapshots : multiple snapshots of same fs not allowed";
        assert!(run.code == 1 && run.err.contains(message), "{command}: {}", run.err);
        assert_eq!(place.snapshots(), Vec::<String>::new(), "{command}");
    }
    // The same name twice is one snapshot.
    place.ok("zfs snapshot -d . -r tank@x tank/a@x");
    assert_eq!(place.snapshots(), ["tank@x", "tank/a@x"]);
    place.ok("zfs destroy -d . tank/a@x,x");
    assert_eq!(place.snapshots(), ["tank@x"]);
}
