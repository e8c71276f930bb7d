//! Pools that root serves, as other users see them: they may look, and nothing else. Needs root,
//! which takes another user's place.
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

/// Where the socket of [`raw_client`] is.
const RAW_SOCKET: &str = "RAW_SOCKET";

/// Requests that `zinc` never sends, each with what its answer says.
const RAW: [(&str, &str); 22] = [
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
        // With files beside it: one that nobody reads, and one in their number that is too many.
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
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && said[0].contains("1 passed"), "{}", said.join(""));
    // Nothing was done, and nothing is left of it.
    assert_eq!(place.ok(0, "zpool history tank"), history);
    assert_eq!(place.ok(0, "tunables --pool tank zfs_txg_timeout"), tunables);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(&why), "{said}");
    assert!(said.contains("-o readonly=on"), "{said}");
    let output = place.run(NOBODY, "zpool import -d . -o readonly=on mm");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(&why), "{said}");
    place.ok(NOBODY, "zpool export mm");
    std::fs::set_permissions(here("a"), Permissions::from_mode(0o000)).unwrap();
    let output = place.run(NOBODY, "zpool import -d . mm");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no such pool available") && said.contains("b': Permission denied"),
        "{said}"
    );
}
