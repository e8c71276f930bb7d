//! Random operations on datasets.

use super::Run;
use super::Tree;
use super::sets::{Set, State};
use engine::inside::dsl::write::{PropertyChange, parse_value};
use engine::inside::dsl::{DatasetKind, Refusal};
use engine::inside::pool::Error;
use engine::inside::pool::live::NewFilesystem;
use std::sync::Arc;
use testkit::posix::Content;

/// Datasets of a pool, about.
const SETS_MAX: usize = 14;
/// Snapshots of a pool, about.
const SNAPSHOTS_MAX: usize = 24;

/// Values of properties that change what is written.
const PROPERTIES: [(&str, &[&str]); 9] = [
    (
        "compression",
        &[
            "off",
            "on",
            "lz4",
            "lzjb",
            "zle",
            "gzip",
            "gzip-1",
            "gzip-9",
            "zstd",
            "zstd-1",
            "zstd-19",
            "zstd-fast-1",
            "zstd-fast-1000",
        ],
    ),
    (
        "checksum",
        &["on", "off", "fletcher2", "fletcher4", "sha256", "sha512", "skein", "edonr", "blake3"],
    ),
    ("recordsize", &["512", "1K", "4K", "8K", "16K", "64K", "128K", "256K", "1M", "4M", "16M"]),
    ("copies", &["1", "1", "2", "3"]),
    ("dnodesize", &["legacy", "auto", "1k", "2k", "4k", "8k", "16k"]),
    ("xattr", &["sa", "dir"]),
    ("redundant_metadata", &["all", "most", "some", "none"]),
    ("special_small_blocks", &["0", "4K", "32K"]),
    ("sync", &["standard", "always"]),
];

/// Whether the engine refused for a reason that the model cannot foresee: space.
fn is_space(e: &Error) -> bool {
    let Error::Dsl(e) = e else { return false };
    let refusal = match e {
        engine::inside::dsl::Error::Refused { why, .. } => why,
        _ => return false,
    };
    matches!(refusal, Refusal::NoSpace | Refusal::Quota(_) | Refusal::BelowUsed(_))
        || matches!(refusal, Refusal::AboveQuota(_) | Refusal::NoRoomFor(_))
}

impl Run {
    fn any_set(&mut self, wanted: impl Fn(&Set) -> bool) -> Option<String> {
        let names = self.model.names(wanted);
        (!names.is_empty()).then(|| self.rng.pick(&names).clone())
    }

    /// Any dataset but the pool's root.
    fn any_below(&mut self) -> Option<String> {
        self.any_set(|_| true).filter(|n| *n != self.bench.pool)
    }

    fn any_snapshot(&mut self) -> Option<(String, String)> {
        let all = self.model.snapshots();
        (!all.is_empty()).then(|| self.rng.pick(&all).clone())
    }

