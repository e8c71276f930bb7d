//! Records of extended attributes, which need a feature of the dataset.

use super::IntentLog;

/// Whether attributes that stand in a list of the file have records. To know these is a feature of
/// the dataset, which is in use from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Xattrs {
    /// None was noted.
    Unused,
    /// One was, so the next sync shall say that the feature is in use.
    Wanted,
    /// This txg says it.
    Declared(u64),
    /// They have.
    Used,
}

impl IntentLog {
    /// Whether a change of an attribute in a file's list has a record now. The first that is asked
    /// for has none.
    pub fn has_xattr_records(&self) -> bool {
        let mut state = self.state.lock();
        if state.xattrs == Xattrs::Unused {
            state.xattrs = Xattrs::Wanted;
        }
        state.xattrs == Xattrs::Used
    }

    /// The dataset uses the feature that such records need.
    pub fn xattrs_are_used(&self) {
        self.state.lock().xattrs = Xattrs::Used;
    }

    /// In the sync of `txg`: whether it shall say that the feature is in use, which it then does.
    pub fn begins_xattrs(&self, txg: u64) -> bool {
        let mut state = self.state.lock();
        let begins = state.xattrs == Xattrs::Wanted;
        if begins {
            state.xattrs = Xattrs::Declared(txg);
        }
        begins
    }
}
