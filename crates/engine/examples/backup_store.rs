//! A store of backups. What was stored once is not stored again, a backup is a snapshot, and a
//! journal on a volume says which backups are whole.
//!
//! Content is named by its SHA-256, of what was written and not of what was given. A file has no
//! name before it is whole, so a store whose program was killed, or told to stop, has no torn one.
//!
//! ```console
//! $ cargo run -p engine --example backup_store -- /tmp/store.img monday Cargo.toml README.md
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::files::{NewFile, NewKind, SetAttrs, Time};
use engine::hex;
use engine::inventory::{Hashing, MAX_HOLE, sha256};
use engine::live::ImportOptions;
use engine::{Create, Error, ErrorKind, Filesystem, LivePool, NewPool, OpenOptions, Pool};
use engine::{Progress, Result, datasets};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of the store's image.
const IMAGE: u64 = 256 << 20;
/// Bytes of a record of the journal: the name of a backup, and zeros.
const RECORD: usize = 512;

/// A store that is open.
pub struct Store {
    pool: LivePool,
}

/// What a backup came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// Files whose content was new.
    pub new: u64,
    /// Files whose content the store had.
    pub known: u64,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [image, name, files @ ..] = &words[..] else {
        return Err(Error::external("usage: backup_store IMAGE NAME FILE..."));
    };
    let image = Path::new(image);
    let store = if image.exists() { Store::open(image)? } else { Store::create(image)? };
    let mut contents = Vec::new();
    for file in files.iter().map(PathBuf::from) {
        contents.push((file.display().to_string(), std::fs::read(&file)?));
    }
    let stored = store.back_up(name, &contents, &Progress::new())?;
    println!("{} new, {} known; the backups: {:?}", stored.new, stored.known, store.journal()?);
    store.close()
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Time { seconds, nanos: u64::from(since.subsec_nanos()) }
}

impl Store {
    /// A store in a new file.
    pub fn create(image: &Path) -> Result<Self> {
        let pool = NewPool::new("store").file(image, IMAGE)?.create()?;
        Create::filesystem("store/data")?.set("compression", "zstd")?.run(&pool)?;
        Create::volume("store/journal", 1 << 20)?.run(&pool)?;
        let fs = pool.filesystem("store/data")?;
        let dir = NewFile::new(NewKind::Dir, 0o700, now());
        for name in ["contents", "backups"] {
            fs.create(fs.root_object(), name.as_bytes(), &dir)?;
        }
        Ok(Self { pool })
    }

    /// The store that an earlier program made.
    pub fn open(image: &Path) -> Result<Self> {
        let options = ImportOptions::new(OpenOptions::in_places([image]));
        Ok(Self { pool: LivePool::open("store", &options)? })
    }

    /// Lets go of it.
    pub fn close(self) -> Result<()> {
        Ok(self.pool.export()?)
    }

    /// Stores files by name, and takes a snapshot: the backup. It is in the journal when the call
    /// returns, and survives a power cut. One that is told to stop is not a backup; what it
    /// stored is there for the next.
    pub fn back_up(
        &self,
        name: &str,
        files: &[(String, Vec<u8>)],
        progress: &Progress,
    ) -> Result<Stored> {
        let fs = self.pool.filesystem("store/data")?;
        let mut stored = Stored { new: 0, known: 0 };
        let mut lines = Vec::new();
        progress.begin("storing", files.len() as u64);
        for (file, content) in files {
            progress.check()?;
            let (hash, is_new) = put(&fs, content, progress)?;
            *(if is_new { &mut stored.new } else { &mut stored.known }) += 1;
            lines.push(format!("{hash} {file}"));
            progress.add(1, content.len() as u64);
        }
        let dir = fs.by_path(b"/backups", true)?;
        let new = NewFile::new(NewKind::File, 0o400, now());
        let backup = fs.create(dir.number(), name.as_bytes(), &new)?;
        fs.write_at(backup.number(), 0, lines.join("\n").as_bytes(), now())?;
        // A snapshot is durable when the call returns, and all that is in it.
        datasets::snapshot(&self.pool, &[format!("store/data@{name}")], false, Vec::new())?;
        self.note(name)?;
        Ok(stored)
    }

    /// Adds a record to the journal, and waits until it is durable.
    fn note(&self, name: &str) -> Result<()> {
        let at = self.journal()?.len() * RECORD;
        let mut record = name.as_bytes().to_vec();
        record.resize(RECORD, 0);
        let journal = self.pool.volume("store/journal")?;
        journal.write_at(at as u64, &record)?;
        Ok(journal.flush()?)
    }

    /// The names of the backups that are whole, oldest first.
    pub fn journal(&self) -> Result<Vec<String>> {
        journal(self.pool.view())
    }
}

/// Stores content under its hash; the hash, and whether it was new.
fn put(fs: &Filesystem, content: &[u8], progress: &Progress) -> Result<(String, bool)> {
    let dir = fs.by_path(b"/contents", true)?;
    let file = fs.create_unnamed(dir.number(), &NewFile::new(NewKind::File, 0o400, now()))?;
    fs.write_at(file.object(), 0, content, now())?;
    let node = fs.node(file.object())?;
    let how = Hashing { progress, max_hole: MAX_HOLE };
    let hash = hex::encode(&sha256(node.object(), node.size, how)?);
    if dir.lookup(hash.as_bytes())?.is_some() {
        // Dropping it frees the file that has no name.
        return Ok((hash, false));
    }
    let place = (dir.number(), hash.as_bytes());
    fs.give_name(file.object(), place, None, &SetAttrs::default(), now())?;
    Ok((hash, true))
}

/// The backups of a store that is open for reading, or for writing.
pub fn journal(pool: &Pool) -> Result<Vec<String>> {
    let volume = pool.volume("store/journal")?;
    let mut names = Vec::new();
    let mut record = [0; RECORD];
    while volume.read_at((names.len() * RECORD) as u64, &mut record)? == RECORD && record[0] != 0 {
        let end = record.iter().position(|b| *b == 0).unwrap_or(RECORD);
        names.push(String::from_utf8_lossy(&record[..end]).into_owned());
    }
    Ok(names)
}

/// A file of a backup, read without changing the store and verified.
pub fn restore(image: &Path, backup: &str, file: &str) -> Result<Vec<u8>> {
    let pool = Pool::open("store", &OpenOptions::in_places([image]))?;
    let fs = pool.filesystem(&format!("store/data@{backup}"))?;
    let list = read(&fs, &format!("/backups/{backup}"))?;
    let list = String::from_utf8_lossy(&list).into_owned();
    let of =
        |line: &str| line.split_once(' ').filter(|(_, name)| *name == file).map(|l| l.0.to_owned());
    let hash = list.lines().find_map(of);
    let hash = hash.ok_or_else(|| Error::external(format!("{backup} has no {file}")))?;
    let path = format!("/contents/{hash}");
    let node = fs.by_path(path.as_bytes(), true)?;
    let how = Hashing { progress: &Progress::new(), max_hole: MAX_HOLE };
    if hex::encode(&sha256(node.object(), node.size, how)?) != hash {
        return Err(Error::external(format!("{path} is not what was stored")));
    }
    read(&fs, &path)
}

fn read(fs: &Filesystem, path: &str) -> Result<Vec<u8>> {
    let node = fs.by_path(path.as_bytes(), true)?;
    let mut bytes = vec![0; node.size as usize];
    node.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Whether an error says that the work was told to stop.
pub fn was_cancelled(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Cancelled)
}
