//! Pools made for a test with the engine itself, also such as no honest program would make: the
//! table of a directory is written as it is wanted, with any names for any objects.
#![allow(clippy::unwrap_used, dead_code, reason = "each test uses a part")]

use engine::inside::device::{Options, RwFileDevice};
use engine::inside::dmu::{Hold, zap};
use engine::inside::ondisk::znode::{Dirent, Time};
use engine::inside::pool::live::NewFilesystem;
use engine::inside::rt;
use engine::inside::zpl::write::XattrMode;
use engine::inside::zpl::{NewFile, NewKind};
use engine::{Filesystem, LivePool};
use poolkit::Shape;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// Types as a directory remembers them.
pub(crate) const FILE: u8 = 8;
pub(crate) const DIR: u8 = 4;
pub(crate) const LINK: u8 = 10;
pub(crate) const FIFO: u8 = 1;

/// The time of all files.
pub(crate) const NOW: Time = Time { seconds: 1_600_000_000, nanos: 5 };

/// A folder with the pool `p` in `pool/disk`.
pub(crate) struct Made {
    dir: tempfile::TempDir,
}

/// The file system `p/fs` while it is filled.
pub(crate) struct Fill<'a> {
    pub(crate) pool: &'a LivePool,
    pub(crate) fs: &'a Filesystem,
}

impl Made {
    pub(crate) fn new(fill: impl FnOnce(&Fill<'_>)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pool")).unwrap();
        let path = dir.path().join("pool/disk");
        let device = RwFileDevice::create(&path, 256 << 20, &Options::default()).unwrap();
        let devices = vec![(path.to_str().unwrap().to_owned(), Arc::new(device) as _)];
        let pool = Shape::Disk.create(&rt::Rt::real(), "p", devices, true, |_| {});
        pool.create_filesystem("p/fs", NewFilesystem::default(), Vec::new()).unwrap();
        let fs = pool.filesystem("p/fs").unwrap();
        fill(&Fill { pool: &pool, fs: &fs });
        drop(fs);
        pool.export().unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command that will run zinc on the pool, in the folder of the test.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        let mut words = words.split_whitespace();
        let verb = words.next();
        command.args(verb);
        if matches!(verb, Some("zfs" | "zpool")) {
            command.args(words.next());
        }
        command.args(["-d", "pool"]).args(words);
        command.current_dir(self.dir.path()).env("TZ", "UTC");
        command.env("ZINC_STATE", self.dir.path().join("run/state"));
        command
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs zinc, which must end with this code; what it said on standard error.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, words: &str) -> String {
        let output = self.run(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {message}");
        message
    }

    /// Lines of the log of a rescue with this event.
    pub(crate) fn logged(&self, dest: &str, event: &str) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path(dest).join("rescue.jsonl")).unwrap();
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.filter(|l| l["event"] == event).collect()
    }
}

impl Fill<'_> {
    pub(crate) fn root(&self) -> u64 {
        self.fs.root_object()
    }

    /// Makes a file of any kind; its object.
    pub(crate) fn node(&self, dir: u64, name: &str, kind: NewKind, mode: u32) -> u64 {
        let new = NewFile::new(kind, mode, NOW);
        self.fs.create(dir, name.as_bytes(), &new).unwrap().number()
    }

    pub(crate) fn dir(&self, dir: u64, name: &str, mode: u32) -> u64 {
        self.node(dir, name, NewKind::Dir, mode)
    }

    pub(crate) fn file(&self, dir: u64, name: &str, text: &[u8]) -> u64 {
        let file = self.node(dir, name, NewKind::File, 0o644);
        self.fs.write_at(file, 0, text, NOW).unwrap();
        file
    }

    pub(crate) fn xattr(&self, file: u64, name: &str, value: &[u8]) {
        self.fs.set_xattr(file, name.as_bytes(), value, XattrMode::Any, NOW).unwrap();
    }

    /// Adds any name for any object, as its directory's table can hold once.
    pub(crate) fn name(&self, dir: u64, name: &[u8], object: u64, kind: u8) {
        let tx = self.fs.begin(Hold::write(1 << 20)).unwrap();
        let table = self.fs.objset().object(dir).unwrap();
        let value = Dirent { object, kind }.encode();
        zap::insert_u64(&table, &tx, name, value).unwrap();
    }

    /// Takes a name away, and leaves what it stood for as it was.
    pub(crate) fn forget(&self, dir: u64, name: &str) {
        let tx = self.fs.begin(Hold::write(1 << 20)).unwrap();
        let table = self.fs.objset().object(dir).unwrap();
        assert!(zap::remove(&table, &tx, name).unwrap());
    }

    /// Writes the table of a directory anew, with these names (at most 49 bytes each), objects
    /// and types; names may be there several times.
    pub(crate) fn table(&self, dir: u64, entries: &[(&[u8], u64, u8)]) {
        const MICRO: u64 = (1 << 63) + 3;
        let mut block = [0u8; 64].to_vec();
        block[..8].copy_from_slice(&MICRO.to_le_bytes());
        block[8..16].copy_from_slice(&77u64.to_le_bytes());
        for (n, (name, object, kind)) in (0u32..).zip(entries) {
            let value = Dirent { object: *object, kind: *kind }.encode();
            let mut chunk = [0u8; 64];
            chunk[..8].copy_from_slice(&value.to_le_bytes());
            chunk[8..12].copy_from_slice(&n.to_le_bytes());
            chunk[14..14 + name.len()].copy_from_slice(name);
            block.extend_from_slice(&chunk);
        }
        block.resize(block.len().next_multiple_of(512), 0);
        let tx = self.fs.begin(Hold::write(1 << 20)).unwrap();
        let object = self.fs.objset().object(dir).unwrap();
        let size = u32::try_from(block.len()).unwrap();
        if u64::from(size) != object.dnode().block_size() {
            object.set_block_size(&tx, size).unwrap();
        }
        object.reopen().unwrap().write_at(&tx, 0, &block).unwrap();
    }
}

/// Everything a tree is, by path, with all that `lstat` says but times of access, and contents.
pub(crate) fn full(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let m = std::fs::symlink_metadata(&path).unwrap();
        let content = match m {
            _ if m.is_dir() => {
                let inside = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path());
                todo.extend(inside);
                Vec::new()
            }
            _ if m.is_symlink() => {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            // Of a pool's device the times are enough.
            _ if m.is_file() && m.len() < 1 << 20 => std::fs::read(&path).unwrap(),
            _ => Vec::new(),
        };
        out.push(format!(
            "{} {} {:o} {} {} {} {} {}.{} {}.{} {:?}",
            path.display(),
            m.ino(),
            m.mode(),
            m.nlink(),
            m.uid(),
            m.gid(),
            m.rdev(),
            m.mtime(),
            m.mtime_nsec(),
            m.ctime(),
            m.ctime_nsec(),
            content
        ));
    }
    out.sort();
    out
}
