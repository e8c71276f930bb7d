//! Copying out of a pool: nothing is lost in silence, nothing but the target changes, and what
//! stands in the way stays.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod made;

use engine::inside::zpl::NewKind;
use made::{DIR, FIFO, FILE, Fill, LINK, Made, NOW, full};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Every name that a temporary file ever had stands for a file like all others.
#[test]
fn names_of_temporary_files_are_ordinary_names() {
    let names = || (0..60).map(|n| format!(".zinc-{n}.part")).chain(["a.part".to_owned()]);
    let made = Made::new(|fill| {
        for name in names() {
            fill.file(fill.root(), &name, name.as_bytes());
        }
    });
    made.expect(0, "cp -r p/fs: out");
    made.expect(0, "rescue p/fs saved");
    for folder in ["out", "saved/p%fs"] {
        let folder = made.path(folder);
        for name in names() {
            assert_eq!(fs::read(folder.join(&name)).unwrap(), name.as_bytes());
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), 61);
    }
}

/// Another file stands where the first name of a file would be: the second name is not a link to
/// it.
#[test]
fn a_second_name_never_stands_for_a_foreign_file() {
    let made = Made::new(|fill| {
        let file = fill.file(fill.root(), "one", b"from the pool");
        fill.fs.link(file, fill.root(), b"two", NOW).unwrap();
        fill.fs.link(file, fill.root(), b"three", NOW).unwrap();
    });
    for foreign in ["one", "two", "three"] {
        let out = made.path(&format!("out-{foreign}"));
        fs::create_dir(&out).unwrap();
        fs::write(out.join(foreign), "foreign").unwrap();
        let message = made.expect(1, &format!("cp -r p/fs: out-{foreign}"));
        assert!(message.contains(&format!("{foreign} (object")), "{message}");
        let mut inodes = Vec::new();
        for name in ["one", "two", "three"] {
            let path = out.join(name);
            if name == foreign {
                assert_eq!(fs::read(path).unwrap(), b"foreign");
            } else {
                assert_eq!(fs::read(&path).unwrap(), b"from the pool");
                inodes.push(fs::metadata(path).unwrap().ino());
            }
        }
        assert_eq!(inodes[0], inodes[1], "one file with two names");
    }
}

/// A tree beside the target, and a directory that has the same name for a pipe and for a link
/// that leads there.
fn escaping(fill: &Fill<'_>, outside: &Path) {
    let hostile = fill.dir(fill.root(), "hostile", 0o755);
    let aside = fill.dir(fill.root(), "aside", 0o755);
    let target = outside.join("victim").into_os_string().into_encoded_bytes();
    let link = fill.node(aside, "link", NewKind::Symlink(target), 0o777);
    let folder = outside.as_os_str().as_encoded_bytes().to_vec();
    let away = fill.node(aside, "away", NewKind::Symlink(folder), 0o777);
    let pipe = fill.node(aside, "pipe", NewKind::Fifo, 0o6777);
    let file = fill.node(aside, "file", NewKind::File, 0o6777);
    let inner = fill.dir(aside, "inner", 0o777);
    fill.file(inner, "planted", b"planted");
    fill.table(
        hostile,
        &[
            (b"x", link, LINK),
            (b"x", pipe, FIFO),
            (b"y", pipe, FIFO),
            (b"y", link, LINK),
            (b"z", file, FILE),
            (b"z", link, LINK),
            (b"d", away, LINK),
            (b"d", inner, DIR),
            (b"e", away, DIR),
        ],
    );
}

