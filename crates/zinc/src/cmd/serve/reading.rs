//! Pools that are only read: `zinc serve --read-only`, and what serves or mounts a pool that was
//! imported with `-o readonly=on`.
//!
//! The pool is opened for reading, so that nothing is written to its devices and no intent log is
//! replayed. Readers do not exclude each other: other commands open it by themselves, and this
//! process answers for its mounts alone (`mount::reading`). It keeps the shared lock on the
//! devices, so that no command writes to them meanwhile.

use super::handler::{Exported, refusal};
use super::{Args, End, background, manager, unmount_all, write_pid};
use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::ui;
use ::mount::Mounts;
use ::mount::reading::{Reader, ReadingEnd};
use control::Server;
use engine::OpenPool;
use hostfs::notify;
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

impl Args {
    /// Keeps the pool open for reading until something ends that.
    pub(super) fn hold_to_read(
        &self,
        session: &Session,
        name: &str,
        ends: Sender<End>,
        ended: &Receiver<End>,
        time: Option<Duration>,
    ) -> Result<ExitCode, Failure> {
        let pool = OpenPool::from(&Arc::new(self.live.to_read().open_here(session, name)?));
        ui::be_brief(session);
        let name = pool.view().name();
        if self.http.is_some() || self.metrics.is_some() || self.hook.is_some() {
            let what = "is only read: it has no activity to show, and no events";
            tracing::warn!(target: "zinc::pool", "{name} {what}");
        }
        let gone = ends.clone();
        let mounts = Arc::new(Mounts::new(move || drop(gone.send(End::Unmounted))));
        let until = time.map(|time| Instant::now() + time);
        let served = self.serve_to_read(session, (&pool, &mounts), ends, ended, until);
        unmount_all(session, &mounts);
        let (end, is_complete) = served?;
        let why = match end {
            End::Signal(signal) => format!("signal {signal}"),
            End::Exported(_) => "a client exported it".to_owned(),
            End::Time => "its time is over".to_owned(),
            // A process that was started for a mount ends with it, without a message.
            End::Unmounted | End::Panicked(_) => return Ok(ExitCode::SUCCESS),
        };
        tracing::info!(target: "zinc::pool", "{name} is no longer served: {why}");
        Ok(if self.is_reported(is_complete) { ExitCode::SUCCESS } else { FAILED.into() })
    }

    fn serve_to_read(
        &self,
        session: &Session,
        (pool, mounts): (&OpenPool, &Arc<Mounts>),
        ends: Sender<End>,
        ended: &Receiver<End>,
        until: Option<Instant>,
    ) -> Result<(End, bool), Failure> {
        let _pidfile = self.pidfile.as_deref().map(|path| write_pid(session, path)).transpose()?;
        let (name, guid, pid) = (pool.view().name(), pool.view().guid(), std::process::id());
        let endpoint = self.listen(session, guid)?;
        let path = endpoint.path().to_owned();
        let members: [(&str, Value); 5] = [
            ("pool", name.into()),
            ("guid", guid.to_string().into()),
            ("pid", pid.into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("socket", path.to_string_lossy().into()),
        ];
        let about: Map<_, _> =
            members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let of = (pool.clone(), Arc::clone(mounts));
        let explain = Box::new(|e| refusal(&Failure::from(e)));
        let reader = Arc::new(Reader::new(of, about, path.clone(), explain, move |end| {
            let _ = ends.send(match end {
                ReadingEnd::Exported => End::Exported(Exported::Done),
                ReadingEnd::Idle => End::Unmounted,
            });
        }));
        let _server = Server::start(endpoint, Arc::clone(&reader) as _)?;
        let (made, is_complete) = self.make_mounts(session, pool, mounts)?;
        let path = path.display();
        let line = match self.ends_with_mounts {
            true => made,
            false => format!("serving {name} ({guid}) read-only as process {pid} at {path}\n"),
        };
        ui::out(session, &background::ready_line(&line, is_complete || !self.inner));
        notify::ready(manager(), &format!("serving {name} read-only"));
        let end = self.wait_for_end(&|| reader.end_if_idle(), mounts, ended, until);
        Ok((end, is_complete))
    }
}
