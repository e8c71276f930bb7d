//! Properties of vdevs.
//!
//! They come from the configuration, from the space maps and from the vdev's own ZAP in the MOS
//! (properties that a user set). Counters that only a running system has are those of this process.

use dmu::{Zap, ZapEntry};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos::vdev_zap;
use ondisk::pool_props::VDEV;
use ondisk::props::{self, Access, ValueKind, is_user_property};
use pool::live::property_table;
use pool::{Pool, PoolProperty, PoolPropertySource, VdevTreeView, VdevView};

/// "Not set", as a number.
const NOT_SET: u64 = u64::MAX;

/// A vdev that was named; the root is one too.
pub struct NamedVdev<'v> {
    view: Option<&'v VdevView>,
    guid: u64,
    name: String,
}

/// The vdevs of these names: as `zpool status` shows them, with or without their directories,
/// guids, `root`, or `all-vdevs`. `None` when one of them is not a vdev.
#[must_use]
pub fn named_vdevs<'v>(
    pool: &Pool,
    view: &'v VdevTreeView,
    names: &[String],
) -> Option<Vec<NamedVdev<'v>>> {
    let root =
        || NamedVdev { view: None, guid: pool.config().vdev_tree.guid, name: "root-0".into() };
    let of = |v: &'v VdevView| NamedVdev { view: Some(v), guid: v.guid, name: short(&v.name) };
    if names == ["all-vdevs"] {
        return Some([root()].into_iter().chain(view.walk().map(of)).collect());
    }
    let find = |name: &String| {
        if name == "root" || name == "root-0" {
            return Some(root());
        }
        let fits = |v: &&VdevView| {
            v.name == *name || short(&v.name) == *name || v.guid.to_string() == *name
        };
        view.walk().find(fits).map(of)
    };
    names.iter().map(find).collect()
}

