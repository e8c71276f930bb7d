//! Names: what they are made of, and which datasets a request means.

use crate::error::{Error, Hint, Place, Result, Rule};
use dsl::{Dataset, Dsl};
use pool::Pool;

/// The pool in the name of a dataset, snapshot or bookmark.
#[must_use]
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@', '#']).next().unwrap_or_default()
}

/// The name before `@` or `#`, and what follows.
#[must_use]
pub fn split(name: &str) -> Option<(&str, &str)> {
    let at = name.find(['@', '#'])?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}

/// The dataset above; empty for the pool's own.
pub(super) fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Two names that must be of one pool.
pub(super) fn one_pool(name: &str, other: &str) -> Result<()> {
    match pool_of(name) == pool_of(other) {
        true => Ok(()),
        false => Err(Error::against(Rule::OnePool).at(Place::Dataset(other.to_owned()))),
    }
}

/// The dataset `name` and every file system and volume below it, parents first; also those that
/// are half received ([`Dataset::is_partly_received`]), of which no snapshot can be taken. What is
/// below the name of the pool is all there is; the snapshots of each are [`Dsl::snapshots`].
///
/// # Errors
/// There is no such dataset, or one below it cannot be read.
pub fn heads(pool: &Pool, name: &str) -> Result<Vec<Dataset>> {
    let dsl = pool.datasets();
    heads_of(&dsl, name)
}

/// [`heads`] for a caller that has [`Pool::datasets`].
pub(crate) fn heads_of(dsl: &Dsl, name: &str) -> Result<Vec<Dataset>> {
    dsl.dir_by_name(name)?;
    let below = format!("{name}/");
    let mut out = Vec::new();
    for (found, dir) in dsl.walk() {
        if found == name || found.starts_with(&below) {
            out.extend(dsl.head(&dir?)?);
        }
    }
    Ok(out)
}

/// Which datasets below the one that is named are meant as well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Descendants {
    /// None.
    Not,
    /// All.
    All,
    /// Those that have a snapshot of that name.
    WithSnapshot,
}

/// The snapshot `name` (`pool/a@x`), and those of that short name of datasets below. Partly
/// received states are left out.
pub(super) fn snapshots(dsl: &Dsl, name: &str, below: Descendants) -> Result<Vec<String>> {
    let Some((head, short)) = split(name).filter(|_| name.contains('@')) else {
        let error = Error::against(Rule::SnapshotName).at(Place::Dataset(name.to_owned()));
        return Err(error.with_hint(Hint::NameSnapshot));
    };
    if below == Descendants::Not {
        return Ok(vec![name.to_owned()]);
    }
    let is_whole = |h: &Dataset| h.name == head || !h.phys.is_inconsistent();
    let all = heads_of(dsl, head)?.into_iter().filter(is_whole);
    let all = all.map(|h| format!("{}@{short}", h.name));
    Ok(all.filter(|n| below == Descendants::All || dsl.by_name(n).is_ok()).collect())
}

/// How many leading parts two names of datasets share.
fn shared_parts(a: &str, b: &str) -> usize {
    a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b).count()
}

/// The snapshot with this GUID. Of several that of the dataset that is nearest to `near`: below it,
/// otherwise below the dataset above it, and so on.
pub(crate) fn snapshot_by_guid(dsl: &Dsl, near: &str, guid: u64) -> Option<String> {
    let mut all = dsl.walk();
    all.sort_by_key(|(name, _)| std::cmp::Reverse(shared_parts(name, near)));
    for (_, dir) in all {
        let head = dir.ok().and_then(|dir| dsl.head(&dir).ok().flatten());
        let snapshots = head.and_then(|head| dsl.snapshots(&head).ok()).unwrap_or_default();
        if let Some(found) = snapshots.into_iter().find(|s| s.phys.guid == guid) {
            return Some(found.name);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_divided() {
        assert_eq!(split("p/a@x"), Some(("p/a", "x")));
        assert_eq!(split("p#b"), Some(("p", "b")));
        assert_eq!(split("p/a"), None);
        assert_eq!((pool_of("p/a@x"), pool_of("p#b"), pool_of("p")), ("p", "p", "p"));
        assert_eq!((parent("p/a/b"), parent("p")), ("p/a", ""));
        assert!(one_pool("p/a", "p@x").is_ok() && one_pool("p/a", "q/a").is_err());
    }

    /// A dataset, and a snapshot of it, that come, are renamed and go.
    fn come_and_go(pool: &crate::LivePool, number: usize) -> Result<()> {
        let (first, then) = (format!("tank/x{number}"), format!("tank/y{number}"));
        crate::Create::filesystem(&first)?.run(pool)?;
        crate::datasets::snapshot(pool, &[format!("{first}@s")], false, Vec::new())?;
        crate::datasets::Rename::new(&first, &then)?.run(pool)?;
        let plan = crate::datasets::Destroy::new(&then).recursive().plan(pool.view())?;
        plan.run(pool, &crate::Progress::new()).map(drop)
    }

    /// Reads of several objects fit together while others become durable between them.
    #[test]
    fn datasets_are_read_while_others_come_and_go() {
        const ROUNDS: usize = 60;
        let pool = crate::NewPool::new("tank").memory(256 << 20).create().unwrap();
        crate::Create::filesystem("tank/stays").unwrap().run(&pool).unwrap();
        crate::datasets::snapshot(&pool, &["tank/stays@s".to_owned()], false, vec![]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..ROUNDS {
                    come_and_go(&pool, number).unwrap();
                }
            });
            while !writer.is_finished() {
                let all = heads(pool.view(), "tank").unwrap();
                assert!(all.iter().any(|head| head.name == "tank/stays"));
                let forms = crate::send::Forms::default();
                crate::send::SendStream::new(pool.view(), "tank/stays@s", None, forms).unwrap();
            }
        });
        pool.export().unwrap();
    }

    #[test]
    fn the_nearest_dataset_shares_most_of_the_name() {
        assert_eq!(shared_parts("d/o2/a", "d/o2/aclone"), 2);
        assert_eq!(shared_parts("d/o1/a", "d/o2/aclone"), 1);
        assert_eq!(shared_parts("e", "d/o2/aclone"), 0);
    }
}
