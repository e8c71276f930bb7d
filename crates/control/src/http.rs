//! Pages over HTTP, for monitoring systems and browsers of this machine.
//!
//! It answers `GET` and `HEAD` of HTTP/1.0 and 1.1, one request for each connection, with the page
//! that the caller's function has for the path, and with an error otherwise. Nothing can be changed
//! by it.
//!
//! Each connection has a thread and a short time. There are at most this many of them
//! ([`CONNECTIONS_MAX`]); those that say nothing make room for those that ask (`connections`).
//!
//! A page in a user's browser can have that browser ask here: it takes a name of its own that
//! leads to this address (DNS rebinding). So the `Host` of a request must be one that such a page
//! cannot have: `localhost`, or the address itself. It cannot be left out, nor hidden in a field
//! that this side reads otherwise than one in between would.

use connections::{Connections, Slot};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections open at once.
const CONNECTIONS_MAX: usize = 32;

/// Longest head of a request in bytes.
const HEAD_MAX: usize = 8 << 10;
/// How long one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what a client still sends is read after its answer.
const LINGER: Duration = Duration::from_millis(200);
/// A connection that came in so short a time ago is not hung up for another one.
const SPARED: Duration = Duration::from_millis(10);
/// How long the server rests when the system has no more files for it.
const REST: Duration = Duration::from_millis(100);

/// A request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest<'a> {
    /// The path, with its first `/`.
    pub path: &'a str,
    /// What follows the `?`; empty without one.
    pub query: &'a str,
    /// The forms that the client takes (`Accept`); empty when it does not say.
    pub accept: &'a str,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// Its `Content-Security-Policy`; empty: a browser shows it and runs nothing.
    pub policy: String,
    /// The text.
    pub text: String,
}

/// The meaning of a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedRequest<'a> {
    /// A page.
    Page {
        /// Which one.
        request: PageRequest<'a>,
        /// Whether it is to be sent, or only its length (`HEAD`).
        body: bool,
    },
    /// Another method.
    NotAllowed,
    /// No request.
    Bad,
}

/// Reads a head.
#[must_use]
pub fn wanted(head: &[u8]) -> ParsedRequest<'_> {
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return ParsedRequest::Bad };
    let mut words = line.trim_end_matches('\r').split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return ParsedRequest::Bad;
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') || !are_fields(head) {
        return ParsedRequest::Bad;
    }
    // Programs that speak HTTP/1.0 may leave it out.
    if version != "HTTP/1.0" && fields(head, "host").next().is_none() {
        return ParsedRequest::Bad;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let accept = fields(head, "accept").next().unwrap_or_default();
    match method {
        "GET" | "HEAD" => ParsedRequest::Page {
            request: PageRequest { path, query, accept },
            body: method == "GET",
        },
        _ => ParsedRequest::NotAllowed,
    }
}

/// The values of a field of a head.
fn fields<'a>(head: &'a [u8], name: &'static str) -> impl Iterator<Item = &'a str> {
    let lines =
        head.split(|b| *b == b'\n').skip(1).filter_map(|line| std::str::from_utf8(line).ok());
    let field = lines.filter_map(|line| line.split_once(':'));
    field.filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Whether all lines behind the first are fields as they should be (RFC 9112, section 5): a name of
/// letters that names may have, at once a colon, and a value without control characters.
fn are_fields(head: &[u8]) -> bool {
    let end = |line: &&[u8]| !line.is_empty() && *line != b"\r";
    head.split(|b| *b == b'\n').skip(1).take_while(end).all(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|b| *b == b':') else { return false };
        let (name, value) = line.split_at(colon);
        let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
        !name.is_empty()
            && name.iter().all(is_of_name)
            && value.is_ascii()
            && !value.iter().any(|b| b.is_ascii_control() && *b != b'\t')
    })
}

