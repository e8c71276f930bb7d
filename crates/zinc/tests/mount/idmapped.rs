//! Mounts that show other owners than the file system has, as containers use them.

use super::Place;
use std::process::Command;

/// Binds `mnt` to `mapped`: the user N of the file system is 100000 + N there. What is refused is
/// printed.
const BIND: &str = "
import ctypes, os
C = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    done = C.syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), f'system call {number}')
    return done
made, end = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    C.unshare(0x10000000)
    os.write(made[1], b'x')
    os.read(end[0], 1)
    os._exit(0)
os.read(made[0], 1)
for name in ('uid_map', 'gid_map'):
    open(f'/proc/{child}/{name}', 'w').write('0 100000 65536')
users = os.open(f'/proc/{child}/ns/user', os.O_RDONLY)
os.write(end[1], b'x')
tree = call(428, -100, b'mnt', 1 | os.O_CLOEXEC)
attributes = (ctypes.c_uint64 * 4)(0x100000, 0, 0, users)
try:
    call(442, tree, b'', 0x1000, ctypes.byref(attributes), 32)
    call(429, tree, b'', -100, b'mapped', 4)
except OSError as e:
    print(os.strerror(e.errno))
";

/// A script of Python's in the folder, as this user.
fn python(place: &Place, user: u32, script: &str) -> String {
    let mut python = Command::new("python3");
    let script =
        format!("import os; os.setgroups([]); os.setgid({user}); os.setuid({user})\n{script}");
    let output = python.args(["-c", &script]).current_dir(place.dir.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether the kernel maps the owners of a file system that is served by a process: since 6.12.
fn is_mapped_by_kernel() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>());
    let mut next = || numbers.next().unwrap().unwrap();
    (next(), next()) >= (6, 12)
}

#[testkit::needs("fuse")]
#[test]
fn a_bind_mount_can_show_other_owners() {
    let place = Place::new();
    std::fs::create_dir(place.path("mapped")).unwrap();
    // Others reach what is below.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.dir.path(), all).unwrap();
    place.mount("tank");
    place.sh("echo text >of-root; echo program >setuid; chmod 4755 setuid");
    let printed = python(&place, 0, BIND);
    if !is_mapped_by_kernel() {
        assert_eq!(printed, "Invalid argument\n");
    } else {
        assert_eq!(printed, "");
        let owners = "print([os.stat(name).st_uid for name in ('mnt/of-root', 'mapped/of-root')])";
        assert_eq!(python(&place, 0, owners), "[0, 100000]\n");
        // The user who is root there makes, changes and gives away files as their owner.
        let script = "open('mapped/new', 'w').write('x' * 9)\n\
                      os.mkdir('mapped/dir')\n\
                      os.symlink('new', 'mapped/link')\n\
                      os.mkfifo('mapped/fifo')\n\
                      os.rename('mapped/new', 'mapped/dir/new')\n\
                      os.chmod('mapped/of-root', 0o600)\n\
                      print(os.stat('mapped/dir/new').st_uid, open('mapped/of-root').read())\n\
                      os.truncate('mapped/setuid', 3)\n\
                      print(oct(os.stat('mapped/setuid').st_mode))";
        assert_eq!(python(&place, 100_000, script), "100000 text\n\n0o100755\n");
        let owners = "print([os.lstat('mnt/' + name).st_uid\n  \
                        for name in ('dir', 'dir/new', 'link', 'fifo', 'of-root')])";
        assert_eq!(python(&place, 0, owners), "[0, 0, 0, 0, 0]\n");
        // Another user is none of those of the file system.
        let script = "try: open('mapped/other', 'w')\nexcept OSError as e: print(e.strerror)";
        assert_eq!(python(&place, 0, script), "Value too large for defined data type\n");
        assert!(Command::new("umount").arg(place.path("mapped")).status().unwrap().success());
    }
    // Root keeps set-id bits through a change of size, as ever, and no other user does.
    place.sh("chmod 4777 setuid; truncate -s 2 setuid; test -u setuid");
    python(&place, 1000, "os.truncate('mnt/setuid', 1)");
    place.sh("! test -u setuid");
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}
