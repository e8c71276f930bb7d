//! Devices of a served pool that come back as other files or disks than those that left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::has;
use support::place::{Place, until};

/// A served mirror of `a` and `b`, and what its server says.
struct Served {
    place: Place,
    server: Child,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server of `tank` whose messages go to the file `log`.
fn serve(place: &Place) -> Child {
    let errors = File::create(place.path().join("log")).unwrap();
    let mut command = place.command_here("serve tank");
    let server = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    until("the pool is served", || {
        place.command_here("tunables --pool tank").output().unwrap().status.success()
    });
    server
}

impl Served {
    fn mirror() -> Self {
        Self::pool(&["a", "b"], "mirror a b")
    }

    fn pool(files: &[&str], layout: &str) -> Self {
        let place = Place::new(files);
        std::fs::create_dir(place.path().join("aside")).unwrap();
        place.ok(&format!("zpool create tank {layout}"));
        let server = serve(&place);
        Self { place, server }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap()
    }

    /// Copies a file; the copy is another one in the eyes of the system.
    fn copy(&self, from: &str, to: &str) {
        let sparse = ["--sparse=always", "--reflink=never"];
        let (from, to) = (self.at(from), self.at(to));
        assert!(Command::new("cp").args(sparse).arg(from).arg(to).status().unwrap().success());
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.at(from), self.at(to)).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.at(name)).unwrap();
    }

    /// A file in the pool of bytes that do not compress, which is durable.
    fn write(&self, name: &str, seed: u64) {
        let mut bytes = vec![0; 4 << 20];
        testkit::Rng::new(seed).fill(&mut bytes);
        std::fs::write(self.at(name), bytes).unwrap();
        self.now(&format!("cp {name} tank:/{name}"));
        self.now("zpool sync tank");
    }

    /// Does it, whatever is said of devices that are away.
    fn now(&self, command: &str) -> String {
        let output = self.place.command_here(command).output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is said of a command that fails.
    fn refused(&self, command: &str) -> String {
        let output = self.place.command_here(command).output().unwrap();
        assert!(!output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn health(&self) -> String {
        self.now("zpool list -Ho health tank").trim().to_owned()
    }

    /// What `zpool status` says of a device.
    fn row(&self, name: &str) -> String {
        let status = self.now("zpool status tank");
        let path = self.at(name).display().to_string();
        let row = status.lines().find(|l| l.split_whitespace().next() == Some(path.as_str()));
        row.unwrap_or_else(|| panic!("{name} is not in {status}")).to_owned()
    }

    fn is_used_again(&self) {
        // Its resilver has begun by then.
        until("the device is used again", || self.log().contains("is back and used again"));
        self.now("zpool wait -t resilver tank");
        assert_eq!(self.health(), "ONLINE");
        assert!(!self.now("zpool status tank").contains("is not used"));
    }

    /// Everything is on `b`, or what is in its place: nothing is left for a scrub to mend, and it
    /// has these files without the other side.
    fn holds(mut self, files: &[&str]) {
        self.now("zpool scrub -w tank");
        let status = self.now("zpool status tank");
        has(&status, &["scrub repaired 0B", "with 0 errors", "No known data errors"]);
        self.now("zpool export tank");
        assert!(self.server.wait().unwrap().success(), "{}", self.log());
        self.place.zdb_is_content("tank");
        self.remove("a");
        self.place.ok("check -d . tank");
        for name in files {
            let command = format!("cat -d . tank:/{name}");
            let stored = self.place.command_here(&command).output().unwrap().stdout;
            assert!(stored == std::fs::read(self.at(name)).unwrap(), "{name}");
        }
    }
}

/// A copy that was made while the device was in use, and is older than it was when it was deleted.
#[test]
fn an_old_copy_in_the_place_of_a_device_is_brought_what_it_lacks() {
    let served = Served::mirror();
    served.write("x", 1);
    served.copy("b", "aside/b");
    served.write("y", 2);
    served.remove("b");
    served.write("z", 3);
    assert_eq!(served.health(), "DEGRADED");
    served.copy("aside/b", "b");
    served.is_used_again();
    served.holds(&["x", "y", "z"]);
}

/// The device as it left, under another name; an older copy of it beside is left alone.
#[test]
fn a_device_is_found_under_another_name_and_an_earlier_copy_is_not_taken_for_it() {
    let served = Served::mirror();
    served.write("x", 1);
    served.copy("b", "copy");
    let before = std::fs::read(served.at("copy")).unwrap();
    served.write("y", 2);
    served.rename("b", "aside/b");
    served.write("z", 3);
    until("the copy is seen", || {
        served.log().contains("/copy is not used as ") && served.log().contains("earlier copy")
    });
    has(&served.log(), &["zpool online tank", "discards the changes that only it has"]);
    has(&served.row("b"), &["REMOVED", "/copy is not used: it is an earlier copy"]);
    has(&served.now("zpool status tank"), &["not used: ", "copy, and not where the device was\n"]);
    assert_eq!(served.health(), "DEGRADED");
    served.copy("aside/b", "returned");
    served.is_used_again();
    has(&served.now("zpool status tank"), &["/returned"]);
    assert!(std::fs::read(served.at("copy")).unwrap() == before, "the copy is as it was");
    served.remove("copy");
    served.holds(&["x", "y", "z"]);
}

/// A file that gets another name beside the others is followed, and no spare is taken for it, also
/// when a txg finds it gone before it is found.
#[test]
fn a_file_that_gets_another_name_and_back_is_followed() {
    let served = Served::pool(&["a", "b", "s"], "mirror a b spare s");
    served.write("x", 1);
    let is_at = |name: &str| {
        let path = served.at(name).display().to_string();
        until("the file is followed", || {
            let status = served.now("zpool status tank");
            let mut row = status.lines().map(str::split_whitespace);
            let has_place =
                row.any(|mut w| (w.next(), w.next()) == (Some(path.as_str()), Some("ONLINE")));
            has_place && served.health() == "ONLINE"
        });
    };
    served.rename("b", "moved");
    is_at("moved");
    assert!(!served.log().contains("is back and used again"), "{}", served.log());
    served.rename("moved", "b");
    is_at("b");
    // Nothing was written meanwhile, so that it lacks nothing.
    assert!(!served.log().contains("is back and used again"), "{}", served.log());
    // Now txgs see it.
    for (n, (from, to)) in [("b", "moved"), ("moved", "b")].into_iter().enumerate() {
        served.rename(from, to);
        served.write(&format!("y{n}"), 2);
        is_at(to);
        served.now("zpool wait -t resilver tank");
    }
    assert!(!served.log().contains("stands in for"), "{}", served.log());
    has(&served.now("zpool status tank"), &["AVAIL"]);
    served.holds(&["x", "y0", "y1"]);
}

/// Two sides change names with each other, while both are used or one is out of use: each is known
/// by what it is.
#[test]
fn sides_that_change_names_with_each_other_are_followed() {
    let served = Served::mirror();
    served.write("x", 1);
    let swap = || {
        served.rename("a", "aside/a");
        served.rename("b", "a");
        served.rename("aside/a", "b");
    };
    swap();
    until("both are followed", || served.log().matches(" is now ").count() >= 2);
    until("both are used", || served.health() == "ONLINE");
    served.now("zpool wait -t resilver tank");
    served.write("y", 2);
    served.now("zpool offline tank b");
    swap();
    served.now("zpool online tank b");
    until("both are used again", || served.health() == "ONLINE");
    served.now("zpool wait -t resilver tank");
    served.write("z", 3);
    served.now("zpool scrub -w tank");
    has(&served.now("zpool status tank"), &["repaired 0B", "errors: No known data errors"]);
    served.holds(&["x", "y", "z"]);
}

/// Where `autoexpand` says so, devices that grow while the pool is served are used to their ends.
#[test]
fn what_devices_grow_by_is_used_where_that_is_wanted() {
    let served = Served::mirror();
    served.write("x", 1);
    served.now("zpool set autoexpand=on tank");
    let sizes = || served.now("zpool list -Hpo size,expandsize tank");
    let longer = |name: &str| {
        let file = File::options().write(true).open(served.at(name)).unwrap();
        file.set_len(file.metadata().unwrap().len() + (128 << 20)).unwrap();
    };
    let before = sizes();
    longer("a");
    longer("b");
    until("the pool is larger", || sizes() != before && sizes().ends_with("\t-\n"));
    until("that is said", || served.log().contains("what its devices have grown by is used"));
    served.write("y", 2);
    served.now("zpool export tank");
    served.place.zdb_is_content("tank");
    served.place.ok("zpool import -d . tank");
    served.place.ok("check tank");
}

/// A disk without redundancy is shorter for a while: that is said, and it is used as before when it
/// has its size again.
#[test]
fn the_only_disk_is_used_again_when_it_has_its_size_again() {
    for is_cleared in [true, false] {
        let served = Served::pool(&["a"], "a");
        served.write("x", 1);
        let file = File::options().write(true).open(served.at("a")).unwrap();
        let size = file.metadata().unwrap().len();
        // The last label is gone.
        file.set_len(size - (256 << 10)).unwrap();
        let status = served.now("zpool status tank");
        let short =
            format!("smaller than the pool expects: {} bytes, not {size}", size - (256 << 10));
        has(&status, &[&short, "'zpool clear'"]);
        assert!(!status.contains("is lost when"), "{status}");
        file.set_len(size).unwrap();
        if is_cleared {
            served.now("zpool clear tank");
        }
        until("it is as before", || !served.now("zpool status tank").contains("cut short"));
        assert_eq!(served.health(), "ONLINE");
        until("it is scrubbed", || served.now("zpool status tank").contains("scrub repaired"));
        has(&served.now("zpool status tank"), &["with 0 errors", "errors: No known data errors"]);
        served.write("y", 2);
        served.now("zpool export tank");
        served.place.ok("zpool import -d . tank");
        assert_eq!(served.health(), "ONLINE");
    }
}

/// A file that was cut short has its size again: it lacks what was cut, whatever its labels say,
/// and is brought that without a scrub.
#[test]
fn what_was_cut_off_a_file_is_brought_when_it_has_its_size_again() {
    for is_served in [true, false] {
        let mut served = Served::mirror();
        served.write("x", 1);
        let file = File::options().write(true).open(served.at("b")).unwrap();
        let resize = |size: u64| file.set_len(size).unwrap();
        let size = std::fs::metadata(served.at("b")).unwrap().len();
        if is_served {
            resize(5 << 20);
            served.now("zfs create tank/seen");
            has(&served.row("b"), &["REMOVED", "is smaller than the pool expects: 5242880 bytes"]);
            resize(size);
        } else {
            served.now("zpool export tank");
            served.server.wait().unwrap();
            resize(5 << 20);
            served.now("zpool import -d a -d b tank");
            served.now("zfs create -d a -d b tank/seen");
            resize(size);
            let server = serve(&served.place);
            served.server = server;
        }
        served.write("y", 2);
        if is_served {
            served.is_used_again();
        } else {
            served.now("zpool wait -t resilver tank");
            assert_eq!(served.health(), "ONLINE");
        }
        served.holds(&["x", "y"]);
    }
}

/// The same of one that was shorter for a moment only, between two looks at it: what was data at
/// its end is a hole.
#[test]
fn a_file_that_was_cut_short_for_a_moment_is_noticed() {
    let served = Served::mirror();
    served.write("x", 1);
    // It has been looked at with its labels.
    std::thread::sleep(Duration::from_millis(2500));
    let file = File::options().write(true).open(served.at("b")).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(5 << 20).unwrap();
    file.set_len(size).unwrap();
    served.write("y", 2);
    served.is_used_again();
    served.holds(&["x", "y"]);
}

/// The pool is idle: nothing is written after the file was cut. Until it has everything, the other
/// side is all that there is.
#[test]
fn a_file_that_was_cut_short_while_nothing_was_written_is_brought_everything() {
    let served = Served::mirror();
    served.write("x", 8);
    let file = File::options().write(true).open(served.at("b")).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(5 << 20).unwrap();
    has(&served.refused("zpool detach tank a"), &["no valid replicas"]);
    has(&served.refused("zpool offline tank a"), &["no valid replicas"]);
    file.set_len(size).unwrap();
    served.is_used_again();
    served.now("zpool offline tank a");
    served.holds(&["x"]);
}

/// What has a later or another history than the pool is refused, until the administrator says so.
#[test]
fn a_device_that_was_written_elsewhere_is_refused() {
    for (changes, why) in [(40, "it was written elsewhere up to txg"), (3, "without the others")] {
        let mut served = Served::mirror();
        served.write("x", 1);
        served.now("zpool export tank");
        served.server.wait().unwrap();
        served.copy("b", "aside/b");
        for n in 0..changes {
            let made = format!("zfs create -d aside tank/n{n}");
            assert!(served.place.command_here(&made).output().unwrap().status.success());
        }
        served.now("zpool import -d a -d b tank");
        served.server = serve(&served.place);
        served.remove("b");
        // One of its txgs for each of the other's, so that the numbers cannot tell them.
        let own = if changes < 10 { 10 } else { 1 };
        (0..own).for_each(|n| served.write(&format!("y{n}"), 2 + n));
        served.copy("aside/b", "b");
        until("it is refused", || served.log().contains("/b is not used as "));
        has(&served.log(), &[why, "zpool online tank"]);
        has(&served.row("b"), &["REMOVED", "/b is not used: ", why]);
        has(&served.now("zpool status -j tank"), &["/b is not used: ", why]);
        assert_eq!(served.health(), "DEGRADED");
        let path = served.at("b");
        served.now(&format!("zpool online tank {}", path.display()));
        served.now("zpool wait -t resilver tank");
        assert_eq!(served.health(), "ONLINE");
        assert!(!served.now("zpool status tank").contains("is not used"));
        served.holds(&["x", "y0"]);
    }
}

/// Something else in the place of the device.
#[test]
fn what_is_no_device_of_the_pool_is_refused_and_left_as_it_is() {
    let served = Served::mirror();
    served.write("x", 1);
    served.rename("b", "aside/b");
    served.write("y", 2);
    served.place.extra("b");
    until("the file is seen", || served.log().contains("/b is not used as "));
    has(&served.log(), &["it has no label", "zpool replace tank"]);
    has(&served.row("b"), &["/b is not used: it has no label"]);
    served.now("zpool create other b");
    served.now("zpool export other");
    until("the pool is seen", || served.log().contains("it belongs to another pool"));
    assert_eq!(served.health(), "DEGRADED");
    has(&served.row("b"), &["/b is not used: it belongs to another pool"]);
    has(&served.now("zpool import -d ."), &["other", "ONLINE"]);
    served.remove("b");
    served.rename("aside/b", "b");
    served.is_used_again();
    served.holds(&["x", "y"]);
}

/// With `autoreplace` a new device in the place of the one that was there takes its place, and one
/// with something on it does not.
#[test]
fn a_new_device_takes_the_place_of_the_old_when_that_is_wanted() {
    let served = Served::mirror();
    served.now("zpool set autoreplace=on tank");
    served.write("x", 1);
    served.rename("b", "aside/b");
    served.write("y", 2);
    // It belongs to another pool.
    served.place.extra("other");
    served.now("zpool create other other");
    served.now("zpool export other");
    served.rename("other", "b");
    until("the pool is seen", || served.log().contains("it belongs to another pool"));
    assert_eq!(served.health(), "DEGRADED");
    served.remove("b");
    File::create(served.at("b")).unwrap().set_len(32 << 20).unwrap();
    until("the small one is seen", || served.log().contains("it is too small: needs "));
    has(&served.row("b"), &["/b is not used: too small: needs ", " bytes, has 33554432"]);
    served.remove("b");
    served.place.extra("b");
    until("it is replaced", || served.log().contains("is replaced by a new device"));
    until("it has everything", || served.health() == "ONLINE");
    assert!(!served.now("zpool status tank").contains("replacing"));
    served.holds(&["x", "y"]);
}

/// Well below the time without a change after which the server looks at a file.
const BREAK: Duration = Duration::from_secs(2);

/// A file is looked at when it is not being written any more.
#[test]
fn a_file_that_is_still_being_copied_is_waited_for() {
    assert!(
        (0..6).any(|_| is_copied_without_a_break()),
        "this machine is too slow to write a file"
    );
}

/// False when the copy stood still for longer than [`BREAK`]: it may be right to look at the file.
fn is_copied_without_a_break() -> bool {
    let served = Served::mirror();
    served.write("x", 1);
    served.rename("b", "aside/b");
    served.write("y", 2);
    let bytes = std::fs::read(served.at("aside/b")).unwrap();
    let mut written = Instant::now();
    let file = File::create(served.at("b")).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    // It has labels at both ends all the time.
    let size = bytes.len() / 16;
    let parts = bytes.chunks(size).enumerate().map(|(n, part)| ((n * size) as u64, part));
    let [first, rest @ ..] = &parts.collect::<Vec<_>>()[..] else { unreachable!() };
    for (at, part) in [first, rest.last().unwrap()].into_iter().chain(rest).chain([first]) {
        let before = std::mem::replace(&mut written, Instant::now());
        file.write_all_at(part, *at).unwrap();
        let is_late = before.elapsed() > BREAK;
        std::thread::sleep(Duration::from_millis(300));
        let health = served.health();
        if is_late || written.elapsed() > BREAK {
            return false;
        }
        assert_eq!(health, "DEGRADED", "at {at}");
    }
    drop(file);
    served.is_used_again();
    served.holds(&["x", "y"]);
    true
}

/// A disk that was not there when the pool was opened is attached by another name.
#[testkit::needs("loop")]
#[test]
fn a_disk_that_is_attached_again_by_another_name_is_used() {
    let place = Place::new(&["a", "b"]);
    let attach = |file: &str| {
        let mut set_up = Command::new("losetup");
        set_up.args(["-f", "--show"]).arg(place.path().join(file));
        let output = set_up.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Loop(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let (a, b) = (attach("a"), attach("b"));
    place.ok_here(&format!("zpool create tank mirror {} {}", a.0, b.0));
    place.ok_here("zpool export tank");
    drop(b);
    place.ok_here(&format!("zpool import -d {} tank", a.0));
    let mut server = serve(&place);
    place.ok_here("zfs create tank/missed");
    has(&place.ok_here("zpool status tank"), &["DEGRADED", "UNAVAIL"]);
    // Something else has its name by now.
    place.extra("c");
    let (c, b) = (attach("c"), attach("b"));
    let health = || place.ok_here("zpool list -Ho health tank");
    until("the disk is used again", || health() == "ONLINE\n");
    place.ok_here("zpool wait -t resilver tank");
    has(&place.ok_here("zpool status -P tank"), &[&b.0, "with 0 errors"]);
    place.ok_here("zpool export tank");
    assert!(server.wait().unwrap().success());
    drop((a, c));
    place.ok_here(&format!("zfs list -d {} tank/missed", b.0));
}

/// A block device over a file; it goes when this is dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// The log of synchronous writes ends with a block that was never written. In a raidz without one
/// of its devices that looks as if the device lacked it.
#[test]
fn after_a_crash_a_degraded_raidz_does_not_wait_for_the_end_of_its_log() {
    let mut served = Served::pool(&["a", "b", "c"], "raidz a b c");
    served.now("zfs create -o sync=always tank/fs");
    for name in ["one", "two", "three"] {
        std::fs::write(served.at(name), name.repeat(9000)).unwrap();
        served.now(&format!("cp {name} tank/fs:/{name}"));
    }
    served.now("zpool sync tank");
    served.server.kill().unwrap();
    served.server.wait().unwrap();
    served.rename("b", "aside/b");
    served.server = serve(&served.place);
    served.now("zfs snapshot tank/fs@after");
    assert_eq!(served.health(), "DEGRADED", "{}", served.log());
    assert_eq!(served.now("cat tank/fs:/three"), "three".repeat(9000));
    served.now("zfs destroy tank/fs@after");
    served.now("zpool sync tank");
    assert!(!served.log().contains("suspended"), "{}", served.log());
}

/// Nothing is written to the pool, so no txg would tell that a device is not there any more.
#[test]
fn a_spare_is_taken_in_an_idle_pool() {
    for is_moved in [false, true] {
        let served = Served::pool(&["a", "b", "s"], "mirror a b spare s");
        served.write("x", 1);
        match is_moved {
            true => served.rename("a", "aside/elsewhere"),
            false => served.remove("a"),
        }
        until("the spare is in use", || served.now("zpool status tank").contains("INUSE"));
        assert_eq!(served.health(), "DEGRADED");
    }
}