/// Whether a host with or without port is this machine, as no foreign page can name it. `local` is
/// the address at which the connection came in.
fn is_ours(host: &str, local: IpAddr) -> bool {
    let parts = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']'),
        None => Some(host.split_at(host.find(':').unwrap_or(host.len()))),
    };
    let Some((name, port)) = parts else { return false };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if digits.bytes().any(|b| !b.is_ascii_digit()) {
        return false;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = name.parse::<IpAddr>().map(|ip| ip.to_canonical());
    address.is_ok_and(|ip| ip.is_loopback() || ip == local.to_canonical())
}

/// Whether the head asks this machine, under a name that is its own.
fn is_for_us(head: &[u8], local: IpAddr) -> bool {
    let mut hosts = fields(head, "host");
    match (hosts.next(), hosts.next()) {
        // Of HTTP/1.0, where no browser is.
        (None, _) => true,
        (Some(host), None) => is_ours(host, local),
        (Some(_), Some(_)) => false,
    }
}

/// Whether the head is there to its empty line.
fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|w| w == b"\r\n\r\n") || head.windows(2).any(|w| w == b"\n\n")
}

/// Answers with the pages that `pages` has, in threads of its own, until the process ends. The
/// address it listens at is returned: the port is the system's choice where 0 was asked for.
///
/// # Errors
/// When the address cannot be had.
pub fn serve(
    address: SocketAddr,
    pages: impl Fn(&PageRequest<'_>) -> Option<Answer> + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    serve_within(address, PATIENCE, pages)
}

/// The same, with a connection that may take `patience`.
fn serve_within(
    address: SocketAddr,
    patience: Duration,
    pages: impl Fn(&PageRequest<'_>) -> Option<Answer> + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    let (pages, connections): (Arc<Pages>, _) =
        (Arc::new(pages), Connections::new(CONNECTIONS_MAX, SPARED));
    let answer_all = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => begin(stream, &connections, &pages, patience),
                Err(_) => std::thread::sleep(REST),
            }
        }
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(answer_all)?;
    Ok(bound)
}

