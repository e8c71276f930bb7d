//! What keeps streams from being sent and received.

use dsl::TokenFault;
use std::fmt;

/// Why something is not sent by this program yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsendable {
    /// An encrypted dataset with its properties: these go with what is encrypted.
    EncryptedProperties,
    /// What a redaction left blocks out of.
    Redacted,
    /// What is younger than the bookmark of a redaction.
    RedactionBookmark,
    /// The rest of a redacted stream.
    RedactedRest,
    /// What a machine of another byte order wrote.
    ByteOrder,
    /// A clone of a snapshot of what is below it: each would have to be received before the other.
    ClonedFromBelow,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EncryptedProperties => {
                "it is encrypted and can only be sent without its properties"
            }
            Self::Redacted => "it is a redacted snapshot",
            Self::RedactionBookmark => "it is a redaction bookmark",
            Self::RedactedRest => "redacted streams",
            Self::ByteOrder => "it was written by a machine of the other byte order",
            Self::ClonedFromBelow => {
                "it is a clone of a dataset below it, and neither can be received first"
            }
        })
    }
}

/// Streams that are not received by this program yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreceivable {
    /// Of a machine of the other byte order.
    ByteOrder,
    /// Raw, of a pool that a machine of the other byte order wrote: the codes of its dnodes cover
    /// them in that order.
    RawByteOrder,
    /// Without blocks that a redaction left out.
    Redacted,
    /// With blocks that stand in them once.
    Deduplicated,
}

impl fmt::Display for Unreceivable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrder => "streams of machines of the other byte order",
            Self::RawByteOrder => "raw streams of what a machine of the other byte order wrote",
            Self::Redacted => "redacted streams",
            Self::Deduplicated => "deduplicated streams",
        })
    }
}

/// What is wrong with a send stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamFault {
    /// There is no stream, or it cannot be read; the source says why.
    Unread,
    /// It ends before its end.
    Incomplete,
    /// Something in it is not what was sent.
    Checksum,
    /// It does not begin as a stream does.
    Magic,
    /// It names no snapshot.
    SnapshotName,
    /// Its list of snapshots and properties cannot be read.
    List,
    /// It needs what is not known: all features, and those that are not known.
    Features(u64, u64),
    /// A record says what cannot be.
    Record(&'static str),
    /// It is of another snapshot than the one that is to be made good.
    OtherSnapshot,
    /// Blocks of the snapshot are damaged still, or could not be looked for.
    NotCorrected {
        /// Damaged blocks that it has not as they were stored.
        left: u64,
        /// Blocks that the snapshot has in another size, or cannot be found there.
        unseen: u64,
    },
}

/// Why the rest of a stream cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeFault {
    /// The token cannot be read.
    Token(TokenFault),
    /// There is no such snapshot any more.
    Gone(String),
    /// The snapshot of that name is another one.
    Another(String),
    /// What it is an increment of is not there any more.
    SourceGone(u64),
    /// The snapshot has no such object.
    NoObject(u64),
}

impl fmt::Display for ResumeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(name) => write!(f, "the snapshot '{name}' does not exist any more"),
            Self::Another(name) => write!(f, "'{name}' is not the snapshot that was sent"),
            Self::SourceGone(guid) => {
                write!(f, "the source of the increment, of guid {guid:#x}, does not exist any more")
            }
            Self::NoObject(number) => write!(f, "the snapshot has no object {number}"),
            Self::Token(_) => f.write_str("the token cannot be read"),
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unread => "the stream cannot be read",
            Self::Incomplete => "the stream ends before its end",
            Self::Checksum => "a checksum of the stream does not match",
            Self::Magic => "it does not begin as a stream does",
            Self::SnapshotName => "the stream names no snapshot",
            Self::OtherSnapshot => "the stream is of another snapshot",
            Self::NotCorrected { left, unseen: 0 } => {
                return write!(
                    f,
                    "{left} damaged blocks remain, which the stream does not have as they \
                     were stored"
                );
            }
            Self::NotCorrected { left, unseen } => {
                return write!(
                    f,
                    "{left} damaged blocks are left, and {unseen} blocks of the stream were not \
                     found in their size in the snapshot"
                );
            }
            Self::List => "the list of the stream cannot be read",
            Self::Features(_, unknown) => {
                return write!(f, "the stream has unknown features: {unknown:#x}");
            }
            Self::Record(what) => return write!(f, "a record cannot be applied: {what}"),
        })
    }
}
