//! One known pool: its configuration as OpenZFS's cache file has it, and marks of zinc's own.
//!
//! The marks are members that OpenZFS does not look at: what of an import has to be remembered and
//! is on no disk.

use super::Cachefile;
use engine::Candidate;
use engine::config::{NvList, NvValue};
use engine::config::{PoolConfig, VdevConfig};
use engine::pools::{EarlierState, ErrorCounts, FoundLeaf, ListedAs};
use engine::spelling;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where the pool is shown to be mounted below.
const ALTROOT: &str = "org.zinc:altroot";
/// It was imported to be read only.
const READONLY: &str = "org.zinc:readonly";
/// The txg whose state is read of one that is only read; 0: that of its checkpoint.
const STATE: &str = "org.zinc:state";
/// The property `cachefile`, when it is not the usual one.
const CACHEFILE: &str = "org.zinc:cachefile";
/// The start of the machine since which it is known.
const BOOT: &str = "org.zinc:boot";
/// Paths of devices that are being added. They count as soon as their labels are written, and the
/// entry is rewritten after that: a crash in between loses none.
const ADDING: &str = "org.zinc:adding";
/// Which files its devices are, each as the device's guid and the [`identity`] of the file. A file
/// keeps that under another name, and a copy has another.
const FILES: &str = "org.zinc:files";
/// Errors of its vdevs since it was imported or this was cleared: the start of the machine in which
/// they were counted, then one line for each vdev.
const ERRORS: &str = "org.zinc:errors";
/// Vdevs with errors that are remembered of one pool, at most.
const ERRORS_MAX: usize = 4096;
/// The members that stay when the configuration is rewritten.
const MARKS: [&str; 6] = [ALTROOT, READONLY, STATE, CACHEFILE, BOOT, ERRORS];

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

/// A path without links in it, as far as it leads anywhere.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Identifies a file among all others, its copies included, whatever its name is: its inode, and
/// when that was made, for the system gives the number of a deleted file to the next one. `None`
/// for anything but a file.
fn identity(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let made = meta.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    Some(format!("{}:{}", meta.ino(), made.map_or(0, |made| made.as_nanos())))
}

impl Known {
    /// A pool with this configuration. `None` when it is not one.
    #[must_use]
    pub fn new(list: NvList) -> Option<Self> {
        Some(Self { config: PoolConfig::decode(&list).ok()?, list })
    }

