//! What a server answers over HTTP: the page for browsers (`--http`), and the text for monitoring
//! systems, which is beside it or alone (`--metrics`).

use crate::failure::Failure;
use crate::held::Held;
use crate::session::Session;
use crate::ui;
use control::http::{Asked, Page};
use engine::stats::Snapshot;
use page::{Document, Recorder, Report, Sample, Source};
use std::net::SocketAddr;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::{Arc, Weak};
use views::prometheus::{self, Form};

/// Where the page is unless another address is named.
pub const ADDRESS: &str = "127.0.0.1:9134";

/// The pool that this process holds.
struct Own(Weak<Held>);

impl Source for Own {
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

/// Answers with the page of this pool, and its metrics.
pub fn serve_page(session: &Session, address: SocketAddr, held: &Arc<Held>) -> Result<(), Failure> {
    let recorder = Arc::new(Recorder::default());
    recorder.watch(Arc::new(Own(Arc::downgrade(held))))?;
    serve_recorded(session, address, &recorder)
}

/// Answers with the page of what is recorded.
pub fn serve_recorded(
    session: &Session,
    address: SocketAddr,
    recorder: &Arc<Recorder>,
) -> Result<(), Failure> {
    let (document, recorder) = (Document::default(), Arc::clone(recorder));
    let pages = move |asked: &Asked<'_>| match asked.path {
        "/" => Some(Page {
            kind: "text/html; charset=utf-8",
            policy: document.policy.clone(),
            text: document.html.clone(),
        }),
        "/data" => {
            let after = asked.query.strip_prefix("after=").and_then(|n| n.parse().ok());
            let text = recorder.data(after.unwrap_or(0));
            Some(Page { kind: "application/json", text, ..Page::default() })
        }
        "/metrics" => Some(metrics(&recorder.snapshots(), asked)),
        _ => None,
    };
    listen(session, address, pages).map(|bound| {
        ui::error(session, &format!("zinc: page at http://{bound}/\n"));
    })
}

/// Answers with the metrics of this pool alone.
pub fn serve_metrics(
    session: &Session,
    address: SocketAddr,
    held: &Arc<Held>,
) -> Result<(), Failure> {
    let held = Arc::clone(held);
    let pages = move |asked: &Asked<'_>| {
        let now: Vec<Snapshot> = held.snapshot().into_iter().collect();
        (asked.path == "/metrics").then(|| metrics(&now, asked))
    };
    listen(session, address, pages).map(|bound| {
        ui::error(session, &format!("zinc: metrics at http://{bound}/metrics\n"));
    })
}

fn metrics(pools: &[Snapshot], asked: &Asked<'_>) -> Page {
    let form = Form::accepted(asked.accept);
    let text = prometheus::text(pools, form);
    Page { kind: form.content_type(), text, ..Page::default() }
}

fn listen(
    session: &Session,
    address: SocketAddr,
    pages: impl Fn(&Asked<'_>) -> Option<Page> + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let bound = control::http::serve(address, pages).map_err(|e| {
        let failure = Failure::new(format!("cannot answer at {address}")).because(e.to_string());
        failure.hint("port 0 is any that is free")
    })?;
    if !bound.ip().is_loopback() {
        ui::error(session, &format!("zinc: {bound} can be reached by other machines\n"));
    }
    Ok(bound)
}
