//! The name of this machine, as labels and the history of pools record it.

/// This machine's host id, as OpenZFS reads it; 0 without one.
#[must_use]
pub fn id() -> u64 {
    let bytes = std::fs::read("/etc/hostid").unwrap_or_default();
    bytes.first_chunk::<4>().map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

/// Its name; empty where it is unknown.
#[must_use]
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
