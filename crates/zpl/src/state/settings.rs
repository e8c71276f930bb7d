//! The properties of a dataset that apply to its files.

/// Where new extended attributes go (property `xattr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrStore {
    /// Among the attributes, as far as they fit.
    Sa,
    /// Into a hidden directory.
    Dir,
    /// There are none.
    Off,
}

/// Properties of a dataset that change what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsSettings {
    /// Size of the blocks of a file of more than one, a power of two from 512 to 16 MiB.
    pub record_size: u32,
    /// Where extended attributes go.
    pub xattr: XattrStore,
    /// Access times are kept.
    pub atime: bool,
    /// An access time is only kept when it tells something: when the file changed since it was last
    /// read, or that was a day ago.
    pub relatime: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Slots of 512 bytes of the dnode of a new file; `None`: what the object set does.
    pub dnode_slots: Option<u8>,
    /// Names may have up to 1023 bytes.
    pub long_names: bool,
}

impl Default for FsSettings {
    fn default() -> Self {
        Self {
            record_size: 128 << 10,
            xattr: XattrStore::Sa,
            atime: true,
            relatime: true,
            read_only: false,
            dnode_slots: None,
            long_names: false,
        }
    }
}
