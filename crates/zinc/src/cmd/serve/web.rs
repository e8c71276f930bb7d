//! The pages of a server over HTTP: the page for browsers (`--http`), and the text for monitoring
//! systems, which is beside it or alone (`--metrics`).

use crate::failure::Failure;
use crate::served::Server;
use crate::session::Session;
use agents::Held;
use control::http::{Answer, PageRequest};
use engine::live::TxgState;
use engine::stats::Snapshot;
use page::{Document, Recorder, Report, Sample, Source};
use serde_json::Value;
use std::net::SocketAddr;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use views::prometheus::{self, Form};

/// Where the page is unless another address is named.
pub const ADDRESS: &str = "127.0.0.1:9134";

/// The pool that this process holds.
struct HeldPool(Weak<Held>);

impl Source for HeldPool {
    fn sample(&self) -> ControlFlow<(), Option<Sample>> {
        let Some(held) = self.0.upgrade() else { return Break(()) };
        match held.look(|pool| Ok(Sample { snapshot: pool.stats(), alive: pool.txgs_alive() })) {
            Ok(sample) => Continue(Some(sample)),
            // It was let go.
            Err(_) => Break(()),
        }
    }

    fn report(&self) -> ControlFlow<(), Option<Report>> {
        let Some(held) = self.0.upgrade() else { return Break(()) };
        match held.look(|pool| Ok(Report::of(pool).ok())) {
            Ok(report) => Continue(report),
            Err(_) => Break(()),
        }
    }
}

/// A pool that another process of this user holds.
pub struct Remote {
    session: Session,
    /// Its socket.
    path: PathBuf,
    /// It will not be held again.
    is_gone: Arc<AtomicBool>,
    /// Connections: one for samples, one for reports, which take longer.
    samples: Mutex<Option<Server>>,
    reports: Mutex<Option<Server>>,
}

impl Remote {
    /// One whose server listens there, now or later, until it is gone.
    pub fn new(session: &Session, path: PathBuf, is_gone: &Arc<AtomicBool>) -> Self {
        let (session, is_gone) = (session.clone(), Arc::clone(is_gone));
        Self { session, path, is_gone, samples: Mutex::default(), reports: Mutex::default() }
    }

    /// Sends a request by this connection; one that fails is replaced the next time.
    fn ask<T>(
        &self,
        by: &Mutex<Option<Server>>,
        ask: impl FnOnce(&mut Server) -> Result<T, Failure>,
    ) -> ControlFlow<(), Option<T>> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Break(());
        }
        let mut by = by.lock().unwrap_or_else(PoisonError::into_inner);
        let server = by.take().or_else(|| Server::at(&self.session, &self.path).ok());
        let Some(mut server) = server else { return Continue(None) };
        let answer = ask(&mut server).ok();
        *by = answer.is_some().then_some(server);
        Continue(answer)
    }
}

impl Source for Remote {
    fn sample(&self) -> ControlFlow<(), Option<Sample>> {
        self.ask(&self.samples, |server| {
            let snapshot = server.stats()?;
            let mut alive = server.txgs(true)?;
            alive.retain(|txg| txg.state != TxgState::Committed);
            Ok(Sample { snapshot, alive })
        })
    }

    fn report(&self) -> ControlFlow<(), Option<Report>> {
        self.ask(&self.reports, |server| {
            let report = server.call("report", Value::Null)?;
            serde_json::from_value(report).map_err(|e| Failure::new(e.to_string()))
        })
    }
}

/// Answers with the page of this pool, and its metrics.
pub fn serve_page(address: SocketAddr, held: &Arc<Held>) -> Result<(), Failure> {
    let recorder = Arc::new(Recorder::default());
    recorder.watch(Arc::new(HeldPool(Arc::downgrade(held))))?;
    serve_recorded(address, &recorder)
}

/// Answers with the page of what is recorded.
pub fn serve_recorded(address: SocketAddr, recorder: &Arc<Recorder>) -> Result<(), Failure> {
    let (document, recorder) = (Document::default(), Arc::clone(recorder));
    let pages = move |request: &PageRequest<'_>| match request.path {
        "/" => Some(Answer {
            kind: "text/html; charset=utf-8",
            policy: document.policy.clone(),
            text: document.html.clone(),
        }),
        "/data" => {
            let after = request.query.strip_prefix("after=").and_then(|n| n.parse().ok());
            let text = recorder.data(after.unwrap_or(0));
            Some(Answer { kind: "application/json", text, ..Answer::default() })
        }
        "/metrics" => Some(metrics(&recorder.snapshots(), request)),
        _ => None,
    };
    let bound = listen(address, pages)?;
    tracing::info!(target: "zinc", "page at http://{bound}/");
    Ok(())
}

/// Answers with the metrics of this pool alone.
pub fn serve_metrics(address: SocketAddr, held: &Arc<Held>) -> Result<(), Failure> {
    let held = Arc::clone(held);
    let pages = move |request: &PageRequest<'_>| {
        let now: Vec<Snapshot> = held.look(|pool| Ok(pool.stats())).into_iter().collect();
        (request.path == "/metrics").then(|| metrics(&now, request))
    };
    let bound = listen(address, pages)?;
    tracing::info!(target: "zinc", "metrics at http://{bound}/metrics");
    Ok(())
}

fn metrics(pools: &[Snapshot], request: &PageRequest<'_>) -> Answer {
    let form = Form::accepted(request.accept);
    let text = prometheus::text(pools, form);
    Answer { kind: form.content_type(), text, ..Answer::default() }
}

fn listen(
    address: SocketAddr,
    pages: impl Fn(&PageRequest<'_>) -> Option<Answer> + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let bound = control::http::serve(address, pages).map_err(|e| {
        let failure = Failure::new(format!("cannot answer at {address}")).because(e.to_string());
        failure.hint("port 0 is any that is free")
    })?;
    if !bound.ip().is_loopback() {
        tracing::warn!(target: "zinc", "{bound} can be reached by other machines");
    }
    Ok(bound)
}
