//! Which of the pools that were found is meant.
//!
//! The rules, for a name and some [`Candidate`]s:
//!
//! 1. A guid means the pool that has it. A pool whose name looks like the guid of another is meant
//!    as well, so that such a word may be ambiguous.
//! 2. A name means a pool that is in use: a destroyed pool has no name any more, and a pool whose
//!    creation was cut off ([`Candidate::was_written`]) has none yet. Their guids mean them. A
//!    caller that looks for destroyed ones says so ([`Destroyed`]).
//! 3. Of several, those that are preferred count, when there are any ([`Choice::preferring`]).
//! 4. One is left, or there is no such pool, or the word is ambiguous.

use crate::assemble::{Candidate, CandidateState};
use crate::error::{Error, Result};
use crate::scan::default_search_paths;
use std::path::PathBuf;

/// How destroyed pools are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Destroyed {
    /// They are never meant.
    Never,
    /// Only their guids mean them.
    #[default]
    ByGuid,
    /// Their names mean them, too, where no other pool has that name.
    IfNoOther,
    /// Only they are meant.
    Only,
}

/// Chooses a pool among those that were found: see the rules above.
pub struct Choice<'a> {
    wanted: &'a str,
    destroyed: Destroyed,
    preferred: Box<dyn Fn(&Candidate) -> bool + 'a>,
}

impl Candidate {
    /// Whether it has this name or guid, whatever became of it.
    #[must_use]
    pub fn is_called(&self, wanted: &str) -> bool {
        self.name() == wanted || wanted.parse() == Ok(self.config.pool_guid)
    }

    /// Whether it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.state() == CandidateState::Destroyed
    }
}

impl<'a> Choice<'a> {
    /// The pool of this name or guid.
    #[must_use]
    pub fn of(wanted: &'a str) -> Self {
        Self { wanted, destroyed: Destroyed::default(), preferred: Box::new(|_| false) }
    }

    /// Sets how destroyed ones are treated.
    #[must_use]
    pub fn destroyed(self, destroyed: Destroyed) -> Self {
        Self { destroyed, ..self }
    }

    /// Of several that fit, those of which this is true.
    #[must_use]
    pub fn preferring(self, preferred: impl Fn(&Candidate) -> bool + 'a) -> Self {
        Self { preferred: Box::new(preferred), ..self }
    }

    /// Whether a candidate may be the one, whatever others there are.
    #[must_use]
    pub fn fits(&self, candidate: &Candidate) -> bool {
        let is_its_guid = self.wanted.parse() == Ok(candidate.config.pool_guid);
        let has_name = match (candidate.is_destroyed(), self.destroyed) {
            (true, Destroyed::Never) | (false, Destroyed::Only) => return false,
            (true, Destroyed::ByGuid) => false,
            (true, Destroyed::IfNoOther | Destroyed::Only) | (false, _) => candidate.was_written(),
        };
        is_its_guid || (has_name && candidate.name() == self.wanted)
    }

    /// The one that is meant. `searched` are the places in which the candidates were looked for;
    /// none are the usual ones.
    ///
    /// # Errors
    /// [`Error::NoSuchPool`], and [`Error::Ambiguous`].
    pub fn among(&self, found: Vec<Candidate>, searched: &[PathBuf]) -> Result<Candidate> {
        let names = found.iter().map(|c| (c.name().to_owned(), c.config.pool_guid)).collect();
        let mut fitting: Vec<_> = found.into_iter().filter(|c| self.fits(c)).collect();
        let lives = |c: &Candidate| !c.is_destroyed();
        let is_its_guid = |c: &Candidate| self.wanted.parse() == Ok(c.config.pool_guid);
        if self.destroyed == Destroyed::IfNoOther && fitting.iter().any(lives) {
            fitting.retain(|c| lives(c) || is_its_guid(c));
        }
        if fitting.iter().any(&self.preferred) {
            fitting.retain(&self.preferred);
        }
        match fitting.pop() {
            Some(only) if fitting.is_empty() => Ok(only),
            Some(last) => {
                let all = fitting.iter().chain([&last]);
                let guids = all.map(|c| c.config.pool_guid).collect();
                Err(Error::Ambiguous { name: self.wanted.to_owned(), guids })
            }
            None => {
                let searched = match searched.is_empty() {
                    true => default_search_paths(),
                    false => searched.to_vec(),
                };
                let wanted = self.wanted.to_owned();
                Err(Error::NoSuchPool { wanted, found: names, searched })
            }
        }
    }
}
