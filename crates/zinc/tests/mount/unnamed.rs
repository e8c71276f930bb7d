//! Files without a name, and when files were made.

use super::{Place, kill};
use std::process::Command;

/// A script of Python's in the mount; what it prints.
fn python(place: &Place, script: &str) -> String {
    // Python's `os.link` does not follow the link of the descriptor.
    let begin = "import ctypes, os\n\
                 C = ctypes.CDLL(None, use_errno=True)\n\
                 at = lambda flags: os.open('.', os.O_TMPFILE | os.O_RDWR | flags, 0o640)\n\
                 def name(fd, to):\n \
                   if C.linkat(-100, f'/proc/self/fd/{fd}'.encode(), -100, to.encode(), 0x400):\n  \
                     raise OSError(ctypes.get_errno(), 'linkat')\n";
    let mut python = Command::new("python3");
    let output = python.args(["-c", &format!("{begin}{script}")]).current_dir(place.mnt());
    let output = output.output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A program makes a whole file before it has a name (`O_TMPFILE`).
#[testkit::needs("fuse")]
#[test]
fn a_file_gets_its_name_when_it_is_whole() {
    let place = Place::new();
    let pid = place.mount("tank");
    let script = "fd = at(0)\n\
                  os.write(fd, b'x' * 300000)\n\
                  print(os.listdir('.'), os.fstat(fd).st_nlink, os.pread(fd, 3, 299997))\n\
                  name(fd, 'whole')\n\
                  os.link('whole', 'again')\n\
                  s = os.fstat(fd); print(s.st_nlink, os.stat('whole').st_size, oct(s.st_mode))";
    let printed = python(&place, script);
    assert_eq!(printed, "[] 0 b'xxx'\n2 300000 0o100640\n");
    // One that is not to get a name gets none, and none takes another's.
    let script = "fd = at(os.O_EXCL)\n\
                  try: name(fd, 'new')\n\
                  except FileNotFoundError: print('refused')\n\
                  try: name(at(0), 'whole')\n\
                  except FileExistsError: print('is there')";
    assert_eq!(python(&place, script), "refused\nis there\n");
    // Those that have no name when their process or the server ends are gone, and cost nothing.
    let synced = "fd = at(0)\nos.write(fd, b'y' * 5000000)\nos.fsync(fd)\n\
                  name(fd, 'synced')\nos.fsync(fd)";
    python(&place, synced);
    let holds = "fd = at(0)\nos.write(fd, b'z' * 5000000)\nos.fsync(fd)\nos.kill(PID, 9)";
    python(&place, &holds.replace("PID", &pid.to_string()));
    super::wait_for_end(pid);
    let pid = place.mount("tank");
    assert_eq!(place.sh("ls; tail -c 2 synced; cmp whole again"), "again\nsynced\nwhole\nyy");
    kill(pid, "-TERM");
    super::wait_for_end(pid);
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

/// The kernel opens fifos and devices by itself, and lets programs stay in directories: what loses
/// its last name meanwhile is there for them, and gone when they are.
#[testkit::needs("fuse")]
#[test]
fn what_is_used_without_being_opened_outlives_its_name() {
    let place = Place::new();
    place.mount("tank");
    let script = "device = lambda: os.mknod('p', 0o20666, os.makedev(1, 3))\n\
                  fds = []\n\
                  def use(make):\n  \
                    make()\n  \
                    fds.append(os.open('p', os.O_RDWR))\n\
                  use(lambda: os.mkfifo('p')); os.link('p', 'q'); os.unlink('p')\n\
                  use(device); os.unlink('p')\n\
                  use(lambda: os.mkfifo('p')); os.rename('q', 'p'); os.unlink('p')\n\
                  print([os.fstat(fd).st_nlink for fd in fds])\n\
                  os.mkdir('d'); os.chdir('d'); os.rmdir('../d')\n\
                  print(os.listdir('.'), os.stat('.').st_nlink)";
    assert_eq!(python(&place, script), "[0, 0, 0]\n[] 0\n");
    let there = place.sh("find . | wc -l");
    let counted = || {
        place.zinc(&["zpool", "sync", "tank"]).ok();
        place.zinc(&["zfs", "get", "-Hpo", "value", "userobjused@0", "tank"]).ok()
    };
    super::support::place::until("they are gone", || counted() == there);
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

/// Of lists of rights and groups a directory hands down the same to files without a name.
#[testkit::needs("fuse")]
#[test]
fn a_file_without_a_name_gets_what_its_directory_hands_down() {
    let place = Place::new();
    place.zinc(&["zfs", "set", "acltype=posix", "tank"]).ok();
    place.mount("tank");
    place.sh("mkdir d; chgrp 123 d; chmod g+s d; setfacl -d -m u:77:rw,o::- d");
    python(&place, "os.chdir('d'); os.umask(0o077)\nname(at(0), 'unnamed'); open('named', 'w')");
    let lists = place.sh("cd d; getfacl -cn unnamed named 2> /dev/null");
    let (first, second) = lists.trim_end().split_once("\n\n").unwrap();
    assert!(first.contains("user:77:rw-"), "{lists}");
    // Their modes differ, 640 and 666, and with them the mask.
    assert!(second.contains("user:77:rw-"), "{lists}");
    assert_eq!(place.sh("stat -c %g d/unnamed d/named"), "123\n123\n");
}

/// `stat` shows when a file was made, also in snapshots.
#[testkit::needs("fuse")]
#[test]
fn the_time_at_which_a_file_was_made_is_shown() {
    let place = Place::new();
    place.mount("tank");
    let began = place.sh("date +%s; sleep 1.1").trim().parse::<u64>().unwrap();
    let script = "echo x > f; mkdir d; touch -d 2001-02-03 f; sleep 1.1; echo y >> f; chmod 600 f; \
                  stat -c '%W %Y %s' f d";
    let shown = place.sh(script);
    let numbers: Vec<u64> = shown.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let (made, changed, size) = (numbers[0], numbers[1], numbers[2]);
    assert!(made > began && changed > made && size == 4, "{began}: {shown}");
    place.zinc(&["zfs", "snapshot", "tank@s"]).ok();
    let script = "stat -c %W .zfs/snapshot/s/f; stat -c '%W %s' f; mv f g; stat -c %W g";
    assert_eq!(place.sh(script), format!("{made}\n{made} 4\n{made}\n"));
    // Listings need no such request, and the other times are as before.
    assert_eq!(place.sh("ls -l --time-style=+%s g | cut -d ' ' -f 6"), format!("{changed}\n"));
}

/// The log says that what a killed server had promised was taken out of the intent log.
#[testkit::needs("fuse")]
#[test]
fn a_replay_of_an_intent_log_is_logged() {
    let place = Place::new();
    let pid = place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_txg_timeout=600"]).ok();
    place.zinc(&["zpool", "sync", "tank"]).ok();
    // The first promise is kept by a txg: the log begins with it.
    place.sh("echo one > a; sync a; echo two >> a; sync a");
    kill(pid, "-KILL");
    super::wait_for_end(pid);
    place.unmount_dead();
    let run = place.zinc(&["serve", "--for", "0.1", "tank"]);
    assert!(run.err.contains("the intent log of tank was replayed: "), "{}", run.err);
    let run = place.zinc(&["serve", "--for", "0.1", "tank"]);
    assert!(!run.err.contains("replayed"), "{}", run.err);
    assert_eq!(place.zinc(&["cat", "tank:/a"]).ok(), "one\ntwo\n");
}
