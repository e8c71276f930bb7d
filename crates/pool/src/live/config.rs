//! What a pool's configuration looks like in the labels and in the MOS, made from a tree of vdevs.
//!
//! The tree is kept as [`VdevConfig`]s whose stored list is the truth ([`VdevConfig::nvlist`]), so
//! that members this program knows nothing of survive every change. Members stand in the order in
//! which OpenZFS writes them. Specified in `docs/format/config.md`.

use ondisk::config::{PoolConfig, PoolState, VdevConfig, VdevKind, draid_name};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::spelling;
use vdev::draid::Draid;
use zio::SpaceClass;

/// Number of a pool's first txg.
pub const FIRST_TXG: u64 = 4;

/// What a new vdev is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VdevSpec {
    /// A device or file.
    Leaf {
        /// Path as it is to stand in the labels.
        path: String,
        /// A regular file: the label says `file`, else `disk`.
        is_file: bool,
    },
    /// All children hold the same.
    Mirror(Vec<VdevSpec>),
    /// Parity over the children.
    Raidz {
        /// Parity columns, 1 to 3.
        nparity: u64,
        /// The leaves.
        children: Vec<VdevSpec>,
    },
    /// Groups of data and parity, and spares, distributed over the children.
    Draid {
        /// Parity columns of a group, 1 to 3.
        nparity: u64,
        /// Data columns of a group.
        ndata: u64,
        /// Distributed spares.
        nspares: u64,
        /// The leaves.
        children: Vec<VdevSpec>,
    },
}

impl VdevSpec {
    /// Its leaves in order.
    #[must_use]
    pub fn leaves(&self) -> Vec<&str> {
        match self {
            Self::Leaf { path, .. } => vec![path],
            Self::Mirror(c) | Self::Raidz { children: c, .. } | Self::Draid { children: c, .. } => {
                c.iter().flat_map(Self::leaves).collect()
            }
        }
    }

    /// What its name begins with, as [`VdevConfig::kind_name`] says of a vdev that is there.
    #[must_use]
    pub fn kind_name(&self) -> String {
        match self {
            Self::Leaf { is_file: true, .. } => "file".to_owned(),
            Self::Leaf { .. } => "disk".to_owned(),
            Self::Mirror(_) => "mirror".to_owned(),
            Self::Raidz { nparity, .. } => format!("raidz{nparity}"),
            Self::Draid { nparity, ndata, nspares, children } => {
                draid_name(*nparity, *ndata, children.len(), *nspares)
            }
        }
    }
}

/// A list under construction.
#[derive(Default)]
pub(super) struct Builder(NvList);

impl Builder {
    pub(super) fn new() -> Self {
        Self(NvList::new())
    }

    pub(super) fn u64(mut self, name: &str, value: u64) -> Self {
        self.0.set(name, NvValue::U64(value));
        self
    }

    pub(super) fn text(mut self, name: &str, value: &str) -> Self {
        self.0.set(name, NvValue::String(value.as_bytes().to_vec()));
        self
    }

    fn u64s(mut self, name: &str, value: Vec<u64>) -> Self {
        self.0.set(name, NvValue::U64Array(value));
        self
    }

    fn bytes(mut self, name: &str, value: Vec<u8>) -> Self {
        self.0.set(name, NvValue::String(value));
        self
    }

    pub(super) fn boolean(mut self, name: &str) -> Self {
        self.0.set(name, NvValue::Boolean);
        self
    }

    pub(super) fn list(mut self, name: &str, value: NvList) -> Self {
        self.0.set(name, NvValue::NvList(value));
        self
    }

    pub(super) fn lists(mut self, name: &str, value: Vec<NvList>) -> Self {
        self.0.set(name, NvValue::NvListArray(value));
        self
    }

    pub(super) fn done(self) -> NvList {
        self.0
    }
}

/// Numbers a new top-level vdev is given before it has a configuration.
pub(super) struct TopNumbers {
    pub(super) id: u64,
    pub(super) ashift: u64,
    pub(super) asize: u64,
    pub(super) metaslab_shift: u64,
    pub(super) create_txg: u64,
}

/// The configuration of a new top-level vdev; its MOS objects are still 0.
pub(super) fn new_top(
    spec: &VdevSpec,
    class: SpaceClass,
    n: &TopNumbers,
    guid: &mut dyn FnMut() -> u64,
) -> ondisk::Result<VdevConfig> {
    let mut list = vdev_list(spec, n.id, n.create_txg, guid);
    for (name, value) in [
        ("metaslab_array", 0),
        ("metaslab_shift", n.metaslab_shift),
        ("ashift", n.ashift),
        ("asize", n.asize),
        ("is_log", u64::from(class == SpaceClass::Log)),
    ] {
        list.set(name, NvValue::U64(value));
    }
    if class != SpaceClass::Normal {
        list.set("alloc_bias", NvValue::String(class.name().as_bytes().to_vec()));
    }
    list.set("create_txg", NvValue::U64(n.create_txg));
    VdevConfig::decode(&list)
}

