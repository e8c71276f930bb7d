//! `zinc zfs receive`: snapshots out of a stream on standard input.

use super::changes::Target;
use crate::args::divide;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::keys::{key_at, load_for};
use crate::live::{self, LiveArgs, LiveOptions};
use crate::mounting::{check_unused, while_unmounted, with_new};
use crate::progress::while_showing;
use crate::refusals::cannot;
use crate::session::Session;
use crate::{served, ui};
use ::mount::datasets::{MountScope, Unmounting, is_below};
use control::input::Amount;
use engine::keys::{self, Encryption, KeyOptions, is_of_key};
use engine::receive::{Followed, Naming, NotReceived, Receive, ReceiveObserver, Stream};
use engine::{DatasetKind, Error, ErrorKind, LivePool, Progress, Refusal, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::slice::from_ref;
use std::time::Duration;
use views::receive as words;

/// Arguments of `zinc zfs receive`.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Args {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    /// Receive nothing: repair damaged blocks of the stream's snapshot
    #[arg(short = 'c', conflicts_with_all = ["set", "except", "abort", "resumable", "force"])]
    corrective: bool,
    /// Append the name that was sent, without its pool, to TARGET
    #[arg(short = 'd', conflicts_with = "last")]
    without_pool: bool,
    /// Append the last part of the name that was sent to TARGET
    #[arg(short = 'e')]
    last: bool,
    /// Roll the target back to where the stream begins: later changes are destroyed
    #[arg(short = 'F')]
    force: bool,
    /// Accepted: holds are never received
    #[arg(short = 'h')]
    no_holds: bool,
    /// Also when programs use the file system: they lose access to the files they have open
    #[arg(short = 'M')]
    force_unmount: bool,
    /// Read the stream, and change nothing; with -v, print what would be received
    #[arg(short = 'n')]
    dry: bool,
    /// When the stream is cut off, keep what was received: `zfs send -t` sends the rest
    #[arg(short = 's')]
    resumable: bool,
    /// Discard what was kept of a stream that was cut off
    #[arg(short = 'A')]
    #[arg(conflicts_with_all = ["without_pool", "last", "dry", "resumable", "unmounted"])]
    abort: bool,
    /// Do not mount new file systems
    #[arg(short = 'u')]
    unmounted: bool,
    /// Print what is received
    #[arg(short = 'v')]
    verbose: bool,
    /// Set a property (repeatable); origin=SNAPSHOT: receive as a clone of it
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    set: Vec<String>,
    /// Do not receive this property (repeatable)
    #[arg(short = 'x', value_name = "PROPERTY")]
    except: Vec<String>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// The file system, volume or snapshot that it becomes
    target: String,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let live = LiveArgs { search: self.search.clone(), options: self.how.clone() };
        let is_own = self.corrective || self.set.iter().any(|t| t.starts_with("keylocation="));
        Served::everyone_if(!is_own && live.is_for_everyone(session, from_ref(&self.target)))
    }

    fn run(self: Box<Self>, session: &Session) -> std::result::Result<ExitCode, Failure> {
        if self.abort {
            return live::change(session, &self.search, &self.how, &self.target, |pool| {
                let done = pool.abort_receive(&self.target).map_err(Error::from);
                let failed = |e: Error| match words::not_aborted(&self.target, &e) {
                    Some(what) => Failure::new(what),
                    None => cannot("abort receive into", &self.target, e),
                };
                done.map(|()| ExitCode::SUCCESS).map_err(failed)
            });
        }
        let receive = self.receive()?;
        if session.is_input_terminal() {
            return Err(Failure::new("Backup stream can not be read from a terminal")
                .hint("You must redirect standard input"));
        }
        let progress = Progress::new();
        progress.begin("received", 0);
        served::forward(session, &self.search, &self.target)?;
        if session.client().is_none() {
            // What sends may be another command on this pool, and has to open it first.
            let input = io::stdin();
            retry_on_intr(|| poll(&mut [PollFd::new(&input, PollFlags::IN)], None))
                .map_err(io::Error::from)?;
        }
        let input = session.input(Amount::OnDemand, &progress)?;
        if self.dry {
            let pool = live::look(session, &self.search, &self.how, &self.target)?;
            let shown = Shown::new(session, &self, None);
            let plan = || Ok::<_, Failure>(receive.plan(&pool, input, &shown, &progress));
            return shown.end(while_showing(session, &progress, plan)?);
        }
        live::change(session, &self.search, &self.how, &self.target, |pool| {
            let shown = Shown::new(session, &self, Some(pool));
            let run = || Ok::<_, Failure>(receive.run(pool, input, &shown, &progress));
            shown.end(while_showing(session, &progress, run)?)
        })
    }
}

