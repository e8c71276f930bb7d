//! Vdevs in JSON, with the names that OpenZFS 2.3 has for their figures.

use super::View;
use engine::config::VdevKind;
use engine::live::SpaceClass;
use engine::pools::{Section, Status, VdevView};
use serde_json::{Map, Value, json};

/// Labels and boot area of a device.
const RESERVED: u64 = 9 << 19;

/// What a device must have room for to take the place of one below a vdev that needs `bytes`.
fn share(of: &VdevView, bytes: u64) -> u64 {
    match of.kind {
        VdevKind::Raidz { .. } => bytes.div_ceil((of.children.len() as u64).max(1)),
        // Rows do not come out even: it would be a guess.
        VdevKind::Draid { .. } => 0,
        _ => bytes,
    }
}

impl View {
    /// The pool's own vdev with those that have its ordinary data below it.
    pub(super) fn root(&self, status: &Status) -> Map<String, Value> {
        let numbers = self.numbers;
        let mut map = Map::new();
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(status.pool));
        put("vdev_type", json!("root"));
        put("guid", numbers.plain(status.guid));
        put("class", json!("normal"));
        put("state", json!(status.health));
        let classes = [SpaceClass::Normal, SpaceClass::Special, SpaceClass::Dedup];
        let tops = classes.iter().flat_map(|class| status.vdevs.section(Section::Tops(*class)));
        let sum = |of: &dyn Fn(&VdevView) -> u64| tops.clone().map(of).fold(0, u64::saturating_add);
        let spaces = [sum(&|v| v.space[1]), sum(&|v| v.space[0]), sum(&|v| v.deflated)];
        for (name, bytes) in ["alloc_space", "total_space", "def_space"].into_iter().zip(spaces) {
            if bytes > 0 {
                put(name, numbers.bytes(bytes));
            }
        }
        for name in ["read_errors", "write_errors", "checksum_errors"] {
            put(name, numbers.count(0));
        }
        let normal = status.vdevs.section(Section::Tops(SpaceClass::Normal));
        put("vdevs", Value::Object(self.children(normal, "normal", None)));
        map
    }

    /// Vdevs by name. `bytes`: what a device must have room for to take the place of each, which a
    /// vdev right below the pool says itself.
    // Depth is bounded: the configuration's decoder limits it.
    pub(super) fn children(
        &self,
        vdevs: &[VdevView],
        class: &str,
        bytes: Option<u64>,
    ) -> Map<String, Value> {
        let one = |v: &VdevView| {
            let needs = bytes.unwrap_or(v.space[0]);
            (v.name.clone(), Value::Object(self.vdev(v, class, needs)))
        };
        vdevs.iter().map(one).collect()
    }

    fn vdev(&self, v: &VdevView, class: &str, needs: u64) -> Map<String, Value> {
        let numbers = self.numbers;
        let mut map = Map::new();
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(v.name));
        put("vdev_type", json!(v.kind.name()));
        put("guid", numbers.plain(v.guid));
        let names = [("path", &v.path), ("phys_path", &v.phys_path), ("devid", &v.devid)];
        for (name, text) in names {
            text.iter().for_each(|text| drop(put(name, json!(text))));
        }
        put("class", json!(class));
        put("state", json!(v.state.name()));
        let is_leaf = v.children.is_empty();
        if v.is_top {
            put("alloc_space", numbers.bytes(v.space[1]));
            put("total_space", numbers.bytes(v.space[0]));
            put("def_space", numbers.bytes(v.deflated));
        }
        if needs > 0 {
            let reserved = if is_leaf { RESERVED } else { 0 };
            put("rep_dev_size", numbers.bytes(needs.saturating_add(reserved)));
        }
        if v.expand_size > 0 {
            put("ex_dev_size", numbers.bytes(v.expand_size));
        }
        if is_leaf && v.size > 0 {
            put("phys_space", numbers.bytes(v.size));
        }
        put("read_errors", numbers.count(v.read_errors));
        put("write_errors", numbers.count(v.write_errors));
        put("checksum_errors", numbers.count(v.checksum_errors));
        if is_leaf {
            put("slow_ios", numbers.count(v.slow_requests));
        }
        if let Some(store) = &v.store {
            put("store", json!(store));
        }
        let remark = self.remark(v);
        if !remark.is_empty() {
            put("remark", json!(remark));
        }
        if !is_leaf {
            let below = self.children(&v.children, class, Some(share(v, needs)));
            put("vdevs", Value::Object(below));
        }
        map
    }
}
