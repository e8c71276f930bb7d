//! The negotiation of client and server before the first request.
//!
//! Options are answered one after the other until one of them begins the transmission. An option
//! that cannot be decoded, is too long or is not known gets an error reply and has no effect; only
//! a client that does not speak the protocol, or takes longer than the deadline, is hung up.

use crate::export::{Export, Facts, Source, Status};
use crate::limits::{PAYLOAD, PIECE};
use crate::options::{self, Contexts};
use crate::reply::Form;
use nbdwire::{Connection, Input, ServerTls, send};
use nbdwire::{
    FIXED_NEWSTYLE, HANDSHAKE, MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, answer, info,
    option, transmission,
};
use std::io;
use std::sync::Arc;

/// Bytes of an option, at most.
const OPTION_MAX: u32 = 64 << 10;
/// Bytes of an option that is too long and skipped, at most.
const SKIPPED_MAX: u32 = 16 << 20;
/// Options of one negotiation, at most.
const OPTIONS_MAX: usize = 10_000;
/// The status of what is stored.
const ALLOCATION: &str = "base:allocation";
/// The prefixes of the names of statuses about the changes since a state.
const SINCE: [&str; 2] = ["zinc:dirty-since:", "qemu:dirty-bitmap:"];

/// The result of a negotiation.
pub(crate) struct Negotiated {
    /// The connection of requests: the plain one, or the one inside TLS.
    pub(crate) line: Arc<dyn Connection>,
    pub(crate) export: Arc<dyn Export>,
    pub(crate) form: Form,
    /// Statuses that the client may ask for, by the numbers that it knows them by.
    pub(crate) statuses: Vec<(u32, Status)>,
}

/// The step after an option.
enum NextStep {
    /// The next option.
    Option,
    /// Options inside TLS.
    Tls,
    /// The transmission.
    Go(Arc<dyn Export>),
    /// The end.
    End,
}

/// One negotiation.
struct Negotiation<'a> {
    line: Arc<dyn Connection>,
    sources: &'a [Arc<dyn Source>],
    /// With this, nothing but STARTTLS is answered before TLS.
    tls: Option<&'a ServerTls>,
    is_inside_tls: bool,
    form: Form,
    /// The client wants no zeros behind the answer to `EXPORT_NAME`.
    no_zeroes: bool,
    /// The export for which statuses were chosen, and these.
    statuses: (String, Vec<(u32, Status)>),
}

