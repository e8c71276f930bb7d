//! `zinc zfs load-key`, `unload-key` and `change-key`. Keys are in the process that serves the
//! pool, from the moment in which they are loaded until they are unloaded or the pool is let go.

use super::changes::Target;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::keys::key_at;
use crate::live::LiveArgs;
use crate::mounting::check_unmounted;
use crate::session::Session;
use crate::{found, served, ui};
use engine::keys::{self, EncryptionRoot, KeyChange, KeyOptions};
use engine::{DatasetKind, Error, ErrorKind, LivePool};
use std::path::PathBuf;
use std::process::ExitCode;
use views::exit_codes::Stage;
use views::keys::KeyVerb;

/// Arguments of `zinc zfs unload-key`.
#[derive(clap::Args)]
pub struct Unload {
    #[command(flatten)]
    live: LiveArgs,
    /// Also the keys of all encryption roots below
    #[arg(short = 'r')]
    recursive: bool,
    /// The keys of all encryption roots of all pools that are served
    #[arg(short = 'a')]
    all: bool,
    /// The file system or volume
    #[arg(value_name = "DATASET", required_unless_present = "all")]
    name: Option<String>,
}

/// Arguments of `zinc zfs load-key`.
#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    which: Unload,
    /// Check the keys without loading them
    #[arg(short = 'n')]
    dry: bool,
    /// Where the key is, instead of keylocation: prompt or file:///PATH
    #[arg(short = 'L', value_name = "KEYLOCATION", conflicts_with = "all")]
    location: Option<String>,
}

/// Arguments of `zinc zfs change-key`.
#[derive(clap::Args)]
pub struct Change {
    #[command(flatten)]
    live: LiveArgs,
    /// Load the key first
    #[arg(short = 'l')]
    load: bool,
    /// Use the key of the encryption root above
    #[arg(short = 'i')]
    inherit: bool,
    /// Set keyformat, keylocation or pbkdf2iters (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", conflicts_with = "inherit")]
    properties: Vec<String>,
    /// The file system or volume
    name: String,
}

fn failed(verb: KeyVerb, name: &str, error: impl Into<Error>) -> Failure {
    let error = error.into();
    let stage = match error.kind() {
        ErrorKind::NotFound => Stage::Opening,
        _ => Stage::Refused,
    };
    Failure::new(verb.failure_text(name, &error)).at(stage)
}

impl Unload {
    /// Does it to each encryption root that is meant.
    fn each(
        &self,
        session: &Session,
        verb: KeyVerb,
        act: impl Fn(&LivePool, &EncryptionRoot) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let Some(name) = &self.name else {
            let (served, worst) = served::forward_each(session, &self.live.search)?;
            let worst = ExitCode::from(worst);
            return match verb {
                KeyVerb::Load => self.report_locked(session, &served, worst),
                _ => Ok(worst),
            };
        };
        if verb != KeyVerb::Verify {
            held(session, &self.live.search, (verb, name))?;
        }
        self.live.change(session, name, |pool| {
            let is_each = self.recursive || self.all;
            let mut roots = if is_each {
                let name = if self.all { pool.name() } else { name.as_str() };
                keys::roots_below(pool.view(), name)?
            } else {
                vec![keys::root_at(pool.view(), name).map_err(|e| failed(verb, name, e))?]
            };
            roots.retain(|root| !is_each || verb.applies(root.is_loaded));
            let (mut done, mut code) = (0, ExitCode::SUCCESS);
            for root in &roots {
                match act(pool, root) {
                    Ok(()) => done += 1,
                    Err(failure) => code = failure.report(session),
                }
            }
            if verb == KeyVerb::Verify || is_each && !roots.is_empty() {
                ui::out(session, &verb.done(done, roots.len()));
            }
            Ok(code)
        })
    }

    /// Known pools that nothing serves stay locked: those that have keys are reported. A script
    /// that goes on to mount file systems has to learn that.
    fn report_locked(
        &self,
        session: &Session,
        served: &[u64],
        mut code: ExitCode,
    ) -> Result<ExitCode, Failure> {
        for found in found::all(session, &self.live.search, served)? {
            let view = found.and_then(|f| self.live.look(session, &f.guid().to_string()));
            let roots = view.and_then(|view| Ok(keys::roots_below(&view, view.name())?));
            code = match roots.map(|roots| roots.into_iter().next()) {
                Ok(None) => continue,
                Ok(Some(root)) => not_served(KeyVerb::Load, &root.name).report(session),
                Err(failure) => failure.report(session),
            };
        }
        Ok(code)
    }
}

fn not_served(verb: KeyVerb, name: &str) -> Failure {
    let (what, hint) = verb.not_served(name);
    Failure::new(what).hint(hint)
}

/// The process that serves the pool continues from here.
fn held(
    session: &Session,
    search: &[PathBuf],
    (verb, name): (KeyVerb, &str),
) -> Result<std::sync::Arc<LivePool>, Failure> {
    served::forward(session, search, name)?;
    session.held(name).ok_or_else(|| not_served(verb, name))
}

/// Loads the key of a dataset's encryption root into the process that serves its pool.
pub fn load_if_served(session: &Session, search: &[PathBuf], name: &str) -> Result<(), Failure> {
    served::forward(session, search, name)?;
    let refused = || not_served(KeyVerb::Load, name).hint(views::keys::MOUNT_ALL);
    let pool = session.held(name).ok_or_else(refused)?;
    let root = keys::root_of(pool.view(), name).filter(|root| !root.is_loaded);
    root.map_or(Ok(()), |root| load(session, &pool, &root, None, KeyVerb::Load))
}

