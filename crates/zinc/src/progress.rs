//! Long work on a terminal: what is being done, how far it is, how fast it goes.
//!
//! The work runs where it was called; a second thread looks at its [`Progress`] ten times a second
//! and draws one line on standard error. Where that is not a terminal nothing is drawn, and work
//! that ends quickly draws nothing either. A server draws nothing for its clients; it looks whether
//! they are still there.

use crate::session::Session;
use crate::ui;
use control::Presence;
use engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const DELAY: Duration = Duration::from_millis(250);
/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// Runs `work` while its progress is shown.
pub fn while_showing<T>(session: &Session, progress: &Progress, work: impl FnOnce() -> T) -> T {
    if let Some(client) = session.client() {
        return while_there(progress, &client.presence, work);
    }
    if !ui::is_terminal(session) {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        scope.spawn(move || show(progress, &ended));
        let result = work();
        // Ends the thread at once, before anything else is printed.
        drop(done);
        result
    })
}

/// Runs `work`, which shows nothing and is cancelled with the verb.
pub fn while_wanted<T>(session: &Session, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::new();
    match session.client() {
        Some(client) => while_there(&progress, &client.presence, || work(&progress)),
        None => work(&progress),
    }
}

/// Runs `work` for a client of a server, and cancels it when the verb is called off.
fn while_there<T>(progress: &Progress, presence: &Presence, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while matches!(ended.recv_timeout(TICK), Err(mpsc::RecvTimeoutError::Timeout)) {
                if !presence.is_here() {
                    return progress.cancel();
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn show(progress: &Progress, ended: &mpsc::Receiver<()>) {
    let gone = |wait| !matches!(ended.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
    let start = Instant::now();
    if gone(DELAY) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    while !gone(TICK) {
        bar.set_message(views::progress::line(&progress.snapshot(), start.elapsed()));
        bar.tick();
    }
    bar.finish_and_clear();
}