    /// The same with another configuration, under the name and with the marks it had.
    #[must_use]
    pub fn with_config(&self, mut list: NvList) -> Self {
        list.set("name", NvValue::String(spelling::stored(self.name())));
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

    /// Sets the state that is read of it from now on, if that is not its newest.
    #[must_use]
    pub fn with_state(mut self, state: Option<EarlierState>) -> Self {
        if let Some(state) = state {
            let txg = match state {
                EarlierState::Checkpoint => 0,
                EarlierState::Txg(txg) => txg,
            };
            self.list.set(STATE, NvValue::U64(txg));
        }
        self
    }

    /// With the places of devices that are about to become its own.
    pub(crate) fn with_adding(mut self, paths: &[PathBuf]) -> Self {
        let paths = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        self.list.set(ADDING, NvValue::StringArray(paths));
        self
    }

    /// With the errors that its vdevs have now.
    pub(crate) fn with_errors(mut self, errors: &BTreeMap<u64, ErrorCounts>) -> Self {
        self.list.remove(ERRORS);
        if !errors.is_empty() {
            let line = |(guid, e): (&u64, &ErrorCounts)| {
                format!("{guid} {} {} {}", e.read, e.write, e.checksum).into_bytes()
            };
            let all = errors.iter().take(ERRORS_MAX).map(line);
            let lines = std::iter::once(this_boot().into_bytes()).chain(all).collect();
            self.list.set(ERRORS, NvValue::StringArray(lines));
        }
        self
    }

    /// The errors that its vdevs had in this start of the machine, by guid. Lines that
    /// are none of them are left out.
    pub(crate) fn errors(&self) -> BTreeMap<u64, ErrorCounts> {
        let lines = self.list.opt_strings(ERRORS).ok().flatten().unwrap_or_default();
        let Some((boot, lines)) = lines.split_first() else { return BTreeMap::new() };
        if boot.as_slice() != this_boot().as_bytes() {
            return BTreeMap::new();
        }
        let read = |line: &[u8]| {
            let words = str::from_utf8(line).ok()?.split(' ').map(str::parse::<u64>);
            let [guid, read, write, checksum] = words.collect::<Result<Vec<_>, _>>().ok()?[..]
            else {
                return None;
            };
            Some((guid, ErrorCounts { read, write, checksum }))
        };
        lines.iter().take(ERRORS_MAX).filter_map(|line| read(line)).collect()
    }

    /// Adds the identities of the files of its devices, as they are now. A device that is absent
    /// keeps the recorded one.
    pub(crate) fn with_files(mut self, before: Option<&Self>) -> Self {
        let old = before.map(Self::files).unwrap_or_default();
        let mut files = Vec::new();
        for leaf in self.devices() {
            let now = leaf.path.as_ref().and_then(|path| identity(Path::new(path)));
            if let Some(identity) = now.or_else(|| old.get(&leaf.guid).cloned()) {
                files.push(format!("{} {identity}", leaf.guid).into_bytes());
            }
        }
        self.list.remove(FILES);
        if !files.is_empty() {
            self.list.set(FILES, NvValue::StringArray(files));
        }
        self
    }

    /// The identities of the files that its devices are, by the guids of these.
    fn files(&self) -> BTreeMap<u64, String> {
        let lines = self.list.opt_strings(FILES).ok().flatten().unwrap_or_default();
        let words = lines.iter().filter_map(|line| str::from_utf8(line).ok()?.split_once(' '));
        words.filter_map(|(guid, id)| Some((guid.parse().ok()?, id.to_owned()))).collect()
    }

    /// Those of these devices that are its own. A device counts where it was last; elsewhere only
    /// when it is not there, and only as the same file by another name, or as a disk, which may get
    /// another name at each start of the system. So a copy of a file never takes its place. A cache
    /// file of another program does not identify the files: there any that has the label counts.
    /// Devices that it is not known to have are left as they are.
    #[must_use]
    pub fn owned(&self, found: Vec<FoundLeaf>) -> Vec<FoundLeaf> {
        let places: BTreeMap<u64, PathBuf> = self
            .devices()
            .filter_map(|leaf| Some((leaf.guid, real(Path::new(leaf.path.as_ref()?)))))
            .collect();
        let files = self.files();
        let at_home: BTreeSet<u64> = found
            .iter()
            .filter_map(|leaf| {
                leaf.config.guid().filter(|g| places.get(g) == Some(&real(&leaf.path)))
            })
            .collect();
        let is_own = |leaf: &FoundLeaf| {
            let known = leaf.config.guid().and_then(|guid| Some((guid, places.get(&guid)?)));
            let Some((guid, place)) = known else { return true };
            let is_same_file = || match identity(&leaf.path) {
                Some(identity) => files.is_empty() || files.get(&guid) == Some(&identity),
                None => true,
            };
            match at_home.contains(&guid) {
                true => *place == real(&leaf.path),
                false => is_same_file(),
            }
        };
        found.into_iter().filter(is_own).collect()
    }

    pub(crate) fn with_cachefile(mut self, cachefile: &Cachefile) -> Self {
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
    pub(crate) fn without_marks(&self) -> Self {
        let mut plain = self.clone();
        MARKS.iter().chain([&ADDING, &FILES]).for_each(|mark| {
            plain.list.remove(mark);
        });
        plain
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.list.opt_lossy(name).ok().flatten()
    }

    /// Its name, which for a temporary name is not that of its labels.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The txg in which its configuration was last written down here.
    #[must_use]
    pub fn txg(&self) -> u64 {
        self.config.txg
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.config.pool_guid
    }

    /// Whether it has this name or guid.
    #[must_use]
    pub fn is_called(&self, wanted: &str) -> bool {
        self.name() == wanted || wanted.parse() == Ok(self.guid())
    }

    /// It was not made known by an import that ended with the last start of the machine.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.text(BOOT).is_none_or(|boot| boot == this_boot())
    }

    /// Where its mount points are shown.
    #[must_use]
    pub fn altroot(&self) -> Option<String> {
        self.text(ALTROOT)
    }

    /// It was imported to be read only.
    #[must_use]
    pub fn is_readonly(&self) -> bool {
        self.list.flag(READONLY).unwrap_or(false)
    }

    /// How the list has it.
    #[must_use]
    pub fn listed_as(&self) -> ListedAs {
        if self.is_readonly() { ListedAs::ReadOnly } else { ListedAs::ReadWrite }
    }

    /// The state of one that is only read, where that is not its newest.
    #[must_use]
    pub fn state(&self) -> Option<EarlierState> {
        let NvValue::U64(txg) = self.list.get(STATE)? else { return None };
        Some(if *txg == 0 { EarlierState::Checkpoint } else { EarlierState::Txg(*txg) })
    }

    /// The property `cachefile`.
    #[must_use]
    pub fn cachefile(&self) -> Cachefile {
        self.text(CACHEFILE).and_then(|text| Cachefile::parse(&text)).unwrap_or_default()
    }

    /// A device is being added, or was when the command that did so ended before its time.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.list.get(ADDING).is_some()
    }

