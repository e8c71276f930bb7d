//! The terminal as a screen: taken over while it lives, given back however the program ends.
//!
//! Given back means: the text that was there is there, the cursor is visible, keys are echoed.
//! `Drop` does it for every ordinary end, a panic hook before the panic's message is printed (which
//! would otherwise go to the screen that is about to vanish), and signals are flags that the loop
//! looks at. A signal that cannot be caught (`kill -9`) leaves a state that `reset` repairs.

use crate::session::Session;
use crate::ui;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use views::top::Line;

/// Longest wait before signals are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A key of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Sort,
    Pause,
    Help,
    Faster,
    Slower,
    /// The screen has another size, or a key that means nothing was pressed.
    Redraw,
}

/// The terminal.
pub struct Screen {
    session: Session,
    ended: Arc<AtomicBool>,
}

impl Screen {
    /// Takes it over.
    pub fn open(session: &Session) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        let before = std::panic::take_hook();
        let session_of_hook = session.clone();
        std::panic::set_hook(Box::new(move |info| {
            restore(&session_of_hook);
            before(info);
        }));
        terminal::enable_raw_mode()?;
        // From here on dropping it repairs what was done.
        let screen = Self { session: session.clone(), ended };
        execute!(ui::Output::new(session), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        // Some terminals know no size, and report zero.
        let known = terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0);
        let (columns, rows) = known.unwrap_or((80, 24));
        (usize::from(columns), usize::from(rows))
    }

    /// Shows a frame.
    pub fn show(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut out = BufWriter::new(ui::Output::new(&self.session));
        queue!(out, MoveTo(0, 0))?;
        for (row, line) in (0u16..).zip(lines) {
            queue!(out, MoveTo(0, row))?;
            if line.heading {
                queue!(out, SetAttribute(Attribute::Bold))?;
            }
            queue!(out, Print(ui::escape::line(&line.text)), SetAttribute(Attribute::Reset))?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        let (_, rows) = self.size();
        if lines.len() < rows {
            let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(out, MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
        }
        out.flush()
    }

    /// Waits for a key, at most until `until`.
    pub fn key(&mut self, until: Instant) -> io::Result<Option<Key>> {
        loop {
            if self.ended.load(Ordering::Relaxed) {
                return Ok(Some(Key::Quit));
            }
            let left = until.saturating_duration_since(Instant::now());
            if event::poll(left.min(POLL_INTERVAL))? {
                return Ok(Some(meaning(&event::read()?)));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(&self.session);
    }
}

fn restore(session: &Session) {
    // Where the terminal is gone there is nothing to repair.
    let _ = execute!(
        ui::Output::new(session),
        SetAttribute(Attribute::Reset),
        Show,
        LeaveAlternateScreen
    );
    let _ = terminal::disable_raw_mode();
}

fn meaning(event: &Event) -> Key {
    let Event::Key(key) = event else { return Key::Redraw };
    if key.kind == KeyEventKind::Release {
        return Key::Redraw;
    }
    match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char('p' | ' ') => Key::Pause,
        KeyCode::Char('h' | '?') => Key::Help,
        KeyCode::Char('+') => Key::Faster,
        KeyCode::Char('-') => Key::Slower,
        _ => Key::Redraw,
    }
}
