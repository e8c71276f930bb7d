//! Pool and vdev configuration: the nvlists in labels and in the MOS that describe of what a pool
//! consists.
//!
//! Specified in `docs/format/config.md`. The same nvlist is stored in two places. The label of a
//! device holds the pool's name and guids and the tree of *its* top-level vdev; the MOS (object
//! `config` of the object directory) holds the tree of the whole pool under a `root` vdev, with
//! the objects of each vdev that labels do not carry. Labels of spares and cache devices hold
//! little more than a state and a guid ([`AuxConfig`]), because they can belong to several pools.
//!
//! Numbers that later arithmetic relies on (ashift, parity, widths) are checked here, so that a
//! [`VdevConfig`] is safe to calculate with. Members this crate does not know stay in `nvlist`.

use crate::error::{Error, ErrorKind, Result};
use crate::nvlist::{NvList, NvPair, NvValue};
use crate::spelling;

/// Deepest nesting of vdevs accepted. OpenZFS nests at most five: root, raidz, spare, replacing,
/// disk.
pub const MAX_VDEV_DEPTH: u32 = 12;
/// Smallest sector size exponent a pool can have (512 bytes).
pub const ASHIFT_MIN: u64 = 9;
/// Largest sector size exponent a pool can have (64 KiB).
pub const ASHIFT_MAX: u64 = 16;
/// Largest parity of raidz and draid.
pub const PARITY_MAX: u64 = 3;
/// Largest number of children of raidz and draid.
pub const RAID_CHILDREN_MAX: u64 = 255;

/// The kind of a vdev, with its children or its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VdevKind {
    /// Top of the tree; blocks are addressed to one of its children.
    Root,
    /// Every child holds everything.
    Mirror,
    /// Each block split over the children, with parity.
    Raidz {
        /// Parity columns, 1 to 3.
        nparity: u8,
    },
    /// raidz groups permuted over all children, with spare space spread among them.
    Draid {
        /// Parity columns of a group, 1 to 3.
        nparity: u8,
        /// Data columns of a group.
        ndata: u32,
        /// Distributed spares.
        nspares: u32,
        /// Groups in one slice: the period of the layout.
        ngroups: u32,
    },
    /// A block device.
    Disk,
    /// A regular file.
    File,
    /// Placeholder of a device the label did not know; never in the MOS.
    Missing,
    /// A removed log device: the index stays taken.
    Hole,
    /// A removed top-level vdev whose blocks live elsewhere, through a mapping.
    Indirect,
    /// A device and its replacement during resilver; reads like a mirror.
    Replacing,
    /// A failed device and the spare that replaces it; reads like a mirror.
    Spare,
    /// A distributed spare of a draid vdev, in place of one of its children.
    DraidSpare {
        /// Guid of the draid vdev it belongs to.
        top_guid: u64,
        /// Which of its spares.
        spare_id: u64,
    },
    /// Name of a group in old user-space lists; never on disk.
    Log,
    /// As [`Self::Log`].
    L2cache,
    /// Any other type name.
    Unknown(String),
}

