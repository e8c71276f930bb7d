//! `zinc top`: what a served pool does, as it does it.
//!
//! ```text
//! a server's counters --+                       +-> the screen, with keys
//!                       +-> Source -> snapshots +-> text, or JSON lines
//! a recording ----------+                       +-> a recording
//! ```
//!
//! Every frame shows the difference of two snapshots; the source waits between them.

pub mod screen;

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::prices::prices;
use crate::served::Server;
use crate::session::Session;
use crate::target::stream_to;
use crate::ui;
use engine::devices::price::Prices;
use engine::recording::{Recorder, Recording};
use engine::stats::Snapshot;
use screen::{Key, Screen};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use views::top::{self as frame, FrameData, Series, Sort};

/// Shortest and longest interval that keys set.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(125), Duration::from_secs(64));
/// Longest wait between two snapshots of a recording.
const GAP_MAX: Duration = Duration::from_secs(10);

/// Arguments of `zinc top`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: q quits, s sorts the datasets by something else, p pauses, + and - change the interval, h
shows this. Where standard output is not a terminal, frames are printed as text.")]
pub struct Args {
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Connect to the server that listens on this socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the totals since the pool was opened, once, as text
    #[arg(long)]
    once: bool,
    /// Print one JSON object a line for each interval
    #[arg(short = 'j', long)]
    json: bool,
    /// Also write all snapshots to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Show a recording instead of a pool
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "search", "record"])]
    replay: Option<PathBuf>,
    /// Show the recording this many times faster; 0 does not wait at all
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "replay")]
    speed: f64,
    /// The pool, which must be served
    #[arg(required_unless_present_any = ["replay", "socket"])]
    pool: Option<String>,
    /// Seconds between two frames
    #[arg(default_value_t = 1.0)]
    interval: f64,
    /// End after this many frames
    count: Option<u64>,
}

/// Where snapshots come from.
enum Source {
    Live(Box<Server>),
    Recorded { recording: Recording, speed: f64, last: Option<u64> },
}

impl Source {
    fn open(session: &Session, args: &Args) -> Result<Self, Failure> {
        if let Some(path) = &args.replay {
            let recording = Recording::open(path)?;
            return Ok(Self::Recorded { recording, speed: args.speed, last: None });
        }
        let name = args.pool.as_deref().unwrap_or_default();
        let server = Server::must(session, args.socket.as_deref(), &args.search, name)?;
        Ok(Self::Live(Box::new(server)))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Live(_) => "live",
            Self::Recorded { .. } => "replay",
        }
    }

    /// The next snapshot, and how long to wait before it is shown.
    fn next(&mut self) -> Result<Option<(Snapshot, Option<Duration>)>, Failure> {
        match self {
            Self::Live(server) => Ok(Some((server.stats()?, None))),
            Self::Recorded { recording, speed, last } => {
                let Some(snapshot) = recording.next_snapshot()? else { return Ok(None) };
                let since = last.replace(snapshot.at_ns);
                let gap = since.map_or(0, |then| snapshot.at_ns.saturating_sub(then));
                let gap = if *speed > 0.0 { gap as f64 / *speed } else { 0.0 };
                let gap = Duration::from_nanos(gap as u64).min(GAP_MAX);
                Ok(Some((snapshot, Some(gap))))
            }
        }
    }
}

/// The snapshots so far.
struct Watch {
    source: Source,
    recorder: Option<Recorder>,
    interval: Duration,
    series: Series,
    prices: Prices,
}

impl Watch {
    /// Takes the next snapshot, and gives the time until which its interval lasts; `None` at the
    /// end of a recording.
    fn step(&mut self, is_paused: bool) -> Result<Option<Duration>, Failure> {
        let Some((snapshot, wait)) = self.source.next()? else { return Ok(None) };
        if let Some(recorder) = &mut self.recorder {
            recorder.add(&snapshot)?;
        }
        self.series.add(snapshot, is_paused);
        Ok(Some(wait.unwrap_or(self.interval)))
    }

