//! Bad copies that readers of a served pool meet: the devices hold what is right afterwards, and a
//! scrub finds nothing to repair. A command that only reads repairs nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Child;
use std::time::{Duration, Instant};
use support::place::Place;

const RECORD: usize = 128 << 10;
const RECORDS: usize = 48;
/// What is overwritten of a copy.
const NOISE: [u8; 16 << 10] = [0x5a; 16 << 10];

struct Mirror {
    place: Place,
    content: Vec<u8>,
    /// Where each record is on both sides, in bytes.
    at: Vec<u64>,
}

impl Mirror {
    fn new() -> Self {
        let place = Place::new(&["a", "b"]);
        let mut content = vec![0; RECORDS * RECORD];
        testkit::Rng::new(7).fill(&mut content);
        std::fs::write(place.path().join("content"), &content).unwrap();
        place.ok("zpool create tank mirror a b");
        place.ok("cp content tank:/content");
        let bytes = std::fs::read(place.path().join("a")).unwrap();
        let find = |record: &[u8]| {
            let mut sectors = bytes.chunks_exact(512);
            sectors.position(|sector| sector == &record[..512]).expect("it is there") as u64 * 512
        };
        let at = content.chunks_exact(RECORD).map(find).collect();
        Self { place, content, at }
    }

    /// Overwrites these records on side `a`.
    fn damage(&self, records: &[usize]) {
        let file = File::options().write(true).open(self.place.path().join("a")).unwrap();
        records.iter().for_each(|n| file.write_all_at(&NOISE, self.at[*n]).unwrap());
    }

    /// Of these, the records that side `a` does not have as they should be.
    fn wrong(&self, records: &[usize]) -> Vec<usize> {
        let file = File::open(self.place.path().join("a")).unwrap();
        let is_wrong = |n: &usize| {
            let mut bytes = vec![0; RECORD];
            file.read_exact_at(&mut bytes, self.at[*n]).unwrap();
            bytes != self.content[n * RECORD..(n + 1) * RECORD]
        };
        records.iter().copied().filter(is_wrong).collect()
    }

    /// The file is whole.
    fn read(&self) {
        let _ = std::fs::remove_file(self.place.path().join("copy"));
        self.place.ok_here("cp tank:/content copy");
        assert!(std::fs::read(self.place.path().join("copy")).unwrap() == self.content);
    }

    /// Waits until these are repaired; those that are not after some seconds.
    fn left_of(&self, records: &[usize]) -> Vec<usize> {
        let began = Instant::now();
        loop {
            let left = self.wrong(records);
            if left.is_empty() || began.elapsed() > Duration::from_secs(5) {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn scrub(&self) -> String {
        self.place.ok_here("zpool scrub -w tank");
        self.place.ok_here("zpool status tank")
    }
}

/// Ends a server, so that the next one has nothing in memory.
fn end(mut server: Child) {
    server.kill().unwrap();
    server.wait().unwrap();
}

/// The number in the column `CKSUM` of a device.
fn checksum_errors(status: &str, device: &str) -> usize {
    let rows = status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row.first().is_some_and(|name| name.ends_with(device)));
    rows.next().expect("the device is listed")[4].parse().unwrap()
}

#[test]
fn what_a_reader_met_is_right_on_the_device_afterwards() {
    let mirror = Mirror::new();
    let all: Vec<usize> = (0..RECORDS).collect();
    mirror.damage(&all);
    // A command of its own opens the pool for reading only.
    mirror.read();
    assert_eq!(mirror.wrong(&all), all);
    let server = mirror.place.serve("tank");
    mirror.read();
    // Of a mirror one side is read, which one is up to the address.
    let left = mirror.left_of(&all);
    let met: Vec<usize> = all.iter().copied().filter(|n| !left.contains(n)).collect();
    assert!(met.len() > RECORDS / 8, "{met:?}");
    let status = mirror.place.ok_here("zpool status tank");
    assert_eq!(checksum_errors(&status, "/a"), met.len(), "{status}");
    let status = mirror.scrub();
    assert!(status.contains("with 0 errors"), "{status}");
    assert!(mirror.wrong(&all).is_empty());
    mirror.place.ok_here("zpool clear tank");
    end(server);
    // What a reader comes to on this side is damaged, and nothing else.
    mirror.damage(&met);
    // A side that answers late on a busy machine is passed over: it is read again.
    let mut left = met.clone();
    let mut server = mirror.place.serve("tank");
    for _ in 0..5 {
        mirror.read();
        left = mirror.left_of(&met);
        if left.is_empty() {
            break;
        }
        end(server);
        server = mirror.place.serve("tank");
    }
    assert!(left.is_empty(), "not repaired: {left:?}");
    let status = mirror.scrub();
    assert!(status.contains("scrub repaired 0B in"), "{status}");
    mirror.place.ok_here("zpool export tank");
    end(server);
    mirror.place.zdb_is_content("tank");
}