    /// Before a change of datasets; after it everything is durable.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&engine::LivePool) -> Result<T, Error>,
    ) -> Result<Option<T>, String> {
        match change(self.pool.as_ref().unwrap()) {
            Ok(value) => Ok(Some(value)),
            Err(e) if is_space(&e) => {
                self.refused += 1;
                self.note_durable();
                Ok(None)
            }
            Err(e) => Err(e.to_string()),
        }
    }

    pub(super) fn dataset_op(&mut self) -> Result<(), String> {
        let (sets, snapshots) = (self.model.sets.len(), self.model.snapshots().len());
        let done = match self.rng.below(100) {
            0..=7 if sets < SETS_MAX => self.create_fs(),
            8..=10 if sets < SETS_MAX => self.create_volume(),
            11..=34 if snapshots < SNAPSHOTS_MAX => self.snapshot(),
            35..=42 if sets < SETS_MAX => self.clone_one(),
            43..=47 => self.promote(),
            48..=53 => self.rollback(),
            54..=60 => self.rename_set(),
            61..=76 => self.destroy_snapshot(),
            77..=82 => self.destroy_set(),
            83..=85 => self.bookmark(),
            86..=88 => self.limits(),
            _ => self.property(),
        };
        self.note_durable();
        done
    }

    fn new_name(&mut self) -> String {
        let above = self.any_set(Set::is_files).unwrap();
        let leaf = self.unique("set");
        // Not so deep that names get too long.
        match above.matches('/').count() {
            0..=3 => format!("{above}/{leaf}"),
            _ => format!("{}/{leaf}", self.bench.pool),
        }
    }

    fn create_fs(&mut self) -> Result<(), String> {
        let name = self.new_name();
        self.note(format!("create {name}"));
        let made = self.change(|p| p.create_filesystem(&name, NewFilesystem::default(), vec![]))?;
        if made.is_none() {
            return Ok(());
        }
        let fs = self.filesystem(&name);
        let root = fs.root().map_err(|e| e.to_string())?;
        let tree = Tree::new(root.number(), root.mtime);
        self.model.sets.insert(name, Set::new(Arc::new(State::Files(tree))));
        Ok(())
    }

    pub(super) fn create_volume(&mut self) -> Result<(), String> {
        let name = self.new_name();
        let shift = self.rng.below(9);
        let block = 512u64 << shift;
        let size = block * (1 + self.rng.below((4 << 20) / block));
        self.note(format!("create {name}, {size} bytes in blocks of {block}"));
        let made = self.change(|p| p.create_volume(&name, size, block as u32, vec![]))?;
        if made.is_some() {
            let content = Content { size, ..Content::default() };
            self.model.sets.insert(name, Set::new(Arc::new(State::Volume(content))));
        }
        self.note_durable();
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), String> {
        let mut sets = vec![self.any_set(|_| true).unwrap()];
        if self.rng.below(4) == 0 {
            sets = self.model.names(|_| true);
        }
        let names: Vec<String> = sets.iter().map(|s| format!("{s}@{}", self.unique("s"))).collect();
        self.note(format!("snapshot {names:?}"));
        if self.change(|p| p.snapshot(&names, vec![]))?.is_none() {
            return Ok(());
        }
        for name in &names {
            let (set, snap) = name.split_once('@').unwrap();
            let set = self.model.sets.get_mut(set).unwrap();
            set.snapshots.push((snap.to_owned(), Arc::clone(&set.state)));
        }
        Ok(())
    }

    fn clone_one(&mut self) -> Result<(), String> {
        let Some((set, snap)) = self.any_snapshot() else { return self.snapshot() };
        let name = self.new_name();
        self.note(format!("clone {set}@{snap} {name}"));
        if self.change(|p| p.clone_snapshot(&format!("{set}@{snap}"), &name, vec![]))?.is_none() {
            return Ok(());
        }
        let of = &self.model.sets[&set];
        let state = of.snapshots.iter().find(|(n, _)| *n == snap).unwrap().1.clone();
        let clone = Set { origin: Some(snap), ..Set::new(state) };
        self.model.sets.insert(name, clone);
        Ok(())
    }

    fn promote(&mut self) -> Result<(), String> {
        let Some(name) = self.any_set(|s| s.origin.is_some()) else { return self.clone_one() };
        self.note(format!("promote {name}"));
        if self.change(|p| p.promote(&name))?.is_some() {
            self.model.promote(&name);
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), String> {
        let Some((set, snap)) = self.any_snapshot() else { return Ok(()) };
        let younger = {
            let all = &self.model.sets[&set].snapshots;
            let at = all.iter().position(|(n, _)| *n == snap).unwrap();
            all[at + 1..].iter().map(|(n, _)| n.clone()).collect::<Vec<_>>()
        };
        let force = self.rng.below(3) != 0;
        self.note(format!("rollback {set}@{snap}, destroying younger: {force}"));
        let full = format!("{set}@{snap}");
        let in_the_way = !younger.is_empty() && !force;
        let cloned = younger.iter().any(|s| !self.model.clones(s).is_empty());
        let done = self.pool().rollback(&full, force);
        match done {
            Ok(()) if in_the_way || cloned => Err("rolled back over snapshots".to_owned()),
            Ok(()) => {
                self.filesystems.remove(&set);
                self.volumes.remove(&set);
                let set = self.model.sets.get_mut(&set).unwrap();
                set.snapshots.retain(|(n, _)| !younger.contains(n));
                set.state = Arc::clone(&set.snapshots.last().unwrap().1);
                Ok(())
            }
            // A bookmark may be in the way, of which the model knows nothing.
            Err(Error::Dsl(engine::inside::dsl::Error::Refused {
                why: Refusal::HasYounger(_),
                ..
            })) if !force => Ok(()),
            Err(_) if cloned => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn rename_set(&mut self) -> Result<(), String> {
        let Some(from) = self.any_below() else { return Ok(()) };
        let to = self.new_name();
        self.note(format!("rename {from} {to}"));
        let below = to.starts_with(&format!("{from}/"));
        match self.pool().rename(&from, &to) {
            Ok(()) if below => Err("renamed below itself".to_owned()),
            Ok(()) => {
                self.close_handles();
                self.model.rename(&from, &to);
                Ok(())
            }
            Err(_) if below => Ok(()),
            Err(e) if is_space(&e) => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn destroy_snapshot(&mut self) -> Result<(), String> {
        let Some((set, snap)) = self.any_snapshot() else { return Ok(()) };
        let full = format!("{set}@{snap}");
        self.note(format!("destroy {full}"));
        let cloned = !self.model.clones(&snap).is_empty();
        match self.pool().destroy_snapshots(&[full], false) {
            Ok(()) if cloned => Err("it had clones".to_owned()),
            Ok(()) => {
                let set = self.model.sets.get_mut(&set).unwrap();
                set.snapshots.retain(|(n, _)| *n != snap);
                Ok(())
            }
            Err(_) if cloned => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn destroy_set(&mut self) -> Result<(), String> {
        let Some(name) = self.any_below() else { return Ok(()) };
        self.note(format!("destroy {name}"));
        let has = !self.model.sets[&name].snapshots.is_empty() || self.model.children(&name);
        match self.pool().destroy_dataset(&name) {
            Ok(()) if has => Err("it had snapshots or children".to_owned()),
            Ok(()) => {
                self.filesystems.remove(&name);
                self.volumes.remove(&name);
                self.model.sets.remove(&name);
                Ok(())
            }
            Err(_) if has => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn bookmark(&mut self) -> Result<(), String> {
        let Some((set, snap)) = self.any_snapshot() else { return Ok(()) };
        let name = format!("{set}#{}", self.unique("b"));
        self.note(format!("bookmark {set}@{snap} {name}"));
        self.pool().bookmark(&name, &format!("{set}@{snap}")).map_err(|e| e.to_string())
    }

    fn set(&mut self, set: &str, name: &str, value: &str) -> Result<(), String> {
        self.note(format!("set {name}={value} {set}"));
        let kind = match self.model.sets[set].is_files() {
            true => DatasetKind::Filesystem,
            false => DatasetKind::Volume,
        };
        let value = match parse_value(name, value, kind, false) {
            Ok(value) => value,
            // Volumes do not have all of them.
            Err(_) if kind == DatasetKind::Volume => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        let change = PropertyChange { name: name.to_owned(), value: Some(value) };
        self.change(|p| p.set_property(set, change)).map(drop)
    }

    fn property(&mut self) -> Result<(), String> {
        let set = self.any_set(|_| true).unwrap();
        let (name, values) = *self.rng.pick(&PROPERTIES);
        let value = *self.rng.pick(values);
        let is_kept_on = self.has_checksums && (name, value) == ("checksum", "off");
        self.set(&set, name, if is_kept_on { "on" } else { value })
    }

    /// Takes all quotas and reservations away, so that other operations can write.
    pub fn free_limits(&mut self) {
        for set in self.model.names(|_| true) {
            for name in ["quota", "refquota", "reservation", "refreservation"] {
                self.set(&set, name, "none").unwrap();
            }
        }
        self.note_durable();
    }

    /// Quotas and reservations, sometimes tight, and soon taken away again.
    fn limits(&mut self) -> Result<(), String> {
        let set = self.any_set(|_| true).unwrap();
        let names = ["quota", "refquota", "reservation", "refreservation"];
        let name = *self.rng.pick(&names);
        let value = match self.rng.below(3) {
            0 => format!("{}K", 100 + self.rng.below(20_000)),
            _ => "none".to_owned(),
        };
        self.set(&set, name, &value)
    }
}
