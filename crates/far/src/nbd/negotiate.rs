//! What client and server agree on before the first request.
//!
//! The client asks for structured replies, which name the bytes that could not be read, and for the
//! export with its block sizes. A server that does not know an option is asked in an older way; one
//! that refuses the export, or wants what the client does not have, is told of in words. Where the
//! name says so the first option is TLS, and all others are inside it; never is there a way back.

use crate::name::Tls;
use nbdwire::{
    ClientTls, Connection, FIXED_NEWSTYLE, Fields, Input, MAGIC, NO_ZEROES, OLDSTYLE_MAGIC,
    OPTION_MAGIC, OptionReply, answer, info, option, send, transmission,
};
use std::io;
use std::sync::Arc;

/// Longest data of a reply that are looked at.
const REPLY_MAX: u32 = 64 << 10;
/// Replies to one option, at most.
const REPLIES_MAX: usize = 64;
/// What a request carries at most where a server does not say: what every server takes.
pub(super) const PAYLOAD: u32 = 32 << 20;
/// The smallest payload that a server may want requests to be cut into.
const PAYLOAD_MIN: u32 = 64 << 10;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection; another try may succeed.
    Connection(io::Error),
    /// The server refuses, or does not speak the protocol.
    Refused(&'static str),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Self {
        Self::Connection(e)
    }
}

/// An export as a server describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExportInfo {
    /// Bytes.
    pub(super) size: u64,
    /// Of [`transmission`].
    pub(super) flags: u16,
    /// Requests begin and end at multiples of this power of two.
    pub(super) block: u32,
    /// Bytes of a request, at most; a multiple of `block`.
    pub(super) payload: u32,
    /// Replies may be chunks.
    pub(super) is_structured: bool,
}

impl ExportInfo {
    /// The export has this flag.
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Agrees on the transmission of an export; the connection that it is on is the one inside TLS,
/// where that is wanted.
pub(super) fn negotiate(
    line: Arc<dyn Connection>,
    input: &mut Input,
    export: &str,
    tls: Option<&Tls>,
) -> Result<(ExportInfo, Arc<dyn Connection>), Failed> {
    let (flags, zeros) = greet(&*line, input)?;
    if flags & FIXED_NEWSTYLE == 0 {
        if tls.is_some() {
            return Err(NO_TLS);
        }
        return Ok((by_name(&*line, input, export, (zeros, false))?, line));
    }
    let Some(tls) = tls else {
        return Ok((choose(&*line, input, export, zeros)?, line));
    };
    let line = go_inside(line, input, tls)?;
    // What a server thinks of this client's certificate may be told with its first answer.
    let agreed = choose(&*line, input, export, zeros).map_err(|failed| match failed {
        Failed::Connection(e) => untrusted(e),
        refused @ Failed::Refused(_) => refused,
    })?;
    Ok((agreed, line))
}

/// Why a connection inside TLS ended.
fn untrusted(e: io::Error) -> Failed {
    match e.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::Other => Failed::Refused(
            "TLS: the server's certificate is not trusted, or it does not accept this machine's",
        ),
        _ => Failed::Connection(e),
    }
}

const NO_TLS: Failed = Failed::Refused("the server does not speak TLS");

/// Takes the connection into TLS.
fn go_inside(
    line: Arc<dyn Connection>,
    input: &mut Input,
    tls: &Tls,
) -> Result<Arc<dyn Connection>, Failed> {
    let own = ClientTls::read(&tls.certificates);
    let own = own.map_err(|_| Failed::Refused("the TLS certificates cannot be read"))?;
    if ask(&*line, input, option::STARTTLS, &[], &mut |_, _| ())?.is_err() {
        return Err(NO_TLS);
    }
    // It came outside of TLS, so anyone may have sent it.
    if input.is_ahead() {
        return Err(Failed::Refused("the server sent unexpected data before TLS began"));
    }
    let inside = own.connect(line, &tls.host, input).map_err(untrusted)?;
    Ok(Arc::new(inside))
}

/// Greets the server: what it can do, and how many zeros follow an answer in the old way.
fn greet(line: &dyn Connection, input: &mut Input) -> Result<(u16, usize), Failed> {
    let mut hello = [0; 18];
    input.fill(line, &mut hello)?;
    let mut fields = Fields(&hello);
    let (magic, next, flags) = (fields.u64(), fields.u64(), fields.u16().unwrap_or(0));
    match (magic, next) {
        (Some(MAGIC), Some(OPTION_MAGIC)) => {}
        (Some(MAGIC), Some(OLDSTYLE_MAGIC)) => {
            return Err(Failed::Refused("the server speaks only the oldest form of NBD"));
        }
        _ => return Err(Failed::Refused("it is not an NBD server")),
    }
    let own = flags & (FIXED_NEWSTYLE | NO_ZEROES);
    send(line, &u32::from(own).to_be_bytes(), &[])?;
    Ok((flags, if flags & NO_ZEROES == 0 { 124 } else { 0 }))
}