fn vdev_list(spec: &VdevSpec, id: u64, txg: u64, guid: &mut dyn FnMut() -> u64) -> NvList {
    let kind = match spec {
        VdevSpec::Leaf { is_file: true, .. } => "file",
        VdevSpec::Leaf { .. } => "disk",
        VdevSpec::Mirror(_) => "mirror",
        VdevSpec::Raidz { .. } => "raidz",
        VdevSpec::Draid { .. } => "draid",
    };
    let list = Builder::new().text("type", kind).u64("id", id).u64("guid", guid());
    let mut below = |children: &[VdevSpec]| {
        let children = children.iter().zip(0..);
        children.map(|(c, id)| vdev_list(c, id, txg, guid).clone()).collect()
    };
    match spec {
        VdevSpec::Leaf { path, .. } => {
            let list = list.text("path", path);
            list.u64("whole_disk", 0).u64("create_txg", txg).done()
        }
        VdevSpec::Mirror(children) => list.lists("children", below(children)).done(),
        VdevSpec::Raidz { nparity, children } => {
            list.u64("nparity", *nparity).lists("children", below(children)).done()
        }
        VdevSpec::Draid { nparity, ndata, nspares, children } => list
            .u64("nparity", *nparity)
            .u64("draid_ndata", *ndata)
            .u64("draid_nspares", *nspares)
            .u64("draid_ngroups", Draid::groups(*nparity + *ndata, children.len(), *nspares))
            .lists("children", below(children))
            .done(),
    }
}

/// The distributed spares of new top-level vdevs, as the list of spares has them.
pub(super) fn distributed_spares(
    tops: &[VdevConfig],
    guid: &mut dyn FnMut() -> u64,
) -> Vec<NvList> {
    let mut out = Vec::new();
    for top in tops {
        let VdevKind::Draid { nparity, nspares, .. } = top.kind else { continue };
        out.extend((0..u64::from(nspares)).map(|spare| {
            let list = Builder::new().text("type", "dspare").u64("guid", guid());
            let list = list.text("path", &format!("draid{nparity}-{}-{spare}", top.id));
            let list = list.u64("top_guid", top.guid).u64("spareid", spare);
            let list = list.u64("whole_disk", 1).u64("is_spare", 1);
            list.u64("ashift", top.ashift.unwrap_or(9)).done()
        }));
    }
    out
}

/// A root over top-level vdevs.
pub(super) fn new_root(
    guid: u64,
    create_txg: u64,
    tops: &[VdevConfig],
) -> ondisk::Result<VdevConfig> {
    let tops = tops.iter().map(VdevConfig::to_nvlist).collect();
    let list = Builder::new().text("type", "root").u64("id", 0).u64("guid", guid);
    VdevConfig::decode(&list.u64("create_txg", create_txg).lists("children", tops).done())
}

/// Takes the changed list of a vdev. Classes stay what they were: they stand in tables of vdevs,
/// not in every stored list.
fn decode_again(vdev: &mut VdevConfig, list: &NvList) -> ondisk::Result<()> {
    let mut new = VdevConfig::decode(list)?;
    new.alloc_bias.clone_from(&vdev.alloc_bias);
    for (new, old) in new.children.iter_mut().zip(&vdev.children) {
        new.alloc_bias.clone_from(&old.alloc_bias);
    }
    *vdev = new;
    Ok(())
}

/// A vdev with other children.
pub(super) fn with_children(
    vdev: &VdevConfig,
    children: Vec<VdevConfig>,
) -> ondisk::Result<VdevConfig> {
    let mut list = vdev.to_nvlist();
    let lists = children.iter().map(VdevConfig::to_nvlist).collect();
    list.set("children", NvValue::NvListArray(lists));
    let mut new = VdevConfig { children, ..vdev.clone() };
    decode_again(&mut new, &list)?;
    Ok(new)
}

/// Sets a member of a vdev, in the stored list and in the decoded form.
pub(super) fn set_u64(vdev: &mut VdevConfig, name: &str, value: u64) -> ondisk::Result<()> {
    let mut list = vdev.to_nvlist();
    list.set(name, NvValue::U64(value));
    decode_again(vdev, &list)
}

/// The same with several numbers.
pub(super) fn set_u64s(vdev: &mut VdevConfig, name: &str, values: Vec<u64>) -> ondisk::Result<()> {
    let mut list = vdev.to_nvlist();
    list.set(name, NvValue::U64Array(values));
    decode_again(vdev, &list)
}