    fn data<'a>(&'a self, sort: Sort, state: &'a str, help: bool) -> FrameData<'a> {
        self.series.frame(sort, state, help, &self.prices)
    }
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let interval = Duration::try_from_secs_f64(self.interval).ok();
        let interval = interval.filter(|i| !i.is_zero());
        let Some(interval) = interval else {
            return Err(Failure::usage("an interval is a number of seconds"));
        };
        if !self.speed.is_finite() || self.speed < 0.0 {
            return Err(Failure::usage("a speed is a number, and not negative"));
        }
        let source = Source::open(session, &self)?;
        let begin = |path| Ok::<_, Failure>(Recorder::begin(stream_to(session, path)?, path)?);
        let recorder = self.record.as_deref().map(begin).transpose()?;
        let (series, prices) = (Series::default(), prices(session, None)?);
        let mut watch = Watch { source, recorder, interval, series, prices };
        if self.json || self.once || !ui::is_output_terminal(session) {
            self.print(session, &mut watch)?;
        } else {
            self.screen(session, &mut watch)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Frames as text or JSON, one for each interval.
    fn print(&self, session: &Session, watch: &mut Watch) -> Result<(), Failure> {
        let Some(mut wait) = watch.step(false)? else { return Ok(()) };
        if self.once {
            // A recording's last snapshot says the most.
            while watch.source.name() == "replay" && watch.step(false)?.is_some() {}
            watch.series.show_totals();
            self.print_one(session, watch)?;
            return Ok(());
        }
        let mut count = self.count.unwrap_or(u64::MAX);
        while count > 0 {
            session.sleep(wait)?;
            match watch.step(false)? {
                Some(next) => wait = next,
                None => return Ok(()),
            }
            self.print_one(session, watch)?;
            count -= 1;
        }
        Ok(())
    }

    fn print_one(&self, session: &Session, watch: &Watch) -> Result<(), Failure> {
        if !self.json {
            let text = frame::text(&watch.data(Sort::Written, watch.source.name(), false));
            ui::out(session, &format!("{text}\n"));
            return Ok(());
        }
        let line = serde_json::to_string(watch.series.shown())
            .map_err(|e| Failure::new("cannot print the counters").because(e.to_string()))?;
        ui::json_line(session, &line);
        Ok(())
    }

    fn screen(&self, session: &Session, watch: &mut Watch) -> Result<(), Failure> {
        let Some(mut wait) = watch.step(false)? else { return Ok(()) };
        let mut screen = Screen::open(session)?;
        let (mut sort, mut paused, mut help) = (Sort::Written, false, false);
        let mut count = self.count.unwrap_or(u64::MAX);
        let mut due = Instant::now() + wait;
        let mut is_over = false;
        loop {
            let state = match (is_over, paused) {
                (true, _) => "the recording ends here",
                (false, true) => "paused",
                (false, false) => watch.source.name(),
            };
            let (columns, rows) = screen.size();
            screen.show(&frame::frame(&watch.data(sort, state, help), columns, rows))?;
            match screen.key(due)? {
                Some(Key::Quit) => return Ok(()),
                Some(Key::Sort) => sort = sort.next(),
                Some(Key::Pause) => paused = !paused,
                Some(Key::Help) => help = !help,
                Some(Key::Faster) => watch.interval = (watch.interval / 2).max(INTERVALS.0),
                Some(Key::Slower) => watch.interval = (watch.interval * 2).min(INTERVALS.1),
                Some(Key::Redraw) => {}
                None if is_over => due = Instant::now() + INTERVALS.1,
                None if paused && watch.source.name() == "replay" => due = Instant::now() + wait,
                None => {
                    match watch.step(paused)? {
                        Some(next) => wait = next,
                        None => is_over = true,
                    }
                    due = Instant::now() + wait;
                    count -= 1;
                    if count == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}