impl VdevKind {
    /// A vdev with a device of its own or none at all: it has no children.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Self::Disk
                | Self::File
                | Self::Missing
                | Self::Hole
                | Self::Indirect
                | Self::DraidSpare { .. }
        )
    }

    /// A vdev with a device of its own, a disk or a file.
    #[must_use]
    pub fn has_device(&self) -> bool {
        matches!(self, Self::Disk | Self::File)
    }

    /// The type as stored on disk.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Root => "root",
            Self::Mirror => "mirror",
            Self::Raidz { .. } => "raidz",
            Self::Draid { .. } => "draid",
            Self::Disk => "disk",
            Self::File => "file",
            Self::Missing => "missing",
            Self::Hole => "hole",
            Self::Indirect => "indirect",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::DraidSpare { .. } => "dspare",
            Self::Log => "log",
            Self::L2cache => "l2cache",
            Self::Unknown(name) => name,
        }
    }

    fn decode(list: &NvList) -> Result<Self> {
        Ok(match list.text("type")? {
            "root" => Self::Root,
            "mirror" => Self::Mirror,
            // Pools older than version 3 have only single parity and do not store it.
            "raidz" => Self::Raidz {
                nparity: opt_range(list, "nparity", 1, PARITY_MAX)?.unwrap_or(1) as u8,
            },
            "draid" => Self::Draid {
                nparity: range(list, "nparity", 1, PARITY_MAX)? as u8,
                ndata: range(list, "draid_ndata", 1, RAID_CHILDREN_MAX)? as u32,
                nspares: range(list, "draid_nspares", 0, RAID_CHILDREN_MAX)? as u32,
                ngroups: range(list, "draid_ngroups", 1, RAID_CHILDREN_MAX)? as u32,
            },
            "disk" => Self::Disk,
            "file" => Self::File,
            "missing" => Self::Missing,
            "hole" => Self::Hole,
            "indirect" => Self::Indirect,
            "replacing" => Self::Replacing,
            "spare" => Self::Spare,
            "dspare" => {
                Self::DraidSpare { top_guid: list.u64("top_guid")?, spare_id: list.u64("spareid")? }
            }
            "log" => Self::Log,
            "l2cache" => Self::L2cache,
            other => Self::Unknown(spelling::in_line(other)),
        })
    }
}

/// The prefix of the name of a dRAID vdev: parity and data columns of a group, children, and
/// distributed spares, as in `draid2:3d:8c:1s`.
#[must_use]
pub fn draid_name(nparity: u64, ndata: u64, children: usize, nspares: u64) -> String {
    format!("draid{nparity}:{ndata}d:{children}c:{nspares}s")
}

/// One vdev and all below it.
///
/// `None` or `false` is what a missing member means. Texts that are only shown or tried (paths,
/// names of hosts) replace bytes that are not UTF-8; the exact bytes are in `nvlist`.
#[derive(Clone, Debug, PartialEq)]
pub struct VdevConfig {
    /// Its kind, with the geometry that belongs to it.
    pub kind: VdevKind,
    /// Index among its parent's children; 0 where not stored (spares and cache devices).
    pub id: u64,
    /// Identity of the vdev. Holes may have 0.
    pub guid: u64,
    /// Where its device was last seen.
    pub path: Option<String>,
    /// Identity of the device, from the operating system.
    pub devid: Option<String>,
    /// Physical location of the device.
    pub phys_path: Option<String>,
    /// The pool has the whole disk: the vdev is its first partition.
    pub whole_disk: Option<bool>,
    /// Sector size exponent, 9 to 16, or 0 for holes. Only at top-level vdevs and cache devices.
    pub ashift: Option<u64>,
    /// Bytes that can be allocated, parity included. Only at top-level vdevs.
    pub asize: Option<u64>,
    /// MOS object with the array of space maps, or 0. Only at top-level vdevs.
    pub metaslab_array: Option<u64>,
    /// Exponent of the metaslab size in bytes, below 64. Only at top-level vdevs.
    pub metaslab_shift: Option<u64>,
    /// Txg in which it was added.
    pub create_txg: Option<u64>,
    /// A log device.
    pub is_log: bool,
    /// A spare that is in use, or an entry of the list of spares.
    pub is_spare: bool,
    /// A cache device.
    pub is_l2cache: bool,
    /// A removed log device, beside the kind [`VdevKind::Hole`].
    pub is_hole: bool,
    /// The word for the blocks that a top-level vdev is meant for (`log`, `special`, `dedup`),
    /// where these are not all; in one line.
    ///
    /// It is not in the lists on disk: it is stored in the ZAP of the vdev (`vdev_zap_top`) under
    /// `org.zfsonlinux:allocation_bias`, and a reader of that puts it here. A log device has it in
    /// `is_log` as well.
    pub alloc_bias: Option<String>,
    /// No new allocations: `zpool remove` is preparing, or `allocating=off`.
    pub non_allocating: bool,
    /// Taken offline by the administrator.
    pub offline: bool,
    /// Taken out of use after errors.
    pub faulted: bool,
    /// In use in spite of errors.
    pub degraded: bool,
    /// The device was pulled out.
    pub removed: bool,
    /// The device was absent when the pool was last imported; `path` is where it had been.
    pub not_present: bool,
    /// A spare is to be detached once its partner is resilvered.
    pub unspare: bool,
    /// A resilver of it waits for another one to end.
    pub resilver_deferred: bool,
    /// Resilver in progress for the data up to this txg.
    pub resilver_txg: Option<u64>,
    /// Sequential rebuild in progress, started in this txg.
    pub rebuild_txg: Option<u64>,
    /// MOS object of the space map of txgs it missed.
    pub dtl: Option<u64>,
    /// MOS object of the ZAP of a top-level vdev; only in the MOS.
    pub vdev_zap_top: Option<u64>,
    /// MOS object of the ZAP of a leaf; only in the MOS.
    pub vdev_zap_leaf: Option<u64>,
    /// MOS object of the ZAP of the root; only in the MOS.
    pub vdev_zap_root: Option<u64>,
    /// MOS object with the mapping of a removed vdev.
    pub indirect_object: Option<u64>,
    /// MOS object with the births of a removed vdev's mapping.
    pub indirect_births: Option<u64>,
    /// The vdev that was removed before this one: head of a list through all of them.
    pub prev_indirect_vdev: Option<u64>,
    /// Its removal is under way.
    pub removing: bool,
    /// A raidz expansion is under way.
    pub raidz_expanding: bool,
    /// Txgs in which expansions of the raidz ended, oldest first; each made it one wider.
    pub raidz_expand_txgs: Vec<u64>,
    /// Time of the last expansion, in seconds since 1970.
    pub expansion_time: Option<u64>,
    /// Why it is faulted or degraded: `external` or `err_exceeded`.
    pub aux_state: Option<String>,
    /// Guid it had in the pool it is being split from.
    pub orig_guid: Option<u64>,
    /// Children in order of their ids.
    pub children: Vec<VdevConfig>,
    /// All members as stored, with an empty array for `children` (which are above, each with its
    /// own). An indirect vdev has such an array on disk too.
    pub nvlist: NvList,
}

