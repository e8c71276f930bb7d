//! Streams that are made of streams: `zinc zstream recompress`, `decompress`, `redup` and `token`,
//! and what is in them (`dump -d`), as OpenZFS's zstream does it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use engine::ResumeToken;
use engine::inside::ondisk::stream::{Begin, End, WriteByRef, feature};
use engine::streams::{Body, Reader, Writer};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::place::Place;
use support::{arg, has, zinc};

/// What a program makes of its input.
fn through(command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // One that refuses it does not read all.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn ours(args: &[&str], input: &[u8]) -> Output {
    through(Command::new(env!("CARGO_BIN_EXE_zinc")).arg("zstream").args(args), input)
}

fn theirs(args: &[&str], input: &[u8]) -> Output {
    through(testkit::oracle::zstream().args(args), input)
}

#[track_caller]
fn made(args: &[&str], input: &[u8]) -> Vec<u8> {
    let Output { status, stdout, stderr } = ours(args, input);
    assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    stdout
}

/// Streams of the kernel module that are whole and not raw, unpacked.
fn collection(dir: &Path) -> Vec<PathBuf> {
    let streams = testkit::shared_dir().unwrap().join("streams");
    let list = std::fs::read_to_string(streams.join("streams.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let names = list["streams"].as_array().unwrap().iter();
    let names = names.filter(|one| !one["summary"].as_str().unwrap().is_empty());
    let names = names.map(|one| one["file"].as_str().unwrap());
    names
        .filter(|name| !name.starts_with("raw"))
        .map(|name| {
            let path = dir.join(name.trim_end_matches(".zst"));
            testkit::unpack_zst(&streams.join(name), &path).unwrap();
            path
        })
        .collect()
}

#[testkit::needs("streams", "zstream")]
#[test]
fn what_is_in_records_is_shown_as_zstream_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for path in collection(dir.path()) {
        if std::fs::metadata(&path).unwrap().len() > 1 << 20 {
            continue;
        }
        let theirs = testkit::oracle::zstream().args(["dump", "-d"]).arg(&path).output().unwrap();
        let run = zinc(&["zstream", "dump", "-d", arg(&path)]);
        assert!(run.out.as_bytes() == theirs.stdout, "{path:?} differs");
        count += 1;
    }
    assert!(count > 4);
}

#[testkit::needs("streams", "zstream")]
#[test]
fn streams_are_rewritten_as_zstream_rewrites_them() {
    let dir = tempfile::tempdir().unwrap();
    let (mut count, mut blocks) = (0, 0);
    for path in collection(dir.path()) {
        let stream = std::fs::read(&path).unwrap();
        if path.ends_with("redacted.zfs") {
            // On this one zstream itself gives up.
            assert!(made(&["recompress", "off"], &stream).len() >= stream.len());
            continue;
        }
        let plain = theirs(&["recompress", "off"], &stream).stdout;
        assert!(made(&["recompress", "off"], &stream) == plain, "{path:?}");
        for to in ["lz4", "gzip-9", "lzjb", "zle", "zstd"] {
            let packed = made(&["recompress", to], &stream);
            assert!(packed.len() <= plain.len(), "{path:?} {to}");
            // Compressors differ, and what is compressed is the same.
            assert!(theirs(&["recompress", "off"], &packed).stdout == plain, "{path:?} {to}");
        }
        // Blocks that are compressed, as what they are and as what they are not.
        let mut reader = Reader::new(&stream[..]);
        let mut some = Vec::new();
        while let Some(record) = reader.record().unwrap() {
            if let Body::Write(w) = record.body
                && w.compression != 0
                && some.len() < 6
            {
                let kind = if some.len() % 3 == 2 { "lzjb" } else { "zstd" };
                some.push(format!("{},{},{kind}", w.object, w.offset));
            }
        }
        blocks += some.len();
        let args: Vec<&str> =
            ["decompress", "-v"].into_iter().chain(some.iter().map(String::as_str)).collect();
        let (mine, other) = (ours(&args, &stream), theirs(&args, &stream));
        assert!(mine.stdout == other.stdout, "{path:?} {args:?}");
        assert_eq!(
            String::from_utf8(mine.stderr).unwrap(),
            String::from_utf8(other.stderr).unwrap(),
            "{path:?} {args:?}"
        );
        count += 1;
    }
    assert!(count > 12 && blocks > 12, "{count} {blocks}");
}

/// The records of a stream and their payloads, without sums: some END of several streams have none
/// where OpenZFS sends them, and one where it rewrites them.
fn unsummed(stream: &[u8]) -> Vec<(Body, Vec<u8>)> {
    let mut reader = Reader::new(stream);
    let mut out = Vec::new();
    while let Some(record) = reader.record().unwrap() {
        let payload = reader.payload().unwrap().to_vec();
        let body = match record.body {
            Body::End(end) => End { checksum: [0; 4], ..end }.into(),
            body => body,
        };
        out.push((body, payload));
    }
    out
}

/// Blocks of raw streams stay as they are. zstream knows them by their salts, and changes those
/// that are not encrypted, whose codes are wrong then.
#[testkit::needs("streams", "zstream")]
#[test]
fn raw_streams_stay_as_they_are() {
    let streams = testkit::shared_dir().unwrap().join("streams");
    let dir = tempfile::tempdir().unwrap();
    for name in ["raw", "raw-incremental", "raw-replicate"] {
        let path = dir.path().join(name);
        testkit::unpack_zst(&streams.join(format!("{name}.zfs.zst")), &path).unwrap();
        let stream = std::fs::read(&path).unwrap();
        for to in ["off", "lz4"] {
            let made = made(&["recompress", to], &stream);
            assert!(unsummed(&made) == unsummed(&stream), "{name} {to}");
        }
        // In this one all blocks are encrypted.
        if name == "raw-incremental" {
            assert!(made(&["recompress", "lz4"], &stream) == stream);
            assert!(theirs(&["recompress", "lz4"], &stream).stdout == stream);
        }
        let args = ["decompress", "-v", "2,0,lz4"];
        let (mine, other) = (ours(&args, &stream), theirs(&args, &stream));
        assert!(
            mine.stdout == other.stdout && unsummed(&mine.stdout) == unsummed(&stream),
            "{name}"
        );
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(mine.stderr), text(other.stderr), "{name}");
    }
}

