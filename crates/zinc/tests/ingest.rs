//! What is copied into a pool: whole or not at all, whatever ends the copy and whatever the source
//! claims; and that the work on hostile input is bounded.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use engine::devices::AnyDevices;
use engine::inside::dmu::{Hold, zap};
use engine::inside::ondisk::znode::Dirent;
use engine::inside::rt::Rt;
use engine::live::{ImportOptions, import};
use engine::{Candidate, Filesystem, OpenOptions};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Run, zinc_in};

/// A folder with a pool `tank` and its file system `tank/fs`.
struct Place(tempfile::TempDir);

impl Place {
    fn new(mib: u64) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::File::create(place.path().join("disk")).unwrap().set_len(mib << 20).unwrap();
        let disk = place.path().join("disk");
        place.ok(&format!("zpool create tank {}", disk.display()));
        place.ok("zfs create -d . tank/fs");
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, command: &str) -> Run {
        zinc_in(self.path(), &command.split_whitespace().collect::<Vec<_>>())
    }

    fn ok(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}: {}", run.out);
        run.out
    }

    /// A command that must end with code 1 and these words on standard error.
    fn fails(&self, command: &str, words: &str) -> String {
        let run = self.run(command);
        assert!(run.code == 1 && run.err.contains(words), "{command}: {} {}", run.code, run.err);
        run.err
    }

    /// Changes the file system in ways that no command has.
    fn surgery(&self, change: impl FnOnce(&Filesystem)) {
        let mut options = OpenOptions::default();
        options.search.paths = vec![self.path().to_owned()];
        let found = engine::inside::pool::scan(&options.search).unwrap();
        let candidate = Candidate::group(&found).remove(0);
        let options = ImportOptions::new(options);
        let source = AnyDevices::default();
        let pool = import(&Rt::real(), &candidate, &options, &source).unwrap();
        change(&pool.filesystem("tank/fs").unwrap());
        pool.close().unwrap();
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> String {
        self.ok("ls -d . -aR tank/fs:/")
    }

    /// The pool is whole, and nothing waits to be deleted.
    fn judge(&self) {
        let run = self.run("check -d . tank");
        assert_eq!(run.code, 0, "{}", run.out);
        testkit::oracle::judge(self.path(), "tank");
    }

    fn start(&self, args: &[&str], input: Stdio) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        command.args(args).current_dir(self.path()).stdin(input);
        command.env("ZINC_STATE", self.path().join("run/state"));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command and measures it: code, what it said, and its largest resident size in MiB.
    /// Its output goes nowhere.
    fn measure(&self, args: &[&str], limit: Duration) -> (i32, String, u64) {
        let mut child = self.start(args, Stdio::null());
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let (start, mut peak) = (Instant::now(), 0);
        let code = loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
            let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0));
            if let Some(status) = child.try_wait().unwrap() {
                break status.code().expect("it ends by itself");
            }
            if start.elapsed() > limit {
                child.kill().unwrap();
                panic!("{args:?} takes longer than {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut message = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut message).unwrap();
        (code, message, peak >> 10)
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    testkit::Rng::new(seed).fill(&mut bytes);
    bytes
}

/// A header of an archive, with its checksum.
fn header(kind: tar::EntryType, name: &[u8], size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    header
}

fn member(archive: &mut Vec<u8>, header: &tar::Header, content: &[u8]) {
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn file(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let header = header(tar::EntryType::Regular, name.as_bytes(), content.len() as u64);
    member(archive, &header, content);
}

fn end(archive: &mut Vec<u8>) {
    archive.resize(archive.len() + 1024, 0);
}

#[test]
fn a_link_that_is_named_is_followed() {
    let place = Place::new(128);
    fs::write(place.path().join("file"), "bytes").unwrap();
    for (name, to) in [("link", "file"), ("none", "nix"), ("folder", ".")] {
        std::os::unix::fs::symlink(to, place.path().join(name)).unwrap();
    }
    place.ok("cp -d . link tank/fs:/");
    assert_eq!(place.ok("cat -d . tank/fs:/link"), "bytes");
    for name in ["none", "folder"] {
        let run = place.run(&format!("cp -d . {name} tank/fs:/"));
        assert!(run.code == 1 && run.err.contains(name), "{}", run.err);
    }
    // Of trees all links are kept.
    place.ok("cp -d . -r link tank/fs:/kept");
    assert!(place.ok("ls -d . -l tank/fs:/").contains("kept -> file"));
}

#[test]
fn a_member_that_is_cut_off_leaves_nothing_and_the_whole_archive_makes_it_good() {
    let place = Place::new(128);
    let (small, large) = (noise(100_000, 1), noise(9_000_000, 2));
    let mut archive = Vec::new();
    file(&mut archive, "first", b"1");
    file(&mut archive, "small", &small);
    file(&mut archive, "large", &large);
    end(&mut archive);
    for (cut, name) in [(50_000, "small"), (5_000_000, "large")] {
        place.write("half.tar", &archive[..cut]);
        place.fails("cp -d . --tar half.tar tank/fs:/", &format!("{name}: the archive ends"));
        assert!(!place.names().contains(name), "{}", place.names());
    }
    // Between two members it is cut off as well, and at a pipe.
    place.write("half.tar", &archive[..1024]);
    place.fails("cp -d . --tar half.tar tank/fs:/", "no end mark");
    let mut child = place.start(&["cp", "-d", ".", "--tar", "-", "tank/fs:/"], Stdio::piped());
    child.stdin.take().unwrap().write_all(&archive[..5_000_000]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!place.names().contains("large"));
    place.write("whole.tar", &archive);
    for _ in 0..2 {
        place.ok("cp -d . --tar whole.tar tank/fs:/");
    }
    place.ok("cp -d . -r tank/fs:/ out");
    assert!(fs::read(place.path().join("out/small")).unwrap() == small);
    assert!(fs::read(place.path().join("out/large")).unwrap() == large);
    place.judge();
}

#[test]
fn a_copy_that_is_killed_leaves_no_half_files() {
    let place = Place::new(256);
    let large = noise(120_000_000, 3);
    place.write("tree/large", &large);
    let mut child = place.start(&["cp", "-r", "-d", ".", "tree", "tank/fs:/"], Stdio::null());
    // Long enough that a part of it is on disk.
    let start = Instant::now();
    let disk = place.path().join("disk");
    let written = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&disk).unwrap()) * 512;
    while written() < 20_000_000 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.names().contains("large"), "{}", place.names());
    place.judge();
    // The next command that opens it to change it frees what is left.
    place.ok("cp -r -d . tree tank/fs:/");
    place.ok("cp -d . tank/fs:/tree/large back");
    assert!(fs::read(place.path().join("back")).unwrap() == large);
    place.judge();
}

