//! What one client can do to the others and to the server: nothing. Clients that stall, that go
//! away, that say nothing; exports and signals while they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Run, answer, arg};

/// What is not held up is over by then on the slowest machine; what is held up by a client that
/// does nothing would last for ever.
const SOON: Duration = Duration::from_secs(50);

/// A folder with a pool, served.
struct Place {
    dir: tempfile::TempDir,
}

struct Server {
    child: Child,
    _out: BufReader<ChildStdout>,
    err: BufReader<std::process::ChildStderr>,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        let path = place.path();
        std::fs::File::create(path.join("disk")).unwrap().set_len(512 << 20).unwrap();
        place.run(&["zpool", "create", "tank", arg(&path.join("disk"))]).ok();
        // More than any pipe holds, and more than is read in minutes.
        std::fs::File::create(path.join("big")).unwrap().set_len(1 << 40).unwrap();
        std::fs::write(path.join("some"), vec![1; 8 << 20]).unwrap();
        for name in ["big", "some"] {
            place.run(&["cp", "-d", "disk", name, &format!("tank:/{name}")]).ok();
        }
        place
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        command.args(args).current_dir(self.path()).env("TZ", "UTC").stdin(Stdio::null());
        command.env("ZINC_STATE", self.path().join("state"));
        command.env("ZINC_SOCKETS", self.path().join("run/zinc"));
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    fn serve(&self, more: &[&str]) -> Server {
        self.begin(&[&["serve", "-d", "disk"], more, &["tank"]].concat())
    }

    /// The same for the pool that is known: it stays so when the server ends.
    fn serve_known(&self) -> Server {
        self.begin(&["serve", "tank"])
    }