impl Args {
    /// The encryption of new datasets: their own key is prompted for, and the parent's is loaded
    /// where no server has it.
    fn encryption(
        &self,
        session: &Session,
        pool: &LivePool,
        is_new: bool,
    ) -> std::result::Result<Encryption, Failure> {
        let of_key = |text: &&String| is_new && text.split('=').next().is_some_and(is_of_key);
        let key_settings: Vec<String> = self.set.iter().filter(of_key).cloned().collect();
        let (name, kind) = (&self.target, DatasetKind::Filesystem);
        let target = Target { doing: "receive", name, kind, is_new: true };
        let wish = KeyOptions::of(&mut target.all(&key_settings)?);
        let above = name.split('@').next().and_then(|name| name.rsplit_once('/'));
        let is_below = above.is_some_and(|(above, _)| keys::is_encrypted(pool.view(), above));
        let fail = |e| cannot("receive", name, e);
        let wanted =
            if wish.is_empty() { None } else { wish.required_key(is_below).map_err(fail)? };
        let Some(wanted) = wanted else {
            load_for(session, pool, name.split('@').next().unwrap_or(name), false)?;
            return Ok(wish.encryption(None));
        };
        if wanted.location == "prompt" {
            return Err(Failure::new(
                "cannot receive: no key can be asked for: standard input is the \
                                     stream",
            )
            .hint("give it with -o keylocation=file:///PATH"));
        }
        let key = key_at(session, name, (wanted.format, wanted.location.as_str()), true)?;
        Ok(wish.encryption(Some(wish.root_key(pool.rt(), &wanted, &key).map_err(fail)?)))
    }

    fn receive(&self) -> std::result::Result<Receive, Failure> {
        let naming = match (self.without_pool, self.last) {
            (true, _) => Naming::WithoutPool,
            (_, true) => Naming::LastPart,
            _ => Naming::AsTarget,
        };
        if naming != Naming::AsTarget && self.target.contains('@') {
            let option = if self.last { "-e" } else { "-d" };
            let what = format!("invalid argument - snapshot not allowed with {option}");
            return Err(Failure::usage(format!("cannot receive: {what}")));
        }
        let mut set = Vec::new();
        let mut origin = None;
        let mut named = self.except.clone();
        for text in &self.set {
            let (name, value) = divide(text)?;
            named.push(name.to_owned());
            match name {
                "origin" => origin = Some(value.to_owned()),
                _ => set.push((name.to_owned(), value.to_owned())),
            }
        }
        if let Some(name) = words::named_twice(&named) {
            let what = format!("property '{name}' specified multiple times");
            return Err(Failure::usage(what));
        }
        let (target, except) = (self.target.clone(), self.except.clone());
        let (force, resumable, corrective) = (self.force, self.resumable, self.corrective);
        let forms = Receive { force, resumable, corrective, ..Receive::default() };
        Ok(Receive { target, naming, origin, set, except, ..forms })
    }
}

/// Shows what is received, and mounts it.
struct Shown<'a> {
    session: &'a Session,
    args: &'a Args,
    pool: Option<&'a LivePool>,
    code: Cell<Option<ExitCode>>,
    /// Why something could not be mounted or unmounted.
    failure: RefCell<Option<Failure>>,
}

impl<'a> Shown<'a> {
    fn new(session: &'a Session, args: &'a Args, pool: Option<&'a LivePool>) -> Self {
        Self { session, args, pool, code: Cell::default(), failure: RefCell::default() }
    }

    fn print_verbose(&self, text: &str) {
        if self.args.verbose {
            ui::out(self.session, text);
        }
    }

    fn end(
        &self,
        done: std::result::Result<(), NotReceived>,
    ) -> std::result::Result<ExitCode, Failure> {
        let Err(failed) = done else { return Ok(self.code.take().unwrap_or(ExitCode::SUCCESS)) };
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        Err(match words::failure(&failed) {
            None => failed.error.into(),
            Some((what, None)) => Failure::new(what),
            Some((what, Some(hint))) => Failure::new(what).hint(hint),
        })
    }
}

