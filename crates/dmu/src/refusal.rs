//! Why an object set is not changed: values, which callers can tell apart and front ends word.

use std::fmt;

/// A change that cannot be made, whatever the state of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidChange {
    /// The txg of the transaction accepts no changes any more.
    ClosedTxg,
    /// No object has that number.
    ObjectNumber,
    /// The slots of an object are in one block of dnodes.
    CrossesDnodeBlock,
    /// An object that is there is not made.
    ObjectThere,
    /// No dnode has that size.
    DnodeSlots,
    /// No indirect block has that size.
    IndirectSize,
    /// The size of indirect blocks changes before there are any, within its range.
    IndirectSizeFixed,
    /// The bonus is larger than its room.
    BonusSize,
    /// No block has that size.
    BlockSize,
    /// The size of blocks changes while there is only one.
    BlockSizeFixed,
    /// No spill block has that size.
    SpillSize,
    /// The dnode has no room for another pointer.
    SpillPointer,
    /// No tree has a block of that number.
    BlockNumber,
    /// The data are for one block.
    LongData,
    /// The content is for a whole block.
    PartOfBlock,
    /// The pointer does not lead to a block of the object.
    ForeignPointer,
    /// What came encrypted is not changed in parts.
    SealedWhole,
    /// The block is encrypted, and its key is needed for this.
    NoKey,
    /// This is for sets that are received encrypted.
    NotSealed,
    /// The dnodes of a set that is received encrypted contradict themselves.
    DnodeTree,
    /// The dnodes of the set are in a tree of another form already.
    DnodeTreeForm,
    /// The levels of a dnode contradict its last block.
    Levels,
    /// The object has another form than the dnode that it is to have.
    OtherForm,
    /// No block of dnodes begins at that object.
    DnodeBlockStart,
    /// A dead list without keys takes no blocks.
    DeadlistKeys,
    /// An entry is larger than a leaf of its ZAP.
    LargeEntry,
    /// A leaf of a ZAP is full of names of one hash.
    EqualHashes,
    /// The keys of the ZAP are names.
    IntegerKey,
    /// The keys of the ZAP are integers.
    NameKey,
    /// A name ends at its first NUL.
    NameWithNul,
    /// A value consists of whole integers.
    PartOfInteger,
    /// A value has at most 8 KiB.
    LargeValue,
    /// No ZAP has blocks of that size.
    ZapBlockSize,
}

impl InvalidChange {
    /// The rule, in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::ClosedTxg => "its txg no longer accepts changes",
            Self::ObjectNumber => "the object number is out of range",
            Self::CrossesDnodeBlock => "an object crosses a block of dnodes",
            Self::ObjectThere => "there is an object",
            Self::DnodeSlots => "a dnode has 1 to 32 slots",
            Self::IndirectSize => "the size of indirect blocks is out of range",
            Self::IndirectSizeFixed => "the size of indirect blocks is fixed, or out of range",
            Self::BonusSize => "the bonus does not fit the dnode",
            Self::BlockSize => "a block has 512 bytes to 16 MiB and whole sectors",
            Self::BlockSizeFixed => "the object has more than one block",
            Self::SpillSize => "a spill block has up to 128 KiB",
            Self::SpillPointer => "there is no room for a spill pointer",
            Self::BlockNumber => "no tree reaches that far",
            Self::LongData => "the data are longer than a block",
            Self::PartOfBlock => "the content is not a whole block",
            Self::ForeignPointer => "the pointer is to no block of the object",
            Self::SealedWhole => "encrypted blocks are written and freed whole, as they came",
            Self::NoKey => "the block is encrypted, without its key",
            Self::NotSealed => "the set is not received sealed",
            Self::DnodeTree => "the dnodes of the set stand in no tree",
            Self::DnodeTreeForm => "the dnodes of the set stand in a tree of another form",
            Self::Levels => "its levels do not reach its last block, or reach too far",
            Self::OtherForm => "the object is of another form",
            Self::DnodeBlockStart => "a block of dnodes does not begin there",
            Self::DeadlistKeys => "a dead list without keys takes no blocks",
            Self::LargeEntry => "an entry is larger than a leaf of its ZAP",
            Self::EqualHashes => "too many names of one hash in a ZAP",
            Self::IntegerKey => "an integer key in a ZAP of names",
            Self::NameKey => "a name in a ZAP of integer keys",
            Self::NameWithNul => "a name with a NUL",
            Self::PartOfInteger => "a value that is not made of whole integers",
            Self::LargeValue => "a value of more than 8 KiB",
            Self::ZapBlockSize => "no ZAP has blocks of that size",
        }
    }
}

impl fmt::Display for InvalidChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What is read and cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// A dataset that was encrypted before OpenZFS 0.8.
    OldEncryption,
    /// An object set that a machine of the other byte order wrote.
    ByteOrder,
    /// Blocks of dnodes of another size than OpenZFS writes.
    DnodeBlockSize,
    /// A pool from before feature flags.
    NoFeatureFlags,
    /// A dead list from before pool version 26.
    OldDeadlist,
}

impl Unsupported {
    /// What it is, in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::OldEncryption => "a dataset encrypted before OpenZFS 0.8",
            Self::ByteOrder => "an object set of the other byte order",
            Self::DnodeBlockSize => "dnode blocks that are not of 16 KiB",
            Self::NoFeatureFlags => "pools without feature flags",
            Self::OldDeadlist => "dead lists of the form before pool version 26",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
