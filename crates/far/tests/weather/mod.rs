//! Bad weather on the way to a server that speaks HTTP: a proxy on this machine, which does to some
//! of the requests what networks, proxies and busy stores do. A seed decides to which.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::Rng;

/// An answer is held back this long at most.
const SLOW_MS: u64 = 300;
/// A request whose sender has given it up arrives this much later at most.
const LATE_MS: u64 = 3000;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It and its answer are held back for a while.
    Slow,
    /// It is answered with 503, 429 or 500 here, and does not reach the server.
    Refused,
    /// It is carried out, and answered with 500.
    Failed,
    /// The connection ends before it reaches the server.
    Cut,
    /// It is carried out; the connection ends in place of the answer.
    Unanswered,
    /// It is carried out; the connection ends in the middle of the answer.
    Torn,
    /// It is sent twice; the second answer is given.
    Doubled,
    /// The connection ends, and the request reaches the server later.
    Late,
}

/// How often each happens, of 1000 requests.
const RATES: [(Fate, u64); 8] = [
    (Fate::Slow, 60),
    (Fate::Refused, 60),
    (Fate::Failed, 30),
    (Fate::Cut, 40),
    (Fate::Unanswered, 40),
    (Fate::Torn, 30),
    (Fate::Doubled, 60),
    (Fate::Late, 30),
];

/// What is answered here: status and code.
const REFUSALS: [(&str, &str); 3] = [
    ("503 Slow Down", "SlowDown"),
    ("429 Too Many Requests", "TooManyRequests"),
    ("500 Internal Server Error", "InternalError"),
];

/// A way to a server that is in bad weather.
pub(crate) struct Weather {
    port: u16,
    way: Arc<Way>,
}

struct Way {
    /// The port of the server.
    behind: u16,
    rng: Mutex<Rng>,
    requests: AtomicU64,
    counts: [AtomicU64; RATES.len()],
}

/// A request as it came.
struct Request {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Weather {
    /// In front of a server of this machine.
    ///
    /// # Panics
    /// The endpoint is none, or there is no port.
    pub(crate) fn before(endpoint: &str, seed: u64) -> Self {
        let behind = endpoint.rsplit(':').next().and_then(|port| port.parse().ok());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let way = Arc::new(Way {
            behind: behind.expect("an endpoint ends with a port"),
            rng: Mutex::new(Rng::new(seed)),
            requests: AtomicU64::new(0),
            counts: Default::default(),
        });
        let own = Arc::clone(&way);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let way = Arc::clone(&own);
                // Either end may end first, at the latest with the test.
                std::thread::spawn(move || drop(way.serve(stream)));
            }
        });
        Self { port, way }
    }

    /// Where the server seems to answer.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything happened that may; how often, for people.
    ///
    /// # Panics
    /// Something did not.
    pub(crate) fn was_bad(&self) -> String {
        let mut text = format!("{} requests", self.way.requests.load(Relaxed));
        for ((fate, _), count) in RATES.iter().zip(&self.way.counts) {
            let count = count.load(Relaxed);
            assert!(count > 0, "{text}, and {fate:?} never happened");
            text.push_str(&format!(", {count} {fate:?}"));
        }
        text.to_lowercase()
    }
}

impl Way {
    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }

    fn rest(&self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most_ms)));
    }

    /// `None`: nothing happens to it.
    fn fate(&self) -> Option<Fate> {
        self.requests.fetch_add(1, Relaxed);
        let mut drawn = self.below(1000);
        for ((fate, rate), count) in RATES.iter().zip(&self.counts) {
            if drawn < *rate {
                count.fetch_add(1, Relaxed);
                return Some(*fate);
            }
            drawn -= rate;
        }
        None
    }

    /// Serves a connection until one end ends it.
    fn serve(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut from = BufReader::new(stream.try_clone()?);
        let mut back = stream;
        while let Some(request) = Request::read(&mut from)? {
            let answer = match self.fate() {
                None => self.pass_on(&request)?,
                Some(Fate::Slow) => {
                    self.rest(SLOW_MS / 2);
                    let answer = self.pass_on(&request)?;
                    self.rest(SLOW_MS / 2);
                    answer
                }
                Some(Fate::Refused) => refusal(self.below(3) as usize),
                Some(Fate::Failed) => self.pass_on(&request).map(|_| refusal(2))?,
                Some(Fate::Cut) => return Ok(()),
                Some(Fate::Unanswered) => return self.pass_on(&request).map(drop),
                Some(Fate::Torn) => {
                    let answer = self.pass_on(&request)?;
                    let cut = self.below(answer.len() as u64) as usize;
                    return back.write_all(&answer[..cut]);
                }
                Some(Fate::Doubled) => {
                    self.pass_on(&request)?;
                    self.pass_on(&request)?
                }
                Some(Fate::Late) => {
                    let own = Arc::clone(self);
                    std::thread::spawn(move || {
                        own.rest(LATE_MS);
                        drop(own.pass_on(&request));
                    });
                    return Ok(());
                }
            };
            back.write_all(&answer)?;
        }
        Ok(())
    }

    /// What the server answers.
    fn pass_on(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut to = TcpStream::connect(("127.0.0.1", self.behind))?;
        let head = request.head.join("\r\n");
        to.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())?;
        // A server that refuses what it has seen the head of ends the connection before the body is
        // read, and its answer is there all the same.
        let _ = to.write_all(&request.body);
        let mut answer = Vec::new();
        let _ = to.read_to_end(&mut answer);
        // The connection to the client goes on.
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let kept: Vec<&str> = head.split("\r\n").filter(|line| !is(line, "connection")).collect();
        let mut own = kept.join("\r\n").into_bytes();
        own.extend_from_slice(&answer[end..]);
        Ok(own)
    }
}

/// An answer of a server that does not want to.
fn refusal(which: usize) -> Vec<u8> {
    let (status, code) = REFUSALS[which];
    let body = format!("<Error><Code>{code}</Code></Error>");
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/xml\r\n");
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A line of a head has this name.
fn is(line: &str, name: &str) -> bool {
    line.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(name))
}

impl Request {
    /// The next one of a connection; `None`: it has ended.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            head.push(line.to_owned());
        }
        // Without a body there is no length; a body of another form is not sent by this client.
        let length = head.iter().find(|line| is(line, "content-length"));
        let length = length.and_then(|line| line.split_once(':')?.1.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        from.read_exact(&mut body)?;
        Ok(Some(Self { head, body }))
    }
}
