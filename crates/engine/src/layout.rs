//! What a pool is made of, in words: `disk`, `mirror a b`, `raidz2 a b c`, behind `log`, `special`,
//! `dedup`, `cache` and `spare`; and what of it is likely to be a mistake.

use crate::config::{VdevConfig, VdevKind};
use crate::devices::{self, FarName};
use crate::live::{NewTop, SpaceClass, VdevSpec};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Sizes in one vdev that differ by more than this are a mistake rather than a rounding.
const SIZE_SLACK: u64 = 16 << 20;

/// What is added to a pool, or makes one.
#[derive(Debug, Default)]
pub struct Layout {
    /// Top-level vdevs.
    pub tops: Vec<NewTop>,
    /// Hot spares.
    pub spares: Vec<VdevSpec>,
    /// Cache devices.
    pub cache: Vec<VdevSpec>,
}

/// What the devices that follow are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Tops(SpaceClass),
    Cache,
    Spare,
}

fn section(word: &str) -> Option<Section> {
    Some(match word {
        "log" | "logs" => Section::Tops(SpaceClass::Log),
        "special" => Section::Tops(SpaceClass::Special),
        "dedup" => Section::Tops(SpaceClass::Dedup),
        "cache" => Section::Cache,
        "spare" | "spares" => Section::Spare,
        _ => return None,
    })
}

/// A vdev of several devices.
#[derive(Clone, Copy)]
enum Group {
    Mirror,
    Raidz(u64),
    Draid(DraidWords),
}

/// What a word such as `draid2:4d:11c:1s` says; what it leaves out is chosen.
#[derive(Clone, Copy)]
struct DraidWords {
    parity: u64,
    data: Option<u64>,
    children: Option<u64>,
    spares: u64,
}

/// Data columns of a group that has more devices than it needs.
const DRAID_DATA: u64 = 8;
/// Devices and spares that a dRAID has at most.
const DRAID_DEVICES_MAX: u64 = 255;
const DRAID_SPARES_MAX: u64 = 100;

impl DraidWords {
    /// `None`: the word names no dRAID, but perhaps a device.
    fn of(word: &str) -> Result<Option<Self>, LayoutError> {
        let mut parts = word.strip_prefix("draid").into_iter().flat_map(|rest| rest.split(':'));
        let Some(parity) = parts.next() else { return Ok(None) };
        let parity = match parity {
            "" => 1,
            "1" | "2" | "3" => parity.parse().unwrap_or(1),
            _ => return Ok(None),
        };
        let mut out = Self { parity, data: None, children: None, spares: 0 };
        for part in parts {
            let bad = || {
                let wanted = "expected [:<number><c|d|s>]";
                LayoutError::Invalid(format!("invalid dRAID syntax; {wanted} not '{word}'"))
            };
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            let n = digits.parse().map_err(|_| bad())?;
            match part.get(digits.len()..) {
                Some("d" | "D") => out.data = Some(n),
                Some("c" | "C") => out.children = Some(n),
                Some("s" | "S") => out.spares = n,
                _ => return Err(bad()),
            }
        }
        Ok(Some(out))
    }

    /// The vdev of these devices.
    fn spec(self, children: Vec<VdevSpec>) -> Result<VdevSpec, LayoutError> {
        let (n, Self { parity, spares, .. }) = (children.len() as u64, self);
        if let Some(wanted) = self.children.filter(|wanted| *wanted != n) {
            return Err(LayoutError::Invalid(format!(
                "invalid number of dRAID children; {wanted} required but {n} provided"
            )));
        }
        let left = n.saturating_sub(spares.saturating_add(parity));
        let ndata = match self.data {
            None if left == 0 => {
                return Err(LayoutError::Invalid(format!(
                    "request number of distributed spares {spares} and parity level {parity} \
                     leaves no disks available for data"
                )));
            }
            None => left.min(DRAID_DATA),
            Some(data) => data,
        };
        if ndata == 0 || ndata > left {
            return Err(LayoutError::Invalid(format!(
                "requested number of dRAID data disks per group {ndata} is too high, \
                 at most {left} disks are available for data"
            )));
        }
        if spares > DRAID_SPARES_MAX {
            return Err(LayoutError::Invalid(format!(
                "invalid number of dRAID spares {spares}; additional disks would be required"
            )));
        }
        if n > DRAID_DEVICES_MAX {
            return Err(LayoutError::Invalid(format!(
                "{n} disks were provided, but dRAID only supports up to {DRAID_DEVICES_MAX} disks"
            )));
        }
        Ok(VdevSpec::Draid { nparity: parity, ndata, nspares: spares, children })
    }
}

