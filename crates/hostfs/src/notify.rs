//! Messages to the service manager: systemd's protocol of `sd_notify`, one datagram of lines.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that says where the manager listens; its value is what the functions here take.
pub const SOCKET: &str = "NOTIFY_SOCKET";

/// The service is up.
pub fn ready(manager: Option<OsString>, status: &str) {
    // A manager that is gone, or never was, keeps no pool from being served.
    let _ = notify(manager, &format!("READY=1\nSTATUS={status}"));
}

/// The service ends.
pub fn stopping(manager: Option<OsString>) {
    let _ = notify(manager, "STOPPING=1");
}

fn notify(manager: Option<OsString>, text: &str) -> io::Result<()> {
    let Some(name) = manager else { return Ok(()) };
    let name = name.into_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::path::Path::new(
            &String::from_utf8_lossy(&name).into_owned(),
        ))?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}
