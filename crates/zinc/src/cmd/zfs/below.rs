//! What is at and below a dataset: names of heads, their snapshots, and clones of these.

use crate::failure::Failure;
use engine::{Dataset, Dsl};

/// `name` and every file system and volume below it, parents first.
pub fn heads(dsl: &Dsl, name: &str) -> Result<Vec<Dataset>, Failure> {
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

/// The name before `@` or `#`, and what follows.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let at = name.find(['@', '#'])?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}

/// The snapshot `name` (`pool/a@x`); with `recursive` also those of that short name of all
/// datasets below. `lenient`: of these only those that are there.
pub fn snapshots(
    dsl: &Dsl,
    name: &str,
    recursive: bool,
    lenient: bool,
) -> Result<Vec<String>, Failure> {
    let Some((head, short)) = split(name).filter(|_| name.contains('@')) else {
        return Err(Failure::usage(format!("invalid snapshot name: '{name}'"))
            .hint("snapshots are named DATASET@SNAPSHOT"));
    };
    if !recursive {
        return Ok(vec![name.to_owned()]);
    }
    let all = heads(dsl, head)?.into_iter().map(|h| format!("{}@{short}", h.name));
    Ok(all.filter(|n| !lenient || dsl.by_name(n).is_ok()).collect())
}