    /// The candidate by this entry, with those devices that `found` has, if any.
    #[must_use]
    pub fn candidate(&self, found: Option<&Candidate>) -> Candidate {
        let (config, tree) = (self.config.clone(), self.config.vdev_tree.clone());
        match found {
            Some(found) => Candidate { config, tree, ..found.clone() },
            None => Candidate {
                config,
                tree,
                leaves: BTreeMap::new(),
                aux: BTreeMap::new(),
                lent: BTreeMap::new(),
                split_off: BTreeSet::new(),
                uberblocks: Vec::new(),
            },
        }
    }

    /// Its devices.
    fn leaves(&self) -> impl Iterator<Item = &VdevConfig> {
        let is_device = |v: &&VdevConfig| v.kind.has_device();
        self.config.vdev_tree.walk().filter(is_device)
    }

    /// Their guids.
    #[must_use]
    pub fn device_guids(&self) -> Vec<u64> {
        self.leaves().map(|leaf| leaf.guid).collect()
    }

    /// These are its devices, where it has them, whatever guid the pool has by now: `zpool reguid`
    /// may have ended before the new one was written down.
    #[must_use]
    pub fn is_on_devices_of(&self, pool: &Candidate) -> bool {
        let is_here = |leaf: &VdevConfig| {
            let (Some(seen), Some(path)) = (pool.leaves.get(&leaf.guid), &leaf.path) else {
                return false;
            };
            real(&seen.path) == real(Path::new(path))
        };
        self.leaves().any(is_here)
    }

    /// All devices, spares and cache devices included.
    fn devices(&self) -> impl Iterator<Item = &VdevConfig> {
        self.leaves().chain(self.config.spares.iter().chain(&self.config.l2cache))
    }

    /// A device with this guid is its own, spares and cache devices included.
    #[must_use]
    pub fn has_device(&self, guid: u64) -> bool {
        self.devices().any(|leaf| leaf.guid == guid)
    }

    /// Guids of its spares and cache devices.
    pub fn aux_guids(&self) -> impl Iterator<Item = u64> {
        self.config.spares.iter().chain(&self.config.l2cache).map(|leaf| leaf.guid)
    }

    /// Where they were when this was written, with those of spares and cache devices and of devices
    /// that are being added.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let named = self.devices().filter_map(|leaf| leaf.path.as_ref());
        let adding = self.list.opt_strings(ADDING).ok().flatten().unwrap_or_default();
        let adding = adding.iter().map(|path| PathBuf::from(OsStr::from_bytes(path)));
        named.map(PathBuf::from).chain(adding).collect()
    }

    /// The list as stored in the file.
    #[must_use]
    pub fn list(&self) -> &NvList {
        &self.list
    }

    /// Apart from the txg nothing differs.
    #[must_use]
    pub fn differs_only_in_txg(&self, other: &Self) -> bool {
        let plain = |known: &Self| {
            let mut list = known.list.clone();
            list.remove("txg");
            list
        };
        plain(self) == plain(other)
    }
}
