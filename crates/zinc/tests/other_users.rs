//! Pools that root serves, as other users see them: they may look, and change what they have
//! permissions for. Needs root, which takes another user's place.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A user that has nothing.
const NOBODY: u32 = 65534;

struct Place(tempfile::TempDir);

/// Runs it. A process that another test starts meanwhile has the program open for writing, as long
/// as it is not another program yet.
fn output(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            done => return done.unwrap(),
        }
    }
}

impl Place {
    /// A folder that all may read, with the command in it.
    fn new() -> Self {
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
        place
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
        output(&mut self.command(user, command))
    }

    fn ok(&self, user: u32, command: &str) -> String {
        let Output { status, stdout, stderr } = self.run(user, command);
        // Servers of other tests are out of reach here, and named.
        let message = String::from_utf8_lossy(&stderr).into_owned();
        let is_quiet = message.lines().all(|line| line.contains("is not shown"));
        assert!(status.success() && is_quiet, "{user}: {command}: {message}");
        String::from_utf8(stdout).unwrap()
    }

    fn denied(&self, command: &str) {
        let Output { status, stdout, stderr } = self.run(NOBODY, command);
        let message = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stdout.is_empty(), "{command}: {message}");
        assert!(message.contains("permission denied"), "{command}: {message}");
    }
}

#[testkit::needs("fuse", "another user")]
#[test]
fn they_name_file_systems_by_paths() {
    let place = Place::new();
    let (disk, mount) = (place.path().join("root/disk"), place.path().join("mount"));
    std::fs::File::create(&disk).unwrap().set_len(128 << 20).unwrap();
    place.ok(0, &format!("zpool create -m {} tank {}", mount.display(), disk.display()));
    place.ok(0, "zfs create tank/fs");
    place.ok(0, "serve -b --mount tank");
    for user in [0, NOBODY] {
        for (path, name) in [("", "tank\n"), ("/fs", "tank/fs\n")] {
            let path = format!("{}{path}", mount.display());
            assert_eq!(place.ok(user, &format!("zfs list -Ho name {path}")), name, "{user}");
            assert_eq!(place.ok(user, &format!("zfs get -Ho value name {path}")), name);
        }
        assert_eq!(place.ok(user, "zfs list -Ho name ./../mount/fs"), "tank/fs\n", "{user}");
        let missing = place.run(user, &format!("zfs list {}/none", mount.display()));
        let message = String::from_utf8_lossy(&missing.stderr).into_owned();
        assert!(
            !missing.status.success() && message.contains("No such file or directory"),
            "{message}"
        );
    }
    place.denied(&format!("zfs project {}", mount.display()));
    place.ok(0, "zpool export tank");
}

#[testkit::needs("another user")]
#[test]
fn they_look_at_pools_that_root_serves_and_change_nothing() {
    let place = Place::new();
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
        "zpool wait tank",
        "zpool upgrade tank",
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
    assert!(place.ok(NOBODY, "zpool status -v tank").contains("state: ONLINE"));
    assert!(place.ok(NOBODY, "zfs upgrade").contains("filesystem version 5"));
    place.denied("zfs upgrade tank/fs");
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

/// Another user, and a group that no user is in by itself.
const DAEMON: u32 = 1;
const GROUP: u32 = 61_234;

impl Place {
    /// Root serves `tank` with these file systems.
    fn serve(&self, filesystems: &[&str]) {
        let disk = self.path().join("root/disk");
        std::fs::File::create(&disk).unwrap().set_len(192 << 20).unwrap();
        self.ok(0, &format!("zpool create tank {}", disk.display()));
        for name in filesystems {
            self.ok(0, &format!("zfs create {name}"));
        }
        self.ok(0, "serve -b tank");
    }

    /// What a user is told who may not.
    fn refused(&self, user: u32, command: &str, why: &str) {
        let Output { status, stdout, stderr } = self.run(user, command);
        let message = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stdout.is_empty(), "{user}: {command}: {message}");
        assert!(message.contains(why), "{user}: {command}: {message}");
    }
}

