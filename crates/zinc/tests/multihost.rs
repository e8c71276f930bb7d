//! Pools whose uberblocks say that a host shows that it is there (multihost).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use engine::inside::device::{Options, RwFileDevice};
use engine::inside::ondisk::uberblock::MMP_MAGIC;
use engine::inside::pool::{Candidate, SearchOptions, scan};
use engine::inside::vdev::label::write_uberblock;
use std::path::Path;
use std::time::{Duration, Instant};
use support::place::Place;

/// Makes the newest uberblock one of a host that writes one each tenth of a second, may miss ten,
/// and last took more than two minutes.
fn let_a_host_have(device: &Path) {
    let search = SearchOptions { paths: vec![device.to_owned()], ..SearchOptions::default() };
    let candidate = Candidate::group(&scan(&search).unwrap()).remove(0);
    let all = candidate.uberblocks.iter().map(|found| found.uberblock);
    let mut newest = all.max_by(|a, b| a.cmp_age(b)).unwrap();
    newest.timestamp += 1;
    newest.mmp_magic = MMP_MAGIC;
    newest.mmp_delay = Duration::from_secs(137).as_nanos() as u64;
    newest.mmp_config = 0b111 | (100 << 8) | (1 << 32) | (10 << 48);
    let ashift = candidate.tree.children[0].ashift.unwrap();
    let device = RwFileDevice::open(device, &Options::default()).unwrap();
    write_uberblock(&device, ashift as u32, &newest).unwrap();
}

#[test]
fn a_command_says_that_it_looks_for_another_host() {
    let place = Place::new(&["a"]);
    place.ok("zpool create -m none tank a");
    let_a_host_have(&place.path().join("a"));
    let began = Instant::now();
    let run = place.run("zfs create tank/fs");
    let took = began.elapsed();
    let message = "zinc: pool 'tank': waiting 2 seconds to see whether another host writes to it \
                (multihost)\n";
    assert_eq!((run.code, run.err.as_str()), (0, message));
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < Duration::from_secs(100), "{took:?}");
    // What zinc wrote says no such thing.
    place.ok("zfs destroy tank/fs");
    place.zdb_is_content("tank");
}
