//! What a pool in a bucket costs, as it is shown.
#![allow(clippy::unwrap_used)]

use engine::devices::price::{Prices, Workload};
use views::far::cost;

fn workload() -> Workload {
    let (kept, written, read) = (10 << 40, 1 << 40, 1 << 40);
    Workload { kept, written, read, read_size: 128 << 10, txg: 5, busy: 100, syncs: 10 }
}

#[test]
fn a_month() {
    insta::assert_snapshot!(cost(&workload(), &Prices::default()));
}

#[test]
fn nothing_is_advised_that_is_done_already() {
    let thrifty = Workload { read_size: 1 << 20, txg: 30, syncs: 0, ..workload() };
    assert!(!cost(&thrifty, &Prices::default()).contains("With"));
}

#[test]
fn a_new_pool() {
    let advice = |words: &str| {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        views::far::advice(&engine::layout::parse(&words).unwrap(), &Prices::default())
    };
    assert_eq!(advice("dir:///store"), None);
    insta::assert_snapshot!(advice("s3://bucket/tank").unwrap());
    let all = "s3://bucket/tank log dir:///log special mirror dir:///a dir:///b";
    assert_eq!(advice(all).unwrap().lines().count(), 1);
    let elsewhere = advice("gs://bucket/tank log dir:///log special dir:///a").unwrap();
    assert!(elsewhere.contains("note: these are the list prices of Amazon"), "{elsewhere}");
}