#[test]
fn a_full_pool_keeps_what_is_whole_and_nothing_else() {
    let place = Place::new(64);
    place.write("tree/a", b"a");
    place.write("tree/z", &noise(90_000_000, 4));
    let message = place.fails("cp -r -d . tree tank/fs:/", "z'");
    assert!(message.contains("space"), "{message}");
    assert!(!place.names().contains("tree/z"), "{}", place.names());
    place.judge();
    place.write("tree/b", b"room again");
    fs::remove_file(place.path().join("tree/z")).unwrap();
    place.ok("cp -r -d . tree tank/fs:/");
    assert_eq!(place.ok("cat -d . tank/fs:/tree/b"), "room again");
}

#[test]
fn hostile_archives_end_quickly_with_a_message_that_names_the_member() {
    let place = Place::new(64);
    let limit = Duration::from_secs(20);
    let run = |archive: &[u8], names: &str| {
        place.write("hostile.tar", archive);
        let args = ["cp", "-d", ".", "--tar", "hostile.tar", "tank/fs:/"];
        let (code, message, mib) = place.measure(&args, limit);
        assert!(mib < 200, "{names}: {mib} MiB");
        assert!(code == 1 && message.contains(names), "{names}: {code} {message}");
    };
    // A GNU sparse file of 4 EiB in 2 KiB.
    let mut sparse = header(tar::EntryType::GNUSparse, b"sparse", 512);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.sparse[0].offset = *b"00000000000\0";
    gnu.sparse[0].numbytes = *b"00000001000\0";
    gnu.realsize = [0x80, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0];
    sparse.set_cksum();
    let mut archive = Vec::new();
    member(&mut archive, &sparse, &[b'D'; 512]);
    end(&mut archive);
    run(&archive, "sparse: ");
    // One that claims 4 EiB of content, and names and records that claim gigabytes.
    let mut archive = Vec::new();
    member(&mut archive, &header(tar::EntryType::Regular, b"huge", 1 << 62), &[b'Z'; 5000]);
    run(&archive, "huge: the archive ends");
    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
        let mut archive = Vec::new();
        member(&mut archive, &header(kind, b"claims", 20 << 20), &vec![b'n'; 20 << 20]);
        file(&mut archive, "victim", b"x");
        end(&mut archive);
        run(&archive, "victim: its headers claim");
    }
    // A map of a million pieces in the content.
    let record =
        b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n34 GNU.sparse.realsize=1000000000\n";
    let map = "9999999999\n".to_owned() + &"1\n0\n".repeat(3_000_000);
    let mut archive = Vec::new();
    member(&mut archive, &header(tar::EntryType::XHeader, b"x", record.len() as u64), record);
    file(&mut archive, "pieces", map.as_bytes());
    end(&mut archive);
    run(&archive, "pieces: ");
    assert_eq!(place.names(), "");
    // A size in a record counts, also where it is the smaller one.
    let mut archive = Vec::new();
    member(&mut archive, &header(tar::EntryType::XHeader, b"x", 12), b"12 size=512\n");
    member(&mut archive, &header(tar::EntryType::Regular, b"a", 2048), &[1; 512]);
    file(&mut archive, "b", b"bbb");
    end(&mut archive);
    place.write("good.tar", &archive);
    place.ok("cp -d . --tar good.tar tank/fs:/");
    assert_eq!(place.ok("cat -d . tank/fs:/b"), "bbb");
    assert_eq!(place.ok("cat -d . tank/fs:/a").len(), 512);
    place.judge();
}

