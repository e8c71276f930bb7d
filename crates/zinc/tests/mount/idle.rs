//! The cost of mounts that are not used.

use super::following::with_mount_point;
use super::support;
use std::process::Command;

const MOUNTS: usize = 20;
/// Threads that read the requests of a mount.
const READERS: usize = 4;

/// Threads of a process by the beginning of their name.
fn threads(pid: &str, name: &str) -> usize {
    let all = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = all.filter_map(|one| std::fs::read_to_string(one.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name)).count()
}

/// Each mount has threads, and each thread a large buffer that is hardly used. There are more
/// threads while there is something for them to do.
#[testkit::needs("fuse")]
#[test]
fn many_mounts_cost_little() {
    let place = with_mount_point();
    for number in 1..MOUNTS {
        place.zinc(&["zfs", "create", &format!("tank/fs{number}")]).ok();
    }
    let pid = place.path("pid");
    place.zinc(&["serve", "-b", "--mount", "--pidfile", pid.to_str().unwrap(), "tank"]).ok();
    let listed = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert_eq!(listed.matches(place.mnt().to_str().unwrap()).count(), MOUNTS);
    let pid = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    let readers = || threads(&pid, "mount-reads");
    // The last mounts may still be starting theirs.
    support::place::until("all are read from", || readers() == READERS * MOUNTS);
    place.sh("for fs in fs*; do echo here > $fs/file; ls -l $fs > /dev/null; done");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 256 << 10, "{kib} KiB are resident");
    // Several at a time, for as long as it takes until that is seen. Each is nearly always in a
    // write that waits for the device; reads of a machine that is fast enough never meet.
    let script = "while test -e ../busy; do
        dd if=/dev/zero of=fs1/file$0 bs=4k count=64 oflag=sync conv=notrunc status=none; done";
    std::fs::write(place.path("busy"), "").unwrap();
    let user = |number: usize| {
        let mut sh = Command::new("sh");
        sh.args(["-c", script, &number.to_string()]).current_dir(place.mnt()).spawn().unwrap()
    };
    let mut users: Vec<_> = (0..8).map(user).collect();
    support::place::until("there are more", || threads(&pid, "mount-helper") > 0);
    std::fs::remove_file(place.path("busy")).unwrap();
    users.iter_mut().for_each(|user| assert!(user.wait().unwrap().success()));
    let helpers = || threads(&pid, "mount-helper") + threads(&pid, "mount-signals");
    support::place::until("they end", || helpers() == 0);
    assert_eq!((readers(), place.sh("cat fs1/file").as_str()), (READERS * MOUNTS, "here\n"));
    place.zinc(&["zpool", "export", "tank"]).ok();
}