    fn begin(&self, args: &[&str]) -> Server {
        let mut command = self.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("serving tank"), "{line}");
        Server { child, _out: out, err }
    }

    fn socket(&self) -> std::path::PathBuf {
        let mut all = std::fs::read_dir(self.path().join("run/zinc")).unwrap();
        all.next().unwrap().unwrap().path()
    }

    /// A client whose output is not read.
    fn stalled(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        // Nothing is ever written to its input.
        command.stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that watches asks again and again, and mostly does not run when this looks.
        self.wait_until(|status| {
            let out = rustix::event::PollFd::new(
                child.stdout.as_ref().unwrap(),
                rustix::event::PollFlags::IN,
            );
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let has_printed = rustix::event::poll(&mut [out], Some(&none)).unwrap() > 0;
            let pid = u64::from(child.id());
            let mut running = status["commands"].as_array().unwrap().iter();
            has_printed || running.any(|c| c["pid"] == pid) || child.try_wait().unwrap().is_some()
        });
        child
    }

    /// Waits for what the server says of itself.
    fn wait_until(&self, mut is_so: impl FnMut(&serde_json::Value) -> bool) {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let began = Instant::now();
        loop {
            stream.write_all(b"{\"do\":\"status\"}\n").unwrap();
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
            if is_so(&answer["ok"]) {
                return;
            }
            assert!(began.elapsed() < SOON, "{line}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_clean(&self) {
        let run = self.run(&["check", "-d", "disk", "tank"]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    }
}

impl Server {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end: exit code, time, and what it said.
    fn end(mut self) -> (Option<i32>, Duration, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < 2 * SOON, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut message = String::new();
        self.err.read_to_string(&mut message).unwrap();
        (status.code(), began.elapsed(), message)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What one attempt took, and what came of it.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = work();
    (result, began.elapsed())
}

#[test]
fn a_stalled_reader_and_an_export_hold_nothing_up() {
    let place = Place::new();
    let mut server = place.serve(&["--metrics", "127.0.0.1:0"]);
    let mut line = String::new();
    server.err.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("//").unwrap().1.split('/').next().unwrap().to_owned();
    let stalled = place.stalled(&["cat", "tank:/some"]);
    let export = std::thread::scope(|scope| {
        let export = scope.spawn(|| timed(|| place.run(&["zpool", "export", "tank"])));
        place.wait_until(|status| status["closing"].is_string());
        // The export waits for the reader; the page that only looks is answered, and a command
        // waits for what comes of the export.
        let ls = scope.spawn(|| place.run(&["ls", "tank:/"]));
        let ask = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (page, time) = timed(|| answer(&address, ask));
        assert!(page.starts_with("HTTP/1.1 200") && time < SOON, "{time:?} {page}");
        assert_eq!(ls.join().unwrap().ok(), "big\nsome\n");
        export.join().unwrap()
    });
    let (refused, time) = export;
    assert_eq!(refused.code, 1);
    let busy = "cannot export 'tank': pool is busy";
    assert!(
        refused.err.contains(busy) && refused.err.contains("cat tank:/some"),
        "{}",
        refused.err
    );
    assert!(time < SOON, "{time:?}");
    // The pool is as it was; force cancels what runs.
    assert_eq!(place.run(&["ls", "tank:/"]).ok(), "big\nsome\n");
    let (done, time) = timed(|| place.run(&["zpool", "export", "-f", "tank"]));
    assert!(done.code == 0 && time < SOON, "{} {time:?}", done.err);
    let (code, words) = ended(stalled);
    assert!(code == Some(1) && words.contains("tank is being exported"), "{code:?} {words}");
    let (code, _, words) = server.end();
    assert!(code == Some(0) && words.contains("tank is exported: a client"), "{words}");
    place.is_clean();
}

#[test]
fn a_signal_ends_a_server_whatever_client_stalls() {
    let place = Place::new();
    let server = place.serve(&[]);
    let stalled = [
        place.stalled(&["cat", "tank:/big"]),
        place.stalled(&["zpool", "iostat", "tank", "1"]),
        place.stalled(&["pios", "-p", "tank", "-n", "1", "-P", "sleep 600", "-L", "dmuio"]),
    ];
    // One that asks and asks and reads no answer.
    let mut deaf = UnixStream::connect(place.socket()).unwrap();
    deaf.set_nonblocking(true).unwrap();
    while deaf.write(b"{\"do\":\"stats\"}\n").is_ok() {}
    server.signal(Signal::TERM);
    let (code, time, words) = server.end();
    assert!(code == Some(0) && time < SOON, "{code:?} {time:?} {words}");
    assert!(words.contains("tank is no longer served: signal 15"), "{words}");
    for child in stalled {
        let (code, words) = ended(child);
        assert_eq!(code, Some(1));
        // A client that asks again and again may find the server gone.
        let is_notified = words.contains("stops serving tank: it got SIGTERM")
            || words.contains("the server ended");
        assert!(is_notified && !words.contains("exported"), "{words}");
    }
    // It was imported, and still is.
    assert_eq!(place.run(&["zpool", "list", "-Ho", "name"]).out, "tank\n");
    place.is_clean();
}

/// A command that waits, here for a device that another process has, ends with its client.
#[test]
fn a_wait_ends_with_its_client() {
    let place = Place::new();
    let server = place.serve(&[]);
    let path = place.path().join("more");
    let device = std::fs::File::create(&path).unwrap();
    device.set_len(512 << 20).unwrap();
    device.lock().unwrap();
    let disk = place.path().join("disk");
    let attach = ["zpool", "attach", "--wait", "3600", "tank", arg(&disk), arg(&path)];
    let mut client = place.command(&attach).spawn().unwrap();
    let pid = u64::from(client.id());
    place.wait_until(|status| status["commands"][0]["pid"] == pid);
    std::thread::sleep(Duration::from_millis(500));
    assert!(client.try_wait().unwrap().is_none(), "it waits");
    client.kill().unwrap();
    client.wait().unwrap();
    place.wait_until(|status| status["commands"].as_array().unwrap().is_empty());
    server.signal(Signal::TERM);
    let (code, _, words) = server.end();
    assert_eq!(code, Some(0), "{words}");
    place.is_clean();
}

/// A terminal whose user typed Ctrl-S, or that nothing reads, is still ready for a few bytes, and
/// then for none.
#[test]
fn a_terminal_that_stands_still_holds_no_export_up() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let place = Place::new();
    let server = place.serve(&[]);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let terminal = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap();
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = place.command(&["cat", "tank:/some"]);
    let mut client = command.stdout(stream()).stderr(stream()).spawn().unwrap();
    let pid = u64::from(client.id());
    place.wait_until(|status| status["commands"][0]["pid"] == pid);
    // Until nothing more gets in.
    let room = || rustix::io::ioctl_fionread(&master).unwrap();
    let mut before = room();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = room();
        if now > 0 && now == before {
            break;
        }
        before = now;
    }
    assert_eq!(place.run(&["zpool", "export", "tank"]).code, 1, "it is busy");
    let (done, time) = timed(|| place.run(&["zpool", "export", "-f", "tank"]));
    assert!(done.code == 0 && time < SOON, "{} {time:?}", done.err);
    let (code, _, words) = server.end();
    assert!(code == Some(0) && words.contains("tank is exported: a client"), "{words}");
    drop(master);
    client.kill().unwrap();
    client.wait().unwrap();
    place.is_clean();
}

/// A change that an export meets was made or was not, and its exit code says which.
#[test]
fn a_change_that_meets_a_forced_export_says_whether_it_was_made() {
    let place = Place::new();
    for round in 0..3 {
        let server = place.serve_known();
        let names: Vec<String> = (0..6).map(|n| format!("tank/r{round}n{n}")).collect();
        let mut changes: Vec<Child> = Vec::new();
        for name in &names {
            let mut command = place.command(&["zfs", "create", name]);
            changes.push(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        }
        // Until one of them runs: the others come before and after.
        place.wait_until(|status| status["commands"].as_array().is_some_and(|c| !c.is_empty()));
        place.run(&["zpool", "export", "-f", "tank"]).ok();
        let ended: Vec<Output> =
            changes.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        assert_eq!(server.end().0, Some(0));
        place.run(&["zpool", "import", "-d", ".", "tank"]).ok();
        for (name, output) in names.iter().zip(ended) {
            let message = String::from_utf8_lossy(&output.stderr);
            let is_there = place.run(&["zfs", "list", name]).code == 0;
            assert_eq!(output.status.success(), is_there, "{name}: {message}");
            assert_eq!(message.is_empty(), is_there, "{name}: {message}");
        }
    }
}

/// Reports of a pool whose server ends just then are of the pool all the same.
#[test]
fn a_report_goes_on_where_the_server_ends() {
    let place = Place::new();
    for round in 0..8 {
        let server = place.serve_known();
        std::thread::scope(|scope| {
            let reports = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(round * 5));
                place.run(&["zpool", "iostat", "-H", "tank"])
            });
            server.signal(Signal::TERM);
            let report = reports.join().unwrap();
            assert!(report.code == 0 && report.out.starts_with("tank"), "{round}: {}", report.err);
        });
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let server = place.serve(&[]);
    let stalled = place.stalled(&["cat", "tank:/some"]);
    server.signal(Signal::TERM);
    server.signal(Signal::INT);
    let (code, time, words) = server.end();
    ended(stalled);
    assert!(matches!(code, Some(0 | 1)) && time < SOON, "{code:?} {time:?} {words}");
    assert_eq!(words.contains("tank is no longer served"), code == Some(0), "{words}");
    place.is_clean();
}

