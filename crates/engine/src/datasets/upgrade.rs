//! File systems that get a newer version.

use super::names::heads_of;
use crate::error::{Error, Place, Result, Rule};
use dsl::{Dataset, DatasetKind, Dsl, PropertyContext};
use pool::live::LivePool;

/// The result of upgrading file systems to a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgraded {
    /// Those that have it now.
    pub upgraded: Vec<String>,
    /// How many had it before.
    pub had_it: usize,
    /// Those that have a newer one and keep it, with that.
    pub newer: Vec<(String, u64)>,
}

impl Upgraded {
    /// Counts these too.
    pub fn add(&mut self, other: Self) {
        self.upgraded.extend(other.upgraded);
        self.had_it += other.had_it;
        self.newer.extend(other.newer);
    }
}

/// Gives file systems this version, where theirs is older; with `recursive` also those below.
/// Volumes below have none. Files that are there stay as they are, and can be changed as before;
/// what the version brings holds for new ones.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::{Create, datasets};
///
/// Create::filesystem("tank/old")?.set("version", "3")?.run(&pool)?;
/// let done = datasets::upgrade(&pool, &["tank"], true, 5)?;
/// assert_eq!((done.upgraded, done.had_it), (vec!["tank/old".to_owned()], 1));
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// One of the names is not that of a file system; there is no such version. Those that were
/// upgraded before it stay so.
pub fn upgrade(
    pool: &LivePool,
    names: &[impl AsRef<str>],
    recursive: bool,
    version: u64,
) -> Result<Upgraded> {
    let wanted = wanted(pool, names, recursive)?;
    let mut done = Upgraded::default();
    let mut changed = Vec::new();
    let mut failed = None;
    for (name, has) in wanted {
        match has {
            has if has > version => done.newer.push((name, has)),
            has if has == version => done.had_it += 1,
            _ => match upgrade_one(pool, &name, version) {
                Ok(fs) => {
                    done.upgraded.push(name);
                    changed.push(fs);
                }
                Err(e) => {
                    failed = Some(e.of(&name));
                    break;
                }
            },
        }
    }
    // Also when one failed: those before it are of the new version.
    if !changed.is_empty() {
        pool.sync()?;
    }
    changed.iter().try_for_each(zpl::Filesystem::adopt_version)?;
    failed.map_or(Ok(done), Err)
}

fn upgrade_one(pool: &LivePool, name: &str, version: u64) -> Result<zpl::Filesystem> {
    let fs = pool.filesystem_to_set(name, "version")?;
    fs.upgrade(version)?;
    Ok(fs)
}

/// The file systems that are meant, with their versions.
fn wanted(
    pool: &LivePool,
    names: &[impl AsRef<str>],
    recursive: bool,
) -> Result<Vec<(String, u64)>> {
    let dsl = pool.view().datasets();
    let mut out: Vec<(String, u64)> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let dataset = dsl.by_name(name).map_err(|e| Error::from(e).of(name))?;
        if dataset.is_snapshot() || dsl.kind(&dataset) != DatasetKind::Filesystem {
            return Err(Error::against(Rule::HeadName)
                .at(Place::Dataset(name.to_owned()))
                .of(name));
        }
        let all = if recursive { heads_of(&dsl, name)? } else { vec![dataset] };
        for one in all.into_iter().filter(|one| dsl.kind(one) == DatasetKind::Filesystem) {
            if out.iter().all(|(known, _)| *known != one.name) {
                // A file system whose version cannot be read without its key has the newest.
                out.extend(version(&dsl, &one)?.map(|version| (one.name, version)));
            }
        }
    }
    Ok(out)
}

fn version(dsl: &Dsl, dataset: &Dataset) -> Result<Option<u64>> {
    let found = dsl.property(dataset, &PropertyContext::default(), "version")?;
    Ok(found.and_then(|p| p.number()))
}
