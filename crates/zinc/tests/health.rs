//! Health that is not there, and alarms that are not true: what zinc says of pools whose devices
//! are cut short, fail, are deleted or written to by others meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use support::place::{Server, until};
use support::{Run, has};

const MIB: u64 = 1 << 20;

/// A folder with images, and the sockets of servers.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// A pool `tank` over images of 256 MiB; `words` between the name and the images.
    fn new(words: &[&str], images: &[&str]) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        for image in images {
            std::fs::File::create(place.path(image)).unwrap().set_len(256 * MIB).unwrap();
        }
        let images = images.iter().map(|i| place.path(i).to_str().unwrap().to_owned());
        let images: Vec<String> = images.collect();
        let mut args = vec!["zpool", "create", "tank"];
        args.extend(words);
        args.extend(images.iter().map(String::as_str));
        place.run(&args).ok();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path()).env("TZ", "UTC");
        command.env("ZINC_SOCKETS", self.path("run/zinc")).env("ZINC_STATE", self.path("state"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let output = self.command(env!("CARGO_BIN_EXE_zinc"), args).output().unwrap();
        let Output { status, stdout, stderr } = output;
        Run {
            code: status.code().expect("zinc ends by itself"),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Fills the pool with `mib` MiB that do not compress.
    fn fill(&self, mib: u64) {
        let mut bytes = vec![0; (mib * MIB) as usize];
        testkit::Rng::new(1).fill(&mut bytes);
        std::fs::write(self.path("bytes"), bytes).unwrap();
        self.run(&["cp", "-d", ".", "bytes", "tank:/bytes"]).ok();
        std::fs::remove_file(self.path("bytes")).unwrap();
    }

    fn serve(&self) -> Server {
        self.serve_to("serve -d . tank", Stdio::null())
    }

    fn serve_to(&self, words: &str, errors: Stdio) -> Server {
        // A process that ignores this signal gets an error instead, when a limit on files is met.
        let line = format!("trap '' XFSZ; exec \"$0\" {words}");
        let mut command = self.command("sh", &["-c", &line, env!("CARGO_BIN_EXE_zinc")]);
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        let server = Server(child);
        BufReader::new(out).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server did not begin");
        server
    }

    /// Overwrites the first block of the newest state of a pool of one image.
    fn lose_newest_root(&self, image: &str) {
        /// Where the space that is allocated begins.
        const START: u64 = 4 * MIB;
        let mut options = engine::OpenOptions::default();
        options.search.paths = vec![self.path(image)];
        let found = engine::inside::pool::scan(&options.search).unwrap();
        let candidate = engine::Candidate::group(&found).remove(0);
        let newest = candidate.uberblocks.iter().map(|u| u.uberblock).max_by_key(|u| u.txg);
        let file = std::fs::OpenOptions::new().write(true).open(self.path(image)).unwrap();
        for (_, dva) in newest.unwrap().rootbp.dvas() {
            file.write_all_at(&[0x5a; 4096], START + dva.offset()).unwrap();
        }
    }

    fn cut(&self, image: &str, size: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(self.path(image)).unwrap();
        file.set_len(size).unwrap();
    }
}

#[track_caller]
fn has_not(text: &str, words: &[&str]) {
    for word in words {
        assert!(!text.contains(word), "{word:?} in:\n{text}");
    }
}

#[test]
fn a_disk_that_is_cut_short_is_not_online() {
    let cut = || {
        let place = Place::new(&[], &["disk"]);
        place.fill(60);
        place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
        place.cut("disk", 60 * MIB);
        let status = place.run(&["zpool", "status", "-d", ".", "tank"]);
        (place, status)
    };
    // Chance puts the copies of the MOS anywhere. When none is left, the pool has no status.
    let mut cuts = (0..20).map(|_| cut()).filter(|(_, run)| !run.err.contains("the MOS: "));
    let (place, status) = cuts.next().expect("a pool whose MOS is in what is left");
    let status = status.out;
    has(&status, &[" state: UNAVAIL", "corrupted data", "ZFS-8000-5E", "short: "]);
    has_not(&status, &["No known data errors", "ONLINE", "unaffected"]);
    let listed = place.run(&["zpool", "import", "-d", "."]).out;
    has(&listed, &["UNAVAIL", "corrupted data", "ZFS-8000-5E"]);
    let list = place.run(&["zpool", "list", "-d", ".", "-Ho", "health", "tank"]).out;
    assert_eq!(list, "UNAVAIL\n");
    let import = place.run(&["zpool", "import", "-d", ".", "tank"]);
    assert_ne!(import.code, 0, "{}", import.out);
    let check = place.run(&["check", "-d", ".", "tank"]);
    assert_eq!(check.code, 3, "{}", check.err);
    has(&check.out, &["device-short", "block-lost"]);
}

#[test]
fn a_side_of_a_mirror_that_is_cut_short_degrades_it() {
    let place = Place::new(&["mirror"], &["left", "right"]);
    place.fill(40);
    place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
    place.cut("right", 50 * MIB);
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has(&status, &[" state: DEGRADED", "UNAVAIL", "corrupted data", "ZFS-8000-4J"]);
    has(&status, &["No known data errors"]);
    let check = place.run(&["check", "-d", ".", "tank"]);
    assert_eq!(check.code, 3, "{}", check.err);
    has(&check.out, &["device-short", " 0 lost"]);
    // Nothing is read from it that the other side has.
    let copied = place.run(&["cp", "-d", ".", "tank:/bytes", "back"]);
    assert_eq!((copied.code, copied.err.as_str()), (0, ""));
}

/// Makes two changes of a pool, with one of its images away, which then comes back as it was.
fn come_back(place: &Place, image: &str) {
    place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
    // Where no command looks for devices.
    let elsewhere = tempfile::tempdir().unwrap();
    let before = elsewhere.path().join("before");
    std::fs::copy(place.path(image), &before).unwrap();
    // Each of them leaves it exported again.
    place.run(&["zfs", "create", "-d", ".", "tank/one"]).ok();
    place.fill(8);
    std::fs::copy(&before, place.path(image)).unwrap();
}

/// What the first label of an image holds, its ring of uberblocks included.
fn label_of(place: &Place, image: &str) -> Vec<u8> {
    let mut label = vec![0; 256 << 10];
    let file = std::fs::File::open(place.path(image)).unwrap();
    file.read_exact_at(&mut label, 0).unwrap();
    label
}

#[test]
fn a_side_of_a_mirror_that_was_away_is_not_online() {
    let place = Place::new(&["mirror"], &["left", "right"]);
    come_back(&place, "right");
    let before = label_of(&place, "right");
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has(&status, &[" state: DEGRADED", "UNAVAIL", "right", "was away, ", "txgs behind"]);
    let listed = place.run(&["zpool", "import", "-d", "."]).out;
    has(&listed, &["DEGRADED", "was away, ", "txgs behind"]);
    // All is there, and the old bytes are not damage.
    let check = place.run(&["check", "-d", ".", "tank"]);
    has(&check.out, &["device-absent", "was away", " 0 lost"]);
    has_not(&check.out, &["places wrong"]);
    place.run(&["cp", "-d", ".", "tank:/bytes", "back"]).ok();
    assert!(label_of(&place, "right") == before, "a command that only looks changed it");
    // A program that changes the pool uses it again, and it is brought what it missed.
    place.run(&["zfs", "create", "-d", ".", "tank/two"]).ok();
    place.run(&["zpool", "import", "-d", ".", "tank"]).ok();
    place.run(&["zpool", "resilver", "tank"]).ok();
    let status = place.run(&["zpool", "status", "tank"]).out;
    has(&status, &[" state: ONLINE", "scan: resilvered ", " with 0 errors on "]);
    place.run(&["check", "tank"]).ok();
    std::fs::remove_file(place.path("left")).unwrap();
    place.run(&["cp", "tank:/bytes", "again"]).ok();
}

#[test]
fn a_pool_with_too_few_disks_is_shown_and_can_be_forgotten() {
    let place = Place::new(&["raidz1"], &["a", "b", "c"]);
    let gone = ["b", "c"].map(|image| place.path(image));
    gone.iter().for_each(|path| std::fs::rename(path, path.with_extension("away")).unwrap());
    let other = tempfile::tempdir().unwrap();
    gone.iter().for_each(|path| {
        let away = path.with_extension("away");
        std::fs::rename(&away, other.path().join(away.file_name().unwrap())).unwrap();
    });
    let tree = [" state: UNAVAIL", "raidz1-0", "insufficient replicas", "was /", "ONLINE"];
    for verb in [&["zpool", "status", "tank"][..], &["zpool", "status", "-d", "."]] {
        let shown = place.run(verb);
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "as OpenZFS does");
        has(&shown.out, &tree);
        has(&shown.out, &["ZFS-8000-3C", "/b", "/c"]);
        has_not(&shown.out, &["No known data errors"]);
    }
    let json = place.run(&["zpool", "status", "-j", "tank"]).out;
    has(&json, &["UNAVAIL", "raidz1-0"]);
    let list = place.run(&["zpool", "list", "-Ho", "name,size,health"]);
    assert_eq!(list.out, "tank\t-\tUNAVAIL\n", "{}", list.err);
    has(&place.run(&["zpool", "list", "-v"]).out, &["raidz1-0", "UNAVAIL"]);
    let export = place.run(&["zpool", "export", "tank"]);
    assert_eq!(export.code, 0, "{}", export.err);
    has(&export.err, &["not known any more", "labels could not be written"]);
    has(&place.run(&["zpool", "status", "tank"]).err, &["no such pool"]);
    has(&place.run(&["zpool", "import", "-d", "."]).out, &["state: UNAVAIL", "raidz1-0", "b"]);
}

#[test]
fn a_known_pool_without_any_device_is_shown() {
    let place = Place::new(&["mirror"], &["left", "right"]);
    ["left", "right"].iter().for_each(|i| std::fs::remove_file(place.path(i)).unwrap());
    let shown = place.run(&["zpool", "status", "tank"]);
    has(&shown.out, &[" state: UNAVAIL", "mirror-0", "/left", "/right", "was /"]);
    has_not(&shown.out, &["ONLINE"]);
    // They may be somewhere else.
    assert_eq!(place.run(&["zpool", "export", "tank"]).code, 1);
    place.run(&["zpool", "export", "-f", "tank"]).ok();
}

#[test]
fn a_degraded_pool_can_be_exported_and_destroyed() {
    let degraded = || {
        let place = Place::new(&["mirror"], &["left", "right"]);
        place.fill(1);
        std::fs::remove_file(place.path("right")).unwrap();
        has(&place.run(&["zpool", "status", "tank"]).out, &[" state: DEGRADED"]);
        place
    };
    let place = degraded();
    let export = place.run(&["zpool", "export", "tank"]);
    assert_eq!(export.code, 0, "{}", export.err);
    has(&place.run(&["zpool", "import", "-d", "."]).out, &["tank", "DEGRADED"]);
    // It was really exported: another host may take it without force.
    place.run(&["zpool", "import", "-d", ".", "tank"]).ok();
    place.run(&["zfs", "create", "tank/new"]).ok();
    place.run(&["zpool", "export", "tank"]).ok();

    let place = degraded();
    place.run(&["zpool", "destroy", "tank"]).ok();
    has(&place.run(&["zpool", "status", "tank"]).err, &["no such pool"]);
    has(&place.run(&["zpool", "import", "-d", "."]).err, &["no pools available"]);
    has(&place.run(&["zpool", "import", "-D", "-d", "."]).out, &["tank", "(DESTROYED)"]);
    // Nothing of it is lost.
    let guid = place.run(&["zpool", "import", "-D", "-j", "-d", "."]).out;
    has(&guid, &["DEGRADED"]);
}

#[test]
fn a_raidz_reads_past_a_disk_that_was_away() {
    let place = Place::new(&["raidz1"], &["a", "b", "c"]);
    come_back(&place, "b");
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has(&status, &[" state: DEGRADED", "was away, ", "No known data errors"]);
    place.run(&["cp", "-d", ".", "tank:/bytes", "back"]).ok();
    // With another one gone it is the last choice. Whether the pool opens is up to chance, which
    // decides where its root lies.
    std::fs::remove_file(place.path("c")).unwrap();
    let listed = place.run(&["zpool", "import", "-d", "."]).out;
    has(&listed, &["txgs behind"]);
}

#[test]
fn what_lies_behind_the_last_metaslab_is_not_missed() {
    let place = Place::new(&["mirror"], &["left", "right"]);
    place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
    place.cut("right", 256 * MIB - 4096);
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has(&status, &[" state: ONLINE"]);
}

/// Limits the size of files that a process may write.
fn limit_files(server: &Server, bytes: u64) {
    let pid = server.0.id().to_string();
    // The soft limit alone, which may be raised again.
    let limit = format!("--fsize={bytes}:");
    let done = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(done.unwrap().success());
}

#[testkit::needs("prlimit")]
#[test]
fn a_pool_that_stopped_says_so() {
    let place = Place::new(&[], &["disk"]);
    let server = place.serve();
    limit_files(&server, 1);
    let made = place.run(&["zfs", "create", "-d", ".", "tank/fs"]);
    assert_ne!(made.code, 0, "nothing can be written");
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]);
    assert_eq!(status.code, 0, "as OpenZFS does: {}", status.err);
    has(&status.out, &[" state: SUSPENDED", "in response to IO failures", "ZFS-8000-HC"]);
    has(&status.out, &["suspended: "]);
    has_not(&status.out, &["No known data errors"]);
    let list = place.run(&["zpool", "list", "-d", ".", "-Ho", "health", "tank"]).out;
    assert_eq!(list, "SUSPENDED\n");
    let sick = place.run(&["zpool", "status", "-x", "-d", ".", "tank"]).out;
    has(&sick, &["SUSPENDED"]);
    let json = place.run(&["zpool", "list", "-d", ".", "-j", "tank"]).out;
    has(&json, &["SUSPENDED"]);
}

