//! Where a stream goes to: which dataset and snapshot a command means.

use dsl::Dsl;

/// How the name of what is received is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// The target is the dataset, or the snapshot itself. What is below the dataset that was sent
    /// is below the target.
    #[default]
    AsTarget,
    /// All of the name but the pool's is put behind the target.
    WithoutPool,
    /// The last part of the name is put behind the target.
    LastPart,
}

/// The full name of a snapshot as a stream has it, spelled as names are everywhere.
pub(crate) fn spelled(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.split_inclusive(|byte| b"/@".contains(byte)) {
        let (part, separator) = match part.split_last() {
            Some((last, part)) if b"/@".contains(last) => (part, Some(char::from(*last))),
            _ => (part, None),
        };
        out.push_str(&ondisk::spelling::name(part));
        out.extend(separator);
    }
    out
}

/// The full name of the snapshot that `sent` (`pool/a@x`) becomes; `top` is the dataset whose
/// stream it is part of.
pub(super) fn destination(target: &str, naming: Naming, top: &str, sent: &str) -> String {
    let at = sent.find('@').unwrap_or(sent.len());
    let (dataset, snapshot) = sent.split_at(at);
    match naming {
        Naming::LastPart => {
            let (above, last) = top.rsplit_once('/').unwrap_or(("", top));
            let below =
                dataset.strip_prefix(above).map_or(last, |rest| rest.trim_start_matches('/'));
            format!("{target}/{below}{snapshot}")
        }
        Naming::WithoutPool => match dataset.split_once('/') {
            Some((_, below)) => format!("{target}/{below}{snapshot}"),
            None => format!("{target}{snapshot}"),
        },
        Naming::AsTarget if target.contains('@') => target.to_owned(),
        Naming::AsTarget => {
            let below = dataset.strip_prefix(top).unwrap_or_default();
            format!("{target}{below}{snapshot}")
        }
    }
}

/// How many leading parts two names of datasets share.
fn shared_parts(a: &str, b: &str) -> usize {
    a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b).count()
}

/// The snapshot with this GUID. Of several that of the dataset that is nearest to `near`: below it,
/// otherwise below the dataset above it, and so on.
pub(crate) fn by_guid(dsl: &Dsl, near: &str, guid: u64) -> Option<String> {
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
    fn the_nearest_dataset_shares_most_of_the_name() {
        assert_eq!(shared_parts("d/o2/a", "d/o2/aclone"), 2);
        assert_eq!(shared_parts("d/o1/a", "d/o2/aclone"), 1);
        assert_eq!(shared_parts("e", "d/o2/aclone"), 0);
    }

    #[test]
    fn names_are_put_together_as_the_options_say() {
        let whole = |target, top, sent| destination(target, Naming::AsTarget, top, sent);
        assert_eq!(whole("b/x", "a/c", "a/c@s"), "b/x@s");
        assert_eq!(whole("b/x@t", "a/c", "a/c@s"), "b/x@t");
        assert_eq!(whole("b/x", "a/c", "a/c/d/e@s"), "b/x/d/e@s");
        let without = |target, sent| destination(target, Naming::WithoutPool, "a/c", sent);
        assert_eq!(without("b/x", "a/c/d@s"), "b/x/c/d@s");
        assert_eq!(without("b/x", "a@s"), "b/x@s");
        let last = |target, top, sent| destination(target, Naming::LastPart, top, sent);
        assert_eq!(last("b/x", "a/c/d", "a/c/d@s"), "b/x/d@s");
        assert_eq!(last("b/x", "a/c", "a/c/d@s"), "b/x/c/d@s");
        assert_eq!(last("b/x", "a", "a@s"), "b/x/a@s");
    }
}
