//! What is said when something fails: one line what, then why, then what to do; and exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done; or the reader of standard output went away, and wanted no more |
//! | 1 | failed, or done with losses (the text says which); output that could not be written |
//! | 2 | the command line is wrong |
//! | 3 | `check`: the pool has issues |

use crate::ui::escape;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit code of a failure.
pub const FAILED: u8 = 1;
/// Exit code of a wrong command line, as clap uses it.
pub const USAGE: u8 = 2;
/// Exit code of `check` when it found something.
pub const ISSUES: u8 = 3;

/// Why a command failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// A failure in one line.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), causes: Vec::new(), hint: None, code: FAILED }
    }

    /// The command line is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(what) }
    }

    /// Adds why.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says first what it is about.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        Self { what: format!("{subject}: {}", self.what), ..self }
    }

    /// What it says: what, why, and what to do.
    pub fn parts(&self) -> (&str, &[String], Option<&str>) {
        (&self.what, &self.causes, self.hint.as_deref())
    }

    /// As it is printed: what it quotes forges no line of it.
    pub fn text(&self) -> String {
        let mut text = format!("zinc: {}\n", escape::line(&self.what));
        for c in &self.causes {
            let _ = writeln!(text, "  because: {}", escape::line(c));
        }
        if let Some(h) = &self.hint {
            let _ = writeln!(text, "  hint: {}", escape::line(h));
        }
        text
    }

    /// Prints it and gives the exit code.
    pub fn report(&self) -> ExitCode {
        crate::ui::error(&self.text());
        ExitCode::from(self.code)
    }
}

impl From<engine::pool::Error> for Failure {
    fn from(e: engine::pool::Error) -> Self {
        let hint = e.hint();
        Self { hint, ..Self::new(e.to_string()) }
    }
}

impl From<engine::dsl::Error> for Failure {
    fn from(e: engine::dsl::Error) -> Self {
        let locked = matches!(&e, engine::dsl::Error::Dmu(d) if d.is_no_key());
        let f = Self::new(e.to_string());
        if locked {
            f.hint("give the key with --keys FILE, or on the terminal with --ask")
        } else {
            f
        }
    }
}

impl From<engine::dmu::Error> for Failure {
    fn from(e: engine::dmu::Error) -> Self {
        engine::dsl::Error::Dmu(e).into()
    }
}

impl From<engine::zpl::Error> for Failure {
    fn from(e: engine::zpl::Error) -> Self {
        match e {
            engine::zpl::Error::Dmu(d) => d.into(),
            other => Self::new(other.to_string()),
        }
    }
}

/// The system's words for an error, without its number.
pub fn system_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Self::new(system_text(&e))
    }
}
