//! Programs that take a disk over from one another while they are killed or stopped, in real time:
//! no flush that returned is lost, and one that stood still is fenced. Each is this program,
//! started again as a writer.
//!
//! 25 of them in each `./test`, in a directory and, where versitygw, Azurite and Ceph are there, in
//! a bucket of each, and some in a bucket that is in bad weather (`weather`); `ZINC_TAKEOVERS=1000`
//! says how many else, `ZINC_SEED` where to begin. A part of a name chooses among these tests, with
//! `--exact` a whole one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod weather;

use device::{Device as _, ErrorKind, WriteDevice as _};
use far::Name;
use far::disk;
use far::log::format::{Superblock, WriterId};
use far::log::{LogDevice, Options};
use rt::Rt;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use testkit::{AzureServer, CephServer, Rng, S3Server, Unharnessed};
use weather::Weather;

const SECTOR: usize = 4096;
/// Numbers are written to this many places, one after the other.
const PLACES: u64 = 64;
/// A writer counts for this long at most before it is killed or stopped, and how many of them there
/// are unless the environment says otherwise.
const USUAL: (u64, u64) = (60, 25);
/// The same where requests are lost and slow.
const IN_BAD_WEATHER: (u64, u64) = (500, 4);

fn main() -> ExitCode {
    let of = || std::env::args().nth(2).unwrap();
    match std::env::args().nth(1).as_deref() {
        Some("writer") => return write(&of()),
        Some("create") => return create(&of()),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let chosen = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let is_exact = std::env::args().any(|word| word == "--exact");
    let mut tests = Unharnessed::default();
    let mut test = |name: &str, missing: Option<&str>, run: &dyn Fn()| {
        let is_chosen = if is_exact { name == chosen } else { name.contains(&chosen) };
        if is_chosen {
            tests.test(name, missing, run);
        }
    };
    test("in_a_folder", None, &|| {
        take_turns(&format!("dir://{}/disk", folder.path().display()), &[], USUAL);
    });
    test("in_a_bucket", S3Server::missing(), &|| {
        let server = S3Server::start(&folder.path().join("server"), "bucket");
        let name = format!("s3://bucket/disk?endpoint={}", server.endpoint());
        take_turns(&name, &server.environment(), USUAL);
    });
    test("in_a_bucket_in_bad_weather", S3Server::missing(), &|| {
        let server = S3Server::start(&folder.path().join("weather"), "bucket");
        let weather = Weather::before(&server.endpoint(), number("ZINC_SEED", 1));
        let name = format!("s3://bucket/disk?endpoint={}", weather.endpoint());
        take_turns(&name, &server.environment(), IN_BAD_WEATHER);
        say(&weather.was_bad());
    });
    test("in_a_container", AzureServer::missing(), &|| {
        let server = AzureServer::start(&folder.path().join("azure"), "bucket");
        let name = format!("az://bucket/disk?endpoint={}", server.endpoint());
        take_turns(&name, &server.environment(), USUAL);
    });
    test("in_a_bucket_of_ceph", CephServer::missing(), &|| {
        let server = CephServer::start(&folder.path().join("ceph"), "bucket");
        let name = format!("s3://bucket/disk?endpoint={}", server.endpoint());
        take_turns(&name, &server.environment(), USUAL);
    });
    tests.end()
}

fn options() -> Options {
    Options {
        checkpoint_every: 20,
        grace: Duration::ZERO,
        who: WriterId { host: "here".to_owned(), pid: std::process::id() },
        ..Options::default()
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // There may be no reader left.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn parsed(name: &str) -> Name {
    Name::parse(name.as_ref()).unwrap().unwrap()
}

/// Makes the disk.
fn create(name: &str) -> ExitCode {
    let is = Superblock {
        size: 1 << 20,
        sector: SECTOR as u32,
        target: 1 << 20,
        window: 4,
        is_fenced: true,
        limit: None,
        made_by: String::new(),
    };
    disk::create(&parsed(name), &is).unwrap();
    ExitCode::SUCCESS
}

/// This program, in another process.
fn another(what: &str, name: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([what, name]).envs(environment.iter().copied());
    command
}

/// Counts on the disk: says where it begins, and each number that is flushed; at last why it ends.
fn write(name: &str) -> ExitCode {
    let store = disk::store(&parsed(name)).unwrap();
    let device = match LogDevice::claim(store, "here", &Rt::real(), options(), None) {
        Ok(device) => device,
        Err(trouble) => {
            say(&format!("ends: {trouble}"));
            return ExitCode::SUCCESS;
        }
    };
    let bytes = device.read_new(0, PLACES as usize * SECTOR).unwrap();
    let found: Vec<u64> = bytes
        .chunks(SECTOR)
        .map(|sector| {
            assert!(sector.chunks(8).all(|word| word == &sector[..8]), "a sector is mixed up");
            u64::from_le_bytes(sector[..8].try_into().unwrap())
        })
        .collect();
    let last = *found.iter().max().unwrap();
    for (place, number) in found.iter().enumerate() {
        let place = place as u64;
        let wanted = (last.saturating_sub(PLACES - 1)..=last).find(|n| n % PLACES == place);
        assert_eq!(*number, wanted.unwrap_or(0), "the last is {last}");
    }
    say(&format!("begins {last}"));
    for number in last + 1.. {
        let sector = number.to_le_bytes().repeat(SECTOR / 8);
        let place = (number % PLACES) * SECTOR as u64;
        if let Err(e) = device.write(place, &sector).and_then(|()| device.flush()) {
            let is_fenced = matches!(e.kind, ErrorKind::Fenced { .. });
            say(&if is_fenced { "ends: fenced".to_owned() } else { format!("ends: {e}") });
            return if is_fenced { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        say(&format!("flushed {number}"));
    }
    ExitCode::SUCCESS
}

/// A writer that was started.
struct Writer {
    child: Child,
    lines: Receiver<String>,
    /// What the next one found, once it is stopped: it may have flushed no more than that.
    limit: u64,
}

impl Writer {
    fn start(name: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = another("writer", name, environment);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines, limit: u64::MAX }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn line(&self) -> Option<String> {
        self.lines.recv_timeout(Duration::from_secs(120)).ok()
    }

    /// It goes on, and finds that it is not a writer any more.
    fn wake(mut self) {
        self.signal(Signal::CONT);
        let mut last = String::new();
        while let Some(line) = self.line() {
            if let Some(number) = line.strip_prefix("flushed ") {
                let number: u64 = number.parse().unwrap();
                assert!(number <= self.limit, "{number} flushed by a writer that was fenced");
            }
            last = line;
        }
        assert_eq!(last, "ends: fenced", "it stood still");
        assert!(self.child.wait().unwrap().success());
    }
}

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn take_turns(name: &str, environment: &[(&str, &str)], (longest, turns): (u64, u64)) {
    let (turns, seed) = (number("ZINC_TAKEOVERS", turns), number("ZINC_SEED", 1));
    let mut rng = Rng::new(seed);
    assert!(another("create", name, environment).status().unwrap().success());
    let (mut flushed, mut asleep, mut fenced) = (0, Vec::<Writer>::new(), 0);
    let began = Instant::now();
    for turn in 0..turns {
        let writer = Writer::start(name, environment);
        let begins = writer.line().expect("a writer begins");
        let begins: u64 = begins.strip_prefix("begins ").expect(&begins).parse().unwrap();
        assert!(begins >= flushed, "{flushed} was flushed, and turn {turn} began at {begins}");
        asleep.iter_mut().for_each(|sleeper| sleeper.limit = sleeper.limit.min(begins));
        let rest = Duration::from_millis(rng.below(longest));
        std::thread::sleep(rest);
        let is_stopped = rng.below(2) == 0;
        writer.signal(if is_stopped { Signal::STOP } else { Signal::KILL });
        // What it said counts, whenever it is heard.
        std::thread::sleep(Duration::from_millis(5));
        while let Ok(line) = writer.lines.try_recv() {
            flushed = line.strip_prefix("flushed ").map_or(flushed, |n| n.parse().unwrap());
        }
        let mut writer = writer;
        if is_stopped {
            asleep.push(writer);
        } else {
            writer.child.wait().unwrap();
        }
        // Those that a later one has taken over from.
        while asleep.len() > 3 || (asleep.len() > 1 && rng.below(3) == 0) {
            asleep.remove(0).wake();
            fenced += 1;
        }
    }
    for mut sleeper in asleep {
        sleeper.signal(Signal::KILL);
        sleeper.child.wait().unwrap();
    }
    let took = began.elapsed().as_secs();
    say(&format!(
        "{turns} writers, {flushed} flushes, {fenced} stood still and were fenced; {took} s"
    ));
    assert!(flushed > 0 && (turns < 10 || fenced > 0));
}
