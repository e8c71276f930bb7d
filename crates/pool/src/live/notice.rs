//! Posting events (`events.rs`): what changed since it was looked last, and what is reported.

use super::LivePool;
use super::events::{EventValue, Events, KnownState, Leaf, text};
use super::shared::Shared;
use ondisk::config::VdevConfig;
use ondisk::nvlist::{NvList, NvValue};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vdev::VdevState;

/// The member that says by which way a resilver goes.
const RESILVER_TYPE: &str = "resilver_type";

/// OpenZFS's number of a state.
fn number(state: VdevState) -> EventValue {
    EventValue::Number(match state {
        VdevState::Offline => 2,
        VdevState::Removed => 3,
        VdevState::Unavail => 4,
        VdevState::Faulted => 5,
        VdevState::Degraded => 6,
        VdevState::Online => 7,
    })
}

impl Shared {
    /// Posts an event of the pool.
    pub(super) fn post(&self, class: &str, members: Vec<(&'static str, EventValue)>) {
        let (pool, guid) = {
            let config = self.config.lock();
            (config.facts.name.clone(), config.facts.guid)
        };
        let mut all = vec![
            ("pool", text(&pool)),
            ("pool_guid", EventValue::Number(guid)),
            ("pool_state", EventValue::Number(0)),
            ("pool_context", EventValue::Number(0)),
        ];
        all.extend(members);
        self.events.post(class, all);
    }

    /// The same of a class below `sysevent.fs.zfs`.
    pub(super) fn post_system(&self, name: &str) {
        self.post(&format!("sysevent.fs.zfs.{name}"), Vec::new());
    }

    /// The same of a device, which may have left the pool.
    pub(super) fn post_device(&self, name: &str, guid: u64) {
        let class = format!("sysevent.fs.zfs.{name}");
        match self.look().leaves.get(&guid) {
            Some(leaf) => self.post_leaf(&class, guid, leaf, Vec::new()),
            None => self.post(&class, vec![("vdev_guid", EventValue::Number(guid))]),
        }
    }

    /// Posts where a resilver that follows pointers begins or ends.
    pub(super) fn post_resilver(&self, name: &str) {
        self.post(&format!("sysevent.fs.zfs.{name}"), vec![(RESILVER_TYPE, text("healing"))]);
    }

    /// The same of a rebuild, which is of a top-level vdev.
    pub(super) fn post_rebuild(&self, name: &str, top: &VdevConfig) {
        let tree = self.reader.vdevs();
        let state = tree.tops().find(|t| u64::from(t.id()) == top.id).map(|t| t.node().state());
        let mut members = vec![("vdev_guid", EventValue::Number(top.guid))];
        members.extend(state.map(|state| ("vdev_state", number(state))));
        members.extend(top.path.as_deref().map(|path| ("vdev_path", text(path))));
        members.push((RESILVER_TYPE, text("sequential")));
        self.post(&format!("sysevent.fs.zfs.{name}"), members);
    }

    /// Posts what a record of the history says.
    pub(super) fn post_history(&self, record: &NvList) {
        const NAMES: [(&str, &str); 9] = [
            ("history hostname", "history_hostname"),
            ("history command", "history_command"),
            ("history who", "history_who"),
            ("dsname", "history_dsname"),
            ("dsid", "history_dsid"),
            ("internal_name", "history_internal_name"),
            ("history internal str", "history_internal_str"),
            ("history txg", "history_txg"),
            ("history time", "history_time"),
        ];
        let member = |(stored, name): (&str, &'static str)| match record.get(stored)? {
            NvValue::U64(n) => Some((name, EventValue::Number(*n))),
            NvValue::String(s) => Some((name, text(&String::from_utf8_lossy(s)))),
            _ => None,
        };
        self.post("sysevent.fs.zfs.history_event", NAMES.into_iter().filter_map(member).collect());
    }

    fn look(&self) -> KnownState {
        let tree = self.reader.vdevs();
        let mut leaves = BTreeMap::new();
        for top in tree.tops() {
            let mut below = vec![top.node()];
            while let Some(node) = below.pop() {
                below.extend(node.children());
                if node.kind() != "leaf" {
                    continue;
                }
                let (path, state) = (node.name().to_owned(), node.state());
                let errors = [node.read_errors(), node.write_errors(), node.checksum_errors()];
                let counts = [errors[0], errors[1], errors[2], node.slow_requests()];
                leaves.insert(node.guid(), Leaf { path, top: top.node().guid(), state, counts });
            }
        }
        let is_suspended = self.txgs.why_suspended().is_some();
        let labels = self.labels_written.load(Ordering::Relaxed);
        KnownState { leaves, is_suspended, labels }
    }

    /// Takes what is there now as known.
    pub(super) fn know_state(&self) {
        *self.seen.lock() = self.look();
    }

    /// Posts what changed since it was looked last.
    pub(super) fn note_changes(&self) {
        // Held to the end, or two threads that look at the same time would tell everything twice.
        let mut seen = self.seen.lock();
        let now = self.look();
        let before = std::mem::replace(&mut *seen, now.clone());
        let tops: BTreeSet<u64> = before.leaves.values().map(|leaf| leaf.top).collect();
        for (guid, leaf) in &now.leaves {
            match before.leaves.get(guid) {
                Some(old) => self.note_leaf(*guid, old, leaf),
                None => {
                    let is_new = !tops.contains(&leaf.top);
                    let name = if is_new { "vdev_add" } else { "vdev_attach" };
                    self.post_leaf(&format!("sysevent.fs.zfs.{name}"), *guid, leaf, Vec::new());
                }
            }
        }
        for (guid, leaf) in before.leaves.iter().filter(|(guid, _)| !now.leaves.contains_key(guid))
        {
            self.post_leaf("sysevent.fs.zfs.vdev_remove", *guid, leaf, Vec::new());
        }
        for block in self.block_faults.take_untold() {
            let members = [
                ("zio_objset", block.objset),
                ("zio_object", block.object),
                ("zio_level", block.level().cast_unsigned()),
                ("zio_blkid", block.blkid),
            ];
            let members = members.map(|(name, n)| (name, EventValue::Number(n)));
            self.post("ereport.fs.zfs.data", members.to_vec());
        }
        if now.is_suspended && !before.is_suspended {
            self.post("ereport.fs.zfs.io_failure", Vec::new());
        }
        if now.labels != before.labels {
            self.post_system("config_sync");
        }
    }

    fn note_leaf(&self, guid: u64, old: &Leaf, leaf: &Leaf) {
        let grown = |n: usize| leaf.counts[n] > old.counts[n];
        let kinds = [("io", grown(0) || grown(1)), ("checksum", grown(2)), ("delay", grown(3))];
        for (kind, _) in kinds.into_iter().filter(|(_, grown)| *grown) {
            let counts = ["vdev_read_errors", "vdev_write_errors", "vdev_cksum_errors"];
            let counts = counts.into_iter().zip(leaf.counts);
            let counts = counts.map(|(name, n)| (name, EventValue::Number(n))).collect();
            self.post_leaf(&format!("ereport.fs.zfs.{kind}"), guid, leaf, counts);
        }
        if old.state == leaf.state {
            return;
        }
        if leaf.state == VdevState::Removed {
            self.post_leaf("resource.fs.zfs.removed", guid, leaf, Vec::new());
        }
        let last = vec![("vdev_laststate", number(old.state))];
        self.post_leaf("resource.fs.zfs.statechange", guid, leaf, last);
        if leaf.state == VdevState::Online {
            self.post_leaf("sysevent.fs.zfs.vdev_online", guid, leaf, Vec::new());
        }
    }

    /// Posts that a device which is not a leaf has another state.
    pub(super) fn post_state(&self, guid: u64, path: &str, old: VdevState, now: VdevState) {
        let members = vec![
            ("vdev_guid", EventValue::Number(guid)),
            ("vdev_state", number(now)),
            ("vdev_path", text(path)),
            ("vdev_laststate", number(old)),
        ];
        self.post("resource.fs.zfs.statechange", members);
    }

    fn post_leaf(
        &self,
        class: &str,
        guid: u64,
        leaf: &Leaf,
        more: Vec<(&'static str, EventValue)>,
    ) {
        let mut members = vec![
            ("vdev_guid", EventValue::Number(guid)),
            ("vdev_state", number(leaf.state)),
            ("vdev_path", text(&leaf.path)),
        ];
        members.extend(more);
        self.post(class, members);
    }
}

impl LivePool {
    /// What happened to the pool since this process holds it. Outlives the pool.
    #[must_use]
    pub fn events(&self) -> Arc<Events> {
        self.shared.note_changes();
        Arc::clone(&self.shared.events)
    }
}