#[testkit::needs("prlimit")]
#[test]
fn who_watches_a_pool_that_stopped_sees_it() {
    let place = Place::new(&[], &["disk"]);
    let mut server = place.serve_to("serve --metrics 127.0.0.1:0 tank", Stdio::piped());
    let mut errors = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("//").unwrap().1.split('/').next().unwrap().to_owned();
    let page = || support::answer(&address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    has(&page(), &["zinc_pool_suspended{pool=\"tank\"} 0", "state=\"ONLINE\"} 1"]);
    limit_files(&server, 1);
    assert_ne!(place.run(&["zfs", "create", "tank/fs"]).code, 0, "nothing can be written");
    has(
        &page(),
        &[
            "zinc_pool_suspended{pool=\"tank\"} 1",
            "state=\"SUSPENDED\"} 1",
            "state=\"ONLINE\"} 0",
            "zinc_pool_suspended_info{pool=\"tank\",reason=\"txg ",
        ],
    );
    let top = place.run(&["top", "--once", "tank"]).ok();
    has(&top, &["tank  SUSPENDED  txg", "\nsuspended: txg "]);
    let top = place.run(&["top", "-j", "tank", "0.1", "1"]).ok();
    has(&top, &["\"suspended\":\"txg ", "\"state\":\"SUSPENDED\""]);
    let iostat = place.run(&["zpool", "iostat", "tank", "0.1", "2"]);
    assert_eq!(iostat.err.matches("'tank' is SUSPENDED: txg ").count(), 1, "{}", iostat.err);
    let iostat = place.run(&["zpool", "iostat", "-j", "tank"]).out;
    has(&iostat, &["\"suspended\": \"txg "]);
    has(&place.run(&["zpool", "list"]).ok(), &["SUSPENDED"]);

    // It is not exported, which -f does not hide, and the server ends all the same.
    let refused = place.run(&["zpool", "export", "tank"]);
    assert_eq!(refused.code, 1);
    has(&refused.err, &["is suspended: txg ", "zpool clear", "export -f"]);
    let forced = place.run(&["zpool", "export", "-f", "tank"]);
    assert_eq!(forced.code, 0, "{}", forced.err);
    has(&forced.err, &["was stopped", "are lost", "because: txg "]);
    let mut message = String::new();
    errors.read_to_string(&mut message).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(1), "{message}");
    has(&message, &["without being exported", "because: txg "]);
    has(&place.run(&["zpool", "status", "tank"]).err, &["no such pool"]);
    place.run(&["zpool", "import", "-f", "-d", ".", "tank"]).ok();
    assert_eq!(place.run(&["check", "tank"]).code, 0);
}