#[test]
fn a_name_that_is_there_twice_leads_nowhere() {
    let beside = tempfile::tempdir().unwrap();
    fs::write(beside.path().join("victim"), "mine").unwrap();
    fs::set_permissions(beside.path().join("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    let made = Made::new(|fill| escaping(fill, beside.path()));
    let before = full(beside.path());
    for command in ["cp -r p/fs: out", "cp -r p/fs: out", "cp -rf p/fs: out", "rescue p saved"] {
        let message = made.expect(1, command);
        assert!(!command.starts_with("cp") || message.contains("has this name twice"), "{message}");
        assert_eq!(full(beside.path()), before, "{command}");
    }
    let refused = made.logged("saved", "failed");
    let twice = |l: &&serde_json::Value| l["cause"].as_str().unwrap().contains("twice");
    assert_eq!(refused.iter().filter(twice).count(), 4, "{refused:?}");
}

/// Directories are closed until they are whole, also when the copy is killed and goes on later.
#[test]
fn a_private_directory_is_closed_while_it_is_copied() {
    let bytes = vec![7; 1 << 20];
    let made = Made::new(|fill| {
        let private = fill.dir(fill.root(), "private", 0o750);
        let inner = fill.dir(private, "inner", 0o755);
        for n in 0..40 {
            fill.file(inner, &format!("f{n}"), &bytes);
        }
    });
    let out = made.path("out");
    // What is there from before is no more open than what the pool has.
    fs::create_dir_all(out.join("private")).unwrap();
    fs::set_permissions(out.join("private"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut copy = made.command("cp -r p/fs: out").spawn().unwrap();
    let first = out.join("private/inner");
    while !first.exists() && copy.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    copy.kill().unwrap();
    let ended = copy.wait().unwrap();
    if !ended.success() {
        assert_eq!(mode_of(&out.join("private")), 0o700);
        assert_eq!(mode_of(&first), 0o700);
    }
    for entry in fs::read_dir(&out).unwrap().chain(fs::read_dir(&first).unwrap()) {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "private" || name.starts_with('f'), "{name} was left");
    }
    made.expect(0, "cp -r p/fs: out");
    assert_eq!(mode_of(&out.join("private")), 0o750);
    assert_eq!(mode_of(&first), 0o755);
    let modified = fs::metadata(&first).unwrap();
    assert_eq!((modified.mtime(), modified.mtime_nsec()), (NOW.seconds, 5));
}

#[test]
fn links_pipes_and_devices_are_replaced_only_by_force() {
    let made = Made::new(|fill| {
        for name in ["a", "b", "c"] {
            fill.file(fill.root(), name, b"new");
        }
        fill.node(fill.root(), "l", NewKind::Symlink(b"there".to_vec()), 0o777);
        fill.node(fill.root(), "p", NewKind::Fifo, 0o640);
    });
    let lay_out = |out: &Path| {
        fs::create_dir(out).unwrap();
        fs::write(out.join("elsewhere"), "mine").unwrap();
        symlink("elsewhere", out.join("a")).unwrap();
        fifo(&out.join("b"));
        fs::write(out.join("c"), "mine").unwrap();
        symlink("elsewhere", out.join("l")).unwrap();
        fs::write(out.join("p"), "mine").unwrap();
    };
    lay_out(&made.path("out"));
    let before = full(&made.path("out"));
    made.expect(1, "cp -r p/fs: out");
    let differ: Vec<_> =
        full(&made.path("out")).into_iter().filter(|l| !before.contains(l)).collect();
    assert_eq!(differ.len(), 1, "only the directory itself: {differ:?}");
    made.expect(0, "cp -rf p/fs: out");
    // A rescue renews files, and nothing else.
    fs::create_dir(made.path("saved")).unwrap();
    lay_out(&made.path("saved/p%fs"));
    made.expect(1, "rescue p/fs saved");
    let saved = made.path("saved/p%fs");
    assert!(fs::symlink_metadata(saved.join("a")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(saved.join("b")).unwrap().file_type().is_fifo());
    assert_eq!(fs::read(saved.join("c")).unwrap(), b"new");
    made.expect(0, "rescue -f p/fs saved");
    for folder in ["out", "saved/p%fs"] {
        let folder = made.path(folder);
        for name in ["a", "b", "c"] {
            assert_eq!(fs::read(folder.join(name)).unwrap(), b"new");
        }
        assert_eq!(fs::read_link(folder.join("l")).unwrap(), Path::new("there"));
        assert!(fs::symlink_metadata(folder.join("p")).unwrap().file_type().is_fifo());
        assert_eq!(mode_of(&folder.join("p")), 0o640);
        assert_eq!(fs::read(folder.join("elsewhere")).unwrap(), b"mine");
    }
    // Once more: links and pipes that are the same are no trouble.
    made.expect(0, "cp -r p/fs: out");
    // One that the user named stays even so.
    for extra in ["-f", "-v"] {
        fs::remove_file(made.path("named")).ok();
        symlink("out/elsewhere", made.path("named")).unwrap();
        assert!(made.expect(1, &format!("cp {extra} p/fs:a named")).contains("a symbolic link"));
        assert!(made.expect(1, &format!("cp {extra} p/fs:a /dev/null")).contains("a device"));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}

/// File capabilities: version 2, `cap_setuid` permitted and effective.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn attribute(path: &Path, name: &str) -> bool {
    let mut value = [0; 256];
    rustix::fs::lgetxattr(path, name, &mut value[..]).is_ok()
}

#[testkit::needs("root")]
#[test]
fn rights_go_with_owners() {
    let made = Made::new(|fill| {
        let file = fill.node(fill.root(), "tool", NewKind::File, 0o6755);
        fill.xattr(file, "security.capability", &CAPABILITY);
        fill.xattr(file, "trusted.overlay", b"y");
        fill.xattr(file, "user.note", b"kept");
        fill.node(fill.root(), "disk", NewKind::Char(1, 3), 0o666);
        fill.dir(fill.root(), "shared", 0o2775);
    });
    for (verb, from) in
        [("cp -r --no-owner p/fs: out", "out"), ("rescue --no-owner p/fs saved", "saved/p%fs")]
    {
        made.expect(0, verb);
        let tool = made.path(from).join("tool");
        assert_eq!(mode_of(&tool), 0o755, "{verb}");
        assert!(!attribute(&tool, "security.capability") && !attribute(&tool, "trusted.overlay"));
        assert_eq!(mode_of(&made.path(from).join("shared")), 0o775);
        assert_eq!(mode_of(&made.path(from).join("disk")), 0o600);
    }
    made.expect(0, "cp -r p/fs: all");
    assert_eq!(mode_of(&made.path("all/tool")), 0o6755);
    assert!(attribute(&made.path("all/tool"), "security.capability"));
    assert_eq!(mode_of(&made.path("all/disk")), 0o666);
    made.expect(0, "cp -r --no-devices p/fs: few");
    made.expect(0, "rescue --no-devices p/fs less");
    assert!(!made.path("few/disk").exists() && !made.path("less/p%fs/disk").exists());
    assert!(made.path("few/tool").exists());
}

#[test]
fn names_that_no_file_can_have_get_others_and_are_listed() {
    let long = vec![b'n'; 300];
    let made = Made::new(|fill| {
        let file = fill.file(fill.root(), "plain", b"plain");
        let names: [&[u8]; 5] = [b"a/b", b"..", b".", b"../../up", &long];
        for (n, name) in names.iter().enumerate() {
            let text = format!("file {n}");
            let object = fill.file(fill.root(), &format!("t{n}"), text.as_bytes());
            fill.name(fill.root(), name, object, FILE);
        }
        let dir = fill.dir(fill.root(), "d", 0o755);
        fill.file(dir, "inside", b"inside");
        let other = fill.dir(fill.root(), "e", 0o755);
        fill.file(other, "x", b"x");
        fill.name(dir, b"sub/dir", other, DIR);
        fill.forget(fill.root(), "e");
        // The name that another would get.
        fill.name(fill.root(), b"a%2Fb", file, FILE);
    });
    let message = made.expect(1, "cp -r p/fs: out");
    assert!(
        message.contains("a/b (object") && message.contains("zinc rescue gives it another"),
        "{message}"
    );
    let message = made.expect(0, "rescue p/fs saved");
    assert!(message.contains("nothing lost, 6 under other names"), "{message}");
    let renamed = made.logged("saved", "renamed");
    assert_eq!(renamed.len(), 6, "{renamed:?}");
    let folder = made.path("saved/p%fs");
    for line in &renamed {
        let name = line["name"].as_str().unwrap();
        let is_below = line["path"] == "d/sub/dir";
        let above = if is_below { folder.join("d") } else { folder.clone() };
        assert!(fs::symlink_metadata(above.join(name)).is_ok(), "{line}");
    }
    assert_eq!(fs::read(folder.join("%2E%2E")).unwrap(), b"file 1");
    assert_eq!(fs::read(folder.join("a%2Fb")).unwrap(), b"plain");
    assert_eq!(fs::read(folder.join("a%2Fb%")).unwrap(), b"file 0");
    // The same again: what is whole stays.
    made.expect(0, "rescue p/fs saved");
}

/// The largest the resident size of a program was, in KiB.
fn peak_of(words: &str, made: &Made) -> (i32, u64) {
    let mut child = made.command(words).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code().unwrap(), peak);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// 3,000 levels of long names: paths of 600 KB, which must not be kept for every level.
#[test]
fn deep_trees_come_out_in_bounded_memory() {
    const DEEP: usize = 3000;
    let name = "n".repeat(200);
    let made = Made::new(|fill| {
        let mut dir = fill.root();
        for n in 0..DEEP {
            dir = fill.dir(dir, &name, 0o755);
            if n % 100 == 0 {
                let file = fill.file(dir, "file", b"deep");
                fill.fs.link(file, fill.root(), format!("second{n}").as_bytes(), NOW).unwrap();
            }
        }
    });
    for words in ["cp -r", "cp -r", "rescue"] {
        let to = if words == "rescue" { "saved" } else { "out" };
        let (code, kib) = peak_of(&format!("{words} --cache-mib 32 p/fs: {to}"), &made);
        assert_eq!(code, 0, "{words}");
        assert!(kib < 160 << 10, "{words}: {kib} KiB");
    }
    let mut at =
        rustix::fs::open(made.path("out"), rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..DEEP {
        at = rustix::fs::openat(&at, &*name, rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    assert_eq!(fs::read(made.path("out/second2900")).unwrap(), b"deep");
    // Deeper than what removes a temporary folder can go.
    succeeds(Command::new("rm").arg("-rf").arg(made.path("out")).arg(made.path("saved")));
}

fn succeeds(command: &mut Command) {
    assert!(command.status().unwrap().success());
}

#[test]
fn files_of_output_replace_only_files() {
    let made = Made::new(|fill| {
        fill.file(fill.root(), "f", b"content of f");
    });
    let whole = made.run("inventory p").stdout;
    assert!(whole.len() > 1000);
    // Streams, devices and pipes are written into.
    assert_eq!(made.run("inventory -o /dev/stdout p").stdout, whole);
    made.expect(0, "inventory -o /dev/null p");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    fifo(&made.path("pipe"));
    let pipe = made.path("pipe");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        fs::File::open(pipe).unwrap().read_to_end(&mut text).unwrap();
        text
    });
    made.expect(0, "inventory -o pipe p");
    assert_eq!(reader.join().unwrap(), whole);
    assert!(fs::symlink_metadata(made.path("pipe")).unwrap().file_type().is_fifo());
    // What looks like a temporary file is left alone.
    fs::write(made.path("precious"), "precious").unwrap();
    symlink("precious", made.path("out.part")).unwrap();
    made.expect(0, "inventory -o out p");
    made.expect(0, "inventory -o out p");
    assert_eq!(fs::read(made.path("out")).unwrap(), whole);
    assert!(fs::symlink_metadata(made.path("out.part")).unwrap().is_symlink());
    assert_eq!(fs::read(made.path("precious")).unwrap(), b"precious");
    // A link stays one.
    symlink("real", made.path("link")).unwrap();
    made.expect(0, "inventory -o link p");
    assert!(fs::symlink_metadata(made.path("link")).unwrap().is_symlink());
    assert_eq!(fs::read(made.path("real")).unwrap(), whole);
    // A full device is a failure.
    for words in ["inventory -o /dev/full p", "cat p/fs:f"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = made.command(words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(!output.stderr.is_empty(), "{words}");
    }
    let entries = fs::read_dir(made.path("")).unwrap();
    let names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|n| !n.starts_with(".zinc")), "{names:?}");
}

#[test]
fn the_log_of_a_rescue_touches_nothing_of_others() {
    let made = Made::new(|fill| {
        fill.file(fill.root(), "f", b"f");
        fill.file(fill.root(), "rescue.jsonl", b"a file of the pool");
    });
    fs::write(made.path("precious"), "precious").unwrap();
    let log = made.path("saved/rescue.jsonl");
    fs::create_dir(made.path("saved")).unwrap();
    symlink("../precious", &log).unwrap();
    made.expect(1, "rescue p/fs saved");
    fs::remove_file(&log).unwrap();
    fs::hard_link(made.path("precious"), &log).unwrap();
    made.expect(1, "rescue p/fs saved");
    fs::remove_file(&log).unwrap();
    fs::write(&log, "notes of mine\n").unwrap();
    made.expect(1, "rescue p/fs saved");
    assert_eq!(fs::read(&log).unwrap(), b"notes of mine\n");
    fs::remove_file(&log).unwrap();
    fifo(&log);
    made.expect(1, "rescue p/fs saved");
    fs::remove_file(&log).unwrap();
    assert_eq!(fs::read(made.path("precious")).unwrap(), b"precious");
    // A file of that name in the pool does not replace it.
    made.expect(0, "rescue p/fs:rescue.jsonl saved");
    assert_eq!(fs::read(made.path("saved/rescue.jsonl%")).unwrap(), b"a file of the pool");
    assert_eq!(made.logged("saved", "end").len(), 1);
    assert_eq!(mode_of(&log), 0o600);
}

/// A full target: the file that did not fit has no name, and the exit code is 1. Files are copied
/// side by side: while the large one fills the target, others do not fit either.
#[testkit::needs("mount")]
#[test]
fn a_full_target_has_no_short_files() {
    let made = Made::new(|fill| {
        fill.file(fill.root(), "a-large", &vec![1; 4 << 20]);
        fill.file(fill.root(), "small", b"small");
        fill.node(fill.root(), "holes", NewKind::File, 0o644);
        let holes = fill.fs.root().unwrap().lookup(b"holes").unwrap().unwrap().object;
        fill.fs.write_at(holes, 1 << 30, b"end", NOW).unwrap();
    });
    let target = made.path("tiny");
    fs::create_dir(&target).unwrap();
    let mut mount = Command::new("mount");
    succeeds(mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&target));
    let cp = made.run("cp -r p/fs: tiny/out");
    let names = || {
        let entries = fs::read_dir(made.path("tiny/out")).unwrap();
        let mut all: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    };
    let copied = names();
    let small = fs::read(made.path("tiny/out/small"));
    let rescue = made.run("rescue p/fs tiny/saved");
    let alone = made.run("cp p/fs:/holes tiny/alone");
    let holes = fs::metadata(made.path("tiny/alone")).map(|m| (m.len(), m.blocks()));
    succeeds(Command::new("umount").arg(&target));
    assert!(copied.iter().all(|name| name == "holes" || name == "small"), "{copied:?}");
    assert!(small.is_ok_and(|small| small == b"small") || !copied.iter().any(|n| n == "small"));
    assert_eq!(alone.status.code(), Some(0));
    assert_eq!((cp.status.code(), rescue.status.code()), (Some(1), Some(1)));
    assert!(String::from_utf8_lossy(&cp.stderr).contains("No space left"));
    let (size, blocks) = holes.unwrap();
    assert!(size == (1 << 30) + 3 && blocks < 2048, "{size} bytes in {blocks} blocks");
}
