//! What is lost or killed takes nothing else along.

use super::{Place, kill, support};
use engine::inside::ondisk::BlkPtr;
use engine::inside::pool::UnguardedDatasets as _;
use engine::{OpenOptions, Pool};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Dnodes that one block has.
const DNODES: u64 = 32;

/// Overwrites all copies of the block that has the dnode of a file.
fn lose_dnode(disk: &Path, object: u64) {
    let pool = Pool::open("tank", &OpenOptions::in_places([disk])).unwrap();
    let dataset = pool.dsl().by_name("tank").unwrap();
    let dnodes = pool.dsl().objset(&dataset).unwrap().meta_object().unwrap();
    let block: BlkPtr = dnodes.block_pointer(0, object / DNODES).unwrap().unwrap();
    drop(pool);
    let disk = std::fs::File::options().write(true).open(disk).unwrap();
    for (_, dva) in block.dvas() {
        let lost = vec![0x5a; usize::try_from(dva.asize()).unwrap()];
        // Behind the labels and the boot area.
        disk.write_all_at(&lost, dva.offset() + (4 << 20)).unwrap();
    }
}

/// A directory is listed with all its names when files in it cannot be read, and the others can.
#[testkit::needs("fuse")]
#[test]
fn a_lost_file_hides_no_other() {
    let place = Place::new();
    place.mount("tank");
    place.sh("mkdir d; for n in $(seq 200); do echo $n > d/f$n; done");
    let numbers = place.sh("stat -c %i d d/f100");
    let numbers: Vec<u64> = numbers.lines().map(|n| n.parse().unwrap()).collect();
    assert_ne!(numbers[0] / DNODES, numbers[1] / DNODES);
    place.unmount();
    place.zinc(&["zpool", "export", "tank"]);
    lose_dnode(&place.path("disk"), numbers[1]);
    place.zinc(&["zpool", "import", "-d", ".", "-N", "tank"]).ok();
    place.mount("tank");
    assert_eq!(place.sh("ls d | wc -l"), "200\n");
    // With the attributes of all: an error for each that has none, and the others.
    let shown = place.sh("ls -l d 2> ../lost | grep -c '^-r' || true; grep -c f100 ../lost");
    let lost = place.sh("grep -c 'Input/output error' ../lost").trim().parse::<usize>().unwrap();
    assert!((1..=DNODES as usize).contains(&lost), "{lost}");
    assert_eq!(shown, format!("{}\n1\n", 200 - lost));
    place.sh("! cat d/f100 2> /dev/null; test \"$(cat d/f1)\" = 1");
    place.unmount();
}

/// A damaged file is named by where it is seen; a mount of another pool of that name is no such
/// place.
#[testkit::needs("fuse")]
#[test]
fn a_damaged_file_is_named_by_the_mount_of_its_own_pool() {
    let other = Place::new();
    other.mount("tank");
    let place = Place::new();
    place.mount("tank");
    place.sh("head -c 131072 /dev/urandom > lost; cp lost ..");
    place.unmount();
    place.zinc(&["zpool", "export", "tank"]);
    let (content, disk) = (std::fs::read(place.path("lost")).unwrap(), place.path("disk"));
    let bytes = std::fs::read(&disk).unwrap();
    let at = bytes.chunks_exact(512).position(|sector| sector == &content[..512]).unwrap();
    let disk = std::fs::File::options().write(true).open(disk).unwrap();
    disk.write_all_at(&[0x5a; 512], at as u64 * 512).unwrap();
    place.zinc(&["zpool", "import", "-d", ".", "-N", "tank"]).ok();
    place.zinc(&["zpool", "scrub", "-w", "tank"]).ok();
    let named = || {
        let status = place.zinc(&["zpool", "status", "-v", "tank"]).out;
        status.lines().last().unwrap_or_default().trim().to_owned()
    };
    assert_eq!(named(), "tank:/lost");
    place.mount("tank");
    let seen = place.mnt().canonicalize().unwrap().join("lost");
    assert_eq!(Path::new(&named()), seen);
    place.unmount();
}