/// The same with one that says yes by being there.
pub(super) fn set_flag(vdev: &mut VdevConfig, name: &str) -> ondisk::Result<()> {
    let mut list = vdev.to_nvlist();
    list.set(name, NvValue::Boolean);
    decode_again(vdev, &list)
}

/// The same with a text.
pub(super) fn set_text(vdev: &mut VdevConfig, name: &str, text: &str) -> ondisk::Result<()> {
    let mut list = vdev.to_nvlist();
    list.set(name, NvValue::String(text.as_bytes().to_vec()));
    decode_again(vdev, &list)
}

/// Removes members of a vdev.
pub(super) fn unset(vdev: &mut VdevConfig, names: &[&str]) -> ondisk::Result<()> {
    let mut list = vdev.to_nvlist();
    for name in names {
        list.remove(name);
    }
    decode_again(vdev, &list)
}

/// What a configuration says of a split that has not ended, or made the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Split {
    /// There is none.
    #[default]
    None,
    /// These leaves become another pool.
    Into(Vec<u64>),
    /// The pool was made of leaves of the one with this guid, and has not been closed since.
    From(u64),
}

/// What stands beside the tree of vdevs in every configuration of a pool.
#[derive(Clone, Debug)]
pub(super) struct PoolFacts {
    pub(super) version: u64,
    pub(super) name: String,
    pub(super) guid: u64,
    pub(super) hostid: u64,
    pub(super) hostname: String,
    pub(super) errata: u64,
    pub(super) comment: Option<String>,
    pub(super) compatibility: Option<String>,
    /// Active features that one must know to read the MOS.
    pub(super) features_for_read: Vec<String>,
    pub(super) split: Split,
}

impl PoolFacts {
    /// Those of a configuration that was read.
    pub(super) fn of(config: &PoolConfig) -> Self {
        Self {
            version: config.version,
            name: config.name.clone(),
            guid: config.pool_guid,
            hostid: config.hostid.unwrap_or(0),
            hostname: config.hostname.clone().unwrap_or_default(),
            errata: config.errata,
            comment: config.comment.clone(),
            compatibility: config.compatibility.clone(),
            features_for_read: config.features_for_read.clone(),
            split: match config.splitting.is_empty() {
                true => Split::None,
                false => Split::Into(config.splitting.clone()),
            },
        }
    }

    fn start(&self, state: PoolState, txg: u64) -> Builder {
        let mut list = Builder::new()
            .u64("version", self.version)
            .bytes("name", spelling::stored(&self.name))
            .u64("state", state.number())
            .u64("txg", txg)
            .u64("pool_guid", self.guid)
            .u64("errata", self.errata);
        if let Some(comment) = &self.comment {
            list = list.text("comment", comment);
        }
        if let Some(compatibility) = &self.compatibility {
            list = list.text("compatibility", compatibility);
        }
        if self.hostid != 0 {
            list = list.u64("hostid", self.hostid);
        }
        if let Split::From(pool) = self.split {
            list = list.u64("split_guid", pool);
        }
        list.text("hostname", &self.hostname)
    }

    fn features(&self) -> NvList {
        let mut list = Builder::new();
        for guid in &self.features_for_read {
            list = list.boolean(guid);
        }
        list.done()
    }

    /// The packed list of the MOS.
    pub(super) fn for_mos(&self, state: PoolState, txg: u64, root: &VdevConfig) -> NvList {
        let mut list = self.start(state, txg).boolean("com.delphix:has_per_vdev_zaps");
        // It grows with the pool, and is left out of labels.
        match &self.split {
            Split::None => {}
            Split::Into(leaves) => {
                let split = Builder::new().u64s("guid_list", leaves.clone());
                list = list.list("splitcfg", split.done());
            }
            Split::From(pool) => {
                list = list.list("splitcfg", Builder::new().u64("split_guid", *pool).done());
            }
        }
        list = list.u64("vdev_children", root.children.len() as u64);
        list.list("vdev_tree", root.to_nvlist()).list("features_for_read", self.features()).done()
    }

    /// The list of one leaf's label. ZAPs of vdevs are not named in labels.
    pub(super) fn for_label(
        &self,
        state: PoolState,
        txg: u64,
        root: &VdevConfig,
        top: &VdevConfig,
        leaf: u64,
    ) -> NvList {
        let mut list = self.start(state, txg).u64("top_guid", top.guid).u64("guid", leaf);
        if top.find(leaf).is_some_and(|v| v.is_spare) {
            list = list.u64("is_spare", 1);
        }
        if top.is_log {
            list = list.u64("is_log", 1);
        }
        list = list.u64("vdev_children", root.children.len() as u64);
        let holes: Vec<u64> = root.children.iter().filter(|c| c.is_hole).map(|c| c.id).collect();
        let mut tree = top.to_nvlist();
        strip_members_of_mos(&mut tree);
        let mut out =
            list.list("vdev_tree", tree).list("features_for_read", self.features()).done();
        if !holes.is_empty() {
            out.set("hole_array", NvValue::U64Array(holes));
        }
        out
    }
}