#[test]
fn names_that_cannot_be_and_links_to_what_was_refused_are_told() {
    let place = Place::new(64);
    place.write("a", b"what stands there");
    place.ok("cp -d . a tank/fs:/");
    let mut archive = Vec::new();
    file(&mut archive, "a", b"something else");
    let mut link = header(tar::EntryType::Link, b"second", 0);
    link.set_link_name("a").unwrap();
    link.set_cksum();
    member(&mut archive, &link, b"");
    file(&mut archive, "../up", b"x");
    file(&mut archive, "/absolute", b"absolute");
    // The later one of a name counts.
    file(&mut archive, "twice", b"1");
    file(&mut archive, "twice", b"2");
    let long = [b"n".repeat(300).as_slice(), b"\0"].concat();
    let long_name = header(tar::EntryType::GNULongName, b"L", long.len() as u64);
    member(&mut archive, &long_name, &long);
    file(&mut archive, "long", b"x");
    end(&mut archive);
    place.write("odd.tar", &archive);
    let message = place.fails("cp -d . --tar odd.tar tank/fs:/", "a: exists and is different");
    assert!(message.contains("second: a hard link to 'a', which was not unpacked"), "{message}");
    assert!(message.contains("../up: its path has '..'"), "{message}");
    assert!(message.contains("the name is too long"), "{message}");
    assert_eq!(message.lines().count(), 4, "{message}");
    assert_eq!(place.names(), "a\nabsolute\ntwice\n");
    assert_eq!(place.ok("cat -d . tank/fs:/twice"), "2");
    // A tree has the same, and names that are no UTF-8.
    place.ok("zfs create -d . -o utf8only=on tank/text");
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), "one").unwrap();
    fs::hard_link(tree.join("a"), tree.join("b")).unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
    place.fails("cp -r -d . tree tank/text:/", "not a name this file system allows");
    // A second run makes second names that are missing.
    place.ok("rm -d . tank/text:/tree/b");
    place.fails("cp -r -d . tree tank/text:/", "not a name");
    assert_eq!(place.ok("ls -d . -R tank/text:/"), "tree\ntree/a\ntree/b\n");
    place.judge();
}