#[testkit::needs("another user")]
#[test]
fn they_change_what_they_have_permissions_for() {
    let place = Place::new();
    place.serve(&["tank/a", "tank/a/b", "tank/c"]);
    place.ok(0, "zfs allow nobody snapshot,hold,release,compression,userquota tank/a");
    place.ok(0, "zfs allow -l nobody create,mount,destroy,rename tank/a");
    place.ok(0, "zfs allow -c snapshot,destroy,mount tank/a");
    let no = |command: &str, why: &str| place.refused(NOBODY, command, why);
    for allowed in [
        "zfs snapshot tank/a@1",
        "zfs snapshot -r tank/a@r",
        "zfs hold tag tank/a@1",
        "zfs release tag tank/a@1",
        "zfs set compression=zstd tank/a/b",
        "zfs inherit compression tank/a/b",
        "zfs set userquota@daemon=1M tank/a",
        "zfs create tank/a/mine",
        "zfs create -s -V 1M tank/a/disk",
        "zfs snapshot tank/a/mine@1",
    ] {
        assert_eq!(place.ok(NOBODY, allowed), "", "{allowed}");
    }
    // All of it by the one name that each refusal has in OpenZFS.
    no("zfs snapshot tank/c@1", "cannot create snapshot 'tank/c@1': permission denied");
    no("zfs snapshot tank@1", "cannot create snapshot 'tank@1': permission denied");
    no("zfs snapshot -r tank@1", "permission denied");
    no("zfs snapshot -o my:word=x tank/a@2", "permission denied");
    no("zfs create tank/c/x", "cannot create 'tank/c/x': permission denied");
    no("zfs create tank/a/b/x", "cannot create 'tank/a/b/x': permission denied");
    no("zfs create -o quota=1M tank/a/x", "cannot create 'tank/a/x': permission denied");
    no("zfs create -V 1M tank/a/x", "cannot create 'tank/a/x': permission denied");
    no("zfs create -p tank/c/x/y", "permission denied");
    no("zfs destroy tank/a/b@r", "cannot destroy 'tank/a/b@r': permission denied");
    no("zfs destroy tank/a@1", "cannot destroy 'tank/a@1': permission denied");
    no("zfs destroy tank/c", "cannot destroy 'tank/c': permission denied");
    no("zfs destroy -r tank/a", "permission denied");
    no("zfs rename tank/a tank/z", "cannot rename 'tank/a': permission denied");
    no("zfs rename tank/a/b tank/a/z", "cannot rename 'tank/a/b': permission denied");
    no("zfs clone tank/a@1 tank/a/z", "cannot create 'tank/a/z'");
    no("zfs rollback tank/a/b@r", "cannot rollback to 'tank/a/b@r': permission denied");
    no("zfs promote tank/a/mine", "cannot promote 'tank/a/mine': permission denied");
    no("zfs bookmark tank/a@1 #m", "cannot create bookmark 'tank/a#m': permission denied");
    no("zfs set quota=1M tank/a", "cannot set property for 'tank/a': permission denied");
    no("zfs set compression=lz4 tank/c", "cannot set property for 'tank/c': permission denied");
    no("zfs set groupquota@daemon=1M tank/a", "permission denied");
    no("zfs set my:word=x tank/a", "permission denied");
    no("zfs inherit atime tank/a", "permission denied");
    no("zfs diff tank/a@1", "cannot compare 'tank/a@1': permission denied");
    no("zfs allow daemon snapshot tank/a", "cannot set permissions on 'tank/a': permission denied");
    no("zfs unallow nobody tank/a", "cannot set permissions on 'tank/a': permission denied");
    no("zfs mount tank/a", "permission denied");
    no("zpool set comment=x tank", "permission denied");
    no("zfs snapshot --tunable zfs_txg_timeout=1 tank/a@t", "permission denied");
    no("zfs snapshot --tunables secret tank/a@t", "permission denied");
    no("zfs snapshot --txgs-log log tank/a@t", "permission denied");
    for other in ["zfs snapshot tank/a@d", "zfs destroy tank/a/disk", "zfs create tank/a/d"] {
        place.refused(DAEMON, other, "permission denied");
    }
    // What was made is the user's: its root directory, its line of history, what creators get.
    assert!(place.ok(0, "stat tank/a/mine:/").contains("65534"));
    let history = place.ok(0, "zpool history -l tank");
    let line = history.lines().find(|line| line.contains("zfs create tank/a/mine")).unwrap();
    assert!(line.contains("nobody"), "{line}");
    assert!(!history.contains("tank/c@1"), "{history}");
    place.ok(0, "zfs destroy tank/a/mine@1");
    place.ok(NOBODY, "zfs destroy tank/a/disk");
    // A permission that is taken is gone.
    place.ok(0, "zfs unallow nobody snapshot tank/a");
    no("zfs snapshot tank/a@late", "permission denied");
    let shown = place.ok(NOBODY, "zfs allow tank/a");
    assert_eq!(shown, place.ok(0, "zfs allow tank/a"));
    assert!(shown.contains("Local permissions:\n\tuser nobody create,destroy,mount,rename\n"));
    place.ok(0, "zpool set delegation=off tank");
    no("zfs hold tag tank/a@1", "delegated administration is disabled on pool");
    place.ok(0, "zpool export tank");
}