impl VdevConfig {
    /// Decodes a vdev and all below it.
    pub fn decode(list: &NvList) -> Result<Self> {
        Self::decode_at(list, MAX_VDEV_DEPTH)
    }

    fn decode_at(list: &NvList, depth: u32) -> Result<Self> {
        let Some(below) = depth.checked_sub(1) else {
            return Err(error("children", ErrorKind::TooDeep { limit: MAX_VDEV_DEPTH }));
        };
        let kind = VdevKind::decode(list)?;
        let children = list
            .opt_lists("children")?
            .unwrap_or_default()
            .iter()
            .map(|c| Self::decode_at(c, below))
            .collect::<Result<Vec<_>>>()?;
        check_shape(&kind, &children)?;
        let mut own = NvList { version: list.version, flags: list.flags, pairs: Vec::new() };
        own.pairs.extend(list.pairs.iter().map(|p| match p.name.as_slice() {
            b"children" => NvPair { name: p.name.clone(), value: no_children() },
            _ => p.clone(),
        }));
        Ok(Self {
            kind,
            id: list.opt_u64("id")?.unwrap_or(0),
            guid: list.u64("guid")?,
            path: list.opt_lossy("path")?,
            devid: list.opt_lossy("devid")?,
            phys_path: list.opt_lossy("phys_path")?,
            whole_disk: list.opt_u64("whole_disk")?.map(|v| v != 0),
            ashift: ashift(list)?,
            asize: list.opt_u64("asize")?,
            metaslab_array: list.opt_u64("metaslab_array")?,
            metaslab_shift: opt_range(list, "metaslab_shift", 0, 63)?,
            create_txg: list.opt_u64("create_txg")?,
            is_log: list.flag("is_log")?,
            is_spare: list.flag("is_spare")?,
            is_l2cache: list.flag("is_l2cache")?,
            is_hole: list.flag("is_hole")?,
            alloc_bias: list.opt_lossy("alloc_bias")?.map(|word| spelling::in_line(&word)),
            non_allocating: list.flag("non_allocating")?,
            offline: list.flag("offline")?,
            faulted: list.flag("faulted")?,
            degraded: list.flag("degraded")?,
            removed: list.flag("removed")?,
            not_present: list.flag("not_present")?,
            unspare: list.flag("unspare")?,
            resilver_deferred: list.flag("com.datto:resilver_defer")?,
            resilver_txg: list.opt_u64("resilver_txg")?,
            rebuild_txg: list.opt_u64("rebuild_txg")?,
            dtl: list.opt_u64("DTL")?,
            vdev_zap_top: list.opt_u64("com.delphix:vdev_zap_top")?,
            vdev_zap_leaf: list.opt_u64("com.delphix:vdev_zap_leaf")?,
            vdev_zap_root: list.opt_u64("com.klarasystems:vdev_zap_root")?,
            indirect_object: list.opt_u64("com.delphix:indirect_object")?,
            indirect_births: list.opt_u64("com.delphix:indirect_births")?,
            prev_indirect_vdev: list.opt_u64("com.delphix:prev_indirect_vdev")?,
            removing: list.flag("removing")?,
            raidz_expanding: list.flag("raidz_expanding")?,
            raidz_expand_txgs: list.opt_u64s("raidz_expand_txgs")?.unwrap_or_default().to_vec(),
            expansion_time: list.opt_u64("expansion_time")?,
            aux_state: list.opt_lossy("aux_state")?.map(|a| spelling::in_line(&a)),
            orig_guid: list.opt_u64("orig_guid")?,
            children,
            nvlist: own,
        })
    }

