//! Keys of encrypted datasets: where they come from.
//!
//! - Files of keys are read by [`hostfs::keys`], which wipes what they stood in; what is typed is
//!   wiped here. The engine wipes its own copies.
//! - No option takes the key itself but `zdb -K`, which OpenZFS has: what is on a command line can
//!   be seen by every user of the machine. It warns, and takes the same places as `--key`.

use crate::args::OpenArgs;
use crate::failure::{Failure, system_text};
use crate::session::Session;
use crate::ui;
use engine::Pool;
use hostfs::keys::{FromFile, KeyBytes, keep_in};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

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

fn warn(session: &Session, path: &Path) {
    let path = path.display();
    ui::note(
        session,
        &format!("warning: other users can read the keys in {path}: `chmod 600 {path}`"),
    );
}

fn read_key(session: &Session, path: &Path) -> Result<KeyBytes, Failure> {
    let FromFile { keys, is_exposed } = hostfs::keys::read_key(path).map_err(|e| {
        Failure::new(format!("cannot read the key in {}", path.display())).because(system_text(&e))
    })?;
    if is_exposed {
        warn(session, path);
    }
    Ok(keys)
}

/// Loads the keys of the pool's datasets in a file of many.
fn load_file(session: &Session, pool: &Pool, path: &Path) -> Result<(), Failure> {
    let FromFile { keys, is_exposed } = hostfs::keys::read_keys(path).map_err(|e| {
        Failure::new(format!("cannot read keys in {}", path.display())).because(system_text(&e))
    })?;
    if is_exposed {
        warn(session, path);
    }
    for (dataset, key) in keys {
        if dataset.split('/').next() == Some(pool.name()) {
            pool.dsl().load_key(&dataset, &key)?;
        }
    }
    Ok(())
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
