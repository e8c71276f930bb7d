//! The way of ordinary users to a mount: fusermount3, a program of root's that mounts for them.
//!
//! It gets one end of a socket as its standard input, mounts, and sends the connection to the
//! kernel back through it. The rights of users are in `/etc/fuse.conf`: without `user_allow_other`
//! no other user may look into such a mount, root included. Device files and set-id bits never
//! count in one.

use crate::{Error, Options};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program.
const PROGRAM: &str = "fusermount3";
/// The variable with the number of the socket's descriptor.
const SOCKET: &str = "_FUSE_COMMFD";
/// Its settings.
const SETTINGS: &str = "/etc/fuse.conf";

/// Mounts: the connection to the kernel.
pub(crate) fn mount(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, Error> {
    let system = |e: io::Error| Error::System("mount for an ordinary user", e);
    let flags = SocketFlags::CLOEXEC;
    let (own, its) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| system(e.into()))?;
    let settings = std::fs::read_to_string(SETTINGS).unwrap_or_default();
    let list = list(name, options, lets_others_look(&settings));
    let words = ["-o".as_ref(), list.as_ref(), "--".as_ref(), dir.as_os_str()];
    let output = run(&words, Stdio::from(its)).map_err(|_| Error::NoHelper)?;
    if !output.status.success() {
        return Err(Error::Refused(output_text(&output)));
    }
    receive(&own).map_err(system)
}

/// Takes away what this user has mounted at `dir`.
pub(crate) fn unmount(dir: &Path, lazily: bool) -> Result<(), Error> {
    let how: &[&OsStr] = if lazily { &["-u".as_ref(), "-z".as_ref()] } else { &["-u".as_ref()] };
    let words = [how, &["--".as_ref(), dir.as_os_str()]].concat();
    let output = run(&words, Stdio::null()).map_err(|_| Error::NotRoot)?;
    let output_text = output_text(&output);
    match output.status.success() {
        true => Ok(()),
        false if output_text.contains("busy") => Err(Error::Busy(dir.to_owned())),
        false if output_text.contains("not found") => Err(Error::NotMounted(dir.to_owned())),
        false => Err(Error::Refused(output_text)),
    }
}

fn run(words: &[&OsStr], input: Stdio) -> io::Result<Output> {
    let mut command = Command::new(PROGRAM);
    // Its words are read here.
    command.args(words).env(SOCKET, "0").env("LC_ALL", "C").stdin(input).output()
}

/// Its output, on one line.
fn output_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => format!("{PROGRAM} ended with {}", output.status),
        false => lines.join("; "),
    }
}

/// Whether root lets users show their mounts to others.
fn lets_others_look(settings: &str) -> bool {
    settings.lines().any(|line| line.trim() == "user_allow_other")
}

/// The options as the program takes them. A comma ends one, so that in a name is marked; names of
/// datasets have none.
fn list(name: &str, options: &Options, others_look: bool) -> OsString {
    let mut list = format!("fsname={},subtype=zinc,default_permissions", name.replace(',', "\\,"));
    let words = [
        (options.read_only, ",ro"),
        (!options.exec, ",noexec"),
        (!options.atime, ",noatime"),
        (others_look, ",allow_other"),
    ];
    words.iter().filter(|(is_set, _)| *is_set).for_each(|(_, word)| list.push_str(word));
    list.into()
}

/// The file that comes with the one byte that the program sends.
fn receive(own: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    recvmsg(own, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let files = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.ok_or_else(|| io::Error::other(format!("{PROGRAM} sent no connection")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_that_the_program_knows() {
        let options = Options { read_only: true, exec: false, ..Options::default() };
        let list = list("tank/a", &options, false);
        assert_eq!(list, "fsname=tank/a,subtype=zinc,default_permissions,ro,noexec");
        assert!(
            lets_others_look("# x\n user_allow_other \n")
                && !lets_others_look("#user_allow_other\n")
        );
    }
}
