//! Keys of encrypted datasets: where they come from.
//!
//! - Files of keys are read by [`hostfs::keys`], which wipes the buffers; typed keys are wiped
//!   here. The engine wipes its own copies.
//! - No option takes the key itself but `zdb -K`, which OpenZFS has: what is on a command line can
//!   be seen by every user of the machine. It warns, and takes the same places as `--key`.

use crate::args::OpenArgs;
use crate::failure::{Failure, system_text};
use crate::session::Session;
use crate::ui;
use control::input::Amount;
use engine::LivePool;
use engine::Pool;
use engine::Progress;
use engine::keys::{self, KeyFormat};
use hostfs::keys::{FromFile, KeyBytes, KeyPlace, keep_in};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

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
            pool.datasets().load_key(dataset, &key)?;
        }
        if self.ask {
            ask(session, pool)?;
        }
        Ok(())
    }
}

/// Loads a key or its place, as `zdb -K` takes them.
pub fn load_secret(
    session: &Session,
    pool: &Pool,
    dataset: &str,
    word: &str,
) -> Result<(), Failure> {
    keep_in();
    if let Some(key) = from_location(session, dataset, word)? {
        pool.datasets().load_key(dataset, &key)?;
        return Ok(());
    }
    ui::note(
        session,
        "warning: every user can see a key on a command line; -K takes file:///PATH, fd:N \
         and prompt too",
    );
    pool.datasets().load_key(dataset, word.as_bytes())?;
    Ok(())
}

/// The key at a place; `None` when the text names none.
fn from_location(
    session: &Session,
    dataset: &str,
    location: &str,
) -> Result<Option<KeyBytes>, Failure> {
    match KeyPlace::parse(location) {
        None => Ok(None),
        Some(KeyPlace::Prompt) => typed(session, &format!("Key of '{dataset}': ")).map(Some),
        Some(KeyPlace::File(path)) => read_key(session, &path).map(Some),
        Some(KeyPlace::Descriptor(_)) if session.client().is_some() => {
            Err(Failure::new("a server cannot read the descriptors of your process")
                .hint("give the key with --keys FILE or --key DATASET=file:///PATH"))
        }
        Some(KeyPlace::Descriptor(n)) => {
            read_key(session, &PathBuf::from(format!("/dev/fd/{n}"))).map(Some)
        }
    }
}

/// The key of a dataset in the format in which its user keeps it: from a file, or standard input. A
/// new one is prompted for twice.
pub fn key_at(
    session: &Session,
    dataset: &str,
    (format, location): (KeyFormat, &str),
    is_new: bool,
) -> Result<KeyBytes, Failure> {
    keep_in();
    match KeyPlace::parse(location) {
        // A file that its owner may read is not every user's.
        Some(KeyPlace::File(_)) if session.is_for_another_user() => {
            Err(Failure::new(format!("the server of another user does not read {location}")))
        }
        Some(KeyPlace::File(path)) => read_key(session, &path),
        Some(KeyPlace::Prompt) if !session.is_input_terminal() => {
            let progress = Progress::new();
            let mut input = session.input(Amount::OnDemand, &progress)?;
            Ok(hostfs::keys::read_stream(&mut input, format == KeyFormat::Raw)?)
        }
        Some(KeyPlace::Prompt) => {
            let words = if is_new { "new " } else { "" };
            let what = views::keys::key_noun(format);
            let key = typed(session, &format!("Enter {words}{what} for '{dataset}': "))?;
            if is_new
                && key != typed(session, &format!("Re-enter {words}{what} for '{dataset}': "))?
            {
                return Err(Failure::new("Provided keys do not match."));
            }
            Ok(key)
        }
        _ => Err(Failure::new(format!("zinc cannot read keys from {location}"))
            .hint("a key is read from a file (file:///PATH) or a prompt (prompt)")),
    }
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
            pool.datasets().load_key(&dataset, &key)?;
        }
    }
    Ok(())
}

/// Loads the key that a dataset needs, or what is made below it, where no server has it. `may_ask`:
/// standard input is for it.
pub fn load_for(
    session: &Session,
    pool: &LivePool,
    name: &str,
    may_ask: bool,
) -> Result<(), Failure> {
    let needed = keys::needed_by(pool.view(), name);
    let Some(root) = needed.filter(|_| session.held(name).is_none()) else { return Ok(()) };
    if root.location == "prompt" && !may_ask {
        return Ok(());
    }
    let key = key_at(session, &root.name, (root.format, root.location.as_str()), false)?;
    Ok(keys::load(pool, &root.name, &key)?)
}

/// Reads a key typed on the terminal of the caller, without echo.
fn typed(session: &Session, question: &str) -> Result<KeyBytes, Failure> {
    keep_in();
    ui::error(session, question);
    let input = session.client().map_or(0, |client| client.input.as_raw_fd());
    let terminal = std::fs::File::open(format!("/proc/self/fd/{input}"));
    let typed = terminal.and_then(|it| hostfs::prompt::secret(&it, &|| session.check().is_ok()));
    ui::error(session, "\n");
    Ok(typed?)
}

/// Asks for the key of every encryption root that is still locked.
fn ask(session: &Session, pool: &Pool) -> Result<(), Failure> {
    for root in keys::roots_below(pool, pool.name())?.iter().filter(|root| !root.is_loaded) {
        let key = typed(session, &format!("Key of '{}': ", root.name))?;
        pool.datasets().load_key(&root.name, &key)?;
    }
    Ok(())
}
