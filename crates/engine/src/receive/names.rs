//! Where a stream goes to: which dataset and snapshot a command means.

/// How the name of what is received is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// The target is the dataset, or the snapshot itself. Datasets below the sent one go below the
    /// target.
    #[default]
    AsTarget,
    /// All of the name but the pool's is put behind the target.
    WithoutPool,
    /// The last part of the name is put behind the target.
    LastPart,
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

#[cfg(test)]
mod tests {
    use super::*;

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
