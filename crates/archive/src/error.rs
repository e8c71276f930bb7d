//! Why an archive, or a member of one, cannot be read.

use crate::format::{HEADERS_MAX, PIECES_MAX, SIZE_MAX};
use std::io;

/// An error of an archive, or of one member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source cannot be read.
    #[error(transparent)]
    Read(io::Error),
    /// The archive ends before its end mark.
    #[error("the archive has no end mark: it may be cut off")]
    NoEnd,
    /// The archive ends in a member's content, or in what is about a member.
    #[error("the archive ends in the middle of it")]
    CutOff,
    /// The archive ends in a header.
    #[error("the archive ends in a header, at byte {0}")]
    CutOffHeader(u64),
    /// A block that should be a header is not one.
    #[error("no header of a tar archive at byte {0}")]
    NoHeader(u64),
    /// A header's field is not what it should be.
    #[error("a damaged header: {0}")]
    Header(io::Error),
    /// More is claimed to be about a member than is read.
    #[error("its headers claim {0} bytes of names and attributes; {HEADERS_MAX} are the most")]
    TooMuch(u64),
    /// A record does not have the form of one.
    #[error("a pax record that contradicts itself")]
    Record,
    /// A record that should be a number is not one.
    #[error("a pax record has an invalid number")]
    Number,
    /// A sparse file does not say where its pieces go.
    #[error("a sparse file without a map")]
    NoMap,
    /// A sparse file's pieces overlap, leave the file, or are not numbers.
    #[error("a sparse file whose map contradicts itself")]
    Map,
    /// A sparse file has more pieces than are read.
    #[error("a sparse file of more than {PIECES_MAX} pieces")]
    Pieces,
    /// A sparse file is larger than any file is.
    #[error("a sparse file that claims {0} bytes; {SIZE_MAX} are the most")]
    Size(u64),
    /// A sparse file's content ends before its map does.
    #[error("its content is shorter than its map says")]
    Short,
    /// The same of the member of that name, which was passed over.
    #[error("'{}': {cause}", String::from_utf8_lossy(name))]
    Member {
        /// Its name.
        name: Vec<u8>,
        /// The error.
        cause: Box<Error>,
    },
}

/// Result of reading.
pub type Result<T, E = Error> = std::result::Result<T, E>;