type Pages = dyn Fn(&PageRequest<'_>) -> Option<Answer> + Send + Sync;

fn begin(
    stream: TcpStream,
    connections: &Arc<Connections<Arc<TcpStream>>>,
    pages: &Arc<Pages>,
    patience: Duration,
) {
    let (stream, pages) = (Arc::new(stream), Arc::clone(pages));
    // What goes wrong here is the client's loss, and it knows: the connection is closed.
    let Some(slot) = connections.admit(Arc::clone(&stream)) else { return };
    let work = move || drop(answer(&stream, &slot, &*pages, patience));
    let _ = std::thread::Builder::new().name("http_client".to_owned()).spawn(work);
}

fn answer(
    stream: &TcpStream,
    slot: &Slot<Arc<TcpStream>>,
    pages: &Pages,
    patience: Duration,
) -> io::Result<()> {
    stream.set_write_timeout(Some(patience))?;
    let Some(head) = read_head(stream, patience)? else {
        return refuse(stream, "431 Request Header Fields Too Large", "too long\n");
    };
    if !slot.begin() {
        return Ok(());
    }
    let local = stream.local_addr()?.ip();
    match wanted(&head) {
        ParsedRequest::Page { request, .. } if !is_for_us(&head, local) => {
            // The path is the client's own text, and goes back as text.
            let text = format!("ask for http://{}{}\n", stream.local_addr()?, request.path);
            refuse(stream, "421 Misdirected Request", &text)
        }
        ParsedRequest::Page { request, body } => match pages(&request) {
            Some(page) => respond(stream, "200 OK", &page, body),
            None => refuse(stream, "404 Not Found", "there is no such page\n"),
        },
        ParsedRequest::NotAllowed => refuse(stream, "405 Method Not Allowed", "only GET\n"),
        ParsedRequest::Bad => refuse(stream, "400 Bad Request", "no HTTP request\n"),
    }
}

/// The head of a request; `None` when it is too long.
fn read_head(mut stream: &TcpStream, patience: Duration) -> io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + patience;
    let mut head = Vec::new();
    while !is_whole(&head) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        let got = stream.read(&mut bytes)?;
        if got == 0 {
            break;
        }
        head.extend_from_slice(bytes.get(..got).unwrap_or_default());
        if head.len() > HEAD_MAX {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

fn refuse(stream: &TcpStream, status: &str, text: &str) -> io::Result<()> {
    let kind = "text/plain; charset=utf-8";
    let page = Answer { kind, text: text.to_owned(), ..Answer::default() };
    respond(stream, status, &page, true)
}

/// Sends a page. Browsers neither guess what it is, nor keep it, nor give it to other sites.
fn respond(mut stream: &TcpStream, status: &str, page: &Answer, body: bool) -> io::Result<()> {
    let (kind, length) = (page.kind, page.text.len());
    let policy = match page.policy.as_str() {
        "" => "default-src 'none'; frame-ancestors 'none'",
        policy => policy,
    };
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    if body {
        text.push_str(&page.text);
    }
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // What was not read would turn the end into a reset, which could overtake the page.
    let mut rest = [0; 1024];
    stream.set_read_timeout(Some(LINGER))?;
    let began = Instant::now();
    while matches!(stream.read(&mut rest), Ok(1..)) && began.elapsed() < LINGER {}
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn metrics(request: &PageRequest<'_>) -> Option<Answer> {
        let text = format!("{}zinc_up 1\n", [request.query, request.accept].concat());
        let page = Answer { kind: "text/plain", text, ..Answer::default() };
        (request.path == "/metrics").then_some(page)
    }

    #[test]
    fn the_page_is_served_and_the_rest_is_refused() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        // However slow the machine is, there is time for an answer.
        let for_ever = Duration::from_secs(24 * 3600);
        let address = serve_within(local, for_ever, metrics).unwrap();
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: LocalHost:9134\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("Content-Length: 10\r\n") && page.ends_with("\r\n\r\nzinc_up 1\n"));
        let page = ask(address, b"GET /metrics?q%20=1 HTTP/1.0\r\naccept: text/x\r\n\r\n");
        assert!(page.ends_with("\r\n\r\nq%20=1text/xzinc_up 1\n"), "{page}");
        let head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            (&b"GET / HTTP/1.0\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
            (b"GET /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\nHost : evil.example\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\nX: y\r\n Host: evil.example\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\nHost: \x80localhost\n\n", "400"),
            (b"GET /metrics HTTP/1.0\r\nX: a\rHost: evil.example\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.0\r\nHost\r\n\r\n", "400"),
            (b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
            (b"\xff\xff\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
        ] {
            assert!(ask(address, request).starts_with(&format!("HTTP/1.1 {status}")));
        }
        let host = |host: &str| format!("GET /metrics HTTP/1.1\r\nX: y\r\nhost:{host}\r\n\r\n");
        for (name, status) in [
            ("127.0.0.1", "200"),
            (" 127.0.0.1:80 ", "200"),
            ("[::1]:80", "200"),
            ("evil.example", "421"),
            ("127.0.0.1.evil.example", "421"),
            ("localhost.evil.example:9134", "421"),
            ("192.0.2.7", "421"),
            ("localhost:80@evil.example", "421"),
            ("[::1", "421"),
            ("[::1].evil.example", "421"),
            ("", "421"),
            ("localhost\r\nHost: evil.example", "421"),
        ] {
            let got = ask(address, host(name).as_bytes());
            assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {got}");
        }
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; HEAD_MAX]].concat();
        assert!(ask(address, &long).starts_with("HTTP/1.1 431"));
    }

    #[test]
    fn connections_that_say_nothing_keep_no_other_out() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        // Nothing ends an idle connection but another one that wants its place.
        let for_ever = Duration::from_secs(24 * 3600);
        let address = serve_within(local, for_ever, metrics).unwrap();
        let idle: Vec<_> =
            (0..3 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..5 {
            let page = ask(address, b"GET /metrics HTTP/1.0\r\n\r\n");
            assert!(page.contains("zinc_up 1"), "{page}");
        }
        drop(idle);
    }
}
