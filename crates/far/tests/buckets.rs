//! Buckets of real servers keep the rules of a store, and are told apart from those that do not.
//! This program is started again for each, because credentials are in the environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{ErrorKind, Shared, WriteDevice as _};
use far::Name;
use far::disk;
use far::log::format::Superblock;
use far::log::{DiskError, Fence, LogDevice, Options, probe};
use far::store::{Request, Response, Store, StoreError};
use rt::Rt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, ExitCode};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use testkit::{AzureServer, CephServer, GoogleServer, S3Server, Unharnessed};

/// A writer whose segment is refused knows that after this time at most, on a busy machine too. A
/// store that does not answer is waited for much longer.
const FOUND_OUT: Duration = Duration::from_secs(55);
/// What signs requests to a server that does not look at it.
const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "none");
/// More than a list gives at once.
const MANY: usize = 1100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [what, name] if what == "fenced" => return try_bucket(name, true),
        [what, name] if what == "unfenced" => return try_bucket(name, false),
        [what, name] if what == "expiring" => return try_expiring(name),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let mut tests = Unharnessed::default();
    tests.test("s3", S3Server::missing(), || {
        let server = S3Server::start(&folder.path().join("s3"), "bucket");
        run("s3", &server.endpoint(), &server.environment());
    });
    tests.test("a_bucket_whose_objects_expire", None, || {
        const RULES: &str = "<LifecycleConfiguration><Rule><ID>tidy</ID><Prefix>a/</Prefix>\
            <Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>\
            </LifecycleConfiguration>";
        let endpoint = expiring_bucket("GET /bucket/?lifecycle", RULES);
        run("s3 expiring", &endpoint, &[("AWS_ACCESS_KEY_ID", "a"), SECRET]);
    });
    tests.test("a_bucket_of_google_whose_objects_expire", None, || {
        const RULES: &str = "<LifecycleConfiguration><Rule><Action><Delete/></Action><Condition>\
            <Age>30</Age><MatchesPrefix>a/</MatchesPrefix></Condition></Rule>\
            </LifecycleConfiguration>";
        let endpoint = expiring_bucket("GET /bucket?lifecycle", RULES);
        run("gs expiring", &endpoint, &[("GOOGLE_BEARER_TOKEN", SECRET.1)]);
    });
    tests.test("ceph", CephServer::missing(), || {
        let server = CephServer::start(&folder.path().join("ceph"), "bucket");
        run("s3", &server.endpoint(), &server.environment());
    });
    tests.test("azure", AzureServer::missing(), || {
        let server = AzureServer::start(&folder.path().join("azure"), "bucket");
        run("az", &server.endpoint(), &server.environment());
    });
    for (test, is_fenced) in [("google", true), ("google_without_conditions", false)] {
        tests.test(test, GoogleServer::missing(), || {
            let server = GoogleServer::start(&folder.path().join(test), "bucket", is_fenced);
            run(
                if is_fenced { "gs" } else { "gs unfenced" },
                &server.endpoint(),
                &server.environment(),
            );
        });
    }
    tests.end()
}

/// Tries a bucket in another process.
fn run(what: &str, endpoint: &str, environment: &[(&str, &str)]) {
    let (scheme, what) = what.split_once(' ').unwrap_or((what, "fenced"));
    let name = format!("{scheme}://bucket/a/disk?endpoint={endpoint}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([what, &name]).envs(environment.iter().copied());
    assert!(command.status().unwrap().success(), "{name}");
}

/// A server with an empty bucket that has rules for what is in `a/`, which it tells those that give
/// their secret; where it answers.
fn expiring_bucket(ask: &'static str, rules: &'static str) -> String {
    const NONE: &str = "<Error><Code>NoSuchKey</Code></Error>";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let is_signed = head.iter().any(|line| line.starts_with("authorization: "));
            let is_rules = first.starts_with(ask) && is_signed;
            let (status, body) = if is_rules { ("200 OK", rules) } else { ("404 None", NONE) };
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
            let length = body.len();
            let _ = write!(&stream, "{head}Content-Length: {length}\r\n\r\n{body}");
        }
    });
    endpoint
}

fn small_disk() -> Superblock {
    Superblock {
        size: 64 << 20,
        sector: 4096,
        target: 16 << 20,
        window: 4,
        is_fenced: true,
        limit: None,
        made_by: String::new(),
    }
}

/// No disk is made where its objects would be deleted.
fn try_expiring(name: &str) -> ExitCode {
    let name = Name::parse(name.as_ref()).unwrap().unwrap();
    match disk::create(&name, &small_disk()) {
        Err(DiskError::Rule(why)) => assert!(why.contains("deletes objects after"), "{why}"),
        other => panic!("{other:?}"),
    }
    ExitCode::SUCCESS
}

