//! Delegated permissions as `zfs allow DATASET` lists them, and whom its words mean.

use crate::HostInfo;
use engine::datasets::{Holder, Permissions};
use engine::permissions::{Delegation, Scope, Who};
use std::collections::BTreeMap;

/// Width of the line above the permissions of a dataset.
const WIDTH: usize = 70;

/// Whom the first word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holders {
    /// Users, or else groups; or `everyone`.
    Any,
    /// Users.
    Users,
    /// Groups.
    Groups,
    /// A set.
    Set,
    /// There is no such word: it is for everyone.
    Everyone,
    /// There is none: it is for creators.
    Creator,
}

/// The users and groups of this machine by their names.
pub trait Accounts: HostInfo {
    /// The number of a user.
    fn user_id(&self, name: &str) -> Option<u64>;
    /// The number of a group.
    fn group_id(&self, name: &str) -> Option<u64>;
}

/// Parses the words before the dataset: holders and permissions; permissions may be left out only
/// if `all_may_be` meant.
///
/// # Errors
/// The fault of the words.
pub fn meant(
    kind: Holders,
    words: &[&str],
    all_may_be: bool,
    accounts: &dyn Accounts,
) -> Result<Permissions, String> {
    let mut words = words.iter().copied();
    let holders = match kind {
        Holders::Everyone => vec![Holder::Everyone],
        Holders::Creator => vec![Holder::Creator],
        _ => match (kind, words.next().ok_or("missing user, group or permission")?) {
            (Holders::Set, set) if set.starts_with('@') => vec![Holder::Set(set.to_owned())],
            (Holders::Set, _) => return Err("invalid set name: missing '@' prefix".to_owned()),
            (Holders::Any, "everyone") => vec![Holder::Everyone],
            (_, all) => all.split(',').map(|w| one(kind, w, accounts)).collect::<Result<_, _>>()?,
        },
    };
    let (names, rest) = (words.next(), words.next());
    if rest.is_some() || (names.is_none() && !all_may_be) {
        return Err("wrong number of parameters".to_owned());
    }
    let all = Permissions::of(holders);
    Ok(match names {
        Some(names) => all.only(&names.split(',').collect::<Vec<_>>()),
        None => all,
    })
}

/// A user or group by name or number; an unknown number only if its kind was given.
fn one(kind: Holders, word: &str, accounts: &dyn Accounts) -> Result<Holder, String> {
    let number = word.parse::<u32>().ok().map(u64::from);
    let is_any = kind == Holders::Any;
    let user = number.filter(|id| !is_any || accounts.user_name(*id).is_some());
    let group = number.filter(|id| !is_any || accounts.group_name(*id).is_some());
    let user = user.or_else(|| accounts.user_id(word)).map(Holder::User);
    let group = group.or_else(|| accounts.group_id(word)).map(Holder::Group);
    let (found, what) = match kind {
        Holders::Users => (user, "user"),
        Holders::Groups => (group, "group"),
        _ => (user.or(group), "user/group"),
    };
    found.ok_or_else(|| format!("invalid {what} {word}"))
}

/// Where a permission holds: on the dataset, below it.
type Reach = [bool; 2];

/// The permissions of each dataset, in this order.
#[must_use]
pub fn text(all: &[(String, Vec<Delegation>)], host: &dyn HostInfo) -> String {
    all.iter().map(|(name, given)| of_one(name, given, host)).collect()
}

