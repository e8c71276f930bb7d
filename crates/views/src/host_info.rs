//! Where figures are shown.

/// The machine on which something is shown: its users, and its time.
pub trait HostInfo {
    /// The name of a user.
    fn user_name(&self, id: u64) -> Option<&str>;

    /// The name of a group.
    fn group_name(&self, id: u64) -> Option<&str>;

    /// Seconds that local time is ahead of UTC at a time, which is given in seconds since 1970.
    fn utc_offset(&self, time: u64) -> i64;
}