/// A pool that waits for its devices goes on when they are back, with what was asked of it
/// meanwhile.
#[testkit::needs("prlimit")]
#[test]
fn a_suspended_pool_is_cleared() {
    let place = Place::new(&[], &["disk"]);
    let server = place.serve();
    std::fs::write(place.path("letter"), "text").unwrap();
    place.run(&["cp", "letter", "tank:/letter"]).ok();
    limit_files(&server, 1);
    let made = place.run(&["zfs", "create", "tank/fs"]);
    assert_eq!(made.code, 1, "nothing can be written");
    has(&made.err, &["is suspended: ", "zpool clear"]);
    // Everything answers, and says what is to be done.
    let status = place.run(&["zpool", "status", "tank"]).out;
    has(&status, &[" state: SUSPENDED", "then run 'zpool clear'", "ZFS-8000-HC"]);
    has(&place.run(&["zfs", "list", "-Ho", "name"]).ok(), &["tank\n"]);
    assert_eq!(place.run(&["zfs", "create", "tank/more"]).code, 1);
    let verbs = [(&[][..], "scrub"), (&["-e"], "scrub"), (&["-p"], "pause"), (&["-s"], "cancel")];
    for (options, verb) in verbs {
        let refused = place.run(&[&["zpool", "scrub"], options, &["tank"]].concat());
        assert_eq!(refused.code, 1, "{options:?}");
        has(
            &refused.err,
            &[&format!("cannot {verb}"), "pool 'tank' is suspended: ", "zpool clear"],
        );
    }
    let early = place.run(&["zpool", "clear", "tank"]);
    assert_eq!(early.code, 1);
    has(&early.err, &["cannot clear errors for tank", "is suspended"]);
    limit_files(&server, 1 << 40);
    place.run(&["zpool", "clear", "tank"]).ok();
    has(&place.run(&["zpool", "status", "tank"]).out, &[" state: ONLINE"]);
    has(&place.run(&["zfs", "list", "-Ho", "name"]).ok(), &["tank/fs\n"]);
    has(&place.run(&["cat", "tank:/letter"]).ok(), &["text"]);
    place.run(&["zpool", "export", "tank"]).ok();
    assert_eq!(place.run(&["check", "-d", ".", "tank"]).code, 0);
}

