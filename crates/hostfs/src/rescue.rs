//! The log of a rescue: `rescue.jsonl` in the destination, one JSON object a line.
//!
//! | event | members |
//! | --- | --- |
//! | `start` | `pool`, `guid`, `txg`, `source` |
//! | `done` | `dataset`, `path`, `object`, `size`, `lost`: bytes that could not be read |
//! | `lost` | `dataset`, `path`, `object`, `offset`, `length`, `cause`: a range that is zeros now |
//! | `failed` | `dataset`, `path`, `object`, `cause`: nothing, or not all, of it was copied |
//! | `renamed` | `dataset`, `path`, `object`, `name`: what it is called in the copy |
//! | `fallback` | `dataset`, `path`, `object`, `cause`: what is lost, and what was taken instead |
//! | `not_kept` | `dataset`, `path`, `attribute`, `cause` |
//! | `end` | `files`, `lost_bytes`, `losses`, `fallbacks` |
//!
//! `path_hex` replaces `path` where that is no UTF-8. A later run appends: the lines after the last
//! `start` count, with the whole files (`done`, 0 bytes lost) of all runs before.

use crate::{Dir, FileInfo};
use engine::extract::{ExtractObserver, Lost};
use engine::{Node, hex};
use rustix::fs::{Mode, OFlags, openat};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use term::{escape, without_number};

/// Name of the log in the destination.
pub const LOG_NAME: &str = "rescue.jsonl";
/// Longest line that is believed when an old log is read.
const LINE_MAX: usize = 1 << 20;

/// A checksum of dataset, path and size.
type Key = [u8; 32];

/// The log, open for appending.
pub struct Log {
    file: Mutex<File>,
    /// Whole files of earlier runs.
    whole: HashSet<Key>,
    /// The error of writing the log itself.
    broken: Mutex<Option<io::Error>>,
    /// The first thing that was not copied, and why.
    first: Mutex<Option<String>>,
    /// Files copied.
    files: AtomicU64,
    /// Things of which something is lost.
    losses: AtomicU64,
    /// Bytes lost of files that were copied.
    lost_bytes: AtomicU64,
    /// Datasets of which nothing was copied.
    lost_datasets: AtomicU64,
    /// Things that have other names in the copy.
    renamed: AtomicU64,
    /// Times that something else was taken for what is lost.
    fallbacks: AtomicU64,
}

fn key(dataset: &str, path: &[u8], size: u64) -> Key {
    let mut sum = Sha256::new();
    // No name of a dataset has a zero byte.
    sum.update(dataset.as_bytes());
    sum.update([0]);
    sum.update(size.to_le_bytes());
    sum.update(path);
    sum.finalize().into()
}

/// Opens the log of an earlier run, or a new one. Nothing else that has its name is touched.
fn open(dir: &Dir) -> io::Result<File> {
    // Without waiting, should it be a pipe.
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(dir, LOG_NAME, flags | careful, Mode::RUSR | Mode::WUSR)?);
    let look = FileInfo::of(&file)?;
    let mine = look.owner == rustix::process::geteuid().as_raw();
    let mut head = Vec::new();
    if look.is_file() {
        (&file).take(16).read_to_end(&mut head)?;
    }
    let is_log = head.is_empty() || head.starts_with(b"{\"event\":\"start\"");
    match look.is_file() && look.links == 1 && mine && is_log {
        true => Ok(file),
        false => Err(io::Error::other("the file exists and is not a rescue log of this user")),
    }
}

impl Log {
    /// Opens the log in `dir`, and reads what earlier runs did.
    pub fn open(dir: &Dir) -> io::Result<Self> {
        let file = open(dir)?;
        let mut whole = HashSet::new();
        (&file).rewind()?;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while {
            line.clear();
            reader.read_until(b'\n', &mut line)?
        } > 0
        {
            // The last line of a run that was killed may be half a line.
            let value = (line.len() <= LINE_MAX).then(|| serde_json::from_slice::<Value>(&line));
            if let Some(Ok(v)) = value {
                whole.extend(whole_file(&v));
            }
        }
        // A half line is ended, so that the next one is on its own.
        if !line.is_empty() && !line.ends_with(b"\n") {
            (&file).write_all(b"\n")?;
        }
        let counts = || AtomicU64::new(0);
        let [files, losses, lost_bytes, renamed] = [counts(), counts(), counts(), counts()];
        let (lost_datasets, fallbacks) = (counts(), counts());
        let (file, broken) = (Mutex::new(file), Mutex::new(None));
        let first = Mutex::default();
        Ok(Self {
            file,
            whole,
            broken,
            first,
            files,
            losses,
            lost_bytes,
            lost_datasets,
            renamed,
            fallbacks,
        })
    }

    /// The first failure, and why. A copy that has no room left is reported once, as a whole.
    pub fn first_failure(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the last line of this run. Whether everything was copied, and as it was.
    ///
    /// # Errors
    /// A line was not written: losses may be missing in the log.
    pub fn end(&self) -> io::Result<bool> {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let (losses, fallbacks) = (count(&self.losses), count(&self.fallbacks));
        let mut end = Map::new();
        for (name, n) in [
            ("files", count(&self.files)),
            ("lost_bytes", count(&self.lost_bytes)),
            ("losses", losses),
            ("fallbacks", fallbacks),
        ] {
            end.insert(name.to_owned(), json!(n));
        }
        self.write("end", end);
        match self.broken.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(e) => Err(e),
            None => Ok(losses == 0 && fallbacks == 0),
        }
    }

