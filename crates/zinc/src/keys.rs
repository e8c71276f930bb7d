//! Keys of encrypted datasets: where they come from, and what is done so that they go nowhere else.
//!
//! - Before the first key is read the process stops leaving core files ([`keep_in`]), which would
//!   hold it, and other processes of the same user cannot look into its memory any more.
//! - What a key stood in is wiped: the text of the file, what was made of it, what was typed. The
//!   engine wipes its own copies. What a parser keeps for a moment while it reads a text with
//!   escapes is not within reach.
//! - No option takes the key itself but `zdb -K`, which OpenZFS has: what is on a command line can
//!   be seen by every user of the machine. It warns, and takes the same places as `--key`.
//! - A file of keys that other users can read is warned of. It is not refused: a pool that is being
//!   rescued should not wait for it. The manifest of a pool that was made for tests is no secret.

use crate::args::OpenArgs;
use crate::failure::{Failure, system_text};
use crate::session::Session;
use crate::ui;
use engine::Pool;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use zeroize::{Zeroize as _, Zeroizing};

/// Keys have 32 bytes, passphrases at most 512.
const KEY_MAX: u64 = 4096;
/// Longest file of keys by dataset; manifests are some megabytes long.
const FILE_MAX: u64 = 256 << 20;

/// A key as the user gives it.
type KeyBytes = Zeroizing<Vec<u8>>;

/// Makes sure that no other process can read the memory of this one.
fn keep_in() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Where a system does not have one of them, the other does most of it.
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

impl OpenArgs {
    /// Loads every key that was given.
    pub fn load_keys(&self, session: &Session, pool: &Pool) -> Result<(), Failure> {
        if self.keys.is_some() || !self.key.is_empty() || self.ask {
            keep_in();
        }
        if let Some(file) = &self.keys {
            load_file(session, pool, &session.path(file))?;
        }
        for spec in &self.key {
            let usage = || {
                Failure::usage(format!("--key {spec}: want DATASET=file:///PATH, fd:N or prompt"))
            };
            let (dataset, location) = spec.split_once('=').ok_or_else(usage)?;
            let key = from_location(session, dataset, location)?.ok_or_else(usage)?;
            pool.dsl().load_key(dataset, &key)?;
        }
        if self.ask {
            ask(session, pool)?;
        }
        Ok(())
    }
}

/// Loads a key or its place, as `zdb -K` takes them.
pub fn load_word(session: &Session, pool: &Pool, dataset: &str, word: &str) -> Result<(), Failure> {
    keep_in();
    if let Some(key) = from_location(session, dataset, word)? {
        pool.dsl().load_key(dataset, &key)?;
        return Ok(());
    }
    ui::note(
        session,
        "warning: every user can see a key on a command line; -K takes file:///PATH, fd:N \
         and prompt too",
    );
    pool.dsl().load_key(dataset, word.as_bytes())?;
    Ok(())
}

/// The key at a place; `None` when the text names none.
fn from_location(
    session: &Session,
    dataset: &str,
    location: &str,
) -> Result<Option<KeyBytes>, Failure> {
    if location == "prompt" {
        return prompt(session, dataset).map(Some);
    }
    if let Some(path) = location.strip_prefix("file://") {
        return read_key(session, Path::new(path)).map(Some);
    }
    let Some(number) = location.strip_prefix("fd:").and_then(|n| n.parse::<u32>().ok()) else {
        return Ok(None);
    };
    if session.client().is_some() {
        return Err(Failure::new("a server cannot read the descriptors of your process")
            .hint("give the key with --keys FILE or --key DATASET=file:///PATH"));
    }
    read_key(session, &PathBuf::from(format!("/dev/fd/{number}"))).map(Some)
}

/// The content of a file, wiped when it is dropped, and whether others can read it.
fn read(path: &Path, max: u64) -> std::io::Result<(KeyBytes, bool)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let is_open = meta.is_file() && meta.mode() & 0o077 != 0;
    // As long as it gets, so that no shorter copy is left behind by growing.
    let size = if meta.is_file() { meta.len().min(max) } else { max.min(KEY_MAX) };
    let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1));
    file.take(max).read_to_end(&mut content)?;
    Ok((content, is_open))
}

fn warn(session: &Session, path: &Path) {
    let path = path.display();
    ui::note(
        session,
        &format!("warning: other users can read the keys in {path}: `chmod 600 {path}`"),
    );
}

fn read_key(session: &Session, path: &Path) -> Result<KeyBytes, Failure> {
    let (key, is_open) = read(path, KEY_MAX).map_err(|e| {
        Failure::new(format!("cannot read the key in {}", path.display())).because(system_text(&e))
    })?;
    if is_open {
        warn(session, path);
    }
    Ok(key)
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

/// Loads the keys of a JSON file: an object by dataset, or a manifest that has one as `keys`.
fn load_file(session: &Session, pool: &Pool, path: &Path) -> Result<(), Failure> {
    let fail =
        |e: String| Failure::new(format!("cannot read keys in {}", path.display())).because(e);
    let (content, is_open) = read(path, FILE_MAX).map_err(|e| fail(system_text(&e)))?;
    let value = serde_json::from_slice(&content).map_err(|e| fail(e.to_string()))?;
    drop(content);
    let value = Wiped(value);
    let is_manifest = value.0.get("datasets").is_some();
    // The manifest of a pool without encrypted datasets has no keys.
    if value.0.get("keys").is_none() && is_manifest {
        return Ok(());
    }
    if is_open && !is_manifest {
        warn(session, path);
    }
    let keys = value.0.get("keys").unwrap_or(&value.0);
    let keys = keys.as_object().ok_or_else(|| fail("no object of keys by dataset".into()))?;
    for (dataset, key) in keys {
        let text = key.get("key").and_then(Value::as_str);
        let text = text.map(|k| Zeroizing::new(k.as_bytes().to_vec()));
        let hex = || key.get("key_hex").and_then(Value::as_str).and_then(unhex);
        let Some(bytes) = text.or_else(hex) else {
            return Err(fail(format!("{dataset} has neither `key` nor `key_hex`")));
        };
        if dataset.split('/').next() == Some(pool.name()) {
            pool.dsl().load_key(dataset, &bytes)?;
        }
    }
    Ok(())
}

fn unhex(text: &str) -> Option<KeyBytes> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let mut key = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in pairs {
        key.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
    }
    Some(key)
}

fn prompt(session: &Session, dataset: &str) -> Result<KeyBytes, Failure> {
    if session.client().is_some() {
        return Err(Failure::new("a server cannot ask for keys on your terminal")
            .hint("give them with --keys FILE or --key DATASET=file:///PATH"));
    }
    let text = rpassword::prompt_password(format!("Key of {}: ", ui::escape::line(dataset)))?;
    Ok(Zeroizing::new(text.into_bytes()))
}

/// Asks for the key of every encryption root that is still locked.
fn ask(session: &Session, pool: &Pool) -> Result<(), Failure> {
    for (name, dir) in pool.dsl().walk() {
        let Ok(dir) = dir else { continue };
        let Some(info) = pool.dsl().key_info(&dir)? else { continue };
        let head = pool.dsl().head(&dir)?;
        let locked = match head {
            Some(h) => !pool.dsl().is_unlocked(&h)?,
            None => false,
        };
        if locked && info.root_dir == dir.object {
            pool.dsl().load_key(&name, &prompt(session, &name)?)?;
        }
    }
    Ok(())
}