#[test]
fn what_changes_under_a_copy_is_not_followed_and_not_waited_for() {
    let place = Place::new(128);
    let secret = place.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    let tree = place.path().join("tree");
    for n in 0..40 {
        place.write(&format!("tree/d{n}/f"), &noise(200_000, n));
    }
    let mut child = place.start(&["cp", "-r", "-d", ".", "tree", "tank/fs:/"], Stdio::null());
    // Directories become links to another one and files become pipes, and back, all the time.
    let mut n = 0;
    let start = Instant::now();
    let code = loop {
        let dir = tree.join(format!("d{}", n % 40));
        let aside = tree.join("aside");
        if fs::rename(&dir, &aside).is_ok() {
            std::os::unix::fs::symlink(&secret, &dir).unwrap();
            std::thread::yield_now();
            fs::remove_file(&dir).unwrap();
            fs::rename(&aside, &dir).unwrap();
        }
        let file = dir.join("f");
        if fs::rename(&file, dir.join("g")).is_ok() {
            Command::new("mkfifo").arg(&file).status().unwrap();
            fs::remove_file(&file).unwrap();
            fs::rename(dir.join("g"), &file).unwrap();
        }
        n += 1;
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        assert!(start.elapsed() < Duration::from_secs(120), "it waits for a pipe");
    };
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    assert!(!place.names().contains("key"), "{}", place.names());
    place.judge();
}