/// A copy that is under way when the pool is suspended ends at once, and is not finished later.
#[testkit::needs("prlimit")]
#[test]
fn a_copy_that_meets_a_suspended_pool_is_not_finished_later() {
    let place = Place::new(&[], &["disk"]);
    let server = place.serve();
    std::fs::write(place.path("large"), vec![7; 48 << 20]).unwrap();
    place.run(&["tunables", "--pool", "tank", "zfs_dirty_data_max=8M"]).ok();
    limit_files(&server, 1);
    let copied = place.run(&["cp", "large", "tank:/large"]);
    assert_eq!(copied.code, 1, "nothing can be written");
    has(&copied.err, &["is suspended: ", "will not be done later", "zpool clear"]);
    limit_files(&server, 1 << 40);
    place.run(&["zpool", "clear", "tank"]).ok();
    place.run(&["zpool", "sync", "tank"]).ok();
    assert_eq!(place.run(&["stat", "tank:/large"]).code, 1, "it was copied after all");
    place.run(&["cp", "large", "tank:/large"]).ok();
    place.run(&["zpool", "export", "tank"]).ok();
    assert_eq!(place.run(&["check", "-d", ".", "tank"]).code, 0);
}

/// With `failmode=panic` the server ends, and the pool is as after a crash.
#[testkit::needs("prlimit")]
#[test]
fn a_server_ends_with_its_devices_when_failmode_is_panic() {
    let place = Place::new(&[], &["disk"]);
    let mut server = place.serve_to("serve tank", Stdio::piped());
    place.run(&["zpool", "set", "failmode=panic", "tank"]).ok();
    limit_files(&server, 1);
    assert_eq!(place.run(&["zfs", "create", "tank/fs"]).code, 1);
    let mut message = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(1), "{message}");
    has(&message, &["its devices fail", "failmode is panic"]);
    assert_eq!(place.run(&["check", "tank"]).code, 0);
}

