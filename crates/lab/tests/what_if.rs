//! What a pool would do, where it can be said beforehand.

use lab::disk::preset;
use lab::what_if::{Answer, Layout, Limit, Question, Work, what_if};

fn question(layout: Layout, disks: usize, work: Work) -> Question {
    Question {
        disk: preset("hdd-16t").unwrap_or_else(|| panic!("no preset")),
        disks,
        layout,
        record: 128 << 10,
        threads: 8,
        chunk: 128 << 10,
        work,
        seconds: 5.0,
        seed: 1,
    }
}

fn answer(question: &Question) -> Answer {
    what_if(question).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn mirrors_read_from_all_their_disks_and_raidz_from_groups() {
    let random = |layout| answer(&question(layout, 4, Work::RandomRead));
    let (mirror, raidz) = (random(Layout::Mirror(2)), random(Layout::Raidz(1, 4)));
    // Each read of a RAID-Z group needs all of its data disks, of a mirror one.
    let more = mirror.per_second / raidz.per_second;
    assert!(more > 1.4, "{mirror:?} {raidz:?}");
    assert!(mirror.latency_ms[0] > 1.0 && mirror.latency_ms[0] <= mirror.latency_ms[1]);
    assert!(raidz.busy_percent <= 100.0 && raidz.limit == Limit::Disks, "{raidz:?}");
    // One thread leaves disks idle.
    let alone = Question { threads: 1, ..question(Layout::Stripe, 4, Work::RandomRead) };
    let alone = answer(&alone);
    assert_eq!(alone.limit, Limit::Threads, "{alone:?}");
    assert!(alone.per_second < random(Layout::Stripe).per_second / 2.0);
    // The same question has the same answer.
    assert_eq!(random(Layout::Mirror(2)), mirror);
}

#[test]
fn writes_of_a_mirror_are_half_of_a_stripe_s() {
    let write = |layout| answer(&question(layout, 2, Work::Write));
    let (stripe, mirror) = (write(Layout::Stripe), write(Layout::Mirror(2)));
    let part = mirror.mib_per_second / stripe.mib_per_second;
    assert!((0.4..0.65).contains(&part), "{stripe:?} {mirror:?}");
}

#[test]
fn what_is_no_pool_is_refused() {
    let odd = question(Layout::Mirror(2), 5, Work::Write);
    assert!(what_if(&odd).is_err_and(|e| e.what.contains("no whole groups")));
    let none = Question { record: 1000, ..question(Layout::Stripe, 1, Work::Write) };
    assert!(what_if(&none).is_err());
}
