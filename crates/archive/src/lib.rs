//! Reading tar archives, whatever program wrote them: bytes in, members out.
//!
//! # Theory
//!
//! An archive is a row of blocks of 512 bytes. A member is a header block, its content, and zeros
//! up to a whole block; a block of zeros is the end. The header of 1988 has no room for long names,
//! large numbers, fractions of seconds and extended attributes, so these are stored in *members
//! before* the one that they belong to, as text:
//!
//! ```text
//! x      pax records, "LENGTH KEY=VALUE\n" each    path linkpath size uid gid mtime atime
//!                                                  SCHILY.xattr.NAME  GNU.sparse.*
//! L, K   GNU: a name, a link's target, alone
//! g      pax records for all members: passed over
//! ```
//!
//! A sparse file ([`Sparse`]) is a map of pieces, and the pieces one behind the other as content.
//! The map is in one of three places: in the header and blocks behind it (GNU's old form), in
//! records, or before the content in the content.
//!
//! The archive is not trusted:
//!
//! - A claimed size reserves no memory. Names, records and maps have limits, and no more is kept
//!   than was read.
//! - A member that contradicts itself has its [`Member::fault`], and the next one is read. An
//!   archive that cannot be read further gives one [`Error`] and then ends.
//! - Pieces of a sparse file are handed on in ascending order, none over another and none behind
//!   the file's end.
//!
//! Names come as they are, `..` and `/` included: where members go is for the caller to decide.

#![forbid(unsafe_code)]

mod error;
mod format;
mod reader;
mod sparse;

pub use error::{Error, Result};
pub use reader::{Archive, Attributes, Member, Time};
pub use sparse::{Sparse, Write};
pub use tar::EntryType;