/// Chooses the export and how it is used.
fn choose(
    line: &dyn Connection,
    input: &mut Input,
    export: &str,
    zeros: usize,
) -> Result<ExportInfo, Failed> {
    let is_structured = ask(line, input, option::STRUCTURED_REPLY, &[], &mut |_, _| ())?.is_ok();
    let mut data = Vec::with_capacity(export.len() + 8);
    data.extend(u32::try_from(export.len()).unwrap_or(u32::MAX).to_be_bytes());
    data.extend(export.as_bytes());
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    let mut found = ExportReply::default();
    let answered =
        ask(line, input, option::GO, &data, &mut |kind, data| found.take_info(kind, data))?;
    match answered {
        Ok(()) => found.agreed(is_structured),
        Err(answer::UNSUPPORTED) => by_name(line, input, export, (zeros, is_structured)),
        Err(kind) => Err(Failed::Refused(match kind {
            answer::UNKNOWN => "the server has no such export",
            answer::POLICY => "the server does not allow this machine to use the export",
            answer::TLS_REQUIRED => "the server requires TLS: use a name that begins with nbds://",
            answer::SHUTDOWN => "the server is shutting down",
            _ => "the server refuses the export",
        })),
    }
}

/// Begins with an export as old servers know it: a client that names what is not there is hung up
/// on.
fn by_name(
    line: &dyn Connection,
    input: &mut Input,
    export: &str,
    (zeros, is_structured): (usize, bool),
) -> Result<ExportInfo, Failed> {
    put(line, option::EXPORT_NAME, export.as_bytes())?;
    let mut reply = [0; 10 + 124];
    let reply = reply.get_mut(..10 + zeros).unwrap_or_default();
    input.fill(line, reply).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Failed::Refused("the server has no such export"),
        _ => Failed::Connection(e),
    })?;
    let mut fields = Fields(reply);
    let found = ExportReply { export: fields.u64().zip(fields.u16()), blocks: None };
    found.agreed(is_structured)
}

fn put(line: &dyn Connection, option: u32, data: &[u8]) -> io::Result<()> {
    let mut head = Vec::with_capacity(16);
    head.extend(OPTION_MAGIC.to_be_bytes());
    head.extend(option.to_be_bytes());
    head.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    send(line, &head, data)
}

/// Asks for an option and hands on what is said before it is acknowledged; the kind of the answer
/// when it is not.
fn ask(
    line: &dyn Connection,
    input: &mut Input,
    option: u32,
    data: &[u8],
    each: &mut dyn FnMut(u32, &[u8]),
) -> Result<Result<(), u32>, Failed> {
    put(line, option, data)?;
    let mut body = Vec::new();
    for _ in 0..REPLIES_MAX {
        let mut header = [0; OptionReply::SIZE];
        input.fill(line, &mut header)?;
        let reply = OptionReply::decode(&header);
        let reply = reply.filter(|reply| reply.option == option && reply.length <= REPLY_MAX);
        let Some(reply) = reply else {
            return Err(Failed::Refused("the server's answer is not of the NBD protocol"));
        };
        input.take(line, &mut body, reply.length as usize)?;
        match reply.kind {
            answer::ACK => return Ok(Ok(())),
            kind if reply.is_error() => return Ok(Err(kind)),
            kind => each(kind, &body),
        }
    }
    Err(Failed::Refused("the server's answer is too long"))
}

/// What a server said of an export.
#[derive(Default)]
struct ExportReply {
    /// Size and flags.
    export: Option<(u64, u16)>,
    /// Smallest and largest request.
    blocks: Option<(u32, u32)>,
}

impl ExportReply {
    fn take_info(&mut self, kind: u32, data: &[u8]) {
        let mut fields = Fields(data);
        match (kind, fields.u16()) {
            (answer::INFO, Some(info::EXPORT)) => self.export = fields.u64().zip(fields.u16()),
            (answer::INFO, Some(info::BLOCK_SIZE)) => {
                let (least, _preferred) = (fields.u32(), fields.u32());
                self.blocks = least.zip(fields.u32());
            }
            _ => {}
        }
    }

    fn agreed(&self, is_structured: bool) -> Result<ExportInfo, Failed> {
        let wrong = Failed::Refused("the server does not describe the export");
        let (size, flags) = self.export.ok_or(wrong)?;
        let flags = if flags & transmission::HAS_FLAGS == 0 { 0 } else { flags };
        let (block, most) = self.blocks.unwrap_or((1, PAYLOAD));
        if !block.is_power_of_two() || block > PAYLOAD_MIN || most < PAYLOAD_MIN {
            return Err(Failed::Refused("the server's block sizes cannot be used"));
        }
        let payload = most.min(PAYLOAD) / block * block;
        if !size.is_multiple_of(u64::from(block)) {
            return Err(Failed::Refused(
                "the size of the export is not a multiple of its block size",
            ));
        }
        Ok(ExportInfo { size, flags, block, payload, is_structured })
    }
}