    /// The prefix of its name, if that is not a path: `mirror`, `raidz1`, `draid2:3d:8c:1s`.
    #[must_use]
    pub fn kind_name(&self) -> String {
        match self.kind {
            VdevKind::Raidz { nparity } => format!("raidz{nparity}"),
            VdevKind::Draid { nparity, ndata, nspares, .. } => {
                draid_name(nparity.into(), ndata.into(), self.children.len(), nspares.into())
            }
            _ => self.kind.name().to_owned(),
        }
    }

    /// The list as stored, every member in its place.
    #[must_use]
    pub fn to_nvlist(&self) -> NvList {
        let mut list = self.nvlist.clone();
        if !self.children.is_empty() {
            let children = self.children.iter().map(Self::to_nvlist).collect();
            list.set("children", NvValue::NvListArray(children));
        }
        list
    }

    /// This vdev and all below it, parents before children.
    pub fn walk(&self) -> impl Iterator<Item = &VdevConfig> {
        let mut todo = vec![self];
        core::iter::from_fn(move || {
            let next = todo.pop()?;
            todo.extend(next.children.iter().rev());
            Some(next)
        })
    }

    /// The vdev with this guid, itself included.
    #[must_use]
    pub fn find(&self, guid: u64) -> Option<&VdevConfig> {
        self.walk().find(|v| v.guid == guid)
    }

    /// It is out of use because the administrator said that it failed, and not for its errors.
    #[must_use]
    pub fn is_faulted_by_hand(&self) -> bool {
        self.faulted && self.aux_state.as_deref() == Some("external")
    }
}

fn no_children() -> NvValue {
    NvValue::NvListArray(Vec::new())
}

/// Counts of children that the kind's geometry needs.
fn check_shape(kind: &VdevKind, children: &[VdevConfig]) -> Result<()> {
    let n = children.len() as u64;
    let (min, max) = match *kind {
        VdevKind::Raidz { nparity } => (u64::from(nparity) + 1, RAID_CHILDREN_MAX),
        VdevKind::Draid { nparity, ndata, nspares, .. } => {
            (u64::from(nparity) + u64::from(ndata) + u64::from(nspares), RAID_CHILDREN_MAX)
        }
        VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => (1, u64::MAX),
        _ if kind.is_leaf() => (0, 0),
        _ => (0, u64::MAX),
    };
    if n < min || n > max {
        return Err(error("children", ErrorKind::OutOfRange { value: n, min, max }));
    }
    Ok(())
}

/// State of a pool, as recorded in a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// In use, or was when its host went down.
    Active,
    /// Cleanly exported.
    Exported,
    /// Destroyed; can still be imported on request.
    Destroyed,
    /// Label of a spare.
    Spare,
    /// Label of a cache device.
    L2cache,
    /// Anything else.
    Unknown(u64),
}

