//! `cp`, `rescue`, `ls`, `stat` and `cat` on pools of OpenZFS, against their manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test")]

use engine::inside::dsl::DatasetKind;
use engine::{Filesystem, Node, Pool};
use pool::UnguardedDatasets as _;
use poolkit::open;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::{CorpusPool, SparseImage};

/// Bytes in front of a vdev's data: two labels and the boot block.
const DATA_START: u64 = 4 << 20;

fn zinc(verb: &str, dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.env("ZINC_STATE", concat!(env!("CARGO_TARGET_TMPDIR"), "/run/state"));
    command.arg(verb).arg("-d").arg(dir).args(args).output().unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn entries<'a>(pool: &'a CorpusPool, dataset: &str) -> &'a Vec<Value> {
    let all = pool.manifest["datasets"].as_array().unwrap();
    all.iter().find(|d| d["name"] == dataset).unwrap()["entries"].as_array().unwrap()
}

/// The path of an entry as bytes.
fn path_of(e: &Value) -> Vec<u8> {
    if let Some(p) = e["path"].as_str() {
        return p.as_bytes().to_vec();
    }
    let digits = e["path_hex"].as_str().unwrap().as_bytes();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// Compares a copy with the manifest of what was copied; `skip`: paths that may differ.
fn is_a_copy(root: &Path, entries: &[Value], skip: &[&str]) {
    let mut inodes: HashMap<u64, u64> = HashMap::new();
    for e in entries {
        let name = path_of(e);
        let path = root.join(std::ffi::OsStr::from_bytes(&name));
        let shown = path.display();
        let kind = e["type"].as_str().unwrap();
        if skip.contains(&e["path"].as_str().unwrap_or("")) || name == b"." {
            continue;
        }
        if matches!(kind, "fifo" | "socket" | "block" | "char") {
            continue;
        }
        let m = fs::symlink_metadata(&path).unwrap_or_else(|e| panic!("{shown}: {e}"));
        if kind == "symlink" {
            let target = fs::read_link(&path).unwrap();
            assert_eq!(target.as_os_str().as_bytes(), e["target"].as_str().unwrap().as_bytes());
            continue;
        }
        let mtime = i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec());
        assert_eq!(mtime.to_string(), e["mtime_ns"].to_string(), "{shown}: mtime");
        if m.uid() == u32::try_from(e["uid"].as_u64().unwrap()).unwrap() {
            let mode = format!("{:04o}", m.mode() & 0o1777);
            let want = u32::from_str_radix(e["mode"].as_str().unwrap(), 8).unwrap();
            assert_eq!(mode, format!("{:04o}", want & 0o1777), "{shown}: mode");
        }
        if kind != "file" {
            assert!(m.is_dir(), "{shown}");
            continue;
        }
        assert_eq!(Some(m.len()), e["size"].as_u64(), "{shown}: size");
        // Huge sparse files would take long to hash.
        if m.len() < 64 << 20 {
            let sum = hex(&Sha256::digest(fs::read(&path).unwrap()));
            assert_eq!(sum, e["sha256"].as_str().unwrap(), "{shown}: content");
        }
        if e["data"].as_array().is_some_and(Vec::is_empty) {
            assert_eq!(m.blocks(), 0, "{shown}: a hole was filled");
        }
        let inode = *inodes.entry(e["ino"].as_u64().unwrap()).or_insert(m.ino());
        assert_eq!(inode, m.ino(), "{shown}: second name of one file");
    }
}