fn of_one(name: &str, given: &[Delegation], host: &dyn HostInfo) -> String {
    let mut out = format!("---- Permissions on {name} ");
    let missing = WIDTH.saturating_sub(out.len());
    out.push_str(&"-".repeat(missing));
    out.push('\n');
    // Permissions and sets of one holder are on one line, in the order of their names.
    let mut holders: BTreeMap<(usize, &str), BTreeMap<&str, Reach>> = BTreeMap::new();
    for one in given {
        let holder = holders.entry((rank(one.who.who), &one.who.name)).or_default();
        for permission in &one.permissions {
            let reach = holder.entry(permission).or_default();
            reach[0] |= one.who.scope == Scope::Local;
            reach[1] |= one.who.scope == Scope::Descendent;
        }
    }
    for (title, ranks, wanted) in [
        ("Permission sets", 0..1, [false, false]),
        ("Create time permissions", 1..2, [false, false]),
        ("Local permissions", 2..5, [true, false]),
        ("Descendent permissions", 2..5, [false, true]),
        ("Local+Descendent permissions", 2..5, [true, true]),
    ] {
        let mut section = String::new();
        for ((rank, name), permissions) in holders.iter().filter(|((r, _), _)| ranks.contains(r)) {
            let names = permissions.iter().filter(|(_, reach)| **reach == wanted);
            let names: Vec<&str> = names.map(|(name, _)| *name).collect();
            if !names.is_empty() {
                let holder = holder(*rank, name, host);
                section.push_str(&format!("\t{holder}{}\n", names.join(",")));
            }
        }
        if !section.is_empty() {
            out.push_str(&format!("{title}:\n{section}"));
        }
    }
    out
}

/// The place of a kind of holders in a list.
fn rank(who: Who) -> usize {
    match who {
        Who::NamedSet => 0,
        Who::Create => 1,
        Who::User => 2,
        Who::Group => 3,
        Who::Everyone => 4,
    }
}

/// The prefix of a line for a holder.
fn holder(rank: usize, name: &str, host: &dyn HostInfo) -> String {
    let known = |find: &dyn Fn(u64) -> Option<String>| {
        let found = name.parse().ok().and_then(find);
        found.unwrap_or_else(|| format!("(unknown: {name})"))
    };
    match rank {
        0 => format!("{name} "),
        1 => String::new(),
        2 => format!("user {} ", known(&|id| host.user_name(id).map(str::to_owned))),
        3 => format!("group {} ", known(&|id| host.group_name(id).map(str::to_owned))),
        _ => "everyone ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::permissions::WhoKey;

    struct Host;

    impl HostInfo for Host {
        fn user_name(&self, id: u64) -> Option<&str> {
            ["alice", "bob"].get(usize::try_from(id).ok()?.checked_sub(1001)?).copied()
        }

        fn group_name(&self, id: u64) -> Option<&str> {
            (id == 1500).then_some("staff2")
        }

        fn utc_offset(&self, _: u64) -> i64 {
            0
        }
    }

    /// The output of OpenZFS 2.3 for these entries.
    #[test]
    fn the_list_is_that_of_openzfs() {
        let entries = [
            ("c-$", "destroy"),
            ("C-$", "@ops"),
            ("ul$1002", "create,destroy"),
            ("gd$1500", "hold,release"),
            ("ul$1001", "mount,promote,rename,snapshot"),
            ("ud$1001", "mount,promote,rename,snapshot"),
            ("gl$1500", "bookmark"),
            ("gd$1500", "bookmark"),
            ("gl$0", "bookmark"),
            ("gd$0", "bookmark"),
            ("s-$@more", "send"),
            ("S-$@more", "@ops"),
            ("s-$@ops", "rollback,snapshot"),
            ("el$", "compression,userprop"),
            ("ed$", "compression,userprop"),
        ];
        let given: Vec<_> = entries
            .iter()
            .map(|(key, names)| Delegation {
                who: WhoKey::parse(key).unwrap(),
                permissions: names.split(',').map(str::to_owned).collect(),
            })
            .collect();
        let shown = text(&[("tank/a".to_owned(), given)], &Host);
        assert_eq!(
            shown,
            "---- Permissions on tank/a -------------------------------------------\n\
             Permission sets:\n\
             \t@more @ops,send\n\
             \t@ops rollback,snapshot\n\
             Create time permissions:\n\
             \t@ops,destroy\n\
             Local permissions:\n\
             \tuser bob create,destroy\n\
             Descendent permissions:\n\
             \tgroup staff2 hold,release\n\
             Local+Descendent permissions:\n\
             \tuser alice mount,promote,rename,snapshot\n\
             \tgroup (unknown: 0) bookmark\n\
             \tgroup staff2 bookmark\n\
             \teveryone compression,userprop\n"
        );
    }
}