#[testkit::needs("another user")]
#[test]
fn they_send_what_they_have_the_permission_for() {
    let place = Place::new();
    place.serve(&["tank/a", "tank/a/b", "tank/c"]);
    std::fs::write(place.path().join("root/file"), vec![7; 3 << 20]).unwrap();
    place.ok(0, "cp file tank/a:/");
    place.ok(0, "zfs snapshot -r tank@1");
    place.ok(0, "zfs snapshot -r tank@2");
    let no = |command: &str, why: &str| place.refused(NOBODY, command, why);
    no("zfs send tank/a@1", "cannot send 'tank/a@1': permission denied");
    no("zfs send -n -v tank/a@1", "permission denied");
    // A snapshot lies below its file system.
    place.ok(0, "zfs allow -l nobody send tank/a");
    no("zfs send tank/a@1", "permission denied");
    place.ok(0, "zfs allow nobody send tank/a");
    for command in [
        "zfs send tank/a@1",
        "zfs send -p -i @1 tank/a@2",
        "zfs send -R tank/a@2",
        "zfs send -n -v -P -R tank/a@2",
    ] {
        let run = |user| place.run(user, command);
        let (theirs, roots) = (run(NOBODY), run(0));
        let message = String::from_utf8_lossy(&theirs.stderr).into_owned();
        assert!(theirs.status.success() && theirs.stdout == roots.stdout, "{command}: {message}");
    }
    assert!(place.run(NOBODY, "zfs send tank/a@1").stdout.len() > 3 << 20);
    no("zfs send -R tank@2", "permission denied");
    no("zfs send tank/c@1", "permission denied");
    // The rest of a stream too.
    let token = |name: &str| {
        let guid = place.run(0, &format!("zfs get -H -p -o value guid {name}")).stdout;
        let token = engine::ResumeToken {
            object: 1,
            to_guid: String::from_utf8(guid).unwrap().trim().parse().unwrap(),
            to_name: name.as_bytes().to_vec(),
            ..Default::default()
        };
        token.encode().unwrap()
    };
    let rest = format!("zfs send -t {}", token("tank/a@1"));
    let theirs = place.run(NOBODY, &rest);
    let message = String::from_utf8_lossy(&theirs.stderr).into_owned();
    assert!(theirs.status.success() && theirs.stdout == place.run(0, &rest).stdout, "{message}");
    no(&format!("zfs send -t {}", token("tank/c@1")), "permission denied");
    // One that does not read is in the way of nothing.
    let mut child = place.command(NOBODY, "zfs send tank/a@1");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stream = child.stdout.take().unwrap();
    let mut first = [0; 312];
    stream.read_exact(&mut first).unwrap();
    place.refused(0, "zfs destroy tank/a@1", "dataset is busy");
    drop(stream);
    assert!(!child.wait_with_output().unwrap().status.success());
    place.ok(0, "zfs destroy tank/a@1");
    let mut child = place.command(NOBODY, "zfs send tank/a@2");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    place.ok(0, "zpool export tank");
    assert!(!child.wait_with_output().unwrap().status.success());
}