impl Shown<'_> {
    /// Keeps why the mounts of a dataset cannot be taken away, which the engine need not know.
    fn keep(&self, failure: Failure) -> Error {
        let is_busy = failure.parts().2.is_some_and(|hint| hint.starts_with("-f "));
        let hint = "-F and -M take it away from them";
        self.failure.replace(Some(if is_busy { failure.hint(hint) } else { failure }));
        Error::new(ErrorKind::Cancelled)
    }

    /// Does something that the mounts of a dataset are in the way of. With -F programs lose what
    /// they have open, as they lose what they have written.
    fn without_mounts<T>(
        &self,
        dataset: &str,
        act: impl FnOnce(&Unmounting<'_>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let is_it = |mounted: &str| mounted == dataset;
        let again = |mounted: &str| is_it(mounted).then(|| mounted.to_owned());
        let force = self.args.force_unmount || self.args.force;
        let which = MountScope::InPlace;
        let down = Unmounting { affects: &is_it, again: &again, which, force };
        act(&down).map_err(|failure| self.keep(failure))
    }
}

impl ReceiveObserver for Shown<'_> {
    fn begins(&self, stream: &Stream) {
        self.print_verbose(&words::begins(stream, self.args.dry));
    }

    fn is_there(&self, snapshot: &str) {
        self.print_verbose(&format!("snap {snapshot} already exists; ignoring\n"));
    }

    fn not_set(&self, dataset: &str, property: &str, why: &str) {
        let text = format!("cannot receive {property} property on {dataset}: {why}\n");
        ui::error(self.session, &text);
    }

    fn corrected(&self, snapshot: &str, blocks: &engine::receive::Restored) {
        ui::out(self.session, &words::corrected(snapshot, blocks));
    }

    fn ends(&self, bytes: u64, time: Duration) {
        self.print_verbose(&words::ends(bytes, time));
    }

    fn follows(&self, change: &Followed) {
        self.print_verbose(&words::follows(change, self.args.dry));
    }

    fn follow(&self, change: &Followed, act: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let affects = |mounted: &str| is_below(mounted, change.name());
        let again = |mounted: &str| match change {
            Followed::Promoted(_) => Some(mounted.to_owned()),
            Followed::Destroyed(_) => None,
            Followed::Renamed(from, to) => Some(format!("{to}{}", mounted.strip_prefix(&**from)?)),
        };
        if matches!(change, Followed::Promoted(_)) {
            return act();
        }
        let mut error = None;
        let once = || act().map_err(|e| Failure::new(error.insert(e).to_string()));
        let (which, force) = (MountScope::All, self.args.force_unmount);
        let down = Unmounting { affects: &affects, again: &again, which, force };
        match (while_unmounted(self.session, &down, once), error) {
            (_, Some(error)) => Err(error),
            (Ok(_), None) => Ok(()),
            // The rest is received all the same.
            (Err(_), None) => Err(Error::new(ErrorKind::Refused(Refusal::Busy))),
        }
    }

    fn encryption(&self, is_new: bool) -> Result<Encryption> {
        let Some(pool) = self.pool else { return Ok(Encryption::Inherit) };
        self.args.encryption(self.session, pool, is_new).map_err(|failure| {
            self.failure.replace(Some(failure));
            Error::new(ErrorKind::Cancelled)
        })
    }

    fn starts(&self, dataset: &str) -> Result<()> {
        self.without_mounts(dataset, |down| check_unused(self.session, down))
    }

    fn finish(
        &self,
        dataset: &str,
        is_new: bool,
        finish: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut error = None;
        let once = || finish().map_err(|e| Failure::new(error.insert(e).to_string()));
        let done = match (is_new, self.args.unmounted) {
            (true, true) => return finish(),
            (true, false) => with_new(self.session, dataset, once),
            (false, _) => {
                let changed =
                    self.without_mounts(dataset, |down| while_unmounted(self.session, down, once));
                return match (changed, error) {
                    (Err(_), Some(error)) => Err(error),
                    (changed, _) => changed.map(|code| self.code.set(Some(code))),
                };
            }
        };
        match (done, error) {
            (Ok(code), _) => self.code.set(Some(code)),
            (Err(_), Some(error)) => return Err(error),
            (Err(failure), None) => return Err(self.keep(failure)),
        }
        Ok(())
    }
}