/// However many there are, however new, and also when bytes of a request come in now and then.
#[test]
fn connections_that_say_nothing_keep_no_other_out() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let socket = place.socket();
    let mut idle = Vec::new();
    for round in 0..3 {
        idle.extend((0..100).map(|_| UnixStream::connect(&socket).unwrap()));
        for slow in idle.iter_mut().rev().take(10) {
            // It may be hung up already.
            let _ = slow.write(b"{");
        }
        let (list, time) = timed(|| place.run(&["zpool", "status", "tank"]));
        assert!(list.code == 0 && time < SOON, "{round}: {time:?} {}", list.err);
        assert!(list.ok().contains("pool: tank"));
    }
}

/// Neither do they where the system has no files for more, and what is then not to be had is said.
#[test]
fn a_server_without_descriptors_makes_room_and_says_what_it_lacks() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let place = Place::new();
    let server = place.serve(&[]);
    let pid = Pid::from_child(&server.child);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    let limit = |files: usize| {
        let files = Some(files as u64);
        prlimit(Some(pid), Resource::Nofile, Rlimit { current: files, maximum: files }).unwrap();
    };
    limit(open() + 12);
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(place.socket()).unwrap()).collect();
    let (list, time) = timed(|| place.run(&["zpool", "status", "tank"]));
    assert!(list.code == 0 && time < SOON, "{time:?} {}", list.err);
    drop(idle);
    let began = Instant::now();
    let mut before = 0;
    while before != open() {
        assert!(began.elapsed() < SOON);
        before = open();
        std::thread::sleep(Duration::from_millis(200));
    }
    // One for the connection, and none for what comes with a command.
    limit(before + 1);
    let output = place.command(&["zfs", "create", "tank/x"]).env("ZINC_WAIT", "0").output();
    let message = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(message.contains("the server cannot take the files of the command"), "{message}");
    assert!(message.contains("LimitNOFILE="), "{message}");
    // A command that has too few itself is told the same, and not to look elsewhere.
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 4; exec \"$0\" zpool status tank", env!("CARGO_BIN_EXE_zinc")]);
    few.env("ZINC_STATE", place.path().join("state"));
    let few = few.current_dir(place.path()).output().unwrap();
    let message = String::from_utf8(few.stderr).unwrap();
    assert!(message.contains("Too many open files"), "{message}");
    assert!(message.contains("ulimit -n") && !message.contains("ZINC_STATE names"), "{message}");
}