impl NamedVdev<'_> {
    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Its name as it is shown.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn short(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// All properties of a vdev in the order of `zpool get all`.
#[must_use]
pub fn vdev_properties(pool: &Pool, v: &NamedVdev<'_>) -> Vec<PoolProperty> {
    let tree = &pool.config().vdev_tree;
    let config = tree.find(v.guid);
    let stored = config.and_then(|c| stored(pool, c));
    let mut out = Vec::new();
    let is_raidz = config.is_some_and(|c| matches!(c.kind, VdevKind::Raidz { .. }));
    // Only a raidz vdev can be expanded.
    let applies =
        |p: &&props::PropertyDesc| p.is_visible() && (is_raidz || p.name != "raidz_expanding");
    for p in VDEV.iter().filter(applies) {
        let set = stored.as_ref().and_then(|t| t.get(p.name.as_bytes()).ok().flatten());
        // A number may be set to what says that it is not set.
        let is_set = |e: &ZapEntry| e.u64() != Some(NOT_SET) || p.default_number() != Some(NOT_SET);
        let set = set.filter(is_set);
        let set = set.and_then(|e| match e.value_text() {
            Some(t) => Some(String::from_utf8_lossy(t).into_owned()),
            None => e.u64().map(|n| word(p, n)),
        });
        let (value, source) = match (set, p.access) {
            (Some(value), Access::Settable) => (value, PoolPropertySource::Local),
            (_, Access::ReadOnly) => (computed(pool, v, config, p.name), PoolPropertySource::None),
            _ => (unset(config, p), PoolPropertySource::Default),
        };
        out.push(PoolProperty { name: p.name.to_owned(), value, source });
    }
    out.extend(stored.iter().flat_map(Zap::entries).flatten().filter_map(|e| invented(&e)));
    out
}

/// An entry of a vdev's ZAP that is a user property. Entries that vdevs keep about themselves are
/// numbers, but for their class.
fn invented(entry: &ZapEntry) -> Option<PoolProperty> {
    let name = std::str::from_utf8(entry.name.bytes()?).ok()?;
    if !is_user_property(name) || name == vdev_zap::ALLOCATION_BIAS {
        return None;
    }
    let value = String::from_utf8_lossy(entry.value_text()?).into_owned();
    Some(PoolProperty { name: name.to_owned(), value, source: PoolPropertySource::Local })
}

/// The table of what a user set for the vdev.
fn stored(pool: &Pool, config: &VdevConfig) -> Option<Zap> {
    Zap::open(&pool.mos().object(property_table(config)?).ok()?).ok()
}

fn word(p: &'static props::PropertyDesc, n: u64) -> String {
    match p.kind {
        ValueKind::Index(..) => p.word(n).map_or_else(|| n.to_string(), str::to_owned),
        _ => n.to_string(),
    }
}

fn unset(config: Option<&VdevConfig>, p: &'static props::PropertyDesc) -> String {
    let dash = || "-".to_owned();
    match p.name {
        "path" => config.and_then(|c| c.path.clone()).unwrap_or_else(dash),
        "allocating" if config.is_some_and(|c| c.non_allocating) => "off".to_owned(),
        "allocating" if config.is_none_or(|c| c.ashift.is_none()) => dash(),
        _ => match p.default_number() {
            None | Some(NOT_SET) => dash(),
            Some(n) => word(p, n),
        },
    }
}

fn computed(pool: &Pool, v: &NamedVdev<'_>, config: Option<&VdevConfig>, name: &str) -> String {
    number(v, config, name)
        .map(|n| n.to_string())
        .or_else(|| words(pool, v, config, name))
        .unwrap_or_else(|| "-".to_owned())
}

fn number(v: &NamedVdev<'_>, config: Option<&VdevConfig>, name: &str) -> Option<u64> {
    let view = v.view;
    let top = view.filter(|v| v.is_top);
    let space = |i: usize| top.map(|v| v.space[i]);
    Some(match name {
        "guid" => v.guid,
        "size" => space(0).unwrap_or(0),
        "allocated" => space(1).unwrap_or(0),
        "free" => space(0)?.saturating_sub(space(1)?),
        "capacity" => {
            let (part, all) = (u128::from(space(1)?), u128::from(space(0)?));
            u64::try_from((part * 100).checked_div(all).unwrap_or(0)).ok()?
        }
        "fragmentation" => view?.fragmentation?,
        "expandsize" => top.map(|v| v.expand_size).filter(|n| *n != 0)?,
        "asize" => config?.asize.unwrap_or(0),
        "psize" => view?.size,
        "ashift" => config?.ashift.unwrap_or(0),
        "parity" => match config?.kind {
            VdevKind::Raidz { nparity } | VdevKind::Draid { nparity, .. } => u64::from(nparity),
            _ => 0,
        },
        "numchildren" => config?.children.len() as u64,
        "read_errors" => view?.read_errors,
        "write_errors" => view?.write_errors,
        "checksum_errors" => view?.checksum_errors,
        "slow_ios" => view?.slow_requests,
        "initialize_errors" | "trim_errors" | "bootsize" => 0,
        _ => return None,
    })
}

fn words(
    pool: &Pool,
    v: &NamedVdev<'_>,
    config: Option<&VdevConfig>,
    name: &str,
) -> Option<String> {
    let tree = &pool.config().vdev_tree;
    let label = |c: &VdevConfig| {
        let tree = pool.vdevs();
        let node = tree.walk().find(|n| n.guid() == c.guid);
        node.map_or_else(|| c.guid.to_string(), |n| short(n.name()))
    };
    let on_off = |b: bool| Some(if b { "on" } else { "off" }.to_owned());
    match name {
        "state" => match v.view {
            Some(v) => Some(v.state.name().to_lowercase()),
            None => Some(pool.vdevs().root().state().name().to_lowercase()),
        },
        "devid" => config?.devid.clone(),
        "physpath" => config?.phys_path.clone(),
        "parent" => {
            let parent = tree.walk().find(|p| p.children.iter().any(|c| c.guid == v.guid))?;
            Some(if parent.guid == tree.guid { "root-0".to_owned() } else { label(parent) })
        }
        "children" => {
            let names: Vec<String> = config?.children.iter().map(label).collect();
            Some(names.join(",")).filter(|t| !t.is_empty())
        }
        "removing" => on_off(config?.removing),
        "raidz_expanding" => on_off(config?.raidz_expanding),
        _ => None,
    }
}
