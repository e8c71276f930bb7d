//! Error logs: which blocks could not be read, and the name of a block inside a pool.
//!
//! Specified in `docs/format/errlog.md`. Two logs, found in the MOS: of the last scrub
//! (`errlog_last`) and of the one that runs or of what was met since (`errlog_scrub`). Two forms:
//!
//! * old: a ZAP whose keys are [`Zbookmark`]s in text, `objset:object:level:blkid`, all in
//!   hexadecimal;
//! * feature `head_errlog`: a ZAP from the head dataset (a number as key) to a second ZAP, whose
//!   keys are [`HeadEntry`]s, `object:level:blkid:birth`. The birth txg tells which snapshots
//!   share the damage.
//!
//! The value of an entry is a text that may be empty.

use crate::wordstruct::word_struct;

word_struct! {
    /// Name of a block: dataset, object, level, number.
    #[derive(Hash, PartialOrd, Ord)]
    pub struct Zbookmark("zbookmark") {
        /// Dataset; 0 is the MOS.
        pub objset: u64,
        /// Object; 0 is the meta dnode.
        pub object: u64,
        level_word: u64,
        /// Number of the block in its level.
        pub blkid: u64,
    }
}

impl Zbookmark {
    /// Object number of the root block of an object set.
    pub const ROOT_OBJECT: u64 = 0;
    /// Level of the root block of an object set.
    pub const ROOT_LEVEL: i64 = -1;
    /// Level of a block of the intent log.
    pub const ZIL_LEVEL: i64 = -2;
    /// Level of an object as such.
    pub const DNODE_LEVEL: i64 = -3;
    /// Block number of a spill block.
    pub const SPILL_BLKID: u64 = u64::MAX - 1;

    /// Names a block.
    #[must_use]
    pub fn new(objset: u64, object: u64, level: i64, blkid: u64) -> Self {
        Self { objset, object, level_word: level.cast_unsigned(), blkid }
    }

    /// Level above the data; negative for the special ones.
    #[must_use]
    pub fn level(&self) -> i64 {
        self.level_word.cast_signed()
    }

    /// The key in the old form of the log.
    #[must_use]
    pub fn log_key(&self) -> String {
        format!("{:x}:{:x}:{:x}:{:x}", self.objset, self.object, self.level_word, self.blkid)
    }

    /// Takes such a key apart.
    #[must_use]
    pub fn parse_log_key(key: &str) -> Option<Self> {
        let [objset, object, level_word, blkid] = parse_four(key)?;
        Some(Self { objset, object, level_word, blkid })
    }
}

word_struct! {
    /// An entry of the second ZAP of the form `head_errlog`.
    pub struct HeadEntry("head error log entry") {
        /// Object.
        pub object: u64,
        level_word: u64,
        /// Number of the block in its level.
        pub blkid: u64,
        /// Logical birth txg of the block; 0 when it is not known.
        pub birth: u64,
    }
}

impl HeadEntry {
    /// Names a block.
    #[must_use]
    pub fn new(object: u64, level: i64, blkid: u64, birth: u64) -> Self {
        Self { object, level_word: level.cast_unsigned(), blkid, birth }
    }

    /// Level above the data; negative for the special ones.
    #[must_use]
    pub fn level(&self) -> i64 {
        self.level_word.cast_signed()
    }

    /// The block in a dataset.
    #[must_use]
    pub fn in_objset(&self, objset: u64) -> Zbookmark {
        Zbookmark::new(objset, self.object, self.level(), self.blkid)
    }

    /// The key.
    #[must_use]
    pub fn log_key(&self) -> String {
        format!("{:x}:{:x}:{:x}:{:x}", self.object, self.level_word, self.blkid, self.birth)
    }

    /// Takes such a key apart.
    #[must_use]
    pub fn parse_log_key(key: &str) -> Option<Self> {
        let [object, level_word, blkid, birth] = parse_four(key)?;
        Some(Self { object, level_word, blkid, birth })
    }
}

/// Four hexadecimal numbers between colons.
fn parse_four(key: &str) -> Option<[u64; 4]> {
    let mut parts = key.split(':');
    let mut out = [0; 4];
    for n in &mut out {
        *n = crate::zap::parse_int_key(parts.next()?)?;
    }
    parts.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_both_ways() {
        let z = Zbookmark::new(54, 2, -1, 7);
        assert_eq!(z.log_key(), "36:2:ffffffffffffffff:7");
        assert_eq!(Zbookmark::parse_log_key(&z.log_key()), Some(z));
        let h = HeadEntry::new(2, 0, 16, 0x30);
        assert_eq!(h.log_key(), "2:0:10:30");
        assert_eq!(HeadEntry::parse_log_key("2:0:10:30"), Some(h));
        assert_eq!(h.in_objset(54), Zbookmark::new(54, 2, 0, 16));
        for bad in ["", "1:2:3", "1:2:3:4:5", "1:2:3:g", "1::3:4", "+1:2:3:4"] {
            assert_eq!(Zbookmark::parse_log_key(bad), None, "{bad}");
        }
    }
}