/// A served pool whose image becomes something else: everything still works, and says so.
fn displaced(what: &str, change: impl Fn(&Path)) {
    let place = Place::new(&[], &["disk"]);
    let mut server = place.serve();
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has_not(&status, &[what]);
    change(&place.path("disk"));
    let status = place.run(&["zpool", "status", "tank"]).out;
    has(&status, &["while", "they were in use", what]);
    let export = place.run(&["zpool", "export", "tank"]);
    assert_ne!(export.code, 0, "{}", export.out);
    has(&export.err, &[what, "zpool export -f"]);
    // What is changed now is lost, and does not count as done.
    for verb in [&["zfs", "create", "tank/lost"][..], &["zpool", "sync", "tank"]] {
        let changed = place.run(verb);
        assert_eq!(changed.code, 1, "{verb:?}");
        has(&changed.err, &["are lost when its server ends", "disk", what]);
    }
    // The pool is still there, so that its data can be copied out.
    place.run(&["zfs", "list", "tank"]).ok();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&server.0),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(!server.0.wait().unwrap().success(), "what was written is lost");
}

#[test]
fn a_deleted_image_is_noticed() {
    displaced("was deleted", |disk| std::fs::remove_file(disk).unwrap());
}

#[test]
fn a_replaced_image_is_noticed() {
    displaced("was deleted", |disk| {
        let other = disk.with_extension("new");
        std::fs::copy(disk, &other).unwrap();
        std::fs::rename(&other, disk).unwrap();
    });
}

#[test]
fn an_image_that_was_moved_away_is_noticed() {
    displaced("was replaced", |disk| {
        // At once: a file with another name alone is followed.
        let other = disk.with_extension("new");
        std::fs::write(&other, b"another").unwrap();
        std::fs::hard_link(disk, disk.with_extension("old")).unwrap();
        std::fs::rename(&other, disk).unwrap();
    });
}

#[test]
fn a_check_beside_a_writer_finds_no_damage() {
    let place = Place::new(&[], &["disk"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                let name = format!("tank/fs{n}");
                place.run(&["zfs", "create", "-d", ".", &name]);
                place.run(&["zfs", "destroy", "-d", ".", &name]);
                n += 1;
            }
        });
        for _ in 0..12 {
            let check = place.run(&["check", "-d", ".", "tank"]);
            let moved = check.code == 1 && check.err.contains("written to");
            if check.code != 0 && !moved {
                done.store(true, Ordering::Relaxed);
                panic!("exit {}: {}{}", check.code, check.out, check.err);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.run(&["check", "-d", ".", "tank"]).code, 0);
}

