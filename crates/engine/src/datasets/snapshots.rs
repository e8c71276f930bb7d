//! Snapshots of many datasets in one moment, what keeps them, and bookmarks.

use super::names::{Descendants, snapshots};
use crate::error::{Error, Place, Result, Rule};
use dsl::Dsl;
use dsl::write::PropertyChange;
use pool::live::LivePool;

/// Longest tag in bytes.
const TAG_MAX: usize = 255;

/// Takes the snapshots `names` (`pool/a@x`), with `recursive` also of all datasets below but those
/// that are half received, all of one moment. Either all are taken or none.
///
/// # Errors
/// One of them cannot be taken: it is the error's operand. One that is there already is
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused), by
/// [`Refusal::Exists`](crate::Refusal::Exists).
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::datasets::snapshot(&pool, &["tank@monday"], true, Vec::new())?;
/// assert!(pool.view().datasets().by_name("tank@monday")?.is_snapshot());
/// # Ok::<(), engine::Error>(())
/// ```
pub fn snapshot(
    pool: &LivePool,
    names: &[impl AsRef<str>],
    recursive: bool,
    properties: Vec<PropertyChange>,
) -> Result<()> {
    let below = if recursive { Descendants::All } else { Descendants::Not };
    let all = expand(pool, names, |dsl, name| snapshots(dsl, name, below))?;
    pool.snapshot(&all, properties).map_err(|e| {
        let e = Error::from(e);
        let one = about(&all, &e).to_owned();
        e.of(&one)
    })
}

/// The snapshot that an error is about: of several, the one that it names, or whose dataset.
fn about<'a>(all: &'a [String], error: &Error) -> &'a str {
    let is_it = |one: &&String| {
        let dataset = one.split('@').next();
        error.dataset().is_some_and(|about| *one == about || dataset == Some(about))
    };
    all.iter().find(is_it).or(all.first()).map_or("", String::as_str)
}

/// Each name as the snapshots that it means.
fn expand(
    pool: &LivePool,
    names: &[impl AsRef<str>],
    one: impl Fn(&Dsl, &str) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    let dsl = pool.view().datasets();
    let mut all = Vec::new();
    for name in names {
        let name = name.as_ref();
        all.extend(one(&dsl, name).map_err(|e| e.of(name))?);
    }
    Ok(all)
}

/// The snapshots that are to be held or released: each name means one at least.
fn kept(pool: &LivePool, names: &[impl AsRef<str>], recursive: bool) -> Result<Vec<String>> {
    let below = if recursive { Descendants::WithSnapshot } else { Descendants::Not };
    expand(pool, names, |dsl, name| {
        let found = snapshots(dsl, name, below)?;
        match found.is_empty() {
            true => Err(Error::against(Rule::NoSnapshots).at(Place::Dataset(name.to_owned()))),
            false => Ok(found),
        }
    })
}

/// Keeps snapshots from being destroyed, by a tag; with `recursive` those of their names of all
/// datasets below as well. Either all are held or none.
///
/// # Errors
/// One of them is not there or has the tag already; or no tag can be like that.
pub fn hold(pool: &LivePool, names: &[impl AsRef<str>], tag: &str, recursive: bool) -> Result<()> {
    check_tag(tag)?;
    let all = kept(pool, names, recursive)?;
    pool.hold(&all, tag).map_err(|e| Error::from(e).of(all.first().map_or("", String::as_str)))
}

/// Whether a tag can be like that.
///
/// # Errors
/// It cannot.
pub fn check_tag(tag: &str) -> Result<()> {
    match tag.starts_with('.') || tag.is_empty() || tag.len() > TAG_MAX {
        true => Err(Error::against(Rule::Tag)),
        false => Ok(()),
    }
}

/// Releases what [`hold`] holds. With `recursive` those are passed over that do not have the tag.
///
/// # Errors
/// One of them is not there, or does not have the tag; with `recursive`: none has it.
pub fn release(
    pool: &LivePool,
    names: &[impl AsRef<str>],
    tag: &str,
    recursive: bool,
) -> Result<()> {
    let mut all = kept(pool, names, recursive)?;
    let first = all.first().cloned().unwrap_or_default();
    if recursive {
        let mut held = Vec::new();
        for name in all {
            if is_held(pool, &name, tag).map_err(|e| e.of(&name))? {
                held.push(name);
            }
        }
        // That none has it is said of the first.
        all = if held.is_empty() { vec![first.clone()] } else { held };
    }
    pool.release(&all, tag).map_err(|e| Error::from(e).of(&first))
}

fn is_held(pool: &LivePool, name: &str, tag: &str) -> Result<bool> {
    let dsl = pool.view().datasets();
    let holds = dsl.holds(&dsl.by_name(name)?)?;
    Ok(holds.iter().any(|hold| hold.tag == tag))
}

/// Makes the bookmark `name` (`pool/a#b`) of a snapshot, or of a bookmark: a copy of it. Both are
/// of the same dataset, or `source` is of what that is a clone of.
///
/// # Errors
/// There is no such source, it is of something else, or there is such a bookmark.
pub fn bookmark(pool: &LivePool, name: &str, source: &str) -> Result<()> {
    let at = |name: &str| Place::Dataset(name.to_owned());
    if !name.contains('#') {
        return Err(Error::against(Rule::BookmarkName).at(at(name)));
    }
    if !source.contains(['@', '#']) {
        return Err(Error::against(Rule::SnapshotName).at(at(source)));
    }
    Ok(pool.bookmark(name, source)?)
}