    /// What came of it, in a line that names the log when there is something to find in it.
    pub fn summary(&self, log: &Path) -> String {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let guessed = match count(&self.fallbacks) {
            0 => String::new(),
            1 => ", 1 fallback used".to_owned(),
            n => format!(", {n} fallbacks used"),
        };
        let renamed = match count(&self.renamed) {
            0 => String::new(),
            n => format!(", {n} under other names"),
        };
        let is_plain = count(&self.losses) == 0 && guessed.is_empty() && renamed.is_empty();
        let see = if is_plain { String::new() } else { format!("; see {}", log.display()) };
        let (files, lost) = (count(&self.files), self.losses_in_words());
        let noun = if files == 1 { "file" } else { "files" };
        format!("{files} {noun} rescued, {lost}{guessed}{renamed}{see}")
    }

    /// A description of the losses.
    fn losses_in_words(&self) -> String {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let noun = match count(&self.losses) {
            0 => return "nothing lost".to_owned(),
            1 => "1 loss".to_owned(),
            n => format!("{n} losses"),
        };
        let datasets = match count(&self.lost_datasets) {
            0 => None,
            1 => Some("1 dataset was not copied at all".to_owned()),
            n => Some(format!("{n} datasets were not copied at all")),
        };
        let bytes = match (count(&self.lost_bytes), &datasets) {
            (0, Some(_)) => None,
            (n, _) => Some(format!("{n} bytes are missing from copied files")),
        };
        let parts: Vec<String> = datasets.into_iter().chain(bytes).collect();
        format!("{noun}: {}", parts.join(", "))
    }

    /// Writes a line.
    pub fn write(&self, event: &str, members: Map<String, Value>) {
        let mut all = Map::new();
        all.insert("event".to_owned(), json!(event));
        all.extend(members);
        let mut line = Value::Object(all).to_string();
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = file.write_all(line.as_bytes()) {
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
    }

    /// The observer of one dataset.
    pub fn of(&self, dataset: &str) -> DatasetLog<'_> {
        DatasetLog { log: self, dataset: dataset.to_owned() }
    }
}

fn whole_file(v: &Value) -> Option<Key> {
    if v["event"] != "done" || v["lost"] != 0 {
        return None;
    }
    let path = match v.get("path") {
        Some(p) => p.as_str()?.as_bytes().to_vec(),
        None => hex::decode(v["path_hex"].as_str()?)?,
    };
    Some(key(v["dataset"].as_str()?, &path, v["size"].as_u64()?))
}

/// The log, with the name of a dataset in every line.
pub struct DatasetLog<'a> {
    log: &'a Log,
    dataset: String,
}

impl DatasetLog<'_> {
    fn members(&self, path: &[u8]) -> Map<String, Value> {
        let mut m = Map::new();
        m.insert("dataset".to_owned(), json!(self.dataset));
        match std::str::from_utf8(path) {
            Ok(p) => m.insert("path".to_owned(), json!(p)),
            Err(_) => m.insert("path_hex".to_owned(), json!(hex::encode(path))),
        };
        m
    }

    fn write(&self, event: &str, path: &[u8], more: Value) {
        let mut members = self.members(path);
        if let Value::Object(more) = more {
            members.extend(more);
        }
        self.log.write(event, members);
    }
}

impl ExtractObserver for DatasetLog<'_> {
    fn is_done(&self, path: &[u8], node: &Node) -> bool {
        self.log.whole.contains(&key(&self.dataset, path, node.size))
    }

    fn lost(&self, path: &[u8], object: u64, lost: &Lost) -> bool {
        self.log.losses.fetch_add(1, Ordering::Relaxed);
        self.log.lost_bytes.fetch_add(lost.length, Ordering::Relaxed);
        let Lost { offset, length, cause } = lost;
        let cause = without_number(cause.to_string());
        let more = json!({ "object": object, "offset": offset, "length": length, "cause": cause });
        self.write("lost", path, more);
        true
    }

    fn failed(&self, path: &[u8], object: u64, why: &str) {
        self.log.losses.fetch_add(1, Ordering::Relaxed);
        let cause = without_number(why.to_owned());
        // Without a path it is the dataset itself.
        let name = match path.is_empty() {
            true => self.dataset.as_bytes(),
            false => path,
        };
        self.log.lost_datasets.fetch_add(u64::from(path.is_empty()), Ordering::Relaxed);
        let message = || format!("'{}': {cause}", escape::name(name));
        let mut first = self.log.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(message);
        drop(first);
        self.write("failed", path, json!({ "object": object, "cause": cause }));
    }

    fn renamed(&self, path: &[u8], object: u64, name: &[u8]) {
        self.log.renamed.fetch_add(1, Ordering::Relaxed);
        let mut more = Map::new();
        more.insert("object".to_owned(), json!(object));
        match std::str::from_utf8(name) {
            Ok(name) => more.insert("name".to_owned(), json!(name)),
            Err(_) => more.insert("name_hex".to_owned(), json!(hex::encode(name))),
        };
        self.write("renamed", path, Value::Object(more));
    }

    fn fallback(&self, path: &[u8], object: u64, what: &str) {
        self.log.fallbacks.fetch_add(1, Ordering::Relaxed);
        let cause = without_number(what.to_owned());
        self.write("fallback", path, json!({ "object": object, "cause": cause }));
    }

    fn not_kept(&self, path: &[u8], what: &str, why: &str) {
        let cause = without_number(why.to_owned());
        self.write("not_kept", path, json!({ "attribute": what, "cause": cause }));
    }

    fn done(&self, path: &[u8], node: &Node, lost_bytes: u64) {
        self.log.files.fetch_add(1, Ordering::Relaxed);
        let more = json!({ "object": node.number(), "size": node.size, "lost": lost_bytes });
        self.write("done", path, more);
    }

    fn image_done(&self, _: &[u8], _: u64) {
        self.log.files.fetch_add(1, Ordering::Relaxed);
    }
}