impl Group {
    fn of(word: &str) -> Result<Option<Self>, LayoutError> {
        Ok(Some(match word {
            "mirror" => Self::Mirror,
            "raidz" | "raidz1" => Self::Raidz(1),
            "raidz2" => Self::Raidz(2),
            "raidz3" => Self::Raidz(3),
            w => return Ok(DraidWords::of(w)?.map(Self::Draid)),
        }))
    }

    fn name(self) -> String {
        match self {
            Self::Mirror => "mirror".to_owned(),
            Self::Raidz(n) => format!("raidz{n}"),
            Self::Draid(DraidWords { parity, .. }) => format!("draid{parity}"),
        }
    }

    fn least(self) -> usize {
        match self {
            Self::Mirror => 2,
            Self::Raidz(parity) | Self::Draid(DraidWords { parity, .. }) => parity as usize + 1,
        }
    }
}

/// Why words are no layout.
#[derive(Debug)]
#[non_exhaustive]
pub enum LayoutError {
    /// They say nothing that can be made.
    Invalid(String),
    /// There is no such file or disk.
    Absent(PathBuf),
    /// It is neither a file nor a block device.
    NoDevice(PathBuf),
    /// A device cannot be looked at.
    Io(io::Error),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "invalid vdev specification: {why}"),
            Self::Absent(path) => {
                write!(f, "cannot open '{}': No such file or directory", path.display())
            }
            Self::NoDevice(path) => {
                let path = path.display();
                write!(f, "cannot use '{path}': must be a block device or regular file")
            }
            Self::Io(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for LayoutError {}

impl From<io::Error> for LayoutError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

fn invalid(why: impl fmt::Display) -> LayoutError {
    LayoutError::Invalid(why.to_string())
}

/// Reads the words of a layout, as `zpool create` takes them behind the pool's name. Paths become
/// absolute, and are those of files and block devices that exist.
///
/// # Errors
/// What is wrong with the words, or with a device.
pub fn parse(words: &[String]) -> Result<Layout, LayoutError> {
    let mut layout = Layout::default();
    let mut now = Section::Tops(SpaceClass::Normal);
    let mut i = 0;
    let mut once = Vec::new();
    while let Some(word) = words.get(i) {
        i += 1;
        if let Some(next) = section(word) {
            let name = match next {
                Section::Tops(SpaceClass::Log) => Some("log"),
                Section::Spare => Some("spare"),
                Section::Cache => Some("cache"),
                Section::Tops(_) => None,
            };
            if let Some(name) = name {
                if once.contains(&name) {
                    return Err(invalid(format!("'{name}' can be specified only once")));
                }
                once.push(name);
            }
            let followed = words.get(i).is_some_and(|w| section(w).is_none());
            if !followed {
                return Err(invalid(format!("{word} requires at least 1 device")));
            }
            now = next;
            continue;
        }
        let Some(group) = Group::of(word)? else {
            let path = device_path(word)?;
            match now {
                Section::Tops(class) => layout.tops.push(NewTop { spec: leaf(&path)?, class }),
                Section::Cache => layout.cache.push(leaf(&path)?),
                Section::Spare => layout.spares.push(leaf(&path)?),
            }
            continue;
        };
        let is_member = |w: &&String| section(w).is_none() && !matches!(Group::of(w), Ok(Some(_)));
        let members: Vec<_> = words.iter().skip(i).take_while(is_member).collect();
        i += members.len();
        // A group ends the list of spares and cache devices: those are single devices.
        let class = match now {
            Section::Tops(class) => class,
            Section::Cache | Section::Spare => SpaceClass::Normal,
        };
        now = Section::Tops(class);
        if members.len() < group.least() {
            let (name, least) = (group.name(), group.least());
            return Err(invalid(format!("{name} requires at least {least} devices")));
        }
        let parity = match group {
            Group::Mirror => None,
            Group::Raidz(_) => Some("raidz"),
            Group::Draid(_) => Some("draid"),
        };
        if let Some(name) = parity.filter(|_| class != SpaceClass::Normal) {
            return Err(invalid(format!("unsupported '{}' device: {name}", class_name(class))));
        }
        let leaves = members.into_iter().map(|w| leaf(&device_path(w)?));
        let children = leaves.collect::<Result<Vec<_>, LayoutError>>()?;
        let spec = match group {
            Group::Mirror => VdevSpec::Mirror(children),
            Group::Raidz(nparity) => VdevSpec::Raidz { nparity, children },
            Group::Draid(words) => words.spec(children)?,
        };
        layout.tops.push(NewTop { spec, class });
    }
    layout.refuse_doubles()?;
    Ok(layout)
}

fn class_name(class: SpaceClass) -> &'static str {
    match class {
        SpaceClass::Normal => "normal",
        SpaceClass::Log => "log",
        SpaceClass::Special => "special",
        SpaceClass::Dedup => "dedup",
    }
}