#[test]
fn a_copied_tree_is_equal() {
    let pool = testkit::fixture("removed");
    let dir = tempfile::tempdir().unwrap();
    let dest = dir.path().join("copy");
    let to = dest.to_str().unwrap();
    expect(&zinc("cp", &pool.dir, &["-r", "shrunk/one:", to]), 0);
    is_a_copy(&dest, entries(&pool, "shrunk/one"), &[]);
    // Once more: nothing is written anew.
    let file = entries(&pool, "shrunk/one").iter().find(|e| e["type"] == "file").unwrap();
    let path = dest.join(file["path"].as_str().unwrap());
    let before = fs::metadata(&path).unwrap();
    expect(&zinc("cp", &pool.dir, &["-r", "shrunk/one:", to]), 0);
    assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino());
    // A file that is different is not replaced unless that is wanted.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    expect(&zinc("cp", &pool.dir, &["-r", "shrunk/one:", to]), 1);
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    expect(&zinc("cp", &pool.dir, &["-rf", "shrunk/one:", to]), 0);
    is_a_copy(&dest, entries(&pool, "shrunk/one"), &[]);
}

#[test]
fn all_kinds_of_files_are_copied() {
    let pool = testkit::corpus("basic");
    let dir = tempfile::tempdir().unwrap();
    for name in ["names", "data", "flags", "docs"] {
        let dest = dir.path().join(name);
        let source = format!("tank/{name}:");
        expect(&zinc("cp", &pool.dir, &["-r", &source, dest.to_str().unwrap()]), 0);
        is_a_copy(&dest, entries(&pool, &format!("tank/{name}")), &[]);
    }
}

#[test]
fn a_link_in_the_target_is_not_followed() {
    let pool = testkit::fixture("removed");
    let dir = tempfile::tempdir().unwrap();
    let (dest, outside) = (dir.path().join("copy"), dir.path().join("outside"));
    fs::create_dir_all(&dest).unwrap();
    fs::create_dir_all(&outside).unwrap();
    let all = entries(&pool, "shrunk/one");
    let sub = all.iter().find(|e| e["type"] == "dir" && e["path"] != ".").unwrap();
    symlink(&outside, dest.join(sub["path"].as_str().unwrap())).unwrap();
    expect(&zinc("cp", &pool.dir, &["-rf", "shrunk/one:", dest.to_str().unwrap()]), 1);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was copied outside");
}

#[test]
fn a_volume_becomes_a_sparse_image() {
    let pool = testkit::fixture("removed");
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("vol.img");
    expect(&zinc("cp", &pool.dir, &["shrunk/vol", image.to_str().unwrap()]), 0);
    let all = pool.manifest["datasets"].as_array().unwrap();
    let volume = &all.iter().find(|d| d["name"] == "shrunk/vol").unwrap()["volume"];
    let content = fs::read(&image).unwrap();
    assert_eq!(Some(content.len() as u64), volume["size"].as_u64());
    assert_eq!(hex(&Sha256::digest(&content)), volume["sha256"].as_str().unwrap());
    let m = fs::metadata(&image).unwrap();
    assert!(m.blocks() * 512 < m.len(), "{} blocks: not sparse", m.blocks());
    // An image that is there is not replaced without --force.
    expect(&zinc("cp", &pool.dir, &["shrunk/vol", image.to_str().unwrap()]), 1);
    let output = zinc("cat", &pool.dir, &["--offset", "1000", "--length", "5000", "shrunk/vol"]);
    expect(&output, 0);
    assert!(output.stdout == content[1000..6000], "cat of a range");
}

