//! Pools that root serves, as other users see them: they may look, and nothing else. Needs root,
//! which takes another user's place.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs::Permissions;
use std::io::Read as _;
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
        if let Err(e) = place.command(NOBODY, "--version").output() {
            testkit::skip(&format!("needs to run a command as another user: {e}"));
            return None;
        }
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
    // Nor is anything shown but the pool that is served, and no folder searched.
    let other = place.path().join("root/other");
    std::fs::File::create(&other).unwrap().set_len(128 << 20).unwrap();
    place.ok(0, &format!("zpool create hidden {}", other.display()));
    let guid = place.ok(0, "zpool get -Ho value guid hidden");
    std::os::unix::fs::symlink(place.path().join("root"), place.path().join("nobody/6")).unwrap();
    for command in [
        format!("zpool get -H all {guid}"),
        format!("zpool list -H {guid}"),
        format!("zpool status {guid}"),
        "zpool list -H hidden".to_owned(),
        "zfs list -H -d 6 /hidden".to_owned(),
        "zfs list -H /hidden".to_owned(),
    ] {
        let run = place.run(NOBODY, &command);
        assert!(!run.status.success() && run.stdout.is_empty(), "{command}");
    }
    place.denied("zpool status -v tank");
    // A command for all pools is about the user's own.
    assert_eq!(place.ok(NOBODY, "zpool export -a"), "");
    // However many look, and never stop, root is answered, and they keep it from nothing.
    let mut lookers: Vec<_> = (0..10)
        .map(|_| place.command(NOBODY, "zpool iostat tank 0.1"))
        .map(|mut looker| looker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    // The first one has been answered.
    let mut first = [0];
    lookers[0].stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(place.ok(0, "zfs list -r -Ho name tank"), "tank\ntank/fs\n");
    place.ok(0, "zpool export tank");
    for looker in &mut lookers {
        looker.kill().unwrap();
        looker.wait().unwrap();
    }
}