/// Runs a command of a user with this input; what is left of the input.
fn fed(place: &Place, user: u32, command: &str, input: &[u8]) -> (Output, Vec<u8>) {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let mut started = place.command(user, command);
    started.stdin(reader.try_clone().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = started.spawn().unwrap();
    drop(started);
    std::thread::scope(|scope| {
        // The rest of what a command refuses is read below.
        scope.spawn(move || writer.write_all(input).unwrap());
        let ended = child.wait_with_output().unwrap();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        (ended, rest)
    })
}

#[testkit::needs("another user")]
#[test]
fn they_receive_where_they_have_the_permission_for() {
    let place = Place::new();
    place.serve(&["tank/a", "tank/a/b", "tank/in", "tank/c"]);
    std::fs::write(place.path().join("root/file"), vec![7; 3 << 20]).unwrap();
    place.ok(0, "cp file tank/a:/");
    place.ok(0, "zfs set compression=zstd tank/a");
    place.ok(0, "zfs set my:word=x tank/a");
    place.ok(0, "zfs snapshot -r tank/a@1");
    place.ok(0, "zfs snapshot -r tank/a@2");
    let sent = |options: &str| place.run(0, &format!("zfs send {options}")).stdout;
    let (full, more) = (sent("tank/a@1"), sent("-i @1 tank/a@2"));
    let refused = |command: &str, input: &[u8], why: &str| {
        let (ended, rest) = fed(&place, NOBODY, command, input);
        let message = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && message.contains(why), "{command}: {message}");
        rest
    };
    let taken = |command: &str, input: &[u8]| {
        let (ended, rest) = fed(&place, NOBODY, command, input);
        let message = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && rest.is_empty(), "{command}: {message}");
        (String::from_utf8(ended.stdout).unwrap(), message)
    };
    let new = "cannot receive new filesystem stream: permission denied";
    refused("zfs receive tank/in/x", &full, new);
    // Each of the three is needed.
    for two in ["receive,mount", "receive,create", "create,mount"] {
        place.ok(0, &format!("zfs allow nobody {two} tank/in"));
        refused("zfs receive tank/in/x", &full, new);
        place.ok(0, "zfs unallow nobody tank/in");
    }
    place.ok(0, "zfs allow nobody receive,create,mount tank/in");
    let (text, _) = taken("zfs receive -v tank/in/x", &full);
    assert!(text.contains("receiving full stream of tank/a@1 into tank/in/x@1"), "{text}");
    let read = || place.run(0, "cat tank/in/x:/file").stdout;
    assert!(read() == vec![7; 3 << 20]);
    taken("zfs recv tank/in/x", &more);
    refused("zfs receive -F tank/c", &more, "permission denied");
    // Back to where a stream begins: what that destroys is asked for.
    place.ok(0, "zfs snapshot tank/in/x@mine");
    place.ok(0, "zfs snapshot tank/a@3");
    let next = sent("-i @2 tank/a@3");
    let denied = "cannot receive incremental stream: permission denied";
    refused("zfs receive -F tank/in/x", &next, denied);
    place.ok(0, "zfs allow nobody rollback tank/in");
    refused("zfs receive -F tank/in/x", &next, denied);
    place.ok(0, "zfs allow nobody destroy tank/in");
    taken("zfs receive -F tank/in/x", &next);
    // Properties as far as they may set them.
    place.ok(0, "zfs allow nobody compression tank/in");
    let (_, message) = taken("zfs receive tank/in/p", &sent("-p tank/a@1"));
    let not_set = "cannot receive my:word property on tank/in/p: permission denied";
    assert!(message.contains(not_set) && !message.contains("compression"), "{message}");
    let shown = "zfs get -H -o value,source compression,my:word tank/in/p";
    assert_eq!(place.ok(0, shown), "zstd\treceived\n-\t-\n");
    // A tree, and what stands behind the stream stays for the next reader.
    let tree = [sent("-R tank/a@2"), b"another's".to_vec()].concat();
    let (ended, rest) = fed(&place, NOBODY, "zfs receive -d tank/in", &tree);
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && rest == b"another's", "{message}");
    place.ok(0, "zfs list tank/in/a/b@2");
    // One that is cut goes on, and can be given up.
    let half = &full[..full.len() / 2];
    refused("zfs receive -s tank/in/s", half, "Partially received snapshot is saved");
    let token = place.ok(0, "zfs get -H -o value receive_resume_token tank/in/s");
    let rest = sent(&format!("-t {}", token.trim()));
    taken("zfs receive -s tank/in/s", &rest);
    refused("zfs receive -s tank/in/t", half, "Partially received snapshot is saved");
    assert_eq!(fed(&place, NOBODY, "zfs receive -A tank/in/t", b"list").1, b"list");
    place.refused(0, "zfs list tank/in/t", "does not exist");
    // One that sends nothing is in the way of nothing, and leaves nothing when it is gone.
    let mut child = place.command(NOBODY, "zfs receive tank/in/slow");
    child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(half).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    while place.run(0, "zfs list tank/in/slow").status.success() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut child = place.command(NOBODY, "zfs receive tank/in/slow");
    child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(half).unwrap();
    place.ok(0, "zpool export tank");
    assert!(!child.wait().unwrap().success());
}