impl PoolState {
    /// From the number in the list.
    #[must_use]
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::L2cache,
            n => Self::Unknown(n),
        }
    }

    /// The number in the list.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Active => 0,
            Self::Exported => 1,
            Self::Destroyed => 2,
            Self::Spare => 3,
            Self::L2cache => 4,
            Self::Unknown(n) => n,
        }
    }
}

/// Configuration of a pool: from the label of one of its devices, or from the MOS.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// Pool version: 1 to 28, or 5000 with feature flags.
    pub version: u64,
    /// Name of the pool when this was written.
    pub name: String,
    /// State of the pool when this was written.
    pub state: PoolState,
    /// Txg in which this was written. In a label 0: the device was never fully added.
    pub txg: u64,
    /// Identity of the pool.
    pub pool_guid: u64,
    /// Known damage by old bugs (0: none).
    pub errata: u64,
    /// Host that used the pool last.
    pub hostid: Option<u64>,
    /// Its name.
    pub hostname: Option<String>,
    /// Guid of the top-level vdev of the labelled device; only in labels.
    pub top_guid: Option<u64>,
    /// Guid of the labelled device; only in labels.
    pub guid: Option<u64>,
    /// The labelled device is in use as a spare; only in labels.
    pub is_spare: bool,
    /// The labelled device is part of a log; only in labels.
    pub is_log: bool,
    /// Number of top-level vdevs, holes included; old pools do not say.
    pub vdev_children: Option<u64>,
    /// Indices of top-level vdevs that are holes.
    pub hole_array: Vec<u64>,
    /// In a label the top-level vdev of the device, in the MOS the root of all.
    pub vdev_tree: VdevConfig,
    /// Guids of the active features without which the MOS cannot be read.
    pub features_for_read: Vec<String>,
    /// The administrator's comment.
    pub comment: Option<String>,
    /// The property `compatibility`.
    pub compatibility: Option<String>,
    /// Every top-level vdev and leaf of the pool has a ZAP; only in the MOS.
    pub has_per_vdev_zaps: bool,
    /// Guid of the pool this one was split from.
    pub split_guid: Option<u64>,
    /// Guids of the leaves that are becoming another pool; only in the MOS.
    pub splitting: Vec<u64>,
    /// Spares, where the list names them (they have an object of their own in the MOS).
    pub spares: Vec<VdevConfig>,
    /// Cache devices, likewise.
    pub l2cache: Vec<VdevConfig>,
    /// The whole list as stored.
    pub nvlist: NvList,
}

/// The leaves that a split was begun with; a top-level vdev that has none is a 0.
fn splitting(list: &NvList) -> Result<Vec<u64>> {
    let leaves = match list.opt_list("splitcfg")? {
        Some(split) => split.opt_u64s("guid_list")?.unwrap_or_default(),
        None => Default::default(),
    };
    Ok(leaves.iter().copied().filter(|guid| *guid != 0).collect())
}

impl PoolConfig {
    /// Decodes a pool's configuration; of a label only when it is not a spare or cache device, see
    /// [`LabelConfig::decode`].
    pub fn decode(list: &NvList) -> Result<Self> {
        let mut features_for_read = Vec::new();
        if let Some(features) = list.opt_list("features_for_read")? {
            for pair in &features.pairs {
                let name = core::str::from_utf8(&pair.name)
                    .map_err(|_| error("features_for_read", ErrorKind::BadText))?;
                features_for_read.push(spelling::name(name.as_bytes()));
            }
        }
        Ok(Self {
            version: list.u64("version")?,
            name: spelling::name(list.text("name")?.as_bytes()),
            state: PoolState::from_number(list.u64("state")?),
            txg: list.u64("txg")?,
            pool_guid: list.u64("pool_guid")?,
            errata: list.opt_u64("errata")?.unwrap_or(0),
            hostid: list.opt_u64("hostid")?,
            hostname: list.opt_lossy("hostname")?.map(|h| spelling::in_line(&h)),
            top_guid: list.opt_u64("top_guid")?,
            guid: list.opt_u64("guid")?,
            is_spare: list.flag("is_spare")?,
            is_log: list.flag("is_log")?,
            vdev_children: list.opt_u64("vdev_children")?,
            hole_array: list.opt_u64s("hole_array")?.unwrap_or_default().to_vec(),
            vdev_tree: VdevConfig::decode(list.list("vdev_tree")?)?,
            features_for_read,
            comment: list.opt_lossy("comment")?.map(|c| spelling::in_line(&c)),
            compatibility: list.opt_lossy("compatibility")?.map(|c| spelling::in_line(&c)),
            has_per_vdev_zaps: list.flag("com.delphix:has_per_vdev_zaps")?,
            split_guid: list.opt_u64("split_guid")?,
            splitting: splitting(list)?,
            spares: aux_devices(list, "spares")?,
            l2cache: aux_devices(list, "l2cache")?,
            nvlist: list.clone(),
        })
    }
}

