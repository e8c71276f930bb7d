//! Options by which a pool that cannot be read goes back to an earlier txg.

use crate::failure::Failure;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::local_time::local;
use crate::session::Session;
use crate::{found, served, ui};
use engine::pools::{Rewind, RewindReach};
use engine::{Candidate, OpenOptions};
use imported::SearchScope;
use views::import::RewindKind;

/// Whether a pool may go back, and how far.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("rewinding").multiple(true)))]
pub struct RewindArgs {
    /// If the newest state cannot be read, go back permanently to the newest that can, among the
    /// last three txgs: later changes are lost
    #[arg(short = 'F', group = "rewinding")]
    recover: bool,
    /// With -F: only print what would be done
    #[arg(short = 'n', requires = "rewinding")]
    pub is_plan: bool,
    /// With -F: try all states that remain
    #[arg(short = 'X', requires = "rewinding")]
    any: bool,
}

impl RewindArgs {
    /// How far the pool may go back. `up_to` is a txg that was named.
    pub fn reach(&self, up_to: Option<u64>) -> Option<RewindReach> {
        match (up_to, self.any) {
            (Some(txg), _) => Some(RewindReach::UpTo(txg)),
            (None, _) if !self.recover => None,
            (None, true) => Some(RewindReach::Any),
            (None, false) => Some(RewindReach::Recent),
        }
    }

    /// The report of a rewind, in words for `how` it is used.
    pub fn report(
        &self,
        session: &Session,
        name: &str,
        rewind: &Rewind,
        how: RewindKind,
    ) -> Option<String> {
        let how = if self.is_plan { RewindKind::Possible } else { how };
        let Rewind::To { timestamp, seconds_lost, checkpoint_lost, .. } = *rewind else {
            return None;
        };
        let lost = checkpoint_lost.map(|time| local(session, time));
        Some(views::import::rewound(name, local(session, timestamp), seconds_lost, lost, how))
    }

    /// The txg at which to open a pool that is known by its name, and the report of that; `None`
    /// for its newest state. One that is held could be opened. Of a plan the effect is reported, if
    /// it is possible.
    pub fn txg_of_known(
        &self,
        session: &Session,
        live: &LiveArgs,
        name: &str,
        doing: &str,
    ) -> Result<Option<(u64, String)>, Failure> {
        let Some(reach) = self.reach(None) else { return Ok(None) };
        served::forward(session, &live.search, name)?;
        if session.held(name).is_some() {
            return Ok(None);
        }
        let found = found::find(session, &live.search, name, SearchScope::Known)?;
        let mut options = live.to_read().options(session);
        found.complete(&mut options);
        let rewind = Rewind::find(&found.candidate, &options, reach)
            .map_err(|e| Failure::from(e).about(&format!("{doing} {name}")))?;
        let text = self.report(session, found.candidate.name(), &rewind, RewindKind::Done);
        let back = match rewind {
            Rewind::To { txg, .. } => text.map(|text| (txg, text)),
            Rewind::NotNeeded => None,
        };
        if self.is_plan {
            let txg = back.as_ref().map(|(txg, _)| *txg);
            live::check(session, &found, &LiveOptions { txg, ..live.options.clone() })?;
            back.iter().for_each(|(_, text)| ui::out(session, text));
        }
        Ok(back)
    }
}

/// Why a pool was not imported, and, where an earlier state of it can be read, how to get that.
pub fn with_recovery(
    session: &Session,
    candidate: &Candidate,
    options: &OpenOptions,
    failure: Failure,
) -> Failure {
    if !failure.is_of_pool() {
        return failure;
    }
    let Some((reach, timestamp, lost)) = Rewind::recovery(candidate, options) else {
        return failure;
    };
    let flags = if reach == RewindReach::Recent { "-F" } else { "-FX" };
    let time = local(session, timestamp);
    failure.hint(views::import::recovery(candidate.name(), flags, time, lost))
}