/// Every verb that may take long ends in the server too when its client does. Each of these has
/// more to do, or to say to a reader that does not read, than it can be done with.
#[test]
fn what_a_client_began_ends_with_it() {
    let place = Place::new();
    let many = place.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for n in 0..1500 {
        std::fs::write(many.join(format!("{n:0>200}")), "x").unwrap();
    }
    place.run(&["zfs", "snapshot", "-d", "disk", "tank@before"]).ok();
    place.run(&["cp", "-r", "-d", "disk", "many", "tank:/"]).ok();
    let mut offences = Vec::new();
    for line in [
        "cat tank:/big",
        "cat tank:/some",
        "ls -R tank:/",
        "cp -v -r tank:/many out",
        "cp -v -r many tank:/again",
        "cp --tar - tank:/again",
        "inventory --max-hole 4T tank",
        "zfs diff tank@before tank",
        "zpool iostat tank 1",
        "zpool list tank 1",
        "pios -p tank -n 1 -P sleep_600 -L dmuio",
        "pios -L dmuio -p tank -n 1 -s 1M -c 4k -T 200 -x",
    ] {
        let server = place.serve(&[]);
        let args: Vec<String> = line.split(' ').map(|w| w.replace('_', " ")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut client = place.stalled(&args);
        if client.try_wait().unwrap().is_some() {
            let mut why = String::new();
            client.stderr.as_mut().unwrap().read_to_string(&mut why).unwrap();
            offences.push(format!("{line}: it was done at once, which shows nothing: {why}"));
        }
        // As SIGKILL does: it cannot say good-bye.
        client.kill().unwrap();
        client.wait().unwrap();
        let (export, time) = timed(|| place.run(&["zpool", "export", "tank"]));
        if export.code != 0 || time > SOON {
            offences.push(format!("{line}: {time:?} {}", export.err));
        }
        drop(server);
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    place.is_clean();
}

/// What several threads print for a client arrives there whole, and nowhere else.
#[test]
fn a_long_list_of_a_served_pool_is_whole() {
    let place = Place::new();
    let many = place.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for n in 0..1500 {
        std::fs::write(many.join(format!("{n:0>200}")), "x").unwrap();
    }
    place.run(&["cp", "-r", "-d", "disk", "many", "tank:/"]).ok();
    let server = place.serve(&[]);
    // It says of one file that it is not hashed, so that it is no success.
    let list = place.run(&["inventory", "tank"]).out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert!(list["datasets"][0]["entries"].as_array().unwrap().len() > 1500);
    assert_eq!(place.run(&["zpool", "export", "tank"]).code, 0);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_foreign_page_gets_no_metrics() {
    let place = Place::new();
    let mut server = place.serve(&["--metrics", "127.0.0.1:0"]);
    let mut line = String::new();
    server.err.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("//").unwrap().1.split('/').next().unwrap().to_owned();
    for (host, status) in [("evil.example", "421"), (address.as_str(), "200")] {
        let page = answer(&address, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(page.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {page}");
        assert_eq!(page.contains("zinc_"), status == "200");
    }
}