/// The label of a spare or a cache device. It names no pool: a spare may serve several.
#[derive(Clone, Debug, PartialEq)]
pub struct AuxConfig {
    /// Pool version of the pool that labelled it.
    pub version: u64,
    /// [`PoolState::Spare`] or [`PoolState::L2cache`].
    pub state: PoolState,
    /// Guid of the device.
    pub guid: u64,
    /// Sector size exponent; only of cache devices.
    pub ashift: Option<u64>,
    /// Where the device was last seen (since OpenZFS 2.3).
    pub path: Option<String>,
    /// The whole list as stored.
    pub nvlist: NvList,
}

/// The forms of the nvlist of a label.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelConfig {
    /// Device of a pool.
    Member(Box<PoolConfig>),
    /// Spare or cache device.
    Aux(AuxConfig),
}

impl LabelConfig {
    /// Decodes the list of a label; the member `state` decides which of the two it is.
    pub fn decode(list: &NvList) -> Result<Self> {
        let state = PoolState::from_number(list.u64("state")?);
        if !matches!(state, PoolState::Spare | PoolState::L2cache) {
            return Ok(Self::Member(Box::new(PoolConfig::decode(list)?)));
        }
        Ok(Self::Aux(AuxConfig {
            version: list.u64("version")?,
            state,
            guid: list.u64("guid")?,
            ashift: ashift(list)?,
            path: list.opt_lossy("path")?,
            nvlist: list.clone(),
        }))
    }

    /// Guid of the labelled device, when the label says.
    #[must_use]
    pub fn guid(&self) -> Option<u64> {
        match self {
            Self::Member(c) => c.guid,
            Self::Aux(c) => Some(c.guid),
        }
    }

    /// State the label says.
    #[must_use]
    pub fn state(&self) -> PoolState {
        match self {
            Self::Member(c) => c.state,
            Self::Aux(c) => c.state,
        }
    }
}

/// The array `name` (`spares` or `l2cache`) of a list, such as the MOS objects of these names
/// hold; empty when it is missing.
pub fn aux_devices(list: &NvList, name: &'static str) -> Result<Vec<VdevConfig>> {
    list.opt_lists(name)?.unwrap_or_default().iter().map(VdevConfig::decode).collect()
}

fn error(field: &'static str, kind: ErrorKind) -> Error {
    Error { structure: "config", field, offset: 0, kind }
}

fn opt_range(list: &NvList, name: &'static str, min: u64, max: u64) -> Result<Option<u64>> {
    match list.opt_u64(name)? {
        Some(value) if value < min || value > max => {
            Err(error(name, ErrorKind::OutOfRange { value, min, max }))
        }
        other => Ok(other),
    }
}

fn range(list: &NvList, name: &'static str, min: u64, max: u64) -> Result<u64> {
    opt_range(list, name, min, max)?.ok_or_else(|| error(name, ErrorKind::Missing))
}

fn ashift(list: &NvList) -> Result<Option<u64>> {
    match list.opt_u64("ashift")? {
        Some(0) => Ok(Some(0)),
        _ => opt_range(list, "ashift", ASHIFT_MIN, ASHIFT_MAX),
    }
}
