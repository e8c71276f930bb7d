//! What this machine is called, as labels and the history record it.

use std::os::unix::fs::MetadataExt as _;

/// This machine's host id, as OpenZFS reads it; 0 without one.
pub fn id() -> u64 {
    let bytes = std::fs::read("/etc/hostid").unwrap_or_default();
    bytes.first_chunk::<4>().map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

/// Its name; empty where nobody knows it.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The group of the user who runs the command.
pub fn group() -> u64 {
    if let Some(client) = crate::asked::client() {
        return client.group;
    }
    std::fs::metadata("/proc/self").map_or(0, |m| u64::from(m.gid()))
}

/// The user who runs the command.
pub fn user() -> u64 {
    if let Some(client) = crate::asked::client() {
        return client.user;
    }
    std::fs::metadata("/proc/self").map_or(0, |m| u64::from(m.uid()))
}