/// A pool with a file whose blocks are all alike, and one whose blocks are not; the stream of it.
fn with_stream() -> (Place, Vec<u8>) {
    let place = Place::new(&["disk", "other"]);
    place.ok("zpool create tank disk");
    place.ok("zfs create -o compression=off tank/fs");
    std::fs::write(place.path().join("alike"), vec![7; 1 << 20]).unwrap();
    let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(place.path().join("text"), text).unwrap();
    place.ok("cp alike text tank/fs:/");
    place.ok("zfs snapshot tank/fs@a");
    let sent = place.command_here("zfs send tank/fs@a").stdin(Stdio::null()).output().unwrap();
    (place, sent.stdout)
}

#[test]
fn what_is_recompressed_is_received() {
    let (place, plain) = with_stream();
    let packed = made(&["recompress", "-l", "9", "zstd"], &plain);
    assert!(packed.len() < plain.len() / 2);
    assert!(made(&["recompress", "off"], &packed) == plain);
    for (level, name) in [("zstd-9", ""), ("zstd-fast-10", ""), ("gzip", "-l1"), ("lz4", "")] {
        let options: Vec<&str> = [name, level].into_iter().filter(|o| !o.is_empty()).collect();
        let packed = made(&[&["recompress"], &options[..]].concat(), &plain);
        assert!(made(&["recompress", "off"], &packed) == plain, "{level}");
    }
    place.ok("zpool create pool other");
    let taken = through(&mut place.command_here("zfs receive pool/fs"), &packed);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    place.ok("cp pool/fs:/text back");
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert!(read("text") == read("back"));
    // What is not a stream, is cut, or is asked for what there is not.
    for (args, input, code, words) in [
        (&["recompress", "lz4"][..], &plain[..plain.len() / 2], 1, "the stream ends here"),
        (&["recompress", "lz4"], &[7; 400], 1, "bad magic"),
        (&["recompress", "nope"], &plain, 2, "Invalid compression type nope."),
        (&["recompress", "-l", "20", "zstd"], &plain, 2, "Invalid compression type zstd."),
        (&["recompress", "zstd-fast-11"], &plain, 2, "Invalid compression type"),
        (&["decompress", "1"], &plain, 2, "OBJECT,OFFSET"),
        (&["decompress", "x,0"], &plain, 2, "invalid value for object"),
        (&["decompress", "1,0,nope"], &plain, 2, "Invalid compression type nope"),
    ] {
        let run = ours(args, input);
        let message = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(code) && message.contains(words), "{args:?}: {message}");
    }
}

