//! Conversations with a server over a socket.

use crate::export::{Export, Extent, Facts, RequestError, Source, Status};
use crate::limits::CONNECTIONS;
use crate::memory::MemorySource;
use crate::server::{Listener, Server};
use nbdwire::{answer, option};
use parking_lot::{Condvar, Mutex};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// A client that sends exactly the given bytes.
struct Client(UnixStream);

impl Client {
    fn send(&mut self, parts: &[&[u8]]) {
        self.0.write_all(&parts.concat()).unwrap();
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn number(&mut self, n: usize) -> u64 {
        self.take(n).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn option(&mut self, number: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        self.send(&[b"IHAVEOPT", &number.to_be_bytes(), &length.to_be_bytes(), data]);
    }

    /// A reply to an option: its kind and data.
    fn reply(&mut self, number: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.number(8), 0x0003_e889_0455_65a9);
        assert_eq!(self.number(4), u64::from(number));
        let kind = u32::try_from(self.number(4)).unwrap();
        let length = self.number(4);
        (kind, self.take(usize::try_from(length).unwrap()))
    }

    /// All replies to an option, the last being an acknowledgement or an error.
    fn ask(&mut self, number: u32, data: &[u8]) -> (u32, Vec<Vec<u8>>) {
        self.option(number, data);
        let mut all = Vec::new();
        loop {
            match self.reply(number) {
                (answer::SERVER | answer::INFO | answer::META_CONTEXT, data) => all.push(data),
                (kind, _) => return (kind, all),
            }
        }
    }

    fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        self.send(&[&request(flags, command, cookie, offset, length)]);
    }

    /// A simple reply: its error and cookie.
    fn simple(&mut self) -> (u64, u64) {
        assert_eq!(self.number(4), 0x6744_6698);
        (self.number(4), self.number(8))
    }

    /// A chunk: flags, kind, cookie, content.
    fn chunk(&mut self) -> (u64, u64, u64, Vec<u8>) {
        assert_eq!(self.number(4), 0x668e_33ef);
        let (flags, kind, cookie) = (self.number(2), self.number(2), self.number(8));
        let length = self.number(4);
        (flags, kind, cookie, self.take(usize::try_from(length).unwrap()))
    }

    /// Chooses the export and begins.
    fn go(&mut self, name: &str) {
        let (kind, infos) = self.ask(option::GO, &choice(name));
        assert_eq!((kind, infos.len()), (answer::ACK, 2));
    }
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let parts: [&[u8]; 6] = [
        &0x2560_9513_u32.to_be_bytes(),
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ];
    parts.concat()
}

fn counted(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

fn choice(name: &str) -> Vec<u8> {
    [&counted(name)[..], &[0, 0]].concat()
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let n = u32::try_from(queries.len()).unwrap();
    let queries: Vec<u8> = queries.iter().flat_map(|query| counted(query)).collect();
    [&counted(name)[..], &n.to_be_bytes(), &queries].concat()
}

/// A server, and the folder of its socket.
struct Place {
    server: Server,
    dir: tempfile::TempDir,
}

impl Place {
    fn of(sources: Vec<Arc<dyn Source>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let server = Server::start(vec![Listener::Unix(listener)], sources, None).unwrap();
        Self { server, dir }
    }

    fn new() -> Self {
        Self::of(vec![
            Arc::new(MemorySource::new("disk", 4 * MIB)),
            Arc::new(MemorySource::new("other", MIB)),
        ])
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.dir.path().join("s")).unwrap()
    }

    /// A client that has said hello.
    fn client(&self) -> Client {
        let mut client = Client(self.connect());
        assert_eq!(client.take(16), b"NBDMAGICIHAVEOPT");
        assert_eq!(client.number(2), 3);
        client.send(&[&3u32.to_be_bytes()]);
        client
    }
}

