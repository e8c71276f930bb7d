//! Which of several pools a name means.

use crate::datasets::pool_of;
use crate::{Error, Result};
use pool::Candidate;
use std::path::PathBuf;

/// The one candidate of that name (that of a pool or of a dataset in it) or guid; where several
/// have the name, the one `preferred` tells from the others. `searched` are the places in which the
/// candidates were looked for; none are the usual ones.
///
/// # Errors
/// None or several have the name.
pub fn pick(
    candidates: Vec<Candidate>,
    searched: &[PathBuf],
    name: &str,
    preferred: impl Fn(&Candidate) -> bool,
) -> Result<Candidate> {
    let wanted = pool_of(name);
    let guid: Option<u64> = wanted.parse().ok();
    let is_it = |c: &Candidate| c.name() == wanted || Some(c.config.pool_guid) == guid;
    let others = candidates.iter().map(|c| (c.name().to_owned(), c.config.pool_guid)).collect();
    let mut found: Vec<_> = candidates.into_iter().filter(is_it).collect();
    if found.len() > 1 && found.iter().any(&preferred) {
        found.retain(&preferred);
    }
    let wanted = wanted.to_owned();
    Err(Error::from(match (found.len(), found.pop()) {
        (1, Some(one)) => return Ok(one),
        (0, _) | (_, None) => {
            let searched = match searched.is_empty() {
                true => pool::default_search_paths(),
                false => searched.to_vec(),
            };
            pool::Error::NoSuchPool { wanted, found: others, searched }
        }
        (_, Some(last)) => {
            let guids = found.iter().chain([&last]).map(|c| c.config.pool_guid).collect();
            pool::Error::Ambiguous { name: wanted, guids }
        }
    }))
}