/// The stream with each block that it had before as a reference to that.
fn deduplicated(plain: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(plain);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    let mut seen: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    while let Some(record) = reader.record().unwrap() {
        let payload = reader.payload().unwrap().to_vec();
        match record.body {
            Body::Begin(begin) => {
                let features = begin.features() | feature::DEDUP | feature::DEDUP_PROPS;
                let version = Begin::version_of(begin.kind(), features);
                writer.begin(Begin { version, ..begin }, &payload).unwrap();
            }
            Body::End(end) => writer.end(end.to_guid).unwrap(),
            Body::Write(w) => match seen.get(&payload) {
                Some(&(ref_object, ref_offset)) => {
                    let by = WriteByRef {
                        object: w.object,
                        offset: w.offset,
                        length: w.logical_size,
                        to_guid: w.to_guid,
                        ref_guid: w.to_guid,
                        ref_object,
                        ref_offset,
                        checksum_kind: w.checksum_kind,
                        flags: w.flags,
                        checksum: w.checksum,
                        key: w.key,
                    };
                    writer.record(by, &[]).unwrap();
                }
                None => {
                    seen.insert(payload.clone(), (w.object, w.offset));
                    writer.record(w, &payload).unwrap();
                }
            },
            other => writer.record(other, &payload).unwrap(),
        }
    }
    drop(writer);
    out
}

#[test]
fn references_become_the_blocks_that_they_refer_to() {
    let (place, plain) = with_stream();
    let path = place.path().join("dedup");
    let deduplicated = deduplicated(&plain);
    assert!(deduplicated.len() < plain.len());
    std::fs::write(&path, &deduplicated).unwrap();
    let run = ours(&["redup", "-v", arg(&path)], &[]);
    let message = String::from_utf8(run.stderr).unwrap();
    has(&message, &["converted stream with ", ", including 7 dedup records"]);
    assert!(run.stdout == plain);
    // To what is not there, or comes later.
    let mut reader = Reader::new(&deduplicated[..]);
    let mut writer_out = Vec::new();
    let mut writer = Writer::new(&mut writer_out);
    while let Some(record) = reader.record().unwrap() {
        let payload = reader.payload().unwrap().to_vec();
        match record.body {
            Body::Begin(begin) => writer.begin(begin, &payload).unwrap(),
            Body::End(end) => writer.end(end.to_guid).unwrap(),
            Body::WriteByRef(by) => {
                writer.record(WriteByRef { ref_offset: 1 << 40, ..by }, &[]).unwrap();
            }
            other => writer.record(other, &payload).unwrap(),
        }
    }
    drop(writer);
    std::fs::write(&path, &writer_out).unwrap();
    let run = zinc(&["zstream", "redup", arg(&path)]);
    assert_eq!(run.code, 1);
    has(&run.err, &["it refers to a block that is not there"]);
    let absent = path.with_file_name("absent");
    let run = zinc(&["zstream", "redup", arg(&absent)]);
    assert!(run.code == 1 && run.err.contains("absent"), "{}", run.err);
}

#[testkit::needs("zstream")]
#[test]
fn references_become_what_zstream_makes_of_them() {
    let (place, plain) = with_stream();
    let path = place.path().join("dedup");
    std::fs::write(&path, deduplicated(&plain)).unwrap();
    let other = theirs(&["redup", arg(&path)], &[]);
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(made(&["redup", arg(&path)], &[]) == other.stdout);
}

#[test]
fn a_token_says_what_is_missing() {
    let token = ResumeToken {
        object: 9,
        offset: 4096,
        to_guid: 0xabc,
        to_name: b"tank/fs@a".to_vec(),
        ..ResumeToken::default()
    };
    let shown = zinc(&["zstream", "token", &token.encode().unwrap()]).ok();
    let lines = ["object: 9", "offset: 4096", "bytes: 0", "toguid: 2748", "toname: 'tank/fs@a'"];
    assert_eq!(shown, lines.map(|line| format!("     {line}\n")).concat());
    for (text, why) in [("1-2-3-44", "incorrect checksum"), ("nope", "invalid format")] {
        let run = zinc(&["zstream", "token", text]);
        assert_eq!(run.code, 1);
        let words = "Unable to parse resume token: resume token is corrupt (";
        has(&run.err, &[&format!("{words}{why})")]);
    }
}
