//! File systems that no honest program wrote: directories with names twice, names no file can
//! have, names for directories above, for objects that are not files, for files of another type.
//! Whatever copies, lists or checks such a tree ends in bounded time and memory, and nothing but
//! its target changes: a tree beside the target, to which all links lead, is compared by all that
//! `lstat` says and by content. As root this has teeth: root may change what it likes.
//!
//! Each round makes a pool from a seed, which a failure names after entries were left out as long
//! as it failed without them. Bounded to `ZINC_CAMPAIGN_SECONDS` (default 20); `ZINC_SEED` is the
//! seed of the first round.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod made;

use engine::inside::zpl::NewKind;
use made::{Fill, Made, full};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::Rng;

/// Longest a command may take. A debug build on a busy machine is slow.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Largest a command may become, in KiB: the cache and what is under way.
const MEMORY_MAX: u64 = 512 << 10;
/// What is run on each pool, into targets that stay from one command to the next.
const COMMANDS: [&str; 9] = [
    "cp -r p/fs: out",
    "cp -rf p/fs: out",
    "rescue p saved",
    "rescue -f p saved",
    "cp -r --no-owner --no-devices p/fs:/d0 out",
    "inventory -o list p",
    "ls -R p/fs:",
    "ls -lRa p/fs:",
    "check p",
];

