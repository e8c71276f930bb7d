//! The report of a failure: one line with what failed, then why, then what to do; and exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done; or the reader of standard output went away, and wanted no more |
//! | 1 | failed, or done with losses (the text says which); output that could not be written |
//! | 2 | the command line is wrong |
//! | 3 | `check`: the pool has issues |
//!
//! Under OpenZFS's own names some verbs end as they do there ([`exit_codes`]).

use engine::live::TunableError;
use engine::places::PlaceNotFound;
use engine::{Candidate, Error, ErrorKind, Hint};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::{Display, Write as _};
use std::process::ExitCode;
use term::{escape, without_number};
use views::called;
use views::cannot::Cannot;
use views::exit_codes::{self, Stage};

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
    #[serde(skip)]
    stage: Stage,
    #[serde(skip)]
    pool: PoolTrouble,
}

/// The pool of a failure.
#[derive(Default)]
struct PoolTrouble {
    /// It can be shown all the same: what is known of a pool with too few devices.
    closed: Option<Box<Candidate>>,
    /// It is the pool itself that cannot be opened, or not for writing, however it is tried.
    is_its_own: bool,
}

impl std::fmt::Debug for PoolTrouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolTrouble").field("is_its_own", &self.is_its_own).finish_non_exhaustive()
    }
}

impl Failure {
    /// A failure in one line.
    pub fn new(what: impl Into<String>) -> Self {
        let what = without_number(what.into());
        let pool = PoolTrouble::default();
        Self { what, causes: Vec::new(), hint: None, code: FAILED, stage: Stage::Other, pool }
    }

    /// What was named cannot be opened.
    pub fn opening(name: &str, why: impl Display) -> Self {
        Self::new(format!("cannot open '{name}': {why}")).at(Stage::Opening)
    }

    /// What `doing` says is refused.
    pub fn refused(doing: &str, why: impl Display) -> Self {
        Self::new(format!("{doing}: {why}")).at(Stage::Refused)
    }

    /// It happened at this stage of the command.
    #[must_use]
    pub fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// The command line is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(what) }
    }

    /// Adds why.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(without_number(cause.into()));
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A message with its causes, and what to do.
    pub fn of_words((what, causes, hint): views::devices::Words) -> Self {
        let failure = causes.into_iter().fold(Self::new(what), Self::because);
        hint.into_iter().fold(failure, Self::hint)
    }

    /// Its pool can be shown, as far as it is known.
    #[must_use]
    pub fn of_closed(mut self, candidate: Candidate) -> Self {
        self.pool.closed = Some(Box::new(candidate));
        self
    }

    /// The candidate of the pool, if it could not be opened because devices are missing.
    pub fn closed(&self) -> Option<&Candidate> {
        self.pool.closed.as_deref()
    }

    /// The pool cannot be written to as it is, however it is tried.
    pub fn is_of_pool(&self) -> bool {
        self.pool.is_its_own
    }

    /// Says first what it is about.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        let stage = self.stage.of_whole();
        Self { what: format!("{subject}: {}", self.what), stage, ..self }
    }

    /// Its parts: what failed, why, and what to do.
    pub fn parts(&self) -> (&str, &[String], Option<&str>) {
        (&self.what, &self.causes, self.hint.as_deref())
    }

    /// As it is printed, with this beginning: what it quotes forges no line of it.
    pub fn text(&self, prefix: &str) -> String {
        let mut text = called::begun(prefix, &escape::line(&self.what)) + "\n";
        for c in &self.causes {
            let _ = writeln!(text, "  because: {}", escape::line(c));
        }
        let mut texts = std::iter::once(&self.what).chain(&self.causes);
        let few = texts.find_map(|text| views::hints::of_few_files(text));
        // Any other advice takes what is not seen for what is not there.
        if let Some(h) = few.or(self.hint.as_deref()) {
            let _ = writeln!(text, "  hint: {}", escape::line(h));
        }
        text
    }

    /// The exit code of a command line that fails so.
    pub fn code(&self, arguments: &[OsString]) -> ExitCode {
        let theirs = exit_codes::of_failure(arguments, self.stage).filter(|_| self.code == FAILED);
        ExitCode::from(theirs.unwrap_or(self.code))
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        if matches!(e.kind(), ErrorKind::Cancelled) {
            return cancelled();
        }
        let hint = e.hint().map(views::hints::text);
        let failure = Self::new(views::errors::text(&e)).at(Stage::of(&e));
        let mut failure = Self { hint, ..failure };
        failure.pool.is_its_own = e.kind().is_of_pool();
        failure.causes.extend(views::errors::causes(&e).into_iter().map(without_number));
        if let ErrorKind::NoSuchPool { searched } = e.kind() {
            failure.causes.extend(imported::unread(searched));
        }
        failure
    }
}

impl From<Cannot> for Failure {
    fn from(Cannot { what, causes, hint, stage, is_usage }: Cannot) -> Self {
        let failure = Self::of_words((what, causes, hint)).at(stage);
        if is_usage { Self { code: USAGE, ..failure } } else { failure }
    }
}

impl From<TunableError> for Failure {
    fn from(e: TunableError) -> Self {
        Error::from(e).into()
    }
}

/// The failure of a cancelled verb.
pub fn cancelled() -> Failure {
    Failure::new("the command was cancelled")
}

impl From<engine::errors::PoolError> for Failure {
    fn from(e: engine::errors::PoolError) -> Self {
        Error::from(e).into()
    }
}

impl From<engine::errors::DslError> for Failure {
    fn from(e: engine::errors::DslError) -> Self {
        Error::from(e).into()
    }
}

impl From<engine::errors::DmuError> for Failure {
    fn from(e: engine::errors::DmuError) -> Self {
        Error::from(e).into()
    }
}

impl From<engine::errors::ZplError> for Failure {
    fn from(e: engine::errors::ZplError) -> Self {
        Error::from(e).into()
    }
}

impl From<PlaceNotFound> for Failure {
    fn from(e: PlaceNotFound) -> Self {
        let failure = match e {
            PlaceNotFound::Failed(e) => return e.into(),
            PlaceNotFound::NoDataset { error: Some(e), .. } => e.into(),
            PlaceNotFound::NoDataset { shown, error: None } => {
                Self::usage(format!("{shown}: no dataset's name"))
            }
        };
        failure.hint("places are given as POOL/DATASET[@SNAPSHOT]:PATH")
    }
}

/// An error in a line, with its hint.
pub fn one_line(e: &Error) -> String {
    let text = without_number(e.to_string());
    match e.hint() {
        Some(hint @ (Hint::Replace | Hint::ListTunables | Hint::MeantTunable(_))) => {
            format!("{text}; {}", views::hints::text(hint))
        }
        _ => text,
    }
}

/// The system's words for an error, without its number.
pub fn system_text(e: &std::io::Error) -> String {
    without_number(e.to_string())
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Self::new(system_text(&e))
    }
}