#[test]
fn files_of_an_older_state_are_not_all_there_were() {
    let place = Place::new(&[], &["disk"]);
    place.fill(4);
    place.run(&["zpool", "export", "-d", ".", "tank"]).ok();
    place.lose_newest_root("disk");
    let words = ["opened at txg ", "later changes are not shown"];
    for verb in [&["ls", "-d", ".", "tank:/"][..], &["cp", "-r", "-d", ".", "tank:", "out"]] {
        has(&place.run(verb).err, &words);
    }
    let rescue = place.run(&["rescue", "-d", ".", "tank", "saved"]);
    assert_eq!(rescue.code, 1, "{}", rescue.err);
    has(&rescue.err, &words);
    has_not(&rescue.err, &["nothing lost"]);
    has(&std::fs::read_to_string(place.path("saved/rescue.jsonl")).unwrap(), &words);
}

/// Both sides of a mirror are written, each without the other, up to the same txg: they are never
/// mixed, and zinc writes to the pool only when one of them is taken away.
#[test]
fn sides_of_a_mirror_that_were_written_apart_are_not_mixed() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    place.run(&["zpool", "export", "tank"]).ok();
    let swap = |from: &str, to: &str| {
        std::fs::rename(place.path(from), place.path(to)).unwrap();
    };
    let write = |side: &str| {
        for name in ["one", "two", "three"] {
            let dataset = format!("tank/{side}-{name}");
            place.run(&["zfs", "create", "-d", ".", &dataset]).ok();
        }
    };
    std::fs::create_dir(place.path("away")).unwrap();
    swap("b", "away/b");
    write("a");
    swap("a", "away/a");
    swap("away/b", "b");
    write("b");
    swap("away/a", "a");

    let seen = place.run(&["zfs", "list", "-H", "-o", "name", "-d", ".", "-r", "tank"]);
    let (of_a, of_b) = (seen.out.matches("/a-").count(), seen.out.matches("/b-").count());
    assert!(matches!((of_a, of_b), (3, 0) | (0, 3)), "{}{}", seen.out, seen.err);
    let (stays, goes) = if of_a == 3 { ("a", "b") } else { ("b", "a") };
    let status = place.run(&["zpool", "status", "-d", ".", "tank"]).out;
    has(&status, &["DEGRADED"]);
    let refused = place.run(&["zfs", "create", "-d", ".", "tank/more"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    has(&refused.err, &[&format!("/{goes}: "), "written without the others", "take it away"]);
    let checked = place.run(&["check", "-d", ".", "tank"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);

    // Whichever side is taken away, the other is whole.
    swap(stays, &format!("away/{stays}"));
    place.run(&["zfs", "create", "-d", ".", "tank/more"]).ok();
    let seen = place.run(&["zfs", "list", "-H", "-o", "name", "-d", ".", "-r", "tank"]).out;
    assert_eq!(seen.matches(&format!("/{goes}-")).count(), 3, "{seen}");
    assert_eq!(place.run(&["check", "-d", ".", "tank"]).code, 0);
}

/// One side of a served mirror is deleted or cut short: the pool goes on without it, says so, and
/// leaves it behind when it is exported.
#[test]
fn a_side_of_a_mirror_that_goes_astray_is_gone_without() {
    for what in ["was deleted", "is smaller than the pool expects"] {
        let place = Place::new(&["mirror"], &["a", "b"]);
        let mut server = place.serve();
        match what {
            "was deleted" => std::fs::remove_file(place.path("b")).unwrap(),
            _ => place.cut("b", MIB),
        }
        for verb in [&["zfs", "create", "tank/after"][..], &["zpool", "sync", "tank"]] {
            let changed = place.run(verb);
            assert_eq!(changed.code, 0, "{}", changed.err);
            assert_eq!(changed.err.lines().count(), 1, "{}", changed.err);
            has(&changed.err, &["goes on without", "/b", what, "zpool replace"]);
        }
        let health = place.run(&["zpool", "list", "-Ho", "health", "tank"]).out;
        assert_eq!(health.trim(), "DEGRADED", "{what}");
        let status = place.run(&["zpool", "status", "tank"]).out;
        has(&status, &["REMOVED", what]);
        place.run(&["zpool", "export", "tank"]).ok();
        assert!(server.0.wait().unwrap().success(), "{what}");
        place.run(&["zfs", "list", "-d", ".", "tank/after"]).ok();
        assert_eq!(place.run(&["check", "-d", ".", "tank"]).code, 0, "{what}");
    }
}

/// A side that was moved away and comes back is used again by itself, and has what it missed.
#[test]
fn a_side_of_a_mirror_that_comes_back_is_used_again() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    let mut server = place.serve();
    let elsewhere = tempfile::tempdir_in(place.path(".")).unwrap();
    let away = elsewhere.path().join("b");
    // Whether that took less time than passes before what did not help is tried again.
    let comes_back = |dataset: &str| {
        std::fs::rename(place.path("b"), &away).unwrap();
        for verb in [&["zfs", "create", dataset][..], &["zpool", "sync", "tank"]] {
            assert_eq!(place.run(verb).code, 0, "{verb:?}");
        }
        has(&place.run(&["zpool", "status", "tank"]).out, &["REMOVED", "was moved away"]);
        std::fs::rename(&away, place.path("b")).unwrap();
        let began = std::time::Instant::now();
        until("it is used again", || {
            place.run(&["zpool", "list", "-Ho", "health", "tank"]).out.trim() == "ONLINE"
        });
        began.elapsed() < std::time::Duration::from_secs(30)
    };
    comes_back("tank/after");
    // It may happen again at once; on a busy machine not each time.
    assert!((0..5).any(|n| comes_back(&format!("tank/later{n}"))));
    place.run(&["zpool", "export", "tank"]).ok();
    assert!(server.0.wait().unwrap().success());
    // It has all by itself.
    std::fs::remove_file(place.path("a")).unwrap();
    place.run(&["zfs", "list", "-d", ".", "tank/after", "tank/later0"]).ok();
}

/// Devices that the pool cannot do without are moved away and come back: that is not an error of
/// theirs, and what was done meanwhile is kept.
#[test]
fn devices_that_were_needed_all_the_while_are_online_when_they_are_back() {
    let place = Place::new(&[], &["a", "b"]);
    let mut server = place.serve();
    let elsewhere = tempfile::tempdir_in(place.path(".")).unwrap();
    let both = |act: &dyn Fn(&Path, &Path)| {
        ["a", "b"].iter().for_each(|side| act(&place.path(side), &elsewhere.path().join(side)));
    };
    both(&|here, there| std::fs::rename(here, there).unwrap());
    assert_eq!(place.run(&["zfs", "create", "tank/after"]).code, 1);
    place.run(&["zpool", "scrub", "-w", "tank"]);
    let status = place.run(&["zpool", "status", "tank"]).out;
    has(&status, &["DEGRADED", "was moved away"]);
    has_not(&status, &["too many errors"]);
    both(&|here, there| std::fs::rename(there, here).unwrap());
    let status = place.run(&["zpool", "status", "tank"]).out;
    has_not(&status, &["DEGRADED", "too many errors", "unrecoverable"]);
    place.run(&["zpool", "export", "tank"]).ok();
    assert!(server.0.wait().unwrap().success());
    place.run(&["zfs", "list", "-d", ".", "tank/after"]).ok();
}

/// A side that has shown many errors is DEGRADED, and read like any other. When its file is deleted
/// the pool goes on without it.
#[test]
fn a_side_with_many_errors_is_checked_and_can_go() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    place.fill(24);
    let mut server = place.serve();
    let noise = std::fs::File::options().write(true).open(place.path("b")).unwrap();
    noise.write_all_at(&vec![0xa5; 40 << 20], 5 << 20).unwrap();
    place.run(&["zpool", "scrub", "-w", "tank"]).ok();
    has(&place.run(&["zpool", "status", "tank"]).out, &["DEGRADED", "too many errors"]);
    let check = place.run(&["check", "tank"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    has_not(&check.out, &["device-absent", "not checked"]);
    std::fs::remove_file(place.path("b")).unwrap();
    let created = place.run(&["zfs", "create", "tank/after"]);
    assert_eq!(created.code, 0, "{}", created.err);
    has(&created.err, &["goes on without devices", "was deleted"]);
    has(&place.run(&["zpool", "status", "tank"]).out, &["REMOVED", "was deleted"]);
    place.run(&["zpool", "export", "tank"]).ok();
    assert!(server.0.wait().unwrap().success());
}

/// Both sides are deleted: nothing makes up for that, and the pool is not ONLINE.
#[test]
fn a_mirror_without_any_side_that_will_be_found_is_not_healthy() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    let mut server = place.serve();
    for side in ["a", "b"] {
        std::fs::remove_file(place.path(side)).unwrap();
    }
    assert_eq!(place.run(&["zfs", "create", "tank/after"]).code, 1);
    let health = place.run(&["zpool", "list", "-Ho", "health", "tank"]).out;
    assert_eq!(health.trim(), "DEGRADED");
    place.run(&["zpool", "scrub", "-w", "tank"]);
    let status = place.run(&["zpool", "status", "tank"]).out;
    has(&status, &["was deleted", "is lost when"]);
    has_not(&status, &["too many errors"]);
    assert_ne!(place.run(&["zpool", "export", "tank"]).code, 0);
    // The way out: the server ends, and says what is lost.
    let ended = place.run(&["zpool", "export", "-f", "tank"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    has(&ended.err, &["was closed", "was deleted"]);
    assert!(!server.0.wait().unwrap().success());
    has(&place.run(&["zfs", "list", "tank"]).err, &["no such pool"]);
}

/// What is a copy of a pool that is served is not called nothing, and no other server.
#[test]
fn a_copy_of_a_pool_that_is_served_is_called_that() {
    let place = Place::new(&[], &["disk"]);
    let server = place.serve();
    std::fs::create_dir(place.path("copy")).unwrap();
    std::fs::copy(place.path("disk"), place.path("copy/disk")).unwrap();
    has(&place.run(&["serve", "-d", "copy", "tank"]).err, &["copy"]);
    assert!(place.run(&["version"]).out.starts_with("zinc-"));
    drop(server);
}

/// The server destroys what it holds, and there is nothing left to be kept.
#[test]
fn a_pool_whose_images_were_deleted_is_destroyed() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    let mut server = place.serve();
    for side in ["a", "b"] {
        std::fs::remove_file(place.path(side)).unwrap();
    }
    assert_eq!(place.run(&["zpool", "destroy", "-f", "tank"]).code, 0);
    server.0.wait().unwrap();
    has(&place.run(&["zfs", "list", "tank"]).err, &["no such pool"]);
}

/// What cannot be opened is destroyed on the devices that are there: their labels say so.
#[test]
fn a_pool_that_cannot_be_opened_is_marked_as_destroyed() {
    let place = Place::new(&["raidz"], &["a", "b", "c"]);
    for leaf in ["b", "c"] {
        std::fs::remove_file(place.path(leaf)).unwrap();
    }
    let destroyed = place.run(&["zpool", "destroy", "-f", "tank"]);
    assert_eq!((destroyed.code, destroyed.err.as_str()), (0, ""));
    has(&place.run(&["zpool", "import", "-D", "-d", "."]).out, &["pool: tank", "(DESTROYED)"]);
}

/// A pool below which nothing can be written any more is given up by force alone.
#[test]
fn a_pool_without_room_below_is_given_up_by_force() {
    for verb in ["export", "destroy"] {
        let place = Place::new(&[], &["disk"]);
        let full = |words: &str| {
            let line = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" {words}");
            let mut command = place.command("sh", &["-c", &line, env!("CARGO_BIN_EXE_zinc")]);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code().unwrap(), text)
        };
        let (code, text) = full(&format!("zpool {verb} tank"));
        assert_eq!(code, 1, "{text}");
        place.run(&["zpool", "list", "tank"]).ok();
        let (code, text) = full(&format!("zpool {verb} -f tank"));
        assert_eq!(code, 0, "{text}");
        has(&text, &["'tank' is not known any more", "labels could not be written"]);
        has(&place.run(&["zpool", "list", "tank"]).err, &["no such pool"]);
    }
}

