//! The numbers of the protocol, and the headers before data: requests, replies, chunks.

/// The first number of a server.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The second number of a server of the old protocol.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// The number before each option, and behind the server's magic.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The number before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Requests with lengths of 32 bits.
const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Requests with lengths of 64 bits.
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;
/// Replies without structure.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Chunks of structured replies.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// Chunks of extended replies.
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Flags of the handshake: fixed newstyle, and no zeros behind the answer to `EXPORT_NAME`.
pub const HANDSHAKE: u16 = FIXED_NEWSTYLE | NO_ZEROES;
/// Options are answered each by itself.
pub const FIXED_NEWSTYLE: u16 = 1;
/// No zeros behind the answer to `EXPORT_NAME`.
pub const NO_ZEROES: u16 = 2;

/// Options.
pub mod option {
    /// Begins with an export, in the oldest form.
    pub const EXPORT_NAME: u32 = 1;
    /// The end.
    pub const ABORT: u32 = 2;
    /// Names of exports.
    pub const LIST: u32 = 3;
    /// Everything from here on is encrypted.
    pub const STARTTLS: u32 = 5;
    /// The description of an export.
    pub const INFO: u32 = 6;
    /// The same, and the transmission begins.
    pub const GO: u32 = 7;
    /// Replies are chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Statuses that there are.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Statuses that are chosen.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Lengths have 64 bits.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of replies to options.
pub mod answer {
    const ERROR: u32 = 1 << 31;
    /// It is done.
    pub const ACK: u32 = 1;
    /// The name of an export.
    pub const SERVER: u32 = 2;
    /// A piece of information on an export.
    pub const INFO: u32 = 3;
    /// A status and its number.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const UNSUPPORTED: u32 = ERROR + 1;
    /// The server does not want it.
    pub const POLICY: u32 = ERROR + 2;
    /// It makes no sense.
    pub const INVALID: u32 = ERROR + 3;
    /// The server wants an encrypted connection.
    pub const TLS_REQUIRED: u32 = ERROR + 5;
    /// There is no such export.
    pub const UNKNOWN: u32 = ERROR + 6;
    /// The server stops.
    pub const SHUTDOWN: u32 = ERROR + 7;
    /// It is too long.
    pub const TOO_BIG: u32 = ERROR + 9;
    /// It needs lengths of 64 bits.
    pub const EXTENDED_REQUIRED: u32 = ERROR + 10;
}

/// Pieces of information on an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// A sentence on it.
    pub const DESCRIPTION: u16 = 2;
    /// Its block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The flags of an export that can be used.
pub mod transmission {
    /// These flags mean something.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Nothing can be changed.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Can be flushed.
    pub const FLUSH: u16 = 1 << 2;
    /// Knows [`super::flag::FUA`].
    pub const FUA: u16 = 1 << 3;
    /// Ranges can be given back.
    pub const TRIM: u16 = 1 << 5;
    /// Ranges can be made zeros.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Knows [`super::flag::DF`].
    pub const DF: u16 = 1 << 7;
    /// A flush is for all connections.
    pub const MULTI_CONN: u16 = 1 << 8;
    /// Ranges can be read ahead.
    pub const CACHE: u16 = 1 << 10;
    /// Knows [`super::flag::FAST_ZERO`].
    pub const FAST_ZERO: u16 = 1 << 11;

    /// The flags of an export. `DF` is of structured replies alone.
    #[must_use]
    pub fn flags(is_read_only: bool, is_structured: bool) -> u16 {
        let always = HAS_FLAGS | FLUSH | MULTI_CONN | CACHE;
        let change = match is_read_only {
            true => READ_ONLY,
            false => FUA | TRIM | WRITE_ZEROES | FAST_ZERO,
        };
        always | change | if is_structured { DF } else { 0 }
    }
}

/// Flags of requests.
pub mod flag {
    /// Durable before it is answered.
    pub const FUA: u16 = 1 << 0;
    /// The zeros are stored.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The data come in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Only when it is faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// Data follow.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Kinds of chunks.
pub mod chunk {
    /// The last chunk of a reply (a flag).
    pub const DONE: u16 = 1;
    /// Without content.
    pub const NONE: u16 = 0;
    /// Bytes, and where they are.
    pub const OFFSET_DATA: u16 = 1;
    /// A range of zeros, and its length.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of a status.
    pub const BLOCK_STATUS: u16 = 5;
    /// The same with lengths of 64 bits.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// It failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// It failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes.
    Read,
    /// Bytes are to be written, which follow.
    Write,
    /// The client goes.
    Disconnect,
    /// All that was answered is to be durable.
    Flush,
    /// Bytes are not needed any more.
    Trim,
    /// Bytes will be read soon.
    Cache,
    /// Bytes are to be zeros.
    WriteZeroes,
    /// The allocation, and the changes.
    BlockStatus,
    /// None of these.
    Other(u16),
}

impl Command {
    fn of(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Other(other),
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Other(number) => number,
        }
    }

    /// The flags that it may have, but for that of a payload.
    #[must_use]
    pub fn flags(self) -> u16 {
        match self {
            Self::Read => flag::FUA | flag::DF,
            Self::Write | Self::Trim => flag::FUA,
            Self::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            Self::BlockStatus => flag::FUA | flag::REQ_ONE,
            // Some clients set it always.
            Self::Flush | Self::Cache | Self::Disconnect => flag::FUA,
            Self::Other(_) => u16::MAX,
        }
    }
}

/// A request, without the bytes that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its flags.
    pub flags: u16,
    /// Its command.
    pub command: Command,
    /// Repeated in the reply.
    pub cookie: u64,
    /// Where.
    pub offset: u64,
    /// How many bytes: of the range, or of what follows.
    pub length: u64,
}

