//! Options by which a pool that cannot be read goes back to an earlier txg.

use crate::args::SearchScope;
use crate::failure::Failure;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::local_time::local;
use crate::session::Session;
use crate::{found, served, ui};
use engine::pools::{Rewind, RewindReach};
use engine::{Candidate, Error, OpenOptions};
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
    /// The txg at which to open a pool: `None` for its newest state. A rewind is reported, in words
    /// for `how` it is used. `up_to` is a txg that was named.
    pub fn txg(
        &self,
        session: &Session,
        candidate: &Candidate,
        options: &OpenOptions,
        up_to: Option<u64>,
        how: RewindKind,
        doing: &str,
    ) -> Result<Option<(u64, String)>, Failure> {
        let how = if self.is_plan { RewindKind::Possible } else { how };
        let reach = match (up_to, self.any) {
            (Some(txg), _) => RewindReach::UpTo(txg),
            (None, _) if !self.recover => return Ok(None),
            (None, true) => RewindReach::Any,
            (None, false) => RewindReach::Recent,
        };
        let found = Rewind::find(candidate, options, reach);
        match found.map_err(|e: Error| Failure::from(e).about(doing))? {
            Rewind::NotNeeded => Ok(None),
            Rewind::To { txg, timestamp, seconds_lost, checkpoint_lost } => {
                let (name, time) = (candidate.name(), local(session, timestamp));
                let lost = checkpoint_lost.map(|time| local(session, time));
                let text = views::import::rewound(name, time, seconds_lost, lost, how);
                Ok(Some((txg, text)))
            }
            Rewind::Impossible => {
                let failure = Failure::new(format!("{doing}: I/O error"))
                    .because("no state among those tried can be read completely");
                Err(failure.hint(match reach {
                    RewindReach::Recent => "-X tries older states; `zinc repair` repairs damage",
                    _ => "`zinc repair` repairs damage, `zinc rescue` copies readable data",
                }))
            }
        }
    }

    /// The same of a pool that is known by its name. One that is held could be opened. Of a plan
    /// the effect is reported, if it is possible.
    pub fn txg_of_known(
        &self,
        session: &Session,
        live: &LiveArgs,
        name: &str,
        doing: &str,
    ) -> Result<Option<(u64, String)>, Failure> {
        if !self.recover {
            return Ok(None);
        }
        served::forward(session, &live.search, name)?;
        if session.held(name).is_some() {
            return Ok(None);
        }
        let found = found::find(session, &live.search, name, SearchScope::Known)?;
        let mut options = live.to_read().options(session);
        found.complete(&mut options);
        let doing = format!("{doing} {name}");
        let back = self.txg(session, &found.candidate, &options, None, RewindKind::Done, &doing)?;
        if self.is_plan {
            let txg = back.as_ref().map(|(txg, _)| *txg);
            live::check(session, found, &LiveOptions { txg, ..live.options.clone() })?;
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
