//! Names of users and groups on the machine zinc runs on.
//!
//! Read from `/etc/passwd` and `/etc/group` alone: a rescue machine knows no directory service of
//! the pool's home, and must not wait for one.

use std::collections::HashMap;
use std::sync::OnceLock;

/// The names this machine knows, read when the first one is needed.
#[derive(Default)]
pub struct Names {
    users: OnceLock<HashMap<u64, String>>,
    groups: OnceLock<HashMap<u64, String>>,
}

impl Names {
    /// Name of a user, when this machine knows one.
    pub fn user(&self, id: u64) -> Option<&str> {
        self.users.get_or_init(|| read("/etc/passwd")).get(&id).map(String::as_str)
    }

    /// Number of a user, when this machine knows one of that name.
    pub fn user_id(&self, name: &str) -> Option<u64> {
        id_of(self.users.get_or_init(|| read("/etc/passwd")), name)
    }

    /// Number of a group, when this machine knows one of that name.
    pub fn group_id(&self, name: &str) -> Option<u64> {
        id_of(self.groups.get_or_init(|| read("/etc/group")), name)
    }

    /// Name of a group, when this machine knows one.
    pub fn group(&self, id: u64) -> Option<&str> {
        self.groups.get_or_init(|| read("/etc/group")).get(&id).map(String::as_str)
    }
}

fn id_of(names: &HashMap<u64, String>, name: &str) -> Option<u64> {
    names.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
}

fn read(path: &str) -> HashMap<u64, String> {
    parse(&std::fs::read_to_string(path).unwrap_or_default())
}

/// Lines are `name:password:id:…`; of several names of an id the first counts.
fn parse(text: &str) -> HashMap<u64, String> {
    let mut out = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (name, id) = (fields.next(), fields.nth(1).and_then(|id| id.parse().ok()));
        if let (Some(name), Some(id)) = (name, id) {
            out.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_name_counts() {
        let names = super::parse("root:x:0:0:r:/root:/bin/sh\ntoor:x:0:0\nbroken\na:x:b:c\n");
        assert_eq!(names.len(), 1);
        assert_eq!(names.get(&0).map(String::as_str), Some("root"));
    }
}