#[test]
fn stat_and_ls_say_what_the_manifest_says() {
    let pool = testkit::fixture("removed");
    let all = entries(&pool, "shrunk/one");
    for e in all.iter().filter(|e| e["type"] != "symlink").take(40) {
        let place = format!("shrunk/one:{}", e["path"].as_str().unwrap());
        let output = zinc("stat", &pool.dir, &["-j", &place]);
        expect(&output, 0);
        let got: Value = serde_json::from_slice(&output.stdout).unwrap();
        for member in ["type", "mode", "size", "nlink", "ino", "mtime_ns", "ctime_ns", "blocks"] {
            assert_eq!(got[member], e[member], "{place}: {member}");
        }
        assert_eq!(got["uid"], e["uid"].to_string().as_str(), "{place}");
    }
    let output = zinc("ls", &pool.dir, &["-aRj", "shrunk/one:"]);
    expect(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let got: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let paths = |v: &[Value]| v.iter().map(|e| e["path"].to_string()).collect::<Vec<_>>();
    assert_eq!(paths(&got), paths(&all[1..]), "ls -R in the order of the manifest");
    expect(&zinc("ls", &pool.dir, &["shrunk/none:"]), 1);
    expect(&zinc("cat", &pool.dir, &["shrunk/one:no-such-file"]), 1);
}

/// A copy of a pool's images that can be damaged.
struct Damaged {
    dir: tempfile::TempDir,
    images: Vec<SparseImage>,
}

impl Damaged {
    fn new(pool: &CorpusPool) -> Self {
        let images = pool.images.iter().map(|p| SparseImage::load(p).unwrap()).collect();
        Self { dir: tempfile::tempdir().unwrap(), images }
    }

    /// Destroys a block of a file on every side of a mirror.
    fn destroy(&mut self, node: &Node, blkid: u64) {
        let bp = node.object().block_pointer(0, blkid).unwrap().unwrap();
        for (_, dva) in bp.dvas() {
            let rot = vec![0xa5; dva.asize() as usize];
            for image in &mut self.images {
                image.write_at(DATA_START + dva.offset(), &rot).unwrap();
            }
        }
    }

    fn save(&self) -> PathBuf {
        let dir = self.dir.path().join("pool");
        fs::create_dir_all(&dir).unwrap();
        for (i, image) in self.images.iter().enumerate() {
            image.save(&dir.join(format!("vdev{i}.img"))).unwrap();
        }
        dir
    }
}

fn filesystem(pool: &Pool, name: &str) -> Filesystem {
    let dataset = pool.dsl().by_name(name).unwrap();
    assert_eq!(pool.dsl().kind(&dataset), DatasetKind::Filesystem);
    Filesystem::open(pool.dsl().objset(&dataset).unwrap()).unwrap()
}

fn log_lines(dest: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dest.join("rescue.jsonl")).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_sound_pool_is_rescued_without_loss() {
    let pool = testkit::fixture("gang");
    let dir = tempfile::tempdir().unwrap();
    let dest = dir.path().join("out");
    let output = zinc("rescue", &pool.dir, &["--snapshots", pool.name(), dest.to_str().unwrap()]);
    expect(&output, 0);
    for d in pool.manifest["datasets"].as_array().unwrap() {
        let all = std::iter::once(d).chain(d["snapshots"].as_array().unwrap());
        for d in all {
            let folder = d["name"].as_str().unwrap().replace('/', "%");
            is_a_copy(&dest.join(folder), d["entries"].as_array().unwrap(), &[]);
        }
    }
    assert!(log_lines(&dest).iter().all(|l| l["event"] != "lost" && l["event"] != "failed"));
}

/// One data block of one file is destroyed: the rest of the file and all others are copied, and
/// the log has exactly that range. A second run, with the pool whole again, completes it.
#[test]
fn a_destroyed_block_costs_its_range_and_is_logged() {
    let pool = testkit::fixture("sample");
    let sound = open(&pool);
    let dataset = "rotten/before";
    let fs_ = filesystem(&sound, dataset);
    let big = |e: &&Value| e["type"] == "file" && e["size"].as_u64().unwrap() > 300_000;
    let victim = entries(&pool, dataset).iter().find(|e| big(e) && e.get("data").is_none());
    let victim = victim.expect("a file of several blocks");
    let path = victim["path"].as_str().unwrap();
    let node = fs_.by_path(path.as_bytes(), false).unwrap();
    let mut damaged = Damaged::new(&pool);
    damaged.destroy(&node, 1);
    let images = damaged.save();
    let dest = damaged.dir.path().join("out");
    let to = dest.to_str().unwrap().to_owned();
    expect(&zinc("rescue", &images, &[dataset, &to]), 1);

    let folder = dest.join("rotten%before");
    let block = node.object().dnode().block_size();
    let lost: Vec<Value> = log_lines(&dest).into_iter().filter(|l| l["event"] == "lost").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["path"], path);
    assert_eq!(lost[0]["object"], victim["ino"]);
    assert_eq!(lost[0]["offset"].as_u64(), Some(block));
    assert_eq!(lost[0]["length"].as_u64(), Some(block.min(node.size - block)));
    assert!(lost[0]["cause"].as_str().unwrap().len() > 10);
    is_a_copy(&folder, entries(&pool, dataset), &[path]);
    let mut whole = vec![0; node.size as usize];
    node.read_at(0, &mut whole).unwrap();
    let range = block as usize..(2 * block).min(node.size) as usize;
    whole[range].fill(0);
    assert!(fs::read(folder.join(path)).unwrap() == whole, "only the lost range is zeros");

    // cp does not make a file that is not whole.
    let one = damaged.dir.path().join("one");
    let source = format!("{dataset}:{path}");
    expect(&zinc("cp", &images, &[&source, one.to_str().unwrap()]), 1);
    assert!(!one.exists());

    let output = zinc("rescue", &pool.dir, &[dataset, &to]);
    expect(&output, 0);
    is_a_copy(&folder, entries(&pool, dataset), &[]);
    let lines = log_lines(&dest);
    let second = lines.iter().rposition(|l| l["event"] == "start").unwrap();
    let again = lines[second..].iter().filter(|l| l["event"] == "done");
    let files = again.filter(|l| l["size"].as_u64() > Some(0) && l["path"] == path).count();
    assert_eq!(files, 1, "what was whole is not copied again");
    let copied = lines[second..].iter().filter(|l| l["event"] == "done").count();
    assert!(copied < entries(&pool, dataset).len() / 2, "{copied} files copied again");
}

