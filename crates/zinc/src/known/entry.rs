//! One known pool: its configuration as OpenZFS's cache file has it, and marks of zinc's own.
//!
//! The marks are members that OpenZFS does not look at: what of an import has to be remembered and
//! is on no disk.

use super::Cachefile;
use engine::Candidate;
use engine::config::{NvList, NvValue};
use engine::config::{PoolConfig, VdevConfig, VdevKind};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Where the pool is shown to be mounted below.
const ALTROOT: &str = "org.zinc:altroot";
/// It was imported to be read only.
const READONLY: &str = "org.zinc:readonly";
/// The property `cachefile`, when it is not the usual one.
const CACHEFILE: &str = "org.zinc:cachefile";
/// The start of the machine since which it is known.
const BOOT: &str = "org.zinc:boot";
/// Paths of devices that are being added. They count as soon as their labels are written, and the
/// entry is written anew after that: a crash in between loses none.
const ADDING: &str = "org.zinc:adding";
/// What stays when the configuration is written anew.
const MARKS: [&str; 4] = [ALTROOT, READONLY, CACHEFILE, BOOT];

/// A known pool.
#[derive(Clone, Debug)]
pub struct Known {
    config: PoolConfig,
    list: NvList,
}

/// The number that the system gives to each start of the machine; empty where it gives none.
fn this_boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

impl Known {
    /// A pool with this configuration. `None` when it is not one.
    pub fn new(list: NvList) -> Option<Self> {
        Some(Self { config: PoolConfig::decode(&list).ok()?, list })
    }

    /// The same with another configuration, under the name and with the marks it had.
    pub fn with_config(&self, mut list: NvList) -> Self {
        list.set("name", NvValue::String(self.name().as_bytes().to_vec()));
        for mark in MARKS {
            if let Some(value) = self.list.get(mark) {
                list.set(mark, value.clone());
            }
        }
        Self::new(list).unwrap_or_else(|| self.clone())
    }

    /// Shown below this folder, and whether it is only to be read.
    #[must_use]
    pub fn marked(mut self, altroot: Option<&str>, readonly: bool) -> Self {
        if let Some(altroot) = altroot {
            self.list.set(ALTROOT, NvValue::String(altroot.as_bytes().to_vec()));
        }
        if readonly {
            self.list.set(READONLY, NvValue::U64(1));
        }
        self
    }

    /// With the places of devices that are about to become its own.
    pub(super) fn with_adding(mut self, paths: &[PathBuf]) -> Self {
        let paths = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        self.list.set(ADDING, NvValue::StringArray(paths));
        self
    }

    pub(super) fn with_cachefile(mut self, cachefile: &Cachefile) -> Self {
        self.list.remove(CACHEFILE).remove(BOOT);
        let text = match cachefile {
            Cachefile::Usual => return self,
            Cachefile::None => b"none".to_vec(),
            Cachefile::At(path) => path.to_string_lossy().into_owned().into_bytes(),
        };
        self.list.set(CACHEFILE, NvValue::String(text));
        self.list.set(BOOT, NvValue::String(this_boot().into_bytes()));
        self
    }

    /// As another program's cache file has it.
    pub(super) fn without_marks(&self) -> Self {
        let mut plain = self.clone();
        MARKS.iter().chain([&ADDING]).for_each(|mark| {
            plain.list.remove(mark);
        });
        plain
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.list.opt_lossy(name).ok().flatten()
    }

    /// What it is called, which for a temporary name is not what its labels say.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Its guid.
    pub fn guid(&self) -> u64 {
        self.config.pool_guid
    }

    /// Whether it has this name or guid.
    pub fn is_called(&self, wanted: &str) -> bool {
        self.name() == wanted || wanted.parse() == Ok(self.guid())
    }

    /// It was not made known by an import that ended with the last start of the machine.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.text(BOOT).is_none_or(|boot| boot == this_boot())
    }

    /// Where its mount points are shown.
    pub fn altroot(&self) -> Option<String> {
        self.text(ALTROOT)
    }

    /// It was imported to be read only.
    pub fn is_readonly(&self) -> bool {
        self.list.flag(READONLY).unwrap_or(false)
    }

    /// The property `cachefile`.
    pub fn cachefile(&self) -> Cachefile {
        self.text(CACHEFILE).and_then(|text| Cachefile::parse(&text)).unwrap_or_default()
    }

    /// A device is being added, or was when the command that did so ended before its time.
    pub fn is_changing(&self) -> bool {
        self.list.get(ADDING).is_some()
    }

    /// What is known of it, with those devices that `found` has, if any.
    pub fn candidate(&self, found: Option<&Candidate>) -> Candidate {
        let (config, tree) = (self.config.clone(), self.config.vdev_tree.clone());
        match found {
            Some(found) => Candidate { config, tree, ..found.clone() },
            None => Candidate {
                config,
                tree,
                leaves: BTreeMap::new(),
                aux: BTreeMap::new(),
                uberblocks: Vec::new(),
            },
        }
    }

    /// Its devices.
    fn leaves(&self) -> impl Iterator<Item = &VdevConfig> {
        let is_device = |v: &&VdevConfig| matches!(v.kind, VdevKind::Disk | VdevKind::File);
        self.config.vdev_tree.walk().filter(is_device)
    }

    /// Their guids.
    pub fn device_guids(&self) -> Vec<u64> {
        self.leaves().map(|leaf| leaf.guid).collect()
    }

    /// A device with this guid is its own, spares and cache devices included.
    pub fn has_device(&self, guid: u64) -> bool {
        let aux = self.config.spares.iter().chain(&self.config.l2cache);
        self.leaves().chain(aux).any(|leaf| leaf.guid == guid)
    }

    /// Guids of its spares and cache devices.
    pub fn aux_guids(&self) -> impl Iterator<Item = u64> {
        self.config.spares.iter().chain(&self.config.l2cache).map(|leaf| leaf.guid)
    }

    /// Where they were when this was written, with those of spares and cache devices and of devices
    /// that are being added.
    pub fn paths(&self) -> Vec<PathBuf> {
        let aux = self.config.spares.iter().chain(&self.config.l2cache);
        let named = self.leaves().chain(aux).filter_map(|leaf| leaf.path.as_ref());
        let adding = self.list.opt_strings(ADDING).ok().flatten().unwrap_or_default();
        let adding = adding.iter().map(|path| PathBuf::from(OsStr::from_bytes(path)));
        named.map(PathBuf::from).chain(adding).collect()
    }

    /// The list as it stands in the file.
    pub(super) fn list(&self) -> &NvList {
        &self.list
    }

    /// Apart from the txg nothing differs.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let plain = |known: &Self| {
            let mut list = known.list.clone();
            list.remove("txg");
            list
        };
        plain(self) == plain(other)
    }
}