/// The absolute path a word stands for.
///
/// # Errors
/// There is no device.
pub fn device_path(word: &str) -> Result<String, LayoutError> {
    let given = Path::new(word);
    if let Some(name) = FarName::parse(given) {
        let name = name.map_err(|why| invalid(format!("'{word}' cannot be used: {why}")))?;
        return Ok(name.as_str().to_owned());
    }
    let known = Path::new("/dev").join(word);
    let path = match given.is_absolute() || given.exists() || !known.exists() {
        true => std::path::absolute(given)?,
        false => known,
    };
    let Ok(found) = std::fs::metadata(&path) else { return Err(LayoutError::Absent(path)) };
    if !found.is_file() && !found.file_type().is_block_device() {
        return Err(LayoutError::NoDevice(path));
    }
    let text = path.into_os_string().into_string();
    text.map_err(|_| invalid("paths of devices are UTF-8"))
}

fn leaf(path: &str) -> Result<VdevSpec, LayoutError> {
    // What is far is a disk wherever a system has it as a device.
    let is_file = !devices::is_far(Path::new(path)) && std::fs::metadata(path)?.is_file();
    Ok(VdevSpec::Leaf { path: path.to_owned(), is_file })
}

fn identity(path: &str) -> Result<(u64, u64), LayoutError> {
    Ok(crate::live::identity(Path::new(path))?)
}

impl Layout {
    /// Every device in it.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let tops = self.tops.iter().flat_map(|t| t.spec.leaves());
        tops.chain(self.spares.iter().chain(&self.cache).flat_map(VdevSpec::leaves)).collect()
    }

    fn refuse_doubles(&self) -> Result<(), LayoutError> {
        let mut seen = HashMap::new();
        for path in self.paths() {
            if let Some(other) = seen.insert(identity(path)?, path) {
                let both = if other == path { String::new() } else { format!(" and '{other}'") };
                return Err(invalid(format!(
                    "one or more vdevs refer to the same device: '{path}'{both}"
                )));
            }
        }
        Ok(())
    }

    /// What of it OpenZFS would not make without being forced, vdevs that are there already
    /// included.
    #[must_use]
    pub fn mismatch(&self, present: &[Level]) -> Option<Mismatch> {
        if let Some(why) = self.tops.iter().find_map(|top| uneven(&top.spec)) {
            return Some(why);
        }
        // A log survives without redundancy; whatever else is lost takes the pool with it.
        let counts = |t: &&NewTop| !matches!(t.class, SpaceClass::Log);
        let new: Vec<Level> = self.tops.iter().filter(counts).map(|t| Level::of(&t.spec)).collect();
        let mut pairs = new.iter().zip(new.iter().skip(1));
        if let Some((a, b)) = pairs.find(|(a, b)| a.differs(b)) {
            return Some(Mismatch::Levels(*a, *b));
        }
        let (pool, new) = (*present.last()?, *new.first()?);
        pool.differs(&new).then_some(Mismatch::WithPool { pool, new })
    }
}