/// Directories within directories, made by going down.
fn deep(top: &Path, name: &str, levels: usize) {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    fs::create_dir(top).unwrap();
    let mut at = std::os::fd::OwnedFd::from(fs::File::open(top).unwrap());
    for _ in 0..levels {
        mkdirat(&at, name, Mode::from(0o755)).unwrap();
        at = openat(&at, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
}

#[test]
fn three_thousand_levels_cost_little_memory_on_every_way() {
    let place = Place::new(512);
    let name = "n".repeat(120);
    deep(&place.path().join("deep"), &name, 3000);
    let limit = Duration::from_secs(240);
    let run = |args: &[&str]| {
        let (code, message, mib) = place.measure(args, limit);
        let short: String = message.chars().take(300).collect();
        assert_eq!((code, short.as_str()), (0, ""), "{args:?}");
        assert!(mib < 800, "{args:?} takes {mib} MiB");
    };
    run(&["cp", "-r", "-d", ".", "deep", "tank/fs:/"]);
    run(&["ls", "-R", "-d", ".", "tank/fs:/"]);
    run(&["inventory", "-d", ".", "tank"]);
    run(&["rm", "-r", "-d", ".", "tank/fs:/deep"]);
    assert_eq!(place.names(), "");
    assert!(
        Command::new("rm").arg("-r").arg(place.path().join("deep")).status().unwrap().success()
    );
    place.judge();
}

#[test]
fn holes_are_hashed_up_to_a_limit() {
    let place = Place::new(64);
    let sparse = fs::File::create(place.path().join("sparse")).unwrap();
    sparse.write_all_at(b"data", 0).unwrap();
    sparse.set_len(200 << 30).unwrap();
    place.ok("cp -d . sparse tank/fs:/");
    place.ok("zfs create -d . -s -V 1T tank/vol");
    let args = ["inventory", "-d", ".", "-o", "m.json", "tank"];
    let (code, message, mib) = place.measure(&args, Duration::from_secs(60));
    assert_eq!(code, 1, "{message}");
    assert!(mib < 300, "{mib} MiB");
    assert!(
        message.contains("sparse: not hashed: more than 68719476736 bytes of holes"),
        "{message}"
    );
    assert!(message.contains("tank/vol: not hashed"), "{message}");
    let text = fs::read_to_string(place.path().join("m.json")).unwrap();
    let line = text.lines().find(|l| l.contains("\"sparse\"")).unwrap();
    assert!(line.contains("not_hashed") && line.contains("\"data\""), "{line}");
    assert!(!line.contains("sha256"), "{line}");
    place.fails("inventory -d . --max-hole 1M -o n.json tank", "more than 1048576 bytes");
}

#[test]
fn directories_that_lead_in_circles_or_elsewhere_are_not_entered() {
    let place = Place::new(64);
    for dir in ["a/b/c", "victim/precious"] {
        place.ok(&format!("mkdir -d . -p tank/fs:/{dir}"));
    }
    place.surgery(|fs| {
        let object = |path: &str| fs.by_path(path.as_bytes(), false).unwrap().number();
        let enter = |dir: &str, name: &str, target: &str| {
            let tx = fs.begin(Hold::write(1 << 20)).unwrap();
            let dir = fs.objset().object(object(dir)).unwrap();
            let entry = Dirent { object: object(target), kind: 4 }.encode();
            zap::insert_u64(&dir, &tx, name.as_bytes(), entry).unwrap();
        };
        enter("a/b/c", "up", "a");
        enter("a", "zelsewhere", "victim");
    });
    let limit = Duration::from_secs(20);
    let run = |args: &[&str], words: &str| {
        let (code, message, mib) = place.measure(args, limit);
        assert!(code == 1 && message.contains(words), "{args:?}: {code} {message}");
        assert!(mib < 300, "{args:?}: {mib} MiB");
    };
    run(&["rm", "-r", "-d", ".", "tank/fs:/a"], "belongs to another one; the tree is damaged");
    let names = place.run("ls -R -d . tank/fs:/victim").out;
    assert_eq!(names, "precious\n", "what is elsewhere stays");
    run(&["ls", "-R", "-d", ".", "tank/fs:/"], "second name");
    run(&["inventory", "-d", ".", "tank"], "second name");
    place.ok("rm -r -d . tank/fs:/victim/precious");
}

#[test]
fn names_that_end_in_two_dots_are_names() {
    let place = Place::new(64);
    place.write("foo..", b"file");
    place.write("sub../inner", b"inside");
    fs::create_dir(place.path().join("here")).unwrap();
    place.ok("mkdir -d . tank/fs:/n");
    place.ok("cp -d . foo.. tank/fs:/");
    place.ok("cp -r -d . sub.. tank/fs:/n");
    place.ok("cp -r -d . here/../sub../. tank/fs:/");
    assert_eq!(place.names(), "foo..\ninner\nn\nn/sub..\nn/sub../inner\n");
    place.judge();
}

#[test]
fn pipes_and_sockets_that_were_copied_are_no_other_files() {
    let place = Place::new(64);
    let pipe = place.path().join("tree/pipe");
    fs::create_dir(place.path().join("tree")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let make = || {
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    make();
    let _listener =
        std::os::unix::net::UnixListener::bind(place.path().join("tree/socket")).unwrap();
    place.ok("cp -r -d . tree tank/fs:/");
    place.ok("cp -r -d . tree tank/fs:/");
    // Another one of the same kind is another file.
    fs::remove_file(&pipe).unwrap();
    make();
    place.fails("cp -r -d . tree tank/fs:/", "exists and is different");
    place.ok("cp -r -f -d . tree tank/fs:/");
    assert_eq!(place.names(), "tree\ntree/pipe\ntree/socket\n");
    place.judge();
}

#[test]
fn what_copies_cannot_do_is_refused() {
    let place = Place::new(64);
    place.write("a", b"text");
    for (command, words) in [
        ("cp -r -d . tank/fs: other/fs:", "from pool to pool are not possible yet"),
        ("cp -d . --allow-missing a tank/fs:/", "opened for reading only"),
        ("cp -d . --txg 5 a tank/fs:/", "--txg is for copies out of a pool"),
        ("cp -d . --checkpoint a tank/fs:/", "--checkpoint is for copies out of a pool"),
        ("cp -d . --replay a tank/fs:/", "--replay is for copies out of a pool"),
        ("cp -r -d . --txgs tank/fs: out", "--txgs is for copies into a pool"),
    ] {
        let run = place.run(command);
        assert!(run.code == 2 && run.err.contains(words), "{command}: {} {}", run.code, run.err);
    }
    assert_eq!(place.names(), "");
    assert!(!place.path().join("other").exists() && !place.path().join("out").exists());
}

/// Files that the system makes up as they are read say that they have no bytes, or too many.
#[test]
fn files_that_are_not_as_long_as_they_say_are_refused() {
    let place = Place::new(64);
    for lying in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        if fs::read(lying).is_ok_and(|content| !content.is_empty()) {
            place.fails(&format!("cp -d . {lying} tank/fs:/"), "than announced");
        }
    }
    assert_eq!(place.names(), "");
}

/// A pax header before a member.
fn pax(archive: &mut Vec<u8>, key: &str, value: &[u8]) {
    let mut text = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let mut length = text.len() + 1;
    while length != text.len() + length.to_string().len() {
        length = text.len() + length.to_string().len();
    }
    text.splice(0..0, length.to_string().into_bytes());
    member(archive, &header(tar::EntryType::XHeader, b"pax", text.len() as u64), &text);
}

#[test]
fn owners_that_no_system_has_are_refused_and_named() {
    let place = Place::new(64);
    for (key, id) in [("uid", u64::from(u32::MAX)), ("gid", 1 << 32), ("uid", u64::MAX)] {
        let mut archive = Vec::new();
        pax(&mut archive, key, id.to_string().as_bytes());
        file(&mut archive, "odd", b"content");
        file(&mut archive, "usual", b"content");
        end(&mut archive);
        place.write("odd.tar", &archive);
        place.fails("cp -d . --tar odd.tar tank/fs:/", "odd");
        assert_eq!(place.names(), "usual\n", "{key} {id}");
        place.ok("rm -d . tank/fs:/usual");
    }
    place.judge();
}

#[test]
fn members_that_stand_for_nothing_are_told() {
    let place = Place::new(64);
    let mut archive = Vec::new();
    file(&mut archive, ".", b"content");
    let mut link = header(tar::EntryType::Symlink, b"link", 0);
    link.set_link_name("x").unwrap();
    link.set_cksum();
    pax(&mut archive, "linkpath", b"a\0b");
    member(&mut archive, &link, b"");
    // The header's own name and link count where a record has no value.
    pax(&mut archive, "path", b"");
    file(&mut archive, "named", b"content");
    pax(&mut archive, "linkpath", b"");
    member(&mut archive, &link, b"");
    end(&mut archive);
    place.write("odd.tar", &archive);
    let message = place.fails("cp -d . --tar odd.tar tank/fs:/", "archive's root");
    assert!(message.contains("NUL"), "{message}");
    assert_eq!(place.names(), "link\nnamed\n");
    let mut archive = Vec::new();
    pax(&mut archive, "mtime", b"99999999999999999999999.5");
    file(&mut archive, "when", b"content");
    end(&mut archive);
    place.write("odd.tar", &archive);
    place.fails("cp -d . --tar odd.tar tank/fs:/", "number");
}

#[test]
fn what_changes_while_it_is_copied_takes_no_place() {
    let place = Place::new(256);
    place.write("f", b"the good old one");
    place.ok("cp -d . f tank/fs:/");
    // The same length all the time, and another content.
    let source = place.path().join("f");
    let bytes = vec![b'x'; 48 << 20];
    fs::write(&source, &bytes).unwrap();
    let file = fs::File::options().write(true).open(&source).unwrap();
    let mut child = place.start(&["cp", "-f", "-d", ".", "f", "tank/fs:/"], Stdio::null());
    let code = loop {
        file.write_all_at(b"y", 0).unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
    };
    assert_eq!(code, Some(1));
    assert_eq!(place.ok("cat -d . tank/fs:/f"), "the good old one");
    // Without an old one there is nothing to lose.
    place.ok("cp -f -d . f tank/fs:/");
    place.judge();
}

#[testkit::needs("bounded times")]
#[test]
fn a_time_that_the_target_cannot_keep_is_told() {
    let place = Place::new(64);
    let mut archive = Vec::new();
    for name in ["one", "two"] {
        pax(&mut archive, "mtime", b"-8589934592");
        file(&mut archive, name, b"content");
    }
    end(&mut archive);
    place.write("old.tar", &archive);
    place.ok("cp -d . --tar old.tar tank/fs:/");
    fs::create_dir(place.path().join("out")).unwrap();
    let message = place.run("cp -r -d . tank/fs:/ out").err;
    assert!(
        message.contains("times not kept: the file system here has no such times"),
        "{message}"
    );
    assert!(message.contains("2 attributes not kept; -v names them"), "{message}");
}

/// The size and the time of a file say little when it was changed on purpose, or is damaged.
#[test]
fn what_looks_the_same_is_copied_again_by_force() {
    let place = Place::new(64);
    let put = |content: &str, mode: u32| {
        let path = place.path().join("f");
        place.write("f", content.as_bytes());
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
    };
    let mode = || place.ok("stat -d . tank/fs:/f");
    put("old", 0o644);
    place.ok("cp -d . f tank/fs:/");
    let first = mode();
    put("new", 0o600);
    place.ok("cp -d . f tank/fs:/");
    assert_eq!((place.ok("cat -d . tank/fs:/f").as_str(), mode()), ("old", first.clone()));
    place.ok("cp -f -d . f tank/fs:/");
    assert_eq!(place.ok("cat -d . tank/fs:/f"), "new");
    assert_ne!(mode(), first);
    // And outwards.
    put("odd", 0o644);
    place.ok("cp -d . tank/fs:/f f");
    assert_eq!(fs::read(place.path().join("f")).unwrap(), b"odd");
    place.ok("cp -f -d . tank/fs:/f f");
    assert_eq!(fs::read(place.path().join("f")).unwrap(), b"new");
    place.judge();
}