/// Removes what stands in the MOS alone. The depth of a configuration is bounded.
fn strip_members_of_mos(list: &mut NvList) {
    list.remove("com.delphix:vdev_zap_top");
    list.remove("com.delphix:vdev_zap_leaf");
    list.remove("com.datto:resilver_defer");
    for pair in list.pairs.iter_mut().filter(|p| p.name == b"children") {
        if let NvValue::NvListArray(children) = &mut pair.value {
            children.iter_mut().for_each(strip_members_of_mos);
        }
    }
}

/// Sum of the guids of all vdevs, the root's included, as uberblocks have it.
pub(super) fn guid_sum(root: &VdevConfig) -> u64 {
    root.walk().fold(0u64, |sum, v| sum.wrapping_add(v.guid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(path: &str) -> VdevSpec {
        VdevSpec::Leaf { path: path.to_owned(), is_file: true }
    }

    fn root() -> VdevConfig {
        let mut next = 100;
        let mut guid = || {
            next += 1;
            next
        };
        let numbers =
            TopNumbers { id: 0, ashift: 12, asize: 1 << 28, metaslab_shift: 24, create_txg: 4 };
        let mirror = VdevSpec::Mirror(vec![leaf("/a"), leaf("/b")]);
        let raidz = VdevSpec::Raidz { nparity: 1, children: vec![leaf("/c"), leaf("/d")] };
        let a = new_top(&mirror, SpaceClass::Normal, &numbers, &mut guid).unwrap();
        let numbers = TopNumbers { id: 1, ..numbers };
        let b = new_top(&raidz, SpaceClass::Log, &numbers, &mut guid).unwrap();
        new_root(7, 4, &[a, b]).unwrap()
    }

    #[test]
    fn labels_describe_their_own_top_and_name_no_zaps() {
        let mut root = root();
        set_u64(&mut root.children[1], "com.delphix:vdev_zap_top", 33).unwrap();
        assert_eq!(root.children[1].vdev_zap_top, Some(33));
        let facts = PoolFacts {
            version: 5000,
            name: "tank".to_owned(),
            guid: 7,
            hostid: 0,
            hostname: "here".to_owned(),
            errata: 0,
            comment: None,
            compatibility: None,
            features_for_read: vec!["com.delphix:hole_birth".to_owned()],
            split: Split::default(),
        };
        let label = facts.for_label(PoolState::Active, 9, &root, &root.children[1], 105);
        let decoded = ondisk::config::PoolConfig::decode(&label).unwrap();
        assert_eq!((decoded.top_guid, decoded.guid), (Some(root.children[1].guid), Some(105)));
        assert_eq!(decoded.vdev_children, Some(2));
        assert!(decoded.is_log && decoded.vdev_tree.vdev_zap_top.is_none());
        assert_eq!(decoded.features_for_read, facts.features_for_read);
        let mos = facts.for_mos(PoolState::Active, 9, &root);
        let decoded = ondisk::config::PoolConfig::decode(&mos).unwrap();
        assert_eq!(decoded.vdev_tree.children[1].vdev_zap_top, Some(33));
        assert!(decoded.has_per_vdev_zaps);
    }

    /// OpenZFS has the class of a vdev in its table alone.
    #[test]
    fn a_class_that_stands_in_no_list_is_kept() {
        let mut root = root();
        let class = Some("special".to_owned());
        root.children[0].alloc_bias.clone_from(&class);
        set_u64(&mut root, "guid", 8).unwrap();
        set_text(&mut root.children[0], "path", "/a").unwrap();
        unset(&mut root.children[0], &["path"]).unwrap();
        assert_eq!((root.guid, &root.children[0].alloc_bias), (8, &class));
        let more = with_children(&root, [&root.children[..], &root.children[1..]].concat());
        let more = more.unwrap().children;
        assert_eq!((more.len(), &more[0].alloc_bias), (3, &class));
    }

    #[test]
    fn the_sum_of_guids_counts_every_vdev() {
        let root = root();
        let all: Vec<u64> = root.walk().map(|v| v.guid).collect();
        assert_eq!(all.len(), 7);
        assert_eq!(guid_sum(&root), all.iter().sum::<u64>());
    }
}
