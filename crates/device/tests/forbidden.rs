//! A system that forbids io_uring, as containers do: by a filter on system calls.

#![allow(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use device::{Backend, Direct, ErrorKind, FileDevice, Options, read_batch};
use std::io::Write;

/// A filter's instruction.
fn instruction(code: u32, jump_true: u8, jump_false: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

/// From now on this thread, and those it starts, get EPERM from `io_uring_setup`.
fn forbid_io_uring() {
    let setup = u32::try_from(libc::SYS_io_uring_setup).expect("number");
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        // The number of the system call is the first word of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, setup),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes numbers only.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its instructions live until the call returns; the kernel copies them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(result, 0);
}

#[test]
fn threads_take_over_where_io_uring_is_forbidden() {
    forbid_io_uring();
    let mut file = tempfile::NamedTempFile::new().expect("file");
    file.write_all(&[7; 100_000]).expect("write");
    let open = |backend| {
        let options = Options { backend, direct: Direct::On, ..Options::default() };
        FileDevice::open(file.path(), &options)
    };
    let device = open(Backend::Auto).expect("open");
    for result in read_batch(&device, &[(5, 50_000), (99_999, 1)]) {
        assert!(result.expect("read").iter().all(|b| *b == 7));
    }
    assert_eq!(device.backend(), Backend::Threads);
    let refused = open(Backend::Uring).map(|_| ()).map_err(|e| e.kind);
    assert_eq!(refused, Err(ErrorKind::Io { errno: libc::EPERM }));
}
