//! What a disk in a store costs, by the list that is built in and by others.
#![allow(clippy::unwrap_used)]

use device::StoreUsage;
use far::price::{Cost, Prices, Workload};

const TB: u64 = 1_000_000_000_000;

fn workload() -> Workload {
    let read_size = 1 << 20;
    Workload { kept: 0, written: 0, read: 0, read_size, txg: 5, busy: 0, syncs: 0 }
}

fn cost(workload: &Workload, what: &str) -> (u64, String) {
    let items = workload.month(&Prices::default());
    let item = items.into_iter().find(|item| item.what == what).unwrap();
    (item.requests, item.cost.to_string())
}

#[test]
fn the_numbers_of_the_design() {
    let all = Workload { kept: TB, written: TB, read: TB, busy: 100, syncs: 100, ..workload() };
    assert_eq!(cost(&all, "written"), (59_605, "0.30".to_owned()));
    assert_eq!(cost(&all, "transaction groups"), (1_036_800, "5.18".to_owned()));
    assert_eq!(cost(&all, "waiting programs"), (259_200_000, "1296.00".to_owned()));
    assert_eq!(cost(&all, "read"), (953_675, "0.38".to_owned()));
    assert_eq!(cost(&all, "kept"), (0, "21.42".to_owned()));
    assert_eq!(cost(&Workload { txg: 30, ..all }, "transaction groups").1, "0.86");
    let idle = workload().month(&Prices::default());
    assert!(idle.iter().all(|item| (item.requests, item.cost) == (0, Cost(0))), "{idle:?}");
}

#[test]
fn a_list_of_ones_own() {
    let own = Prices::parse("# mine\ndate = 2031-01\ncreate = 4.5 # a million\nout=0.09\n");
    let own = own.unwrap();
    assert_eq!((own.create, own.date.as_str()), (Cost(4_500_000_000), "2031-01"));
    let usage = StoreUsage { creates: 2_000_000, received_bytes: 1 << 30, ..StoreUsage::default() };
    assert_eq!(own.of(&usage).to_string(), "9.09");
    for wrong in ["create", "creates = 1", "get = -1", "get = NaN", "get = 1e99", "get = x"] {
        assert!(Prices::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn amazons_prices_are_not_those_of_other_clouds() {
    let (amazon, own) = (Prices::default(), Prices::parse("source = mine").unwrap());
    let is_of = |name: &str| (amazon.are_of(name), own.are_of(name));
    assert_eq!(is_of("s3://bucket/disk"), (true, true));
    assert_eq!(is_of("gs://bucket/disk"), (false, true));
    assert_eq!(is_of("az://bucket/disk"), (false, true));
    assert_eq!(is_of("dir:///disk"), (false, false));
}

#[test]
fn small_money_is_not_nothing() {
    let texts = [0, 400, 5_000, 9_999_999, 10_000_000, u64::MAX].map(|n| Cost(n).to_string());
    let expected = ["0", "<0.000001", "0.000005", "0.01", "0.01", "18446744073.70"];
    assert_eq!(texts, expected);
}

#[test]
fn the_largest_use_is_counted_without_wrapping() {
    let (most, txg) = (u64::MAX, 1);
    let all = Workload {
        kept: most,
        written: most,
        read: most,
        read_size: 0,
        txg,
        busy: most,
        syncs: most,
    };
    let items = all.month(&Prices::default());
    assert!(items.iter().all(|item| item.cost > Cost(0)), "{items:?}");
}
