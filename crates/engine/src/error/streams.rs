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
        let corrupt = match self {
            Self::Gone(name) => {
                return write!(f, "'{name}' used in the initial send no longer exists");
            }
            Self::Another(name) => {
                return write!(
                    f,
                    "'{name}' is no longer the same snapshot used in the initial send"
                );
            }
            Self::SourceGone(guid) => {
                return write!(f, "incremental source {guid:#x} no longer exists");
            }
            Self::NoObject(number) => {
                return write!(f, "resume token is corrupt (there is no object {number})");
            }
            Self::Token(TokenFault::Form) => "invalid format",
            Self::Token(TokenFault::Version) => "unsupported version",
            Self::Token(TokenFault::Hexadecimal) => "payload is not hex-encoded",
            Self::Token(TokenFault::Checksum) => "incorrect checksum",
            Self::Token(TokenFault::Compression) => "decompression failed",
            Self::Token(TokenFault::List) => "malformed nvlist",
        };
        write!(f, "resume token is corrupt ({corrupt})")
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unread => "failed to read from stream",
            Self::Incomplete => "incomplete stream",
            Self::Checksum => "checksum mismatch",
            Self::Magic => "invalid stream (bad magic number)",
            Self::SnapshotName => "invalid stream (bad snapshot name)",
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
            Self::List => "invalid stream (malformed nvlist)",
            Self::Features(all, unknown) => {
                return write!(
                    f,
                    "stream has unsupported feature, feature flags = {all:x} (unknown flags = \
                     {unknown:x})"
                );
            }
            Self::Record(what) => return write!(f, "invalid backup stream: {what}"),
        })
    }
}
