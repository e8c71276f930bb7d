//! The records that OpenZFS logged, decoded to operations and encoded again: the same bytes.
//!
//! Left out is what a record of `SETATTR` says and means nothing: the type in a mode, and fields
//! that its mask does not ask for.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use ondisk::Endian;
use ondisk::zil::{Body, Record, TxType};
use pool::UnguardedDatasets as _;
use pool::{OpenOptions, Pool, SearchOptions};
use std::collections::BTreeMap;
use zil::Log;
use zpl::records::{Decoder, Encoder};
use zpl::{Filesystem, Time};

/// The record without what means nothing.
fn meant(record: &Record) -> Record {
    let mut body = record.body.clone();
    if let Body::SetAttr { mask, mode, uid, gid, size, atime, mtime, .. } = &mut body {
        // Bits of Linux that say how a time was given.
        *mask &= 0x8000_007f;
        // A size brings its time along.
        *mask |= if *mask & 0x8 != 0 { 0x20 } else { 0 };
        *mask |= 0x40;
        // The type of a file does not change.
        *mode &= 0o7777;
        for (bit, field) in [(1, mode), (2, uid), (4, gid), (8, size)] {
            *field = if *mask & bit != 0 { *field } else { 0 };
        }
        for (bit, field) in [(0x10, atime), (0x20, mtime)] {
            *field = if *mask & bit != 0 { *field } else { [0, 0] };
        }
    }
    let mut out = Record::new(record.kind, record.txg, record.seq, body);
    out.case_insensitive = record.case_insensitive;
    out
}

#[test]
fn what_openzfs_logged_is_encoded_to_the_same_bytes() {
    let mut seen: BTreeMap<TxType, u32> = BTreeMap::new();
    for corpus in testkit::corpus_among(&["ziluncle", "zil-slog"]) {
        let search = SearchOptions { paths: vec![corpus.dir.clone()], ..SearchOptions::default() };
        let options = OpenOptions { search, ..OpenOptions::default() };
        let pool = Pool::open(corpus.name(), &options).unwrap();
        for (name, _) in pool.dsl().walk() {
            let objset = pool.dsl().objset(&pool.dsl().by_name(&name).unwrap()).unwrap();
            let Ok(fs) = Filesystem::open(objset.clone()) else { continue };
            let log = Log::read(&objset);
            for (record, endian) in log.pending_with_endian(0) {
                let decoder = Decoder { fuids: fs.fuids(), now: Time::default(), endian };
                let op = decoder.op(record).unwrap();
                let encoder = Encoder { fuids: fs.fuids(), endian };
                let again = encoder.record(&op, record.txg, record.seq).unwrap();
                let bytes = |r: &Record| r.encode(Endian::Little);
                let what = format!("{name}: record {} {:?}", record.seq, record.body);
                assert!(bytes(&again) == bytes(&meant(record)), "{what}\n{:?}", again.body);
                *seen.entry(record.kind).or_default() += 1;
            }
        }
    }
    assert!(seen.len() >= 16 && seen.values().sum::<u32>() > 400, "{seen:?}");
}