/// Negotiates; `None` when the client ends that, as it may. With `tls` nothing is revealed to a
/// client before it has begun with that.
pub(crate) fn negotiate(
    line: &Arc<dyn Connection>,
    input: &mut Input,
    sources: &[Arc<dyn Source>],
    tls: Option<&ServerTls>,
) -> io::Result<Option<Negotiated>> {
    let mut hello = Vec::with_capacity(18);
    hello.extend(MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(HANDSHAKE.to_be_bytes());
    send(&**line, &hello, &[])?;
    let mut flags = [0; 4];
    input.fill(&**line, &mut flags)?;
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(HANDSHAKE) != 0 || flags & u32::from(FIXED_NEWSTYLE) == 0 {
        return Ok(None);
    }
    let mut negotiation = Negotiation {
        line: Arc::clone(line),
        sources,
        tls,
        is_inside_tls: false,
        form: Form::Simple,
        no_zeroes: flags & u32::from(NO_ZEROES) != 0,
        statuses: (String::new(), Vec::new()),
    };
    let mut data = Vec::new();
    for _ in 0..OPTIONS_MAX {
        let line = Arc::clone(&negotiation.line);
        let mut header = [0; 16];
        input.fill(&*line, &mut header)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = header;
        let magic = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let option = u32::from_be_bytes([i, j, k, l]);
        let length = u32::from_be_bytes([m, n, o, p]);
        if magic != OPTION_MAGIC || length > SKIPPED_MAX {
            return Ok(None);
        }
        if length > OPTION_MAX {
            skip(&*line, input, length)?;
            negotiation.refuse(option, answer::TOO_BIG, "the option is too long")?;
            continue;
        }
        input.take(&*line, &mut data, length as usize)?;
        match negotiation.option(option, &data)? {
            NextStep::Option => {}
            NextStep::End => return Ok(None),
            // Bytes before the answer came outside of TLS: anyone may have sent them.
            NextStep::Tls if input.is_ahead() => return Ok(None),
            NextStep::Tls => negotiation.go_inside(input)?,
            NextStep::Go(export) => {
                let Negotiation { line, form, statuses: (_, statuses), .. } = negotiation;
                return Ok(Some(Negotiated { line, export, form, statuses }));
            }
        }
    }
    Ok(None)
}

/// Reads this many bytes and forgets them.
pub(crate) fn skip(line: &dyn Connection, input: &mut Input, length: u32) -> io::Result<()> {
    let mut left = length as usize;
    let mut bytes = [0; 4096];
    while left > 0 {
        let n = left.min(bytes.len());
        input.fill(line, &mut bytes[..n])?;
        left -= n;
    }
    Ok(())
}

impl Negotiation<'_> {
    fn answer(&self, option: u32, kind: u32, body: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(20);
        head.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        head.extend(option.to_be_bytes());
        head.extend(kind.to_be_bytes());
        head.extend(u32::try_from(body.len()).unwrap_or(0).to_be_bytes());
        send(&*self.line, &head, body)
    }

    fn refuse(&self, option: u32, kind: u32, why: &str) -> io::Result<NextStep> {
        self.answer(option, kind, why.as_bytes())?;
        Ok(NextStep::Option)
    }

    fn acknowledge(&self, option: u32) -> io::Result<NextStep> {
        self.answer(option, answer::ACK, &[])?;
        Ok(NextStep::Option)
    }

    /// The source of this name; no name is that of the only one.
    fn source(&self, name: &str) -> Option<&Arc<dyn Source>> {
        match self.sources {
            [only] if name.is_empty() => Some(only),
            all => all.iter().find(|source| source.name() == name),
        }
    }

    /// From now on all is inside TLS, and what was agreed on before is forgotten.
    fn go_inside(&mut self, input: &Input) -> io::Result<()> {
        let Some(tls) = self.tls else { return Ok(()) };
        self.line = Arc::new(tls.accept(Arc::clone(&self.line), input)?);
        (self.is_inside_tls, self.form, self.statuses) = (true, Form::Simple, Default::default());
        Ok(())
    }

    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<NextStep> {
        if self.tls.is_some() && !self.is_inside_tls {
            match option {
                option::STARTTLS | option::ABORT => {}
                // It cannot be refused in any other way.
                option::EXPORT_NAME => return Ok(NextStep::End),
                _ => return self.refuse(option, answer::TLS_REQUIRED, "begin with TLS"),
            }
        }
        let only_alone =
            [option::LIST, option::STARTTLS, option::STRUCTURED_REPLY, option::EXTENDED_HEADERS];
        if only_alone.contains(&option) && !data.is_empty() {
            return self.refuse(option, answer::INVALID, "the option takes no data");
        }
        match option {
            option::EXPORT_NAME => self.export_name(data),
            option::ABORT => {
                // The client may have gone without waiting for this.
                let _ = self.answer(option, answer::ACK, &[]);
                Ok(NextStep::End)
            }
            option::LIST => {
                for source in self.sources {
                    let name = source.name().as_bytes();
                    let mut body = u32::try_from(name.len()).unwrap_or(0).to_be_bytes().to_vec();
                    body.extend(name);
                    self.answer(option, answer::SERVER, &body)?;
                }
                self.acknowledge(option)
            }
            option::INFO | option::GO => self.info(option, data),
            option::STRUCTURED_REPLY if self.form == Form::Extended => {
                self.refuse(option, answer::EXTENDED_REQUIRED, "extended headers were chosen")
            }
            option::STRUCTURED_REPLY => {
                self.form = Form::Structured;
                self.acknowledge(option)
            }
            option::EXTENDED_HEADERS => {
                self.form = Form::Extended;
                self.acknowledge(option)
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            option::STARTTLS if self.tls.is_none() => {
                self.refuse(option, answer::POLICY, "TLS is not set up here")
            }
            option::STARTTLS if self.is_inside_tls => {
                self.refuse(option, answer::INVALID, "TLS has begun already")
            }
            option::STARTTLS => {
                self.acknowledge(option)?;
                Ok(NextStep::Tls)
            }
            _ => self.refuse(option, answer::UNSUPPORTED, "the option is not known"),
        }
    }

    fn flags(&self, facts: &Facts) -> u16 {
        transmission::flags(facts.is_read_only, self.form != Form::Simple)
    }

    /// The old way to begin, which knows no errors: a client that asks for what is not there is
    /// hung up.
    fn export_name(&self, data: &[u8]) -> io::Result<NextStep> {
        let source = options::name(data).and_then(|name| self.source(&name));
        let Some(Ok(export)) = source.map(|source| source.open()) else {
            return Ok(NextStep::End);
        };
        let facts = export.facts();
        let mut body = facts.size.to_be_bytes().to_vec();
        body.extend(self.flags(facts).to_be_bytes());
        if !self.no_zeroes {
            body.extend([0; 124]);
        }
        send(&*self.line, &body, &[])?;
        Ok(NextStep::Go(export))
    }

    fn info(&mut self, option: u32, data: &[u8]) -> io::Result<NextStep> {
        let Some(choice) = options::choice(data) else {
            return self.refuse(option, answer::INVALID, "the option cannot be read");
        };
        let Some(source) = self.source(&choice.name) else {
            return self.refuse(option, answer::UNKNOWN, "there is no export of that name");
        };
        let export = match source.open() {
            Ok(export) => export,
            Err(why) => return self.refuse(option, answer::SHUTDOWN, &why.message),
        };
        let facts = export.facts();
        let mut body = info::EXPORT.to_be_bytes().to_vec();
        body.extend(facts.size.to_be_bytes());
        body.extend(self.flags(facts).to_be_bytes());
        self.answer(option, answer::INFO, &body)?;
        for (number, text) in
            [(info::NAME, source.name().to_owned()), (info::DESCRIPTION, source.description())]
        {
            if choice.wanted.contains(&number) {
                let mut body = number.to_be_bytes().to_vec();
                body.extend(text.as_bytes());
                self.answer(option, answer::INFO, &body)?;
            }
        }
        let preferred = facts.block_size.clamp(512, PIECE as u32);
        let mut body = info::BLOCK_SIZE.to_be_bytes().to_vec();
        body.extend([1, preferred, PAYLOAD].into_iter().flat_map(u32::to_be_bytes));
        self.answer(option, answer::INFO, &body)?;
        self.acknowledge(option)?;
        if option == option::INFO {
            return Ok(NextStep::Option);
        }
        if self.statuses.0 != choice.name {
            self.statuses.1.clear();
        }
        Ok(NextStep::Go(export))
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> io::Result<NextStep> {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.statuses = (String::new(), Vec::new());
        }
        let Some(Contexts { name, queries }) = options::contexts(data) else {
            return self.refuse(option, answer::INVALID, "the option cannot be read");
        };
        if is_set && self.form == Form::Simple {
            let why = "structured replies were not chosen";
            return self.refuse(option, answer::INVALID, why);
        }
        let Some(source) = self.source(&name) else {
            return self.refuse(option, answer::UNKNOWN, "there is no export of that name");
        };
        let export = match source.open() {
            Ok(export) => export,
            Err(why) => return self.refuse(option, answer::SHUTDOWN, &why.message),
        };
        let chosen = chosen(&all_statuses(export.facts()), &queries, is_set);
        for (id, (name, status)) in (1..).zip(chosen) {
            // Numbers mean nothing where nothing is chosen.
            let number = if is_set { id } else { 0u32 };
            let mut body = number.to_be_bytes().to_vec();
            body.extend(name.as_bytes());
            self.answer(option, answer::META_CONTEXT, &body)?;
            if is_set {
                self.statuses.1.push((id, status));
            }
        }
        self.statuses.0 = name;
        self.acknowledge(option)
    }
}

/// The names of all statuses of an export.
fn all_statuses(facts: &Facts) -> Vec<(String, Status)> {
    let mut all = vec![(ALLOCATION.to_owned(), Status::Allocation)];
    for prefix in SINCE {
        let since = facts.since.iter();
        all.extend(since.map(|state| (format!("{prefix}{state}"), Status::Since(state.clone()))));
    }
    all
}

/// The requested ones. A list request may use prefixes of names, and no query requests all.
fn chosen(all: &[(String, Status)], queries: &[String], is_set: bool) -> Vec<(String, Status)> {
    let is_chosen = |name: &String| {
        let is_selected = |query: &String| match query.ends_with(':') {
            true => !is_set && name.starts_with(query.as_str()),
            false => name == query,
        };
        queries.iter().any(is_selected) || (!is_set && queries.is_empty())
    };
    all.iter().filter(|(name, _)| is_chosen(name)).cloned().collect()
}