/// Loads all keys of a pool that this process holds; the exit code says whether all came.
pub fn load_all(session: &Session, pool: &LivePool) -> Result<ExitCode, Failure> {
    let roots = keys::roots_below(pool.view(), pool.name())?;
    let locked = roots.iter().filter(|root| !root.is_loaded);
    let failed = locked.filter_map(|root| load(session, pool, root, None, KeyVerb::Load).err());
    Ok(failed.fold(ExitCode::SUCCESS, |_, failure| failure.report(session)))
}

/// Unloads the key of what was unmounted, when it is an encryption root.
pub fn unload_unmounted(session: &Session, name: &str) -> Result<(), Failure> {
    let Some(pool) = session.held(name) else { return Ok(()) };
    loaded(&pool, name).map_or(Ok(()), |root| unload(session, &pool, &root))
}

/// Refuses if the key of what is to be unmounted could not be unloaded then: a dataset is mounted
/// that needs it, and that does not go.
pub fn check_unloadable(
    session: &Session,
    name: &str,
    goes: &dyn Fn(&str) -> bool,
) -> Result<(), Failure> {
    let Some(pool) = session.held(name) else { return Ok(()) };
    loaded(&pool, name).map_or(Ok(()), |root| check_unneeded(session, &pool, &root, goes))
}

/// The encryption root of this name, if its key is loaded.
fn loaded(pool: &LivePool, name: &str) -> Option<EncryptionRoot> {
    keys::root_of(pool.view(), name).filter(|root| root.name == name && root.is_loaded)
}

fn check_unneeded(
    session: &Session,
    pool: &LivePool,
    root: &EncryptionRoot,
    goes: &dyn Fn(&str) -> bool,
) -> Result<(), Failure> {
    let under = keys::datasets_of(pool.view(), &root.name)?;
    // Of a snapshot that is mounted, too.
    let head = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
    check_unmounted(session, &|name| under.contains(&head(name)) && !goes(name))
        .map_err(|_| Failure::new(KeyVerb::Unload.busy(&root.name)))
}

fn unload(session: &Session, pool: &LivePool, root: &EncryptionRoot) -> Result<(), Failure> {
    check_unneeded(session, pool, root, &|_| false)?;
    keys::unload(pool, &root.name).map_err(|e| failed(KeyVerb::Unload, &root.name, e))
}

/// Loads or tries the key of an encryption root; a terminal prompts for it three times.
fn load(
    session: &Session,
    pool: &LivePool,
    root: &EncryptionRoot,
    location: Option<&str>,
    verb: KeyVerb,
) -> Result<(), Failure> {
    if verb == KeyVerb::Load {
        root.check_locked().map_err(|e| failed(verb, &root.name, e))?;
    }
    let place = (root.format, location.unwrap_or(&root.location));
    let mut left = if place.1 == "prompt" && session.is_input_terminal() { 3 } else { 1 };
    loop {
        let key = key_at(session, &root.name, place, false)?;
        let done = match verb {
            KeyVerb::Verify => keys::verify(pool.view(), &root.name, &key),
            _ => keys::load(pool, &root.name, &key),
        };
        left -= 1;
        match done {
            Err(e) if left > 0 => ui::note(session, &verb.failure_text(&root.name, &e)),
            done => return done.map_err(|e| failed(verb, &root.name, e)),
        }
    }
}

impl Verb for Load {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let verb = if self.dry { KeyVerb::Verify } else { KeyVerb::Load };
        let at = self.location.as_deref();
        self.which.each(session, verb, |pool, root| load(session, pool, root, at, verb))
    }
}

impl Verb for Unload {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.each(session, KeyVerb::Unload, |pool, root| unload(session, pool, root))
    }
}

impl Verb for Change {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (name, kind) = (&self.name, DatasetKind::Filesystem);
        let fail = |e: Error| failed(KeyVerb::Change, name, e);
        let target = Target { doing: "change key of", name, kind, is_new: true };
        let name_of = |p: &String| p.split('=').next().unwrap_or_default().to_owned();
        if !self.properties.iter().map(name_of).all(|p| keys::is_of_key(&p) && p != "encryption") {
            return Err(Failure::new(views::keys::ONLY_KEY_PROPERTIES));
        }
        let wish = KeyOptions::of(&mut target.all(&self.properties)?);
        self.live.change(session, name, |pool| {
            // A pool that is not served has no keys yet, neither its own nor that of what is above.
            let is_bare = session.held(name).is_none();
            if is_bare || self.load {
                let inherits = self.inherit && is_bare;
                for root in keys::needed_to_change(pool.view(), name, inherits) {
                    load(session, pool, &root, None, KeyVerb::Load)?;
                }
            }
            let mut change = KeyChange::Inherit;
            if !self.inherit {
                let (wish, wanted) =
                    keys::required_change(pool.view(), name, &wish).map_err(fail)?;
                let place = (wanted.format, wanted.location.as_str());
                let key = key_at(session, name, place, true)?;
                change = KeyChange::Root(wish.root_key(pool.rt(), &wanted, &key).map_err(fail)?);
            }
            pool.change_key(name, change).map_err(|e| fail(e.into()))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