/// What of a layout is likely to be a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// A vdev of this kind is made of files and of disks.
    FilesAndDisks(Level),
    /// The devices of a vdev of this kind have different sizes.
    Sizes(Level),
    /// New vdevs survive unequal losses.
    Levels(Level, Level),
    /// The new vdev and those that are there survive unequal losses.
    WithPool {
        /// One that is there.
        pool: Level,
        /// The new one.
        new: Level,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LEVEL: &str = "mismatched replication level";
        match self {
            Self::FilesAndDisks(of) => {
                write!(f, "{LEVEL}: {} contains both files and devices", of.name())
            }
            Self::Sizes(of) => write!(f, "{} contains devices of different sizes", of.name()),
            Self::Levels(a, b) => write!(f, "{LEVEL}: both {} vdevs are present", a.beside(b)),
            Self::WithPool { pool, new } => {
                write!(f, "{LEVEL}: pool uses {} and new vdev is {}", pool.shown(), new.shown())
            }
        }
    }
}

/// How much a vdev survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: one device.
    Single,
    /// Of this many copies all but one.
    Mirror(usize),
    /// Parity and devices.
    Raidz(u64, usize),
    /// Parity and devices of a dRAID.
    Draid(u64, usize),
}

impl Level {
    /// What a vdev survives.
    #[must_use]
    pub fn of(spec: &VdevSpec) -> Self {
        match spec {
            VdevSpec::Leaf { .. } => Self::Single,
            VdevSpec::Mirror(c) => Self::Mirror(c.len()),
            VdevSpec::Raidz { nparity, children } => Self::Raidz(*nparity, children.len()),
            VdevSpec::Draid { nparity, children, .. } => Self::Draid(*nparity, children.len()),
        }
    }

    /// What a vdev that is there survives; `None`: it holds nothing by itself.
    #[must_use]
    pub fn of_config(top: &VdevConfig) -> Option<Self> {
        Some(match top.kind {
            VdevKind::Disk | VdevKind::File => Self::Single,
            VdevKind::Mirror => Self::Mirror(top.children.len()),
            VdevKind::Raidz { nparity } => Self::Raidz(u64::from(nparity), top.children.len()),
            VdevKind::Draid { nparity, .. } => Self::Draid(u64::from(nparity), top.children.len()),
            _ => return None,
        })
    }

    /// The kind of the vdev, as layouts name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Single => "disk".to_owned(),
            Self::Mirror(_) => "mirror".to_owned(),
            Self::Raidz(n, _) => format!("raidz{n}"),
            Self::Draid(n, _) => format!("draid{n}"),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Single => "disk".to_owned(),
            Self::Mirror(n) | Self::Raidz(_, n) | Self::Draid(_, n) => {
                format!("{n}-way {}", self.name())
            }
        }
    }

    /// Two vdevs of one pool survive unequal losses, or are of unequal width.
    fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            // What survives as much is as good.
            (Self::Mirror(n), Self::Raidz(parity, _) | Self::Draid(parity, _))
            | (Self::Raidz(parity, _) | Self::Draid(parity, _), Self::Mirror(n)) => {
                *n as u64 != parity + 1
            }
            (Self::Raidz(a, _), Self::Draid(b, _)) | (Self::Draid(b, _), Self::Raidz(a, _)) => {
                a != b
            }
            (a, b) => a != b,
        }
    }

    /// Both, by that in which they differ.
    fn beside(&self, other: &Self) -> String {
        match (self, other) {
            (Self::Mirror(a), Self::Mirror(b)) => format!("{a}-way and {b}-way mirror"),
            (Self::Raidz(a, _), Self::Raidz(b, _)) if a != b => {
                format!("{a} and {b} device parity raidz")
            }
            (Self::Raidz(_, a), Self::Raidz(_, b)) => format!("{a}-way and {b}-way raidz"),
            (Self::Draid(a, _), Self::Draid(b, _)) if a != b => {
                format!("{a} and {b} device parity draid")
            }
            (Self::Draid(_, a), Self::Draid(_, b)) => format!("{a}-way and {b}-way draid"),
            (a, b) => format!("{} and {}", a.name(), b.name()),
        }
    }
}

