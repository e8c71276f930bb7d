//! How replies are laid out.

use crate::export::{Extent, RequestError};
use nbdwire::{CHUNK_MAGIC, EXTENDED_CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, chunk};

/// The form of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One header, and the data of reads behind it.
    Simple,
    /// Chunks.
    Structured,
    /// Chunks with lengths of 64 bits, and requests as well.
    Extended,
}

/// The request that a reply answers.
#[derive(Clone, Copy)]
pub(crate) struct ReplyTo {
    pub(crate) form: Form,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
}

/// Longest message of an error in bytes.
const MESSAGE_MAX: usize = 1024;

impl ReplyTo {
    /// The header of a simple reply.
    pub(crate) fn simple(self, error: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        out.extend(error.to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
        out
    }

    /// The header of a chunk with this many bytes behind it.
    pub(crate) fn chunk(self, kind: u16, flags: u16, length: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        let is_extended = self.form == Form::Extended;
        let magic = if is_extended { EXTENDED_CHUNK_MAGIC } else { CHUNK_MAGIC };
        out.extend(magic.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
        match is_extended {
            true => {
                out.extend(self.offset.to_be_bytes());
                out.extend((length as u64).to_be_bytes());
            }
            // Chunks are no longer than a piece.
            false => out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()),
        }
        out
    }

    /// It was done.
    pub(crate) fn done(self) -> Vec<u8> {
        match self.form {
            Form::Simple => self.simple(0),
            Form::Structured | Form::Extended => self.chunk(chunk::NONE, chunk::DONE, 0),
        }
    }

    /// It failed; at this offset, when that is known.
    pub(crate) fn failed(self, trouble: &RequestError, at: Option<u64>) -> Vec<u8> {
        let error = trouble.errno as u32;
        if self.form == Form::Simple {
            return self.simple(error);
        }
        let mut end = trouble.message.len().min(MESSAGE_MAX);
        while !trouble.message.is_char_boundary(end) {
            end -= 1;
        }
        let message = trouble.message.get(..end).unwrap_or_default().as_bytes();
        let mut body = Vec::with_capacity(14 + message.len());
        body.extend(error.to_be_bytes());
        body.extend(u16::try_from(message.len()).unwrap_or(0).to_be_bytes());
        body.extend(message);
        body.extend(at.iter().flat_map(|at| at.to_be_bytes()));
        let kind = if at.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
        let mut out = self.chunk(kind, chunk::DONE, body.len());
        out.extend(body);
        out
    }

    /// The header of a chunk of `length` bytes read from `at`.
    pub(crate) fn data(self, at: u64, length: usize, is_last: bool) -> Vec<u8> {
        let flags = if is_last { chunk::DONE } else { 0 };
        let mut out = self.chunk(chunk::OFFSET_DATA, flags, length.saturating_add(8));
        out.extend(at.to_be_bytes());
        out
    }

    /// The extents of one status; `flag` is what marks those that are.
    pub(crate) fn status(self, id: u32, flag: u32, extents: &[Extent], is_last: bool) -> Vec<u8> {
        let flags = if is_last { chunk::DONE } else { 0 };
        let marks = |extent: &Extent| if extent.is { flag } else { 0 };
        let mut body = Vec::with_capacity(8 + extents.len() * 16);
        body.extend(id.to_be_bytes());
        let kind = match self.form {
            Form::Extended => {
                body.extend(u32::try_from(extents.len()).unwrap_or(0).to_be_bytes());
                for extent in extents {
                    body.extend(extent.length.to_be_bytes());
                    body.extend(u64::from(marks(extent)).to_be_bytes());
                }
                chunk::BLOCK_STATUS_EXT
            }
            Form::Simple | Form::Structured => {
                for extent in extents {
                    // No longer than the request, whose length has 32 bits.
                    let length = u32::try_from(extent.length).unwrap_or(u32::MAX);
                    body.extend(length.to_be_bytes());
                    body.extend(marks(extent).to_be_bytes());
                }
                chunk::BLOCK_STATUS
            }
        };
        let mut out = self.chunk(kind, flags, body.len());
        out.extend(body);
        out
    }
}
