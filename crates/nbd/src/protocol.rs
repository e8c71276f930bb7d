//! The numbers of the protocol, and requests as they come in.

/// What a server says first.
pub(crate) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What stands before each option, and behind the server's magic.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What stands before each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Requests with lengths of 32 bits.
const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Requests with lengths of 64 bits.
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;
/// Replies without structure.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Chunks of structured replies.
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// Chunks of extended replies.
pub(crate) const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Flags of the handshake: fixed newstyle, and no zeros behind the answer to `EXPORT_NAME`.
pub(crate) const HANDSHAKE: u16 = FIXED_NEWSTYLE | NO_ZEROES;
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

/// Options.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
    pub(crate) const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of replies to options.
pub(crate) mod answer {
    const ERROR: u32 = 1 << 31;
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const UNSUPPORTED: u32 = ERROR + 1;
    pub(crate) const POLICY: u32 = ERROR + 2;
    pub(crate) const INVALID: u32 = ERROR + 3;
    pub(crate) const UNKNOWN: u32 = ERROR + 6;
    pub(crate) const SHUTDOWN: u32 = ERROR + 7;
    pub(crate) const TOO_BIG: u32 = ERROR + 9;
    pub(crate) const EXTENDED_REQUIRED: u32 = ERROR + 10;
}

/// Pieces of information on an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// What a server says of an export that can be used.
pub(crate) mod transmission {
    const HAS_FLAGS: u16 = 1 << 0;
    const READ_ONLY: u16 = 1 << 1;
    const FLUSH: u16 = 1 << 2;
    const FUA: u16 = 1 << 3;
    const TRIM: u16 = 1 << 5;
    const WRITE_ZEROES: u16 = 1 << 6;
    const DF: u16 = 1 << 7;
    const MULTI_CONN: u16 = 1 << 8;
    const CACHE: u16 = 1 << 10;
    const FAST_ZERO: u16 = 1 << 11;

    /// The flags of an export. `DF` is of structured replies alone.
    pub(crate) fn flags(is_read_only: bool, is_structured: bool) -> u16 {
        let always = HAS_FLAGS | FLUSH | MULTI_CONN | CACHE;
        let change = match is_read_only {
            true => READ_ONLY,
            false => FUA | TRIM | WRITE_ZEROES | FAST_ZERO,
        };
        always | change | if is_structured { DF } else { 0 }
    }
}

/// Flags of requests.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
    pub(crate) const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Kinds of chunks.
pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const BLOCK_STATUS_EXT: u16 = 6;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
    pub(crate) const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// What a request wants.
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
    /// What is stored, and what changed.
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

    /// The flags that it may have, but for that of a payload.
    pub(crate) fn flags(self) -> u16 {
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
    /// What it wants.
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

    /// Decodes one; `None` when it is no request, after which nothing is known of what follows.
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

    /// Bytes that follow it.
    pub(crate) fn payload(&self, is_extended: bool) -> u64 {
        let has = match is_extended {
            true => self.flags & flag::PAYLOAD_LEN != 0,
            false => self.command == Command::Write,
        };
        if has { self.length } else { 0 }
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Fields of a structure, in big-endian order.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes with their number before them.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.u32()?).ok()?;
        self.bytes(n)
    }
}