/// A directory is destroyed: its files are found by their objects.
#[test]
fn files_of_a_destroyed_directory_are_found() {
    let pool = testkit::fixture("sample");
    let sound = open(&pool);
    let dataset = "rotten/before";
    let fs_ = filesystem(&sound, dataset);
    let all = entries(&pool, dataset);
    let inside = |e: &Value, d: &str| e["path"].as_str().unwrap().starts_with(&format!("{d}/"));
    let is_file_in = |e: &Value, d: &str| e["type"] == "file" && inside(e, d);
    let holds = |d: &&Value| {
        let path = d["path"].as_str().unwrap();
        let stored = || {
            let node = fs_.by_path(path.as_bytes(), false).unwrap();
            let bp = node.object().block_pointer(0, 0).unwrap().unwrap();
            // Small directories are within their pointers, and nothing can be damaged.
            bp.dvas().next().is_some()
        };
        d["type"] == "dir" && path != "." && all.iter().any(|e| is_file_in(e, path)) && stored()
    };
    let victim = all.iter().find(holds).expect("a directory with files");
    let path = victim["path"].as_str().unwrap();
    let node = fs_.by_path(path.as_bytes(), false).unwrap();
    let mut damaged = Damaged::new(&pool);
    damaged.destroy(&node, 0);
    let images = damaged.save();
    let dest = damaged.dir.path().join("out");
    let to = dest.to_str().unwrap();
    expect(&zinc("rescue", &images, &[dataset, to]), 1);
    let folder = dest.join("rotten%before");
    let names = |e: &Value| e["path"].as_str().unwrap().to_owned();
    let gone: Vec<String> = all.iter().filter(|e| inside(e, path)).map(names).collect();
    let mut skip: Vec<&str> = gone.iter().map(String::as_str).collect();
    skip.push(path);
    is_a_copy(&folder, all, &skip);
    for e in all.iter().filter(|e| is_file_in(e, path)) {
        let below = &e["path"].as_str().unwrap()[path.len() + 1..];
        // What has another name elsewhere was copied under that.
        if below.contains('/') || e["nlink"] != 1 {
            continue;
        }
        let found = folder.join("lost+found").join(format!("#{}", e["ino"]));
        let sum = hex(&Sha256::digest(fs::read(&found).unwrap()));
        assert_eq!(sum, e["sha256"].as_str().unwrap(), "{}", e["path"]);
    }
}