#[testkit::needs("another user")]
#[test]
fn they_are_in_the_groups_that_the_system_says() {
    let place = Place::new();
    place.serve(&["tank/a", "tank/b"]);
    place.ok(0, &format!("zfs allow -g {GROUP} snapshot tank/a"));
    place.ok(0, "zfs allow -e hold tank/b");
    place.ok(0, "zfs allow -s @all diff,snapshot tank");
    place.ok(0, "zfs allow -d nobody @all tank");
    let with_groups = |groups: &str, command: &str| {
        let mut started = Command::new("setpriv");
        let user = DAEMON.to_string();
        started.args(["--reuid", &user, "--regid", &user, "--groups", groups]);
        let folder = place.path().join("nobody");
        started.arg(place.program()).args(command.split_whitespace()).current_dir(&folder);
        started.env("ZINC_STATE", folder.join("state"));
        output(started.env("ZINC_SOCKETS", place.path().join("run")))
    };
    let others = format!("{},7", GROUP + 1);
    assert!(!with_groups(&others, "zfs snapshot tank/a@1").status.success());
    let member = with_groups(&format!("7,{GROUP}"), "zfs snapshot tank/a@1");
    assert!(member.status.success(), "{}", String::from_utf8_lossy(&member.stderr));
    assert!(!with_groups(&GROUP.to_string(), "zfs snapshot tank/b@1").status.success());
    // Everyone, and a set that was given above.
    place.ok(NOBODY, "zfs snapshot tank/b@1");
    place.refused(NOBODY, "zfs snapshot tank@1", "permission denied");
    for user in [NOBODY, DAEMON] {
        place.ok(user, &format!("zfs hold tag{user} tank/b@1"));
        place.refused(user, &format!("zfs release tag{user} tank/b@1"), "permission denied");
    }
    assert_eq!(place.ok(NOBODY, "zfs diff tank/b@1"), "");
    place.refused(DAEMON, "zfs diff tank/b@1", "permission denied");
    place.ok(0, "zfs unallow -s @all diff tank");
    place.refused(NOBODY, "zfs diff tank/b@1", "permission denied");
    place.ok(0, "zpool export tank");
}

/// Where the socket of [`raw_client`] is.
const RAW_SOCKET: &str = "RAW_SOCKET";

