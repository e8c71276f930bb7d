//! Scrub, resilver and rebuild: what is kept of one that runs or ran.
//!
//! Specified in `docs/format/scan.md`. [`ScanState`] and [`ErrorScrubState`] are values of the
//! MOS's object directory ([`crate::mos::SCAN`], [`crate::mos::ERROR_SCRUB`]), [`RebuildState`] of
//! the ZAP of a top-level vdev: arrays of words, read with `from_words`.

use crate::ddt::DdtBookmark;
use crate::errlog::Zbookmark;
use crate::wordstruct::word_struct;

/// The kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Nothing yet.
    None,
    /// Verifies everything.
    Scrub,
    /// Restores what devices missed.
    Resilver,
    /// Verifies only what is in the error log.
    ErrorScrub,
    /// An unknown number.
    Unknown(u64),
}

impl Function {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Scrub => "scrub",
            Self::Resilver => "resilver",
            Self::ErrorScrub => "errorscrub",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl Function {
    /// From the number on disk.
    #[must_use]
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => Self::None,
            1 => Self::Scrub,
            2 => Self::Resilver,
            3 => Self::ErrorScrub,
            n => Self::Unknown(n),
        }
    }

    /// The number on disk.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Scrub => 1,
            Self::Resilver => 2,
            Self::ErrorScrub => 3,
            Self::Unknown(n) => n,
        }
    }
}

/// How far a scan, removal or expansion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never begun.
    None,
    /// Running.
    Active,
    /// Done.
    Finished,
    /// Given up.
    Canceled,
    /// An error scrub runs.
    ErrorScrubbing,
    /// An unknown number.
    Unknown(u64),
}

impl State {
    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Active => "active",
            Self::Finished => "finished",
            Self::Canceled => "canceled",
            Self::ErrorScrubbing => "errorscrubbing",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl State {
    /// From the number on disk.
    #[must_use]
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => Self::None,
            1 => Self::Active,
            2 => Self::Finished,
            3 => Self::Canceled,
            4 => Self::ErrorScrubbing,
            n => Self::Unknown(n),
        }
    }

    /// The number on disk.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Active => 1,
            Self::Finished => 2,
            Self::Canceled => 3,
            Self::ErrorScrubbing => 4,
            Self::Unknown(n) => n,
        }
    }
}

word_struct! {
    /// The last scrub or resilver (24 words). Times are seconds since 1970, sizes bytes.
    pub struct ScanState("scan") {
        func_word: u64,
        state_word: u64,
        /// ZAP of datasets still to be visited; 0: none.
        pub queue_obj: u64,
        /// Blocks born in this txg or before are passed over.
        pub min_txg: u64,
        /// Blocks born in this txg or after are passed over.
        pub max_txg: u64,
        /// `min_txg` of the dataset that is being visited.
        pub cur_min_txg: u64,
        /// `max_txg` of the dataset that is being visited.
        pub cur_max_txg: u64,
        /// Begin.
        pub start_time: u64,
        /// End; 0 while it runs.
        pub end_time: u64,
        /// Bytes allocated when it began.
        pub to_examine: u64,
        /// Bytes found so far.
        pub examined: u64,
        /// Bytes come to and passed over (formerly: to be processed).
        pub skipped: u64,
        /// Bytes written to leaves.
        pub processed: u64,
        /// Errors that could not be repaired.
        pub errors: u64,
        /// Highest class of deduplicated blocks that is visited by way of the table.
        pub ddt_class_max: u64,
        /// Where in the deduplication tables it is.
        pub ddt_bookmark: DdtBookmark,
        /// Where in the pool it is.
        pub bookmark: Zbookmark,
        /// `ScanState::FLAG_*`.
        pub flags: u64,
    }
}

impl ScanState {
    /// The dataset that is being visited has to be visited again.
    pub const FLAG_VISIT_DS_AGAIN: u64 = 1 << 0;
    /// Paused by the user.
    pub const FLAG_PAUSED: u64 = 1 << 1;

    /// Its kind.
    #[must_use]
    pub fn function(&self) -> Function {
        Function::from_number(self.func_word)
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_number(self.state_word)
    }

    /// With another function and state.
    #[must_use]
    pub fn with(self, function: Function, state: State) -> Self {
        Self { func_word: function.number(), state_word: state.number(), ..self }
    }
}

word_struct! {
    /// The last error scrub (9 words).
    pub struct ErrorScrubState("error scrub") {
        func_word: u64,
        state_word: u64,
        /// Cursor in the error log, as the ZAP code serializes it.
        pub cursor: u64,
        /// Begin, seconds since 1970.
        pub start_time: u64,
        /// End, seconds since 1970.
        pub end_time: u64,
        /// Blocks with errors to be read.
        pub to_examine: u64,
        /// Blocks read.
        pub examined: u64,
        /// Errors met.
        pub errors: u64,
        /// Not 0: paused.
        pub paused: u64,
    }
}

impl ErrorScrubState {
    /// With another state, of an error scrub.
    #[must_use]
    pub fn with_state(self, state: State) -> Self {
        Self { func_word: Function::ErrorScrub.number(), state_word: state.number(), ..self }
    }

    /// Its kind.
    #[must_use]
    pub fn function(&self) -> Function {
        Function::from_number(self.func_word)
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_number(self.state_word)
    }
}

word_struct! {
    /// A sequential rebuild of a mirror or dRAID vdev (12 words, feature `device_rebuild`).
    pub struct RebuildState("rebuild") {
        /// 0 none, 1 active, 2 canceled, 3 complete.
        pub state_word: u64,
        /// Everything below this offset is rebuilt.
        pub last_offset: u64,
        /// Lowest txg of the missing range.
        pub min_txg: u64,
        /// The txg after the last of the missing range.
        pub max_txg: u64,
        /// Begin, seconds since 1970.
        pub start_time: u64,
        /// End, seconds since 1970.
        pub end_time: u64,
        /// Milliseconds it ran.
        pub scan_time_ms: u64,
        /// Bytes whose allocation was looked at.
        pub bytes_scanned: u64,
        /// Bytes read.
        pub bytes_issued: u64,
        /// Bytes written.
        pub bytes_rebuilt: u64,
        /// Bytes allocated when it began.
        pub bytes_estimated: u64,
        /// Errors met.
        pub errors: u64,
    }
}

impl RebuildState {
    const STATES: [(u64, State); 3] =
        [(1, State::Active), (2, State::Canceled), (3, State::Finished)];

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        let state = Self::STATES.iter().find(|(word, _)| *word == self.state_word);
        state.map_or(State::None, |(_, state)| *state)
    }

    /// The same, in another state.
    #[must_use]
    pub fn with_state(self, state: State) -> Self {
        let word = Self::STATES.iter().find(|(_, known)| *known == state);
        Self { state_word: word.map_or(0, |(word, _)| *word), ..self }
    }
}
