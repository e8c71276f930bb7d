//! Local time, for texts that OpenZFS prints in local time: that of the user who runs the verb.

use crate::session::Session;

/// Seconds that local time is ahead of UTC at `time`; 0 where the zone is not known.
pub fn utc_offset(session: &Session, time: u64) -> i64 {
    hostfs::zone::utc_offset(session.variable("TZ").as_deref(), time)
}

/// `time` (seconds since 1970, UTC) as seconds that read as local time.
pub fn local(session: &Session, time: u64) -> u64 {
    time.saturating_add_signed(utc_offset(session, time))
}

impl views::HostInfo for Session {
    fn user_name(&self, id: u64) -> Option<&str> {
        self.user_name(id)
    }

    fn group_name(&self, id: u64) -> Option<&str> {
        self.group_name(id)
    }

    fn utc_offset(&self, time: u64) -> i64 {
        utc_offset(self, time)
    }
}

impl views::datasets::permissions::Accounts for Session {
    fn user_id(&self, name: &str) -> Option<u64> {
        self.user_id(name)
    }

    fn group_id(&self, name: &str) -> Option<u64> {
        self.group_id(name)
    }
}