/// Whether a process stands in a call that opens a file of its directory and makes it: the first
/// and the third of the arguments, which are behind the number of the call, say so. What it is
/// loaded from is only opened, and an address is larger than flags.
fn is_making_a_file(pid: u32) -> bool {
    const AT_FDCWD: u32 = -100_i32 as u32;
    const O_CREAT: u64 = 0o100;
    const FLAGS: u64 = 1 << 24;
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let words = call.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
    let words: Vec<_> = words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
    let is_here = |at: u64| at as u32 == AT_FDCWD;
    matches!(words[..], [at, _, flags, ..] if is_here(at) && flags & O_CREAT != 0 && flags < FLAGS)
}

/// A program that is killed while a file is made for it has it not open for ever.
#[testkit::needs("fuse")]
#[test]
fn what_a_killed_program_was_making_is_not_held() {
    let (place, small) = Place::that_fills_up();
    place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_dirty_data_max=32M"]).ok();
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).current_dir(place.mnt()).stderr(Stdio::null()).spawn().unwrap()
    };
    let from = "if=/dev/urandom";
    let writer = |n: usize| run("dd", &[from, &format!("of=f{n}"), "bs=1M", "count=20"]);
    let writers: Vec<_> = (0..8).map(writer).collect();
    place.await_suspension();
    let mut maker = run("touch", &["made"]);
    // It asks for the file, and waits: what a thread has taken up is carried out.
    support::place::until("it asks for the file", || is_making_a_file(maker.id()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(maker.try_wait().unwrap().is_none());
    kill(maker.id() as i32, "-KILL");
    assert!(!maker.wait().unwrap().success());
    small.mount("remount,size=1g");
    place.zinc(&["zpool", "clear", "tank"]).ok();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    support::place::until("the file is made", || place.mnt().join("made").exists());
    place.sh("rm made");
    let there = place.sh("find . | wc -l");
    let counted = || {
        place.zinc(&["zpool", "sync", "tank"]).ok();
        place.zinc(&["zfs", "get", "-Hpo", "value", "userobjused@0", "tank"]).ok()
    };
    support::place::until("the file is gone", || counted() == there);
    place.unmount();
    place.zinc(&["zpool", "export", "tank"]);
    drop(small);
}

/// What changes datasets in a suspended pool is refused at once, and takes no mount away; it used
/// to wait for the devices to end the intent log, with no way to stop it.
#[testkit::needs("fuse")]
#[test]
fn datasets_of_a_suspended_pool_are_neither_rolled_back_nor_destroyed() {
    let (place, small) = Place::that_fills_up();
    place.zinc(&["zfs", "create", "tank/fs"]).ok();
    place.zinc(&["zfs", "snapshot", "tank/fs@s"]).ok();
    place.mount("tank/fs");
    // An intent log is begun by what waits for it.
    place.sh("for n in 1 2 3; do dd if=/dev/urandom of=a$n bs=64k count=1 conv=fsync; done 2>&1");
    let writer = |n: usize| {
        let script = format!("dd if=/dev/urandom of=f{n} bs=1M count=40 conv=fsync");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(place.mnt()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let writers: Vec<_> = (0..4).map(writer).collect();
    place.await_suspension();
    let lines = [
        ("zfs rollback -f tank/fs@s", "cannot rollback to 'tank/fs@s': pool 'tank' is suspended: "),
        ("zfs rollback tank/fs@s", "cannot rollback to 'tank/fs@s': pool 'tank' is suspended: "),
        ("zfs destroy -rf tank/fs", "cannot destroy 'tank/fs': pool 'tank' is suspended: "),
        ("zfs rename -f tank/fs tank/b", "cannot rename 'tank/fs': pool 'tank' is suspended: "),
    ];
    for (line, message) in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let output = place.path("output");
        let file = std::fs::File::create(&output).unwrap();
        let mut command = place.command(&words);
        let mut command = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        let mut code = None;
        support::place::until(line, || {
            code = command.try_wait().unwrap();
            code.is_some()
        });
        let text = std::fs::read_to_string(&output).unwrap();
        assert!(!code.unwrap().success() && text.contains(message), "{line}: {text}");
        assert_eq!(place.sh("ls a1"), "a1\n", "{line}");
    }
    small.mount("remount,size=1g");
    place.zinc(&["zpool", "clear", "tank"]).ok();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    place.unmount();
    place.zinc(&["zfs", "rollback", "tank/fs@s"]).ok();
    place.zinc(&["zpool", "export", "tank"]).ok();
    drop(small);
}
