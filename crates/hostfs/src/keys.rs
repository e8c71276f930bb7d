//! Keys of encrypted datasets in files, and what is done so that they go nowhere else.
//!
//! - Before the first key is read the process stops leaving core files ([`keep_in`]), which would
//!   hold it, and other processes of the same user cannot look into its memory any more.
//! - The memory of a key is wiped: the text of the file, and everything derived from it. The
//!   buffers that a parser keeps for a moment while it reads a text with escapes are not within
//!   reach.
//! - A file of keys that other users can read causes a warning. It is not refused: a pool that is
//!   being rescued should not wait for it. The manifest of a pool that was made for tests is not a
//!   secret.

use engine::hex;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use zeroize::{Zeroize as _, Zeroizing};

/// Keys have 32 bytes, passphrases at most 512.
const KEY_MAX: u64 = 4096;
/// Longest file of keys by dataset; manifests are some megabytes long.
const FILE_MAX: u64 = 256 << 20;

/// A key as the user gives it, wiped when it is dropped.
pub type KeyBytes = Zeroizing<Vec<u8>>;

/// Makes sure that no other process can read the memory of this one.
pub fn keep_in() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Where a system does not have one of them, the other does most of it.
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// The result of reading a file.
pub struct FromFile<T> {
    /// The keys.
    pub keys: T,
    /// Other users can read the file, and what is in it is a secret.
    pub is_exposed: bool,
}

/// The content of a file, and whether others can read it.
fn read(path: &Path, max: u64) -> io::Result<FromFile<KeyBytes>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let is_exposed = meta.is_file() && meta.mode() & 0o077 != 0;
    // As long as it gets, so that no shorter copy is left behind by growing.
    let size = if meta.is_file() { meta.len().min(max) } else { max.min(KEY_MAX) };
    let mut keys = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1));
    file.take(max).read_to_end(&mut keys)?;
    Ok(FromFile { keys, is_exposed })
}

/// The key that is the content of a file.
///
/// # Errors
/// It cannot be read.
pub fn read_key(path: &Path) -> io::Result<FromFile<KeyBytes>> {
    read(path, KEY_MAX)
}

/// Where a key is, as in properties and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Standard input: asked for on a terminal, or what a file or another program writes there.
    Prompt,
    /// The content of this file.
    File(PathBuf),
    /// This descriptor of the process.
    Descriptor(u32),
}

impl KeyPlace {
    /// Of `prompt`, `file:///PATH` or `fd:N`; `None`: the text names no place here.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "prompt" {
            return Some(Self::Prompt);
        }
        if let Some(path) = text.strip_prefix("file://") {
            return Some(Self::File(PathBuf::from(path)));
        }
        text.strip_prefix("fd:")?.parse().ok().map(Self::Descriptor)
    }
}

/// The key that another program writes: the bytes as they are, up to one more than a raw key has,
/// or the first line without its end.
///
/// # Errors
/// It cannot be read.
pub fn read_stream(input: &mut dyn Read, is_raw: bool) -> io::Result<KeyBytes> {
    let mut keys = Zeroizing::new(Vec::with_capacity(KEY_MAX as usize));
    if is_raw {
        input.take(33).read_to_end(&mut keys)?;
        return Ok(keys);
    }
    let mut byte = [0];
    while (keys.len() as u64) < KEY_MAX && input.read(&mut byte)? == 1 && byte != *b"\n" {
        keys.push(byte[0]);
    }
    Ok(keys)
}

/// JSON whose texts are wiped when it is dropped.
struct Wiped(Value);

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

// Depth is bounded: the parser limits it.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(all) => all.iter_mut().for_each(wipe),
        Value::Object(all) => all.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The keys by dataset in a JSON file: an object with a `key` or a `key_hex` for each, or a
/// manifest that has one as `keys`.
///
/// # Errors
/// It cannot be read, or it is no such file; an error of kind `InvalidData` says why.
pub fn read_keys(path: &Path) -> io::Result<FromFile<Vec<(String, KeyBytes)>>> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let FromFile { keys: content, is_exposed } = read(path, FILE_MAX)?;
    let value = Wiped(serde_json::from_slice(&content).map_err(|e| bad(e.to_string()))?);
    drop(content);
    let is_manifest = value.0.get("datasets").is_some();
    // The manifest of a pool without encrypted datasets has no keys.
    if value.0.get("keys").is_none() && is_manifest {
        return Ok(FromFile { keys: Vec::new(), is_exposed: false });
    }
    let all = value.0.get("keys").unwrap_or(&value.0).as_object();
    let mut keys = Vec::new();
    for (dataset, key) in all.ok_or_else(|| bad("no object of keys by dataset".into()))? {
        let text = key.get("key").and_then(Value::as_str);
        let text = text.map(|k| Zeroizing::new(k.as_bytes().to_vec()));
        let digits = || key.get("key_hex").and_then(Value::as_str).and_then(hex::decode);
        let key = text.or_else(|| digits().map(Zeroizing::new));
        let key = key.ok_or_else(|| bad(format!("{dataset} has neither `key` nor `key_hex`")))?;
        keys.push((dataset.clone(), key));
    }
    Ok(FromFile { keys, is_exposed: is_exposed && !is_manifest })
}