/// What the hostile links want: files, a directory and a pipe.
fn lay_out(beside: &Path) {
    fs::write(beside.join("victim"), "mine").unwrap();
    fs::set_permissions(beside.join("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(beside.join("folder")).unwrap();
    fs::write(beside.join("folder/inside"), "mine, too").unwrap();
    symlink("folder", beside.join("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, beside.join("pipe"), fifo, mode, 0).unwrap();
}

/// Names that entries of directories get.
const NAMES: [&[u8]; 26] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"g",
    b"h",
    b"d0",
    b"d1",
    b"f0",
    b"l0",
    b"pipe",
    b"..",
    b".",
    b"a/b",
    b"../victim",
    b"../../etc",
    b"/",
    b"\xff\xfe",
    b"\x1b[2J",
    b"lost+found",
    b".zinc-9.part",
    b"rescue.jsonl",
    b"#9",
    b"a%2Fb",
];

/// Where a name beside the output is.
fn outside(beside: &Path, name: &str) -> Vec<u8> {
    beside.join(name).into_os_string().into_encoded_bytes()
}

/// Nodes of all kinds, each with the kind that directories note, beside these directories.
fn nodes_of_all_kinds(fill: &Fill<'_>, beside: &Path, dirs: &[u64]) -> Vec<(u64, u8)> {
    let root = fill.root();
    let mut nodes: Vec<(u64, u8)> = dirs.iter().map(|d| (*d, 4)).collect();
    nodes.push((root, 4));
    for n in 0..6 {
        let bytes = vec![b'0' + n; 1 + usize::from(n) * 50_000];
        nodes.push((fill.file(root, &format!("f{n}"), &bytes), 8));
    }
    let mut add = |name: String, kind: NewKind, dirent: u8| {
        nodes.push((fill.node(root, &name, kind, 0o6777), dirent));
    };
    for (n, name) in ["victim", "folder", "link", "pipe", "new", "."].iter().enumerate() {
        add(format!("l{n}"), NewKind::Symlink(outside(beside, name)), 10);
    }
    for (n, target) in ["..", "../..", "d0", "l1/inside", "."].iter().enumerate() {
        add(format!("m{n}"), NewKind::Symlink(target.as_bytes().to_vec()), 10);
    }
    add("pipe".to_owned(), NewKind::Fifo, 1);
    add("socket".to_owned(), NewKind::Socket, 12);
    add("null".to_owned(), NewKind::Char(1, 3), 2);
    // The master node, an object that is nothing, and one that cannot be.
    nodes.extend([(1, 8), (1, 4), (7_777, 8), (7_777, 4), ((1 << 47) + 1, 4)]);
    nodes
}

/// Entries that directories get beside those of all rounds: as many as `seed` says.
fn entries(seed: u64, run: impl Fn(&[u64])) {
    let count = Rng::new(seed).below(360) as usize;
    testkit::shrinking_seed(seed, count, run);
}

/// Fills a file system with nodes of all kinds, and then writes its directories: each step is an
/// entry of one of them.
fn fill_badly(fill: &Fill<'_>, beside: &Path, seed: u64, steps: &[u64]) {
    let root = fill.root();
    let dirs: Vec<u64> = (0..8).map(|n| fill.dir(root, &format!("d{n}"), 0o777)).collect();
    let mut nodes = nodes_of_all_kinds(fill, beside, &dirs);
    // Names longer than any file here can have, and a table of another form.
    let mut rng = Rng::new(seed);
    let wide = fill.dir(root, "wide", 0o755);
    for n in 0..8 {
        let (object, kind) = *rng.pick(&nodes);
        let long = vec![b'a' + n; 200 + 90 * usize::from(n)];
        fill.name(wide, &long, object, kind);
        fill.name(wide, &[b"../", &[b'0' + n][..]].concat(), object, kind);
    }
    nodes.push((wide, 4));
    let absolute = outside(beside, "victim");
    let mut names = NAMES.to_vec();
    names.extend(Some(&absolute[..]).filter(|name| name.len() < 50));
    let mut tables: Vec<Vec<(&[u8], u64, u8)>> = vec![Vec::new(); dirs.len() + 1];
    for step in steps {
        let mut rng = Rng::new(*step);
        // Some directories get many, others few.
        let table = rng.below(tables.len() as u64).min(rng.below(tables.len() as u64));
        let (object, kind) = *rng.pick(&nodes);
        let swapped = *rng.pick(&[0, 1, 4, 8, 10, 15]);
        let kind = if rng.below(4) == 0 { swapped } else { kind };
        tables[table as usize].push((*rng.pick(&names), object, kind));
    }
    for (dir, table) in [root].iter().chain(&dirs).zip(&mut tables) {
        // A way down, so that not every root is a dead end.
        table.push((b"down", *rng.pick(&dirs), 4));
        fill.table(*dir, table);
    }
}

/// Runs a command within the limits; why it failed them.
fn within_limits(made: &Made, words: &str) -> Result<(), String> {
    let mut command = made.command(words);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let errors = fs::File::create(made.path("errors")).unwrap();
    let mut child = command.stderr(errors).spawn().unwrap();
    let (start, status) = (Instant::now(), format!("/proc/{}/status", child.id()));
    let message = || fs::read_to_string(made.path("errors")).unwrap_or_default();
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
        let is_large = kib.is_some_and(|kib| kib > MEMORY_MAX);
        if let Some(ended) = child.try_wait().unwrap() {
            let is_good = matches!(ended.code(), Some(0..=3));
            return if is_good { Ok(()) } else { Err(format!("{ended}: {}", message())) };
        }
        if is_large || start.elapsed() > TIME_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("{:?}, {kib:?} KiB", start.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn round(seed: u64, steps: &[u64]) {
    let beside = tempfile::Builder::new().prefix("b").rand_bytes(4).tempdir().unwrap();
    lay_out(beside.path());
    let made = Made::new(|fill| fill_badly(fill, beside.path(), seed, steps));
    let before = full(beside.path());
    let pool = full(&made.path("pool"));
    for words in COMMANDS {
        let ended = within_limits(&made, words);
        assert_eq!(ended, Ok(()), "seed {seed}: {words}");
        assert_eq!(full(beside.path()), before, "seed {seed}: {words} left its target");
        let same = full(&made.path("pool")) == pool;
        assert!(same, "seed {seed}: {words} changed the pool");
    }
    let entries = fs::read_dir(made.path("")).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    // Where the commands keep what they know of pools.
    names.retain(|name| name != "run");
    names.sort();
    assert_eq!(names, ["errors", "list", "out", "pool", "saved"], "seed {seed}");
}

#[test]
fn hostile_trees_stay_in_their_target() {
    // With root's rights it means more: others may not change what is beside, whatever they are
    // told.
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse().ok());
    let budget = Duration::from_secs(number("ZINC_CAMPAIGN_SECONDS").unwrap_or(20));
    let start = Instant::now();
    let first = number("ZINC_SEED").unwrap_or(1);
    let mut rounds = 0;
    for seed in first.. {
        if rounds > 0 && start.elapsed() > budget {
            break;
        }
        entries(seed, |steps| round(seed, steps));
        rounds += 1;
    }
    println!("{rounds} hostile trees from seed {first}");
}

/// Directories that name one another, names that stand twice, files that no directory names: the
/// list of what changed ends.
#[test]
fn differences_of_hostile_trees_end() {
    for seed in 1..4 {
        entries(seed, |steps| differences_end(seed, steps));
    }
}

fn differences_end(seed: u64, steps: &[u64]) {
    let beside = tempfile::Builder::new().prefix("b").rand_bytes(4).tempdir().unwrap();
    lay_out(beside.path());
    let made = Made::new(|fill| {
        let dirs: Vec<u64> =
            (0..50).map(|n| fill.dir(fill.root(), &format!("x{n}"), 0o755)).collect();
        fill.pool.snapshot(&["p/fs@a".to_owned()], Vec::new()).unwrap();
        for (n, dir) in dirs.iter().enumerate() {
            fill.file(*dir, "f", b"text");
            let next = dirs[(n + 1) % dirs.len()];
            fill.table(*dir, &[(b"next", next, 4), (b"next", next, 4), (b"back", *dir, 4)]);
        }
        fill.pool.snapshot(&["p/fs@b".to_owned()], Vec::new()).unwrap();
        fill_badly(fill, beside.path(), seed, steps);
    });
    for words in ["zfs diff p/fs@a p/fs@b", "zfs diff -FHt p/fs@b p/fs", "zfs diff p/fs@a p/fs"] {
        assert_eq!(within_limits(&made, words), Ok(()), "seed {seed}: {words}");
    }
}

/// What programs see of such a tree through a mount is up to them, and how long they walk too. The
/// server lives, in bounded memory, and nothing beside is changed.
#[testkit::needs("fuse")]
#[test]
fn hostile_trees_are_walked_through_a_mount() {
    for seed in 1..4 {
        entries(seed, |steps| walked_through_a_mount(seed, steps));
    }
}

fn walked_through_a_mount(seed: u64, steps: &[u64]) {
    let beside = tempfile::Builder::new().prefix("b").rand_bytes(4).tempdir().unwrap();
    lay_out(beside.path());
    let made = Made::new(|fill| fill_badly(fill, beside.path(), seed, steps));
    fs::create_dir(made.path("mnt")).unwrap();
    let before = full(beside.path());
    let command = |words: &str| {
        let mut command = made.command(words);
        command.env("ZINC_SOCKETS", made.path("run/sockets")).output().unwrap()
    };
    let mounted = command("mount p/fs mnt");
    let line = String::from_utf8_lossy(&mounted.stdout).into_owned();
    let message = String::from_utf8_lossy(&mounted.stderr).into_owned();
    assert!(mounted.status.success(), "seed {seed}: {message}");
    let server = line.trim().rsplit(' ').next().unwrap();
    let walk = "timeout -k 1 5 ls -lR mnt; timeout -k 1 5 find mnt -ls; \
                timeout -k 1 5 find mnt -type f -exec cat {} +; true";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", walk]).current_dir(made.path("")).stdin(Stdio::null());
    shell.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(shell.status().unwrap().success());
    let status = fs::read_to_string(format!("/proc/{server}/status"));
    let status = status.unwrap_or_else(|e| panic!("seed {seed}: the server is gone: {e}"));
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < MEMORY_MAX, "seed {seed}: {kib} KiB");
    let mut unmount = std::process::Command::new(env!("CARGO_BIN_EXE_zinc"));
    unmount.args(["unmount", "mnt"]).current_dir(made.path(""));
    unmount.env("ZINC_STATE", made.path("run/state"));
    let gone = unmount.env("ZINC_SOCKETS", made.path("run/sockets")).output().unwrap();
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    assert_eq!(full(beside.path()), before, "seed {seed}: something beside was changed");
}