impl Request {
    /// Bytes of a request.
    #[must_use]
    pub fn size(is_extended: bool) -> usize {
        if is_extended { 32 } else { 28 }
    }

    /// Decodes one; `None` when it is not a request, after which nothing is known of what follows.
    #[must_use]
    pub fn decode(bytes: &[u8], is_extended: bool) -> Option<Self> {
        let mut fields = Fields(bytes);
        let magic = if is_extended { EXTENDED_MAGIC } else { REQUEST_MAGIC };
        if fields.u32()? != magic {
            return None;
        }
        Some(Self {
            flags: fields.u16()?,
            command: Command::of(fields.u16()?),
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: if is_extended { fields.u64()? } else { u64::from(fields.u32()?) },
        })
    }

    /// Lays one out, with a length of 32 bits; `None` when its length has more.
    #[must_use]
    pub fn encode(&self) -> Option<[u8; 28]> {
        let length = u32::try_from(self.length).ok()?;
        let mut out = [0; 28];
        out[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.to_be_bytes());
        out[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&length.to_be_bytes());
        Some(out)
    }

    /// Bytes that follow it.
    #[must_use]
    pub fn payload(&self, is_extended: bool) -> u64 {
        let has = match is_extended {
            true => self.flags & flag::PAYLOAD_LEN != 0,
            false => self.command == Command::Write,
        };
        if has { self.length } else { 0 }
    }

    /// It has this flag.
    #[must_use]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Fields of a structure, in big-endian order.
pub struct Fields<'a>(
    /// The rest of the bytes.
    pub &'a [u8],
);

impl<'a> Fields<'a> {
    /// The next `n` bytes; `None` when fewer are left.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// A number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes with their number before them.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.u32()?).ok()?;
        self.bytes(n)
    }
}

/// The header of a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReply {
    /// The option.
    pub option: u32,
    /// One of [`answer`].
    pub kind: u32,
    /// Bytes that follow.
    pub length: u32,
}

impl OptionReply {
    /// Bytes of one.
    pub const SIZE: usize = 20;

    /// Decodes one; `None` when it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.u64()? != OPTION_REPLY_MAGIC {
            return None;
        }
        Some(Self { option: fields.u32()?, kind: fields.u32()?, length: fields.u32()? })
    }

    /// The server refuses the option.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind & (1 << 31) != 0
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The last of its reply.
    pub is_last: bool,
    /// One of [`chunk`].
    pub kind: u16,
    /// Bytes that follow.
    pub length: u32,
}

impl Chunk {
    /// It means that the request failed, kinds that are not known yet included.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind & (1 << 15) != 0
    }
}

/// The beginning of what a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole reply, but for the bytes of a read that succeeded.
    Simple {
        /// 0, or what went wrong.
        error: u32,
        /// The request's.
        cookie: u64,
    },
    /// A chunk of one.
    Chunk {
        /// The request's.
        cookie: u64,
        /// Its kind.
        chunk: Chunk,
    },
}

impl Reply {
    /// Bytes of a simple reply, which is the shorter one: a chunk's length follows.
    pub const SIZE: usize = 16;

    /// Decodes the header before data; `length` reads the four bytes that follow if it is a chunk.
    ///
    /// # Errors
    /// An error of `length`; an error of its own if it is not a reply.
    pub fn decode<E>(
        bytes: &[u8; Self::SIZE],
        length: impl FnOnce() -> Result<[u8; 4], E>,
    ) -> Result<Option<Self>, E> {
        let mut fields = Fields(bytes);
        let Some(magic) = fields.u32() else { return Ok(None) };
        let simple = |mut fields: Fields<'_>| {
            Some(Self::Simple { error: fields.u32()?, cookie: fields.u64()? })
        };
        match magic {
            SIMPLE_REPLY_MAGIC => Ok(simple(fields)),
            CHUNK_MAGIC => {
                let (Some(flags), Some(kind), Some(cookie)) =
                    (fields.u16(), fields.u16(), fields.u64())
                else {
                    return Ok(None);
                };
                let length = u32::from_be_bytes(length()?);
                let is_last = flags & chunk::DONE != 0;
                Ok(Some(Self::Chunk { cookie, chunk: Chunk { is_last, kind, length } }))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_decoded_as_they_were_encoded() {
        for command in [Command::Read, Command::Write, Command::Flush, Command::WriteZeroes] {
            let request =
                Request { flags: flag::FUA, command, cookie: 7, offset: 1 << 40, length: 4096 };
            let bytes = request.encode();
            assert_eq!(bytes.and_then(|bytes| Request::decode(&bytes, false)), Some(request));
        }
        let long =
            Request { flags: 0, command: Command::Trim, cookie: 0, offset: 0, length: 1 << 32 };
        assert_eq!(long.encode(), None);
    }

    #[test]
    fn what_is_no_reply_is_none() {
        let decode = |bytes: [u8; 16]| Reply::decode(&bytes, || Err("no length"));
        assert_eq!(decode([0; 16]), Ok(None));
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[7] = 5;
        bytes[15] = 9;
        assert_eq!(decode(bytes), Ok(Some(Reply::Simple { error: 5, cookie: 9 })));
        bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
        assert_eq!(decode(bytes), Err("no length"));
    }
}
