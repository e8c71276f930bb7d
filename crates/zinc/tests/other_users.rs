//! Pools that root serves, as other users see them: they may look, and nothing else. Needs root,
//! which takes another user's place.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A user that has nothing.
const NOBODY: u32 = 65534;

struct Place(tempfile::TempDir);

impl Place {
    /// A folder that all may read, with the command in it.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            testkit::skip("needs root");
            return None;
        }
        let place = Self(tempfile::tempdir().unwrap());
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        open(place.path(), 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_zinc"), place.program()).unwrap();
        open(&place.program(), 0o755);
        for folder in ["root", "nobody"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        open(&place.path().join("root"), 0o700);
        open(&place.path().join("nobody"), 0o777);
        Some(place)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self) -> PathBuf {
        self.path().join("zinc")
    }

    fn command(&self, user: u32, command: &str) -> Command {
        let folder = self.path().join(if user == 0 { "root" } else { "nobody" });
        let mut started = Command::new(self.program());
        started
            .args(command.split_whitespace())
            .current_dir(&folder)
            .env("ZINC_STATE", folder.join("state"))
            .env("ZINC_SOCKETS", self.path().join("run"));
        if user != 0 {
            started.uid(user).gid(user);
        }
        started
    }

    fn run(&self, user: u32, command: &str) -> Output {
        self.command(user, command).output().unwrap()
    }

    fn ok(&self, user: u32, command: &str) -> String {
        let Output { status, stdout, stderr } = self.run(user, command);
        // Servers of other tests are out of reach here, and named.
        let said = String::from_utf8_lossy(&stderr).into_owned();
        let is_quiet = said.lines().all(|line| line.contains("is not shown"));
        assert!(status.success() && is_quiet, "{user}: {command}: {said}");
        String::from_utf8(stdout).unwrap()
    }

    fn denied(&self, command: &str) {
        let Output { status, stdout, stderr } = self.run(NOBODY, command);
        let said = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stdout.is_empty(), "{command}: {said}");
        assert!(said.contains("permission denied"), "{command}: {said}");
    }
}

#[test]
fn they_look_at_pools_that_root_serves_and_change_nothing() {
    let Some(place) = Place::new() else { return };
    let disk = place.path().join("root/disk");
    std::fs::File::create(&disk).unwrap().set_len(128 << 20).unwrap();
    std::fs::write(place.path().join("root/secret"), "{\"tank\": \"hidden\"}").unwrap();
    place.ok(0, &format!("zpool create tank {}", disk.display()));
    place.ok(0, "zfs create -o compression=zstd tank/fs");
    place.ok(0, "serve -b tank");
    for same in [
        "zpool list -Ho name,size,health",
        "zpool list -Hp -o name,free tank",
        "zpool get -H all tank",
        "zpool status tank",
        "zfs list -Hpo name,used,refer",
        "zfs list -H -d 1 tank",
        "zfs get -H compression tank/fs",
    ] {
        assert_eq!(place.ok(NOBODY, same), place.ok(0, same), "{same}");
    }
    assert!(place.ok(NOBODY, "zpool iostat -H tank").starts_with("tank"));
    let secret = place.path().join("root/secret");
    for command in [
        "zfs create tank/mine",
        "zfs set compression=off tank/fs",
        "zpool set comment=mine tank",
        "zpool history tank",
        "zpool export tank",
        "zpool sync tank",
        "ls tank/fs:/",
        "tunables --pool tank zfs_txg_timeout=1",
        "txgs tank",
        &format!("zfs list --keys {} tank", secret.display()),
        &format!("zfs get --key tank=file://{} all tank", secret.display()),
    ] {
        place.denied(command);
    }
    // A command for all pools is about the user's own.
    assert_eq!(place.ok(NOBODY, "zpool export -a"), "");
    // However many look, and never stop, root is answered, and they keep it from nothing.
    let mut lookers: Vec<_> = (0..20)
        .map(|n| place.command(NOBODY, ["zpool iostat tank 1", "zpool list tank 1"][n % 2]))
        .map(|mut looker| looker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    assert_eq!(place.ok(0, "zfs list -Ho name"), "tank\ntank/fs\n");
    place.ok(0, "zpool export tank");
    for looker in &mut lookers {
        looker.kill().unwrap();
        looker.wait().unwrap();
    }
}