fn ask(store: &dyn Store, request: Request) -> Result<Response, StoreError> {
    all(store, vec![request]).remove(0)
}

/// Asks everything at once; the answers are in the order of the requests.
fn all(store: &dyn Store, requests: Vec<Request>) -> Vec<Result<Response, StoreError>> {
    let (send, receive) = channel();
    for (at, request) in requests.into_iter().enumerate() {
        let send = send.clone();
        store.submit(request, Box::new(move |answer| drop(send.send((at, answer)))));
    }
    drop(send);
    let mut answers: Vec<_> = receive.iter().collect();
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn create(name: &str, bytes: &[u8]) -> Request {
    Request::Create { name: name.to_owned(), body: vec![Shared::copy_of(bytes)] }
}

fn get(name: &str, from: u64, len: u64) -> Request {
    Request::Get { name: name.to_owned(), from, len }
}

fn try_bucket(name: &str, is_fenced: bool) -> ExitCode {
    let name = Name::parse(name.as_ref()).unwrap().unwrap();
    let store = disk::store(&name).unwrap();
    let is = |request, answer| assert_eq!(ask(&*store, request), answer);
    is(get("a/x", 0, 9), Err(StoreError::Absent));
    is(Request::Head { name: "a/x".to_owned() }, Err(StoreError::Absent));
    is(create("a/x", b"hello"), Ok(Response::Done));
    let fence = probe(store.clone(), &Rt::real(), Duration::from_secs(60)).unwrap();
    if is_fenced {
        assert_eq!(fence, Fence::Holds);
        is(create("a/x", b"other"), Err(StoreError::Exists));
        let other = name.as_str().replace("/a/disk", "/fenced/disk");
        a_large_segment_is_refused(&Name::parse(other.as_ref()).unwrap().unwrap());
    } else {
        assert!(matches!(fence, Fence::Broken(_)), "{fence:?}");
    }
    is(get("a/x", 1, 3), Ok(Response::Bytes(b"ell".to_vec())));
    is(get("a/x", 3, 99), Ok(Response::Bytes(b"lo".to_vec())));
    is(get("a/x", 77, 9), Ok(Response::Bytes(vec![])));
    is(Request::Head { name: "a/x".to_owned() }, Ok(Response::Size(5)));
    lists(&*store);
    let large: Vec<u8> = (0..16 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761) as u8).collect();
    is(create("log/large", &large), Ok(Response::Done));
    let (from, len) = (5 << 20, 3 << 20);
    let part = large[from..from + len].to_vec();
    is(get("log/large", from as u64, len as u64), Ok(Response::Bytes(part)));
    for _ in 0..2 {
        is(Request::Delete { name: "log/large".to_owned() }, Ok(Response::Done));
    }
    is(get("log/large", 0, 1), Err(StoreError::Absent));
    ExitCode::SUCCESS
}

/// A segment whose place is taken need not be read by the server, which may end the connection
/// while the bytes are still sent: its writer is fenced all the same, and soon.
fn a_large_segment_is_refused(name: &Name) {
    disk::create(name, &small_disk()).unwrap();
    let claim = || {
        let options = Options { is_tended: false, ..Options::default() };
        let store = disk::store(name).unwrap();
        LogDevice::claim(store, name.as_str(), &Rt::real(), options, None).unwrap()
    };
    let writer = claim();
    for at in 0..15 {
        writer.write(at << 20, &vec![7; 1 << 20]).unwrap();
    }
    let _next = claim();
    let began = Instant::now();
    let error = writer.flush().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Fenced { .. }), "{error}");
    assert!(began.elapsed() < FOUND_OUT, "{:?}", began.elapsed());
}

/// Lists are whole and in order, wherever they begin, over several answers.
fn lists(store: &dyn Store) {
    let names: Vec<String> = (0..MANY).map(|n| format!("many/{:02x}/{n:04}", n / 100)).collect();
    let creates = names.iter().map(|name| create(name, b"1")).collect();
    assert!(all(store, creates).iter().all(Result::is_ok));
    assert_eq!(ask(store, create("mane/1", b"1")), Ok(Response::Done));
    for first in [0, 1, 999, 1000, 1001, MANY - 1, MANY] {
        let mut after = first.checked_sub(1).map_or(String::new(), |last| names[last].clone());
        let mut found = Vec::new();
        loop {
            let list = Request::List { prefix: "many/".to_owned(), after: after.clone() };
            let (part, is_last) = match ask(store, list) {
                Ok(Response::Names { names, is_last }) => (names, is_last),
                other => panic!("no list: {other:?}"),
            };
            let Some((last, _)) = part.last() else { break };
            after.clone_from(last);
            found.extend(part.into_iter().map(|(name, _)| name));
            if is_last {
                break;
            }
        }
        assert_eq!(found, names[first..], "from {first} on");
    }
}