/// Requests that `zinc` never sends, each with what its answer says.
const RAW: [(&str, &str); 26] = [
    (r#"{"do":"status"}"#, "permission denied"),
    (r#"{"do":"txgs"}"#, "permission denied"),
    (r#"{"do":"txgs","count":-1,"alive":true}"#, "permission denied"),
    (r#"{"do":"tunables"}"#, "permission denied"),
    (r#"{"do":"tunables","set":{"zfs_txg_timeout":1}}"#, "permission denied"),
    (r#"{"do":"sync"}"#, "permission denied"),
    (r#"{"do":"export"}"#, "permission denied"),
    (r#"{"do":"export","force":true,"command":"zpool export tank"}"#, "permission denied"),
    (r#"{"do":"shutdown"}"#, "permission denied"),
    (r#"{"do":"run"}"#, "error"),
    (r#"{"do":"run","args":[],"folder":"/"}"#, "\"output\":\"\""),
    (r#"{"do":"run","args":"zfs destroy tank","folder":"/"}"#, "error"),
    (r#"{"do":"run","args":["zinc","zfs","destroy","-r","tank"],"folder":"/"}"#, "denied"),
    (
        r#"{"do":"run","args":["zinc","zfs","set","a:b=c","tank"],"folder":"/","part":true}"#,
        "denied",
    ),
    (r#"{"do":"run","args":["zinc","cat","tank:/secret"],"folder":"/"}"#, "denied"),
    (r#"{"do":"run","args":["zinc","serve","-b","tank"],"folder":"/"}"#, "does not run this verb"),
    (r#"{"do":"run","args":["zinc","zfs","list","--keys","secret"],"folder":"KEYS"}"#, "denied"),
    (
        r#"{"do":"run","args":["zinc","pios","-p","tank","-P","touch /tmp/x"],"folder":"/"}"#,
        "denied",
    ),
    (
        r#"{"do":"run","args":["zinc","zfs","snapshot","-d","/","tank@x"],"folder":"/"}"#,
        "denied: the pool is root's",
    ),
    (
        r#"{"do":"run","args":["zinc","zfs","set","--tunables","/x","a:b=c","tank"],"folder":"/"}"#,
        "denied: the pool is root's",
    ),
    (
        r#"{"do":"run","args":["zinc","zfs","destroy","-d","/x","tank@x"],"folder":"/"}"#,
        "denied: the pool is root's",
    ),
    (
        r#"{"do":"run","args":["zinc","zfs","allow","--dev","/x","tank"],"user":0,"folder":"/"}"#,
        "denied: the pool is root's",
    ),
    (r#"{"do":"run","args":["zpool","export","-f","tank"],"folder":"/"}"#, "code\":"),
    (r#"{"id":{"a":[1]},"do":["run"]}"#, "error"),
    (r#"[1,2,3]"#, "error"),
    ("\u{1b}[2J", "error"),
];

/// Runs as another user, whom [`requests_that_no_client_sends_are_refused`] starts.
fn raw_client(socket: &Path) {
    let stream = UnixStream::connect(socket).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut files = Vec::new();
    for (request, wanted) in RAW {
        // With files beside it: one that is not read, and one in their number that is too many.
        let (reader, writer) = std::io::pipe().unwrap();
        let [a, b, c, d] = [&writer; 4].map(|w| w.as_fd());
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = rustix::net::SendAncillaryBuffer::new(&mut space);
        let all = [a, b, c, d];
        assert!(beside.push(rustix::net::SendAncillaryMessage::ScmRights(&all)));
        let line = format!("{request}\n");
        let bytes = [std::io::IoSlice::new(line.as_bytes())];
        let none = rustix::net::SendFlags::empty();
        rustix::net::sendmsg(&stream, &bytes, &mut beside, none).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains(wanted), "{request}: {answer}");
        drop(writer);
        files.push(reader);
    }
    // The server has none of them any more: their other ends are closed.
    for mut reader in files {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert!(text.is_empty(), "{}", String::from_utf8_lossy(&text));
    }
    // A line without an end is told so, and hung up.
    let mut long = &stream;
    let endless = vec![b'x'; 64 << 10];
    while long.write_all(&endless).is_ok() {}
    let mut rest = String::new();
    let _ = answers.read_to_string(&mut rest);
    assert!(rest.is_empty() || rest.contains("at most"), "{rest}");
}

/// Also the client, when it is started anew.
#[testkit::needs("another user")]
#[test]
fn requests_that_no_client_sends_are_refused() {
    match std::env::var_os(RAW_SOCKET) {
        Some(socket) => raw_client(Path::new(&socket)),
        None => send_what_no_client_sends(),
    }
}

fn send_what_no_client_sends() {
    let place = Place::new();
    let disk = place.path().join("root/disk");
    std::fs::File::create(&disk).unwrap().set_len(128 << 20).unwrap();
    place.ok(0, &format!("zpool create tank {}", disk.display()));
    place.ok(0, "serve -b --pidfile pid tank");
    let history = place.ok(0, "zpool history tank");
    let pid = std::fs::read_to_string(place.path().join("root/pid")).unwrap();
    let files = || std::fs::read_dir(format!("/proc/{}/fd", pid.trim())).unwrap().count();
    let (before, tunables) = (files(), place.ok(0, "tunables --pool tank zfs_txg_timeout"));
    let program = place.path().join("raw");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut sockets = std::fs::read_dir(place.path().join("run")).unwrap().flatten();
    let socket = sockets.find(|e| e.path().extension().is_some_and(|e| e == "sock")).unwrap();
    let mut client = Command::new(program);
    client.args(["--exact", "requests_that_no_client_sends_are_refused", "--nocapture"]);
    client.env(RAW_SOCKET, socket.path()).current_dir(place.path().join("nobody"));
    let Output { status, stdout, stderr } = client.uid(NOBODY).gid(NOBODY).output().unwrap();
    let output = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && output[0].contains("1 passed"), "{}", output.join(""));
    // Nothing was done, and nothing is left of it.
    assert_eq!(place.ok(0, "zpool history tank"), history);
    assert_eq!(place.ok(0, "tunables --pool tank zfs_txg_timeout"), tunables);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while files() > before {
        assert!(std::time::Instant::now() < until, "{} files, {before} before", files());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    place.ok(0, "zpool export tank");
}

#[testkit::needs("another user")]
#[test]
fn a_device_that_may_not_be_opened_is_named_and_not_left_behind() {
    let place = Place::new();
    let here = |name: &str| place.path().join("nobody").join(name);
    for name in ["a", "b"] {
        std::fs::File::create(here(name)).unwrap().set_len(128 << 20).unwrap();
        std::os::unix::fs::chown(here(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    place.ok(NOBODY, "zpool create mm mirror a b");
    place.ok(NOBODY, "zpool export mm");
    std::fs::set_permissions(here("b"), Permissions::from_mode(0o000)).unwrap();
    let why = format!("cannot open '{}': Permission denied", here("b").display());
    let listed = place.ok(NOBODY, "zpool import -d .");
    assert!(listed.contains(&why), "{listed}");
    let output = place.run(NOBODY, "zpool import -d . mm");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains(&why), "{message}");
    assert!(message.contains("-o readonly=on"), "{message}");
    let output = place.run(NOBODY, "zpool import -d . -o readonly=on mm");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains(&why), "{message}");
    place.ok(NOBODY, "zpool export mm");
    std::fs::set_permissions(here("a"), Permissions::from_mode(0o000)).unwrap();
    let output = place.run(NOBODY, "zpool import -d . mm");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("no such pool available") && message.contains("b': Permission denied"),
        "{message}"
    );
}

/// A user may read the list that has root's pools as well: with `ZINC_STATE` for all, as in a
/// container. The pool is not taken for one of its own then, which only root could open.
#[testkit::needs("another user")]
#[test]
fn they_reach_a_pool_that_the_list_they_read_has_too() {
    let place = Place::new();
    place.serve(&["tank/a"]);
    place.ok(0, "zfs allow nobody snapshot tank/a");
    let shared = place.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::copy(place.path().join("root/state/zpool.cache"), shared.join("zpool.cache")).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(shared.join("zpool.cache"), Permissions::from_mode(0o644)).unwrap();
    for (command, expected) in [
        ("zfs snapshot tank/a@1", ""),
        ("zfs list -Ho name -t all tank/a", "tank/a\n"),
        ("zfs list -Ho name", "tank\ntank/a\n"),
        ("zpool list -Ho name tank", "tank\n"),
        ("zpool list -Ho name", "tank\n"),
    ] {
        let Output { status, stdout, stderr } =
            output(place.command(NOBODY, command).env("ZINC_STATE", &shared));
        let message = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{command}: {message}");
        assert_eq!(String::from_utf8(stdout).unwrap(), expected, "{command}: {message}");
    }
    place.ok(0, "zpool export tank");
}