/// Devices of one vdev that are of two kinds, or not of one size.
fn uneven(spec: &VdevSpec) -> Option<Mismatch> {
    let (VdevSpec::Mirror(children)
    | VdevSpec::Raidz { children, .. }
    | VdevSpec::Draid { children, .. }) = spec
    else {
        return None;
    };
    let level = Level::of(spec);
    let is_file = |c: &VdevSpec| matches!(c, VdevSpec::Leaf { is_file: true, .. });
    let files = children.iter().filter(|c| is_file(c)).count();
    if files != 0 && files != children.len() {
        return Some(Mismatch::FilesAndDisks(level));
    }
    let leaves = spec.leaves().into_iter();
    let sizes: Vec<u64> = leaves.filter_map(|p| devices::size(Path::new(p))).collect();
    let (least, most) = (sizes.iter().min()?, sizes.iter().max()?);
    (most - least > SIZE_SLACK).then_some(Mismatch::Sizes(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> (tempfile::TempDir, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        for name in names {
            if Group::of(name).unwrap().is_none() && section(name).is_none() {
                let path = dir.path().join(name);
                std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
                out.push(path.to_str().unwrap().to_owned());
            } else {
                out.push((*name).to_owned());
            }
        }
        (dir, out)
    }

    #[test]
    fn vdevs_of_every_kind() {
        let words = ["mirror", "a", "b", "raidz", "c", "d", "e", "log", "f", "cache", "g", "spare"];
        let (_dir, words) = files(&[&words[..], &["h"]].concat());
        let layout = parse(&words).unwrap();
        let levels: Vec<_> = layout.tops.iter().map(|t| Level::of(&t.spec)).collect();
        assert_eq!(levels, [Level::Mirror(2), Level::Raidz(1, 3), Level::Single]);
        assert_eq!(layout.tops[2].class, SpaceClass::Log);
        assert_eq!((layout.cache.len(), layout.spares.len()), (1, 1));
        // Each of them survives the loss of one device.
        assert_eq!(layout.mismatch(&[]), None);
    }

    #[test]
    fn vdevs_that_survive_unequal_losses_do_not_match() {
        let (_dir, words) = files(&["mirror", "a", "b", "c", "raidz", "d", "e", "f"]);
        let both = "mismatched replication level: both mirror and raidz1 vdevs are present";
        let why = parse(&words).unwrap().mismatch(&[]).unwrap();
        assert_eq!(why, Mismatch::Levels(Level::Mirror(3), Level::Raidz(1, 3)));
        assert_eq!(why.to_string(), both);
    }

    #[test]
    fn a_group_ends_a_list_of_single_devices() {
        let (_dir, words) = files(&["mirror", "a", "b", "spare", "c", "mirror", "d", "e"]);
        let layout = parse(&words).unwrap();
        assert_eq!((layout.tops.len(), layout.spares.len()), (2, 1));
    }

    #[test]
    fn too_few_and_the_same_twice() {
        let (_dir, words) = files(&["mirror", "a"]);
        let text = parse(&words).unwrap_err().to_string();
        assert!(text.contains("mirror requires at least 2 devices"), "{text}");
        let (_dir, mut words) = files(&["mirror", "a"]);
        words.push(words[1].clone());
        let text = parse(&words).unwrap_err().to_string();
        assert!(text.contains("refer to the same device"), "{text}");
    }
}
