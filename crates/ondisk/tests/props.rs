//! The property tables against what the kernel module's own `zfs get` and `zpool get` printed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::pool_props::POOL;
use ondisk::props::{DATASET, PropertyDesc, ValueKind, applies, find, is_user_property};
use serde_json::{Map, Value};

/// The names are in the table's order, shown, of that kind of thing, and words are its words.
fn check(table: &'static [PropertyDesc], of: u8, printed: &Map<String, Value>) {
    let mut last = 0;
    // User properties come last and are in no table.
    let native = printed.iter().take_while(|(name, _)| !is_user_property(name));
    assert!(printed.keys().skip(native.clone().count()).all(|n| is_user_property(n)));
    for (name, value) in native {
        let p = find(table, name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let place = table.iter().position(|q| q.name == name).unwrap();
        assert!(place >= last, "{name} comes after {}", table[last].name);
        last = place;
        assert!(p.is_visible(), "{name} is shown");
        assert!(p.applies & of != 0, "{name} applies");
        let text = value.as_str().unwrap();
        if let ValueKind::Index(..) = p.kind {
            let number = p.number(text).unwrap_or_else(|| panic!("{name}={text} is not a word"));
            assert_eq!(p.word(number), Some(text), "{name}: the word that is printed");
        }
    }
}

#[test]
fn as_printed_for_every_pool_of_the_corpus() {
    let mut datasets = 0;
    for case in testkit::corpus_cases() {
        let manifest = testkit::corpus(&case).manifest;
        check(&POOL, applies::POOL, manifest["pool_properties"].as_object().unwrap());
        for ds in manifest["datasets"].as_array().unwrap() {
            let below = ["snapshots", "bookmarks"].map(|k| ds[k].as_array());
            for d in below.into_iter().flatten().flatten().chain([ds]) {
                let properties = d["properties"].as_object().unwrap();
                let of = match properties["type"].as_str().unwrap() {
                    "filesystem" => applies::FILESYSTEM,
                    "snapshot" => applies::SNAPSHOT,
                    "volume" => applies::VOLUME,
                    "bookmark" => applies::BOOKMARK,
                    other => panic!("{other}"),
                };
                check(&DATASET, of, properties);
                datasets += 1;
            }
        }
    }
    assert!(datasets > 0, "the corpus has datasets");
}