/// An import that was shown one side of a mirror says that the other is where it was.
#[test]
fn an_import_says_which_devices_it_was_not_shown() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    place.run(&["zpool", "export", "tank"]).ok();
    let imported = place.run(&["zpool", "import", "-d", "a", "tank"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    has(&imported.err, &["imported without", "/b, which is a device of it"]);
}

/// A side with changes of its own that is put back while the pool is served stays away from all
/// verbs that try every device again.
#[test]
fn a_side_with_changes_of_its_own_is_not_overwritten_by_the_way() {
    let place = Place::new(&["mirror"], &["a", "b"]);
    place.run(&["zpool", "export", "tank"]).ok();
    std::fs::create_dir(place.path("away")).unwrap();
    let rename = |from: &str, to: &str| {
        std::fs::rename(place.path(from), place.path(to)).unwrap();
    };
    let write = |names: [&str; 2]| {
        for name in names {
            place.run(&["zfs", "create", "-d", ".", name]).ok();
        }
    };
    rename("b", "away/b");
    write(["tank/a1", "tank/a2"]);
    rename("a", "away/a");
    rename("away/b", "b");
    write(["tank/b1", "tank/b2"]);
    let server = place.serve();
    rename("away/a", "a");
    for verb in ["reopen", "clear"] {
        place.run(&["zpool", verb, "tank"]).ok();
        let health = place.run(&["zpool", "list", "-Ho", "health", "tank"]).out;
        assert_eq!(health.trim(), "DEGRADED", "{verb}");
    }
    drop(server);
    rename("b", "away/b");
    let only_a = place.run(&["zfs", "list", "-d", ".", "-Ho", "name"]);
    assert!(only_a.out.contains("tank/a2"), "{}{}", only_a.out, only_a.err);
}
