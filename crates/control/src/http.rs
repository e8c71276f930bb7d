//! One page over HTTP: what monitoring systems fetch.
//!
//! It answers `GET /metrics` of HTTP/1.0 and 1.1, one request for each connection, and says what
//! is wrong with everything else.
//!
//! Each connection has a thread and a short time. There are at most this many of them
//! ([`CONNECTIONS_MAX`]); connections that say nothing make room for those that ask (`guests`).
//!
//! A page in a user's browser can have that browser ask here: it takes a name of its own that
//! leads to this address (DNS rebinding). So the `Host` of a request must be one that such a page
//! cannot have: `localhost`, or the address itself.

use crate::guests::{Guests, Seat};
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

/// What a head asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The metrics; `body` is false for `HEAD`.
    Metrics {
        /// Whether it is to be sent, or only its length.
        body: bool,
    },
    /// Another path.
    NotFound,
    /// Another method.
    NotAllowed,
    /// No request.
    Bad,
}

/// Reads the first line of a head.
#[must_use]
pub fn wanted(head: &[u8]) -> Wanted {
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Wanted::Bad };
    let mut words = line.trim_end_matches('\r').split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Wanted::Bad;
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Wanted::Bad;
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => Wanted::Metrics { body: method == "GET" },
        ("GET" | "HEAD", _) => Wanted::NotFound,
        _ => Wanted::NotAllowed,
    }
}

/// The hosts that a head names; more than one is an error of the client.
fn hosts(head: &[u8]) -> impl Iterator<Item = &str> {
    let lines =
        head.split(|b| *b == b'\n').skip(1).filter_map(|line| std::str::from_utf8(line).ok());
    let field = lines.filter_map(|line| line.split_once(':'));
    field.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.trim())
}

/// Whether a host with or without port is this machine, as no foreign page can name it. `local` is
/// the address at which the connection came in.
fn is_ours(host: &str, local: IpAddr) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = name.parse::<IpAddr>().map(|ip| ip.to_canonical());
    address.is_ok_and(|ip| ip.is_loopback() || ip == local.to_canonical())
}

/// Whether the head asks this machine, under a name that is its own.
fn is_for_us(head: &[u8], local: IpAddr) -> bool {
    let mut hosts = hosts(head);
    match (hosts.next(), hosts.next()) {
        // A browser always says it; programs that speak HTTP/1.0 need not.
        (None, _) => true,
        (Some(host), None) => is_ours(host, local),
        (Some(_), Some(_)) => false,
    }
}

/// Whether the head is there to its empty line.
fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|w| w == b"\r\n\r\n") || head.windows(2).any(|w| w == b"\n\n")
}

/// Answers with the page that `page` makes, in threads of its own, until the process ends. The
/// address it listens at is returned: the port is the system's choice where 0 was asked for.
///
/// # Errors
/// When the address cannot be had.
pub fn serve(
    address: SocketAddr,
    page: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    serve_within(address, PATIENCE, page)
}

/// The same, with a connection that may take so long.
fn serve_within(
    address: SocketAddr,
    patience: Duration,
    page: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    let (page, guests): (Arc<Metrics>, _) = (Arc::new(page), Guests::new(CONNECTIONS_MAX, SPARED));
    let answer_all = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => begin(stream, &guests, &page, patience),
                Err(_) => std::thread::sleep(REST),
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(answer_all)?;
    Ok(bound)
}

type Metrics = dyn Fn() -> String + Send + Sync;

fn begin(
    stream: TcpStream,
    guests: &Arc<Guests<TcpStream>>,
    page: &Arc<Metrics>,
    patience: Duration,
) {
    let (stream, page) = (Arc::new(stream), Arc::clone(page));
    // What goes wrong here is the client's loss, and it knows: the connection is closed.
    let Some(seat) = guests.admit(&stream) else { return };
    let work = move || drop(answer(&stream, &seat, &*page, patience));
    let _ = std::thread::Builder::new().name("metrics_client".to_owned()).spawn(work);
}

fn answer(
    stream: &TcpStream,
    seat: &Seat<TcpStream>,
    page: &Metrics,
    patience: Duration,
) -> io::Result<()> {
    stream.set_write_timeout(Some(patience))?;
    let Some(head) = read_head(stream, patience)? else {
        return respond(stream, "431 Request Header Fields Too Large", "too long\n", true);
    };
    if !seat.begin() {
        return Ok(());
    }
    let local = stream.local_addr()?.ip();
    match wanted(&head) {
        Wanted::Metrics { .. } if !is_for_us(&head, local) => {
            let text = format!("ask for http://{}/metrics\n", stream.local_addr()?);
            respond(stream, "421 Misdirected Request", &text, true)
        }
        Wanted::Metrics { body } => respond(stream, "200 OK", &page(), body),
        Wanted::NotFound => respond(stream, "404 Not Found", "the page is /metrics\n", true),
        Wanted::NotAllowed => respond(stream, "405 Method Not Allowed", "only GET\n", true),
        Wanted::Bad => respond(stream, "400 Bad Request", "no HTTP request\n", true),
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

fn respond(mut stream: &TcpStream, status: &str, page: &str, body: bool) -> io::Result<()> {
    let kind = match status.starts_with("200") {
        true => "text/plain; version=0.0.4; charset=utf-8",
        false => "text/plain; charset=utf-8",
    };
    let length = page.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    if body {
        text.push_str(page);
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

    #[test]
    fn the_page_is_served_and_the_rest_is_refused() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(local, || "zinc_up 1\n".to_owned()).unwrap();
        let page = ask(address, b"GET /metrics HTTP/1.1\r\nHost: LocalHost:9134\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("Content-Length: 10\r\n") && page.ends_with("\r\n\r\nzinc_up 1\n"));
        let head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        for (asked, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\xff\xff\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
        ] {
            assert!(ask(address, asked).starts_with(&format!("HTTP/1.1 {status}")));
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
    fn connections_that_say_nothing_keep_nobody_out() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        // Nothing ends an idle connection but another one that wants its place.
        let for_ever = Duration::from_secs(24 * 3600);
        let address = serve_within(local, for_ever, || "zinc_up 1\n".to_owned()).unwrap();
        let idle: Vec<_> =
            (0..3 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..5 {
            let page = ask(address, b"GET /metrics HTTP/1.0\r\n\r\n");
            assert!(page.contains("zinc_up 1"), "{page}");
        }
        drop(idle);
    }
}