#[test]
fn options_are_answered_and_mistakes_cost_one_option() {
    let place = Place::new();
    let mut client = place.client();
    let (kind, names) = client.ask(option::LIST, &[]);
    assert_eq!((kind, names), (answer::ACK, vec![counted("disk"), counted("other")]));
    assert_eq!(client.ask(option::LIST, b"x").0, answer::INVALID);
    assert_eq!(client.ask(77, &[]).0, answer::UNSUPPORTED);
    assert_eq!(client.ask(option::STARTTLS, &[]).0, answer::POLICY);
    assert_eq!(client.ask(option::LIST, &vec![0; 100_000]).0, answer::TOO_BIG);
    assert_eq!(client.ask(option::INFO, &choice("nix")).0, answer::UNKNOWN);
    assert_eq!(client.ask(option::INFO, &choice("")).0, answer::UNKNOWN, "there are two");
    assert_eq!(client.ask(option::INFO, b"short").0, answer::INVALID);
    let wanted = [&counted("disk")[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat();
    let (kind, infos) = client.ask(option::INFO, &wanted);
    assert_eq!((kind, infos.len()), (answer::ACK, 4));
    // 4 MiB; flags, flush, FUA, trim, zeros, several connections, cache, fast zeros.
    assert_eq!(infos[0], [0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0x0d, 0x6d]);
    assert_eq!(infos[1], b"\0\x01disk");
    assert_eq!(infos[3], [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(client.ask(option::ABORT, &[]).0, answer::ACK);
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_old_way_to_begin_still_does() {
    let place = Place::new();
    let mut client = place.client();
    client.option(option::EXPORT_NAME, b"other");
    assert_eq!((client.number(8), client.number(2)), (MIB as u64, 0x0d6d));
    client.request(0, 1, 1, 0, 4);
    client.send(&[b"text"]);
    assert_eq!(client.simple(), (0, 1));
    client.request(0, 0, 2, 2, 4);
    assert_eq!((client.simple(), client.take(4)), ((0, 2), b"xt\0\0".to_vec()));
    let mut lost = place.client();
    lost.option(option::EXPORT_NAME, b"nix");
    assert_eq!(lost.0.read(&mut [0]).unwrap(), 0, "there is no error in it");
}

#[test]
fn large_requests_go_in_pieces() {
    let place = Place::new();
    let mut client = place.client();
    client.go("disk");
    let data: Vec<u8> = (0..3 * MIB).map(|i| (i * 7 % 251) as u8).collect();
    client.request(1, 1, 1, 12_345, 3 << 20);
    client.send(&[&data]);
    assert_eq!(client.simple(), (0, 1));
    client.request(0, 0, 2, 12_345, 3 << 20);
    assert_eq!(client.simple(), (0, 2));
    assert!(client.take(3 * MIB) == data);
    // The same in chunks, which end at multiples of a piece.
    let mut client = place.client();
    assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, answer::ACK);
    client.go("disk");
    client.request(0, 0, 3, 12_345, 3 << 20);
    let (mut got, mut is_done) = (Vec::new(), false);
    while !is_done {
        let (flags, kind, cookie, content) = client.chunk();
        assert_eq!((kind, cookie), (1, 3));
        assert_eq!(content[..8], (12_345 + got.len() as u64).to_be_bytes());
        got.extend_from_slice(&content[8..]);
        is_done = flags == 1;
    }
    assert!(got == data);
    client.request(4, 0, 4, 0, 2 << 20);
    let (_, kind, _, content) = client.chunk();
    assert_eq!((kind, &content[..4]), (0x8001, &75u32.to_be_bytes()[..]), "not in one piece");
}

#[test]
fn wrong_requests_are_refused_and_the_next_one_is_served() {
    let place = Place::new();
    let mut client = place.client();
    client.go("disk");
    let end = 4 << 20;
    for (cookie, (flags, command, offset, length, error)) in (1u64..).zip([
        (0, 0, end, 1, 22),
        (0, 0, 0, 33 << 20, 22),
        (0, 0, u64::MAX, 2, 22),
        (0, 99, 0, 0, 22),
        (0x80, 0, 0, 1, 22),
        (0, 6, end, 1, 28),
        (0, 7, 0, 1, 22),
        (0, 4, 0, 4096, 0),
        (2, 6, 0, 4096, 0),
        (0, 5, 0, 4096, 0),
        (0, 3, 0, 0, 0),
        (0, 0, 0, 0, 0),
    ]) {
        client.request(flags, command, cookie, offset, length);
        assert_eq!(client.simple(), (error, cookie));
    }
    // The payload of a refused write is not a request.
    client.request(0, 1, 77, end - 1, 28);
    client.send(&[&[0x25; 28]]);
    assert_eq!(client.simple(), (28, 77));
    client.request(0, 2, 0, 0, 0);
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
    let mut client = place.client();
    client.go("disk");
    client.send(&[&[0; 28]]);
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "bytes that are not a request are the end");
}

#[test]
fn statuses_are_listed_chosen_and_asked_for() {
    let place = Place::new();
    let mut client = place.client();
    let base = contexts("disk", &["base:allocation"]);
    assert_eq!(client.ask(option::SET_META_CONTEXT, &base).0, answer::INVALID);
    assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, answer::ACK);
    assert_eq!(client.ask(option::LIST_META_CONTEXT, &contexts("disk", &[])).1.len(), 3);
    let (_, found) = client.ask(option::LIST_META_CONTEXT, &contexts("disk", &["zinc:"]));
    assert_eq!(found, [b"\0\0\0\0zinc:dirty-since:before"]);
    let both = contexts("disk", &["base:allocation", "qemu:dirty-bitmap:before", "nix:nix"]);
    let (_, found) = client.ask(option::SET_META_CONTEXT, &both);
    assert_eq!(found[0], b"\0\0\0\x01base:allocation");
    assert_eq!(found[1], b"\0\0\0\x02qemu:dirty-bitmap:before");
    client.go("disk");
    client.request(8, 7, 9, 0, 65_536);
    let (flags, kind, cookie, content) = client.chunk();
    assert_eq!((flags, kind, cookie), (0, 5, 9));
    assert_eq!(content, [0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    let (flags, _, _, content) = client.chunk();
    assert_eq!((flags, content), (1, vec![0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 1]));
}

#[test]
fn extended_headers_have_lengths_of_64_bits() {
    let place = Place::new();
    let mut client = place.client();
    assert_eq!(client.ask(option::EXTENDED_HEADERS, &[]).0, answer::ACK);
    assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, answer::EXTENDED_REQUIRED);
    client.ask(option::SET_META_CONTEXT, &contexts("disk", &["base:allocation"]));
    client.go("disk");
    let request = |flags: u16, command: u16, length: u64| {
        let head = [0x21e4_1c71_u32.to_be_bytes(), [0, 0, 0, 0]].concat();
        let mut bytes = head[..4].to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(5u64.to_be_bytes());
        bytes.extend(0u64.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    };
    client.send(&[&request(32, 1, 4), b"text", &request(0, 7, 4 << 20)]);
    let mut kinds: Vec<(u64, Vec<u8>)> = (0..2)
        .map(|_| {
            assert_eq!((client.number(4), client.number(2)), (0x6e8a_278c, 1));
            let kind = client.number(2);
            assert_eq!((client.number(8), client.number(8)), (5, 0));
            let length = client.number(8);
            (kind, client.take(usize::try_from(length).unwrap()))
        })
        .collect();
    kinds.sort();
    assert_eq!(kinds[0], (0, Vec::new()));
    assert_eq!((kinds[1].0, kinds[1].1.len()), (6, 24));
    // A write without the flag has no data, and nothing to write.
    client.send(&[&request(0, 1, 4)]);
    assert_eq!(client.number(4), 0x6e8a_278c);
    assert_eq!((client.number(2), client.number(2)), (1, 0x8001));
}

/// An export of which reads wait until something is written.
struct Slow {
    facts: Facts,
    written: Mutex<bool>,
    changed: Condvar,
}

impl Export for Slow {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), RequestError> {
        self.changed.wait_while(&mut self.written.lock(), |written| !*written);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), RequestError> {
        *self.written.lock() = true;
        self.changed.notify_all();
        Ok(())
    }

    fn flush(&self) -> Result<(), RequestError> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> Result<(), RequestError> {
        Ok(())
    }

    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), RequestError> {
        Ok(())
    }

    fn status(&self, _: &Status, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, RequestError> {
        Ok(Vec::new())
    }
}

struct SlowSource(Arc<Slow>);

impl Source for SlowSource {
    fn name(&self) -> &str {
        "slow"
    }

    fn description(&self) -> String {
        String::new()
    }

    fn open(&self) -> Result<Arc<dyn Export>, RequestError> {
        let export: Arc<dyn Export> = Arc::<Slow>::clone(&self.0);
        Ok(export)
    }
}

fn slow() -> Place {
    let facts = Facts { size: 1 << 20, is_read_only: false, block_size: 512, since: Vec::new() };
    let slow = Slow { facts, written: Mutex::new(false), changed: Condvar::new() };
    Place::of(vec![Arc::new(SlowSource(Arc::new(slow)))])
}

#[test]
fn requests_overtake_those_that_wait() {
    let place = slow();
    let mut client = place.client();
    client.go("");
    (0..15).for_each(|cookie| client.request(0, 0, cookie, 0, 1));
    client.request(0, 1, 15, 0, 1);
    client.send(&[b"x"]);
    let mut cookies: Vec<u64> = Vec::new();
    for _ in 0..16 {
        let (error, cookie) = client.simple();
        assert_eq!(error, 0);
        if cookie != 15 {
            client.take(1);
        }
        cookies.push(cookie);
    }
    cookies.sort_unstable();
    assert_eq!(cookies, (0..16).collect::<Vec<_>>());
}

/// Requests that come with one call wait for each other no more than others do.
#[test]
fn requests_that_come_together_overtake_each_other_too() {
    let place = slow();
    let mut client = place.client();
    client.go("");
    let waiting = (0..10).flat_map(|cookie| request(0, 0, cookie, 0, 1));
    let all: Vec<u8> = waiting.chain(request(0, 1, 10, 0, 1)).chain(*b"x").collect();
    client.send(&[&all]);
    let mut cookies: Vec<u64> = Vec::new();
    for _ in 0..11 {
        let (error, cookie) = client.simple();
        assert_eq!(error, 0);
        client.take(usize::from(cookie != 10));
        cookies.push(cookie);
    }
    cookies.sort_unstable();
    assert_eq!(cookies, (0..11).collect::<Vec<_>>());
}

/// Whatever comes behind them, the end of the connection as well.
#[test]
fn requests_that_come_together_are_all_answered() {
    const COUNT: u64 = 300;
    const BYTES: usize = 3000;
    let place = Place::new();
    let mut client = place.client();
    client.go("disk");
    let block = |n: u64| vec![n as u8 | 1; BYTES];
    let at = |n: u64| n * BYTES as u64;
    let mut sender = Client(client.0.try_clone().unwrap());
    let sending = std::thread::spawn(move || {
        let write = |n| [request(0, 1, n, at(n), BYTES as u32), block(n)].concat();
        sender.send(&[&(0..COUNT).flat_map(write).collect::<Vec<u8>>()]);
        sender
    });
    let written: std::collections::HashSet<u64> = (0..COUNT)
        .map(|_| {
            let (error, cookie) = client.simple();
            assert_eq!(error, 0);
            cookie
        })
        .collect();
    assert_eq!(written.len() as u64, COUNT);
    let mut sender = sending.join().unwrap();
    let sending = std::thread::spawn(move || {
        // Every tenth is beyond the end.
        let place = |n| if n % 10 == 0 { 4 * MIB as u64 } else { at(n) };
        let reads = (0..COUNT).flat_map(|n| request(0, 0, n, place(n), BYTES as u32));
        let all: Vec<u8> = reads.chain(request(0, 2, 0, 0, 0)).collect();
        sender.send(&[&all]);
    });
    let mut read = std::collections::HashSet::new();
    for _ in 0..COUNT {
        let (error, cookie) = client.simple();
        match cookie % 10 {
            0 => assert_ne!(error, 0),
            _ => assert_eq!((error, client.take(BYTES)), (0, block(cookie))),
        }
        assert!(read.insert(cookie), "{cookie} twice");
    }
    sending.join().unwrap();
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_server_that_stops_answers_what_is_under_way() {
    let mut place = slow();
    let mut client = place.client();
    client.go("");
    client.request(0, 0, 1, 0, 1);
    client.request(0, 1, 2, 0, 1);
    client.send(&[b"x"]);
    // One of them was answered: both were read.
    let first = client.simple();
    if first.1 == 1 {
        client.take(1);
    }
    assert!(place.server.stop());
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), if first.1 == 1 { 16 } else { 17 });
    assert_eq!(place.server.connections(), 0);
    drop(UnixStream::connect(place.dir.path().join("s")));
}

#[test]
fn those_that_say_nothing_make_room() {
    let place = Place::new();
    let mut working = place.client();
    working.go("disk");
    let _silent: Vec<UnixStream> = (0..CONNECTIONS + 20).map(|_| place.connect()).collect();
    let mut client = place.client();
    client.go("other");
    working.request(0, 3, 1, 0, 0);
    assert_eq!(working.simple(), (0, 1));
    assert!(place.server.connections() <= CONNECTIONS);
}

#[test]
fn conversations_with_any_bytes_end() {
    let hello = 3u32.to_be_bytes();
    assert!(crate::decoders::conversation(&hello).starts_with(b"NBDMAGIC"));
    assert!(crate::decoders::conversation(&[0xff; 100]).starts_with(b"NBDMAGIC"));
}
