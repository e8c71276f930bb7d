//! What a pool is made of, in words: `disk`, `mirror a b`, `raidz2 a b c`, behind `log`, `special`,
//! `dedup`, `cache` and `spare`; and what of it is likely to be a mistake.

use crate::faults::DRAID_DEVICES_MAX;
pub use crate::faults::{LayoutFault, Level, Mismatch};

use crate::devices::{self, FarName};
use crate::error::{Error, ErrorKind, Hint, Place, Result};
use pool::Section;
use pool::live::{NewTop, SpaceClass, VdevSpec};
use std::collections::HashMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// What was read of a word.
type Read<T> = std::result::Result<T, LayoutFault>;

/// Sizes in one vdev that differ by more than this are a mistake rather than a rounding.
const SIZE_SLACK: u64 = 16 << 20;

/// What is added to a pool, or makes one.
///
/// ```
/// use engine::ErrorKind;
/// use engine::layout::{self, LayoutFault};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| {
/// #     let path = folder.path().join(name);
/// #     std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
/// #     path.to_str().unwrap().to_owned()
/// # };
/// let [a, b, c] = ["a.img", "b.img", "c.img"].map(image);
/// let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
/// let layout = layout::parse(&words(&["mirror", &a, &b, "spare", &c]))?;
/// assert_eq!((layout.tops.len(), layout.spares.len()), (1, 1));
/// assert_eq!(layout.paths(), [&a, &b, &c]);
/// // What makes no pool is said as a value.
/// let error = layout::parse(&words(&["mirror", &a])).unwrap_err();
/// let why = LayoutFault::TooFew { kind: "mirror".to_owned(), least: 2 };
/// assert_eq!(error.kind(), &ErrorKind::BadLayout(why));
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Layout {
    /// Top-level vdevs.
    pub tops: Vec<NewTop>,
    /// Hot spares.
    pub spares: Vec<VdevSpec>,
    /// Cache devices.
    pub cache: Vec<VdevSpec>,
}

/// The section of the pool that a word opens: the devices that follow belong to it.
fn section(word: &str) -> Option<Section> {
    Some(match word {
        "logs" => Section::Tops(SpaceClass::Log),
        "cache" => Section::Cache,
        "spare" | "spares" => Section::Spares,
        word => Section::Tops(SpaceClass::from_name(word).filter(|c| *c != SpaceClass::Normal)?),
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
/// Spares that a dRAID has at most.
const DRAID_SPARES_MAX: u64 = 100;

impl DraidWords {
    /// `None`: the word names no dRAID, but perhaps a device.
    fn of(word: &str) -> Read<Option<Self>> {
        let mut parts = word.strip_prefix("draid").into_iter().flat_map(|rest| rest.split(':'));
        let Some(parity) = parts.next() else { return Ok(None) };
        let parity = match parity {
            "" => 1,
            "1" | "2" | "3" => parity.parse().unwrap_or(1),
            _ => return Ok(None),
        };
        let mut out = Self { parity, data: None, children: None, spares: 0 };
        for part in parts {
            let bad = || LayoutFault::DraidWord(word.to_owned());
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
    fn spec(self, children: Vec<VdevSpec>) -> Read<VdevSpec> {
        let (n, Self { parity, spares, .. }) = (children.len() as u64, self);
        if let Some(wanted) = self.children.filter(|wanted| *wanted != n) {
            return Err(LayoutFault::DraidChildren { wanted, given: n });
        }
        let left = n.saturating_sub(spares.saturating_add(parity));
        let ndata = match self.data {
            None if left == 0 => return Err(LayoutFault::DraidNoData { parity, spares }),
            None => left.min(DRAID_DATA),
            Some(data) => data,
        };
        if ndata == 0 || ndata > left {
            return Err(LayoutFault::DraidData { data: ndata, left });
        }
        if spares > DRAID_SPARES_MAX {
            return Err(LayoutFault::DraidSpares(spares));
        }
        if n > DRAID_DEVICES_MAX {
            return Err(LayoutFault::DraidDevices(n));
        }
        Ok(VdevSpec::Draid { nparity: parity, ndata, nspares: spares, children })
    }
}

impl Group {
    fn of(word: &str) -> Read<Option<Self>> {
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

/// Reads the words of a layout, as `zpool create` takes them behind the pool's name. Paths become
/// absolute, and are those of files and block devices that exist.
///
/// # Errors
/// What is wrong with the words, or with a device.
///
/// ```
/// use engine::layout;
/// use engine::live::VdevSpec;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| {
/// #     let path = folder.path().join(name);
/// #     std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
/// #     path.display().to_string()
/// # };
/// let words = ["mirror", &image("a"), &image("b"), "spare", &image("c")];
/// let layout = layout::parse(&words.map(str::to_owned))?;
/// assert!(matches!(layout.tops[0].spec, VdevSpec::Mirror(ref sides) if sides.len() == 2));
/// assert_eq!((layout.tops.len(), layout.spares.len(), layout.paths().len()), (1, 1, 3));
/// assert!(layout::parse(&["mirror".to_owned()]).is_err());
/// # Ok::<(), engine::Error>(())
/// ```
pub fn parse(words: &[String]) -> Result<Layout> {
    parse_in(Path::new(""), words)
}

/// The same, with paths that are relative to a folder.
///
/// # Errors
/// As [`parse`].
pub fn parse_in(folder: &Path, words: &[String]) -> Result<Layout> {
    let mut layout = Layout::default();
    let mut now = Section::Tops(SpaceClass::Normal);
    let mut i = 0;
    let mut once = Vec::new();
    while let Some(word) = words.get(i) {
        i += 1;
        if let Some(next) = section(word) {
            let name = match next {
                Section::Tops(SpaceClass::Log) => Some("log"),
                Section::Spares => Some("spare"),
                Section::Cache => Some("cache"),
                Section::Tops(_) => None,
            };
            if let Some(name) = name {
                if once.contains(&name) {
                    return Err(LayoutFault::Twice(name).into());
                }
                once.push(name);
            }
            let followed = words.get(i).is_some_and(|w| section(w).is_none());
            if !followed {
                return Err(LayoutFault::NoDevices(word.clone()).into());
            }
            now = next;
            continue;
        }
        let Some(group) = Group::of(word)? else {
            let path = member_path(folder, word)?;
            match now {
                Section::Tops(class) => layout.tops.push(NewTop { spec: leaf(&path)?, class }),
                Section::Cache => layout.cache.push(leaf(&path)?),
                Section::Spares => layout.spares.push(leaf(&path)?),
            }
            continue;
        };
        let is_member = |w: &&String| section(w).is_none() && !matches!(Group::of(w), Ok(Some(_)));
        let members: Vec<_> = words.iter().skip(i).take_while(is_member).collect();
        i += members.len();
        // A group ends the list of spares and cache devices: those are single devices.
        let class = match now {
            Section::Tops(class) => class,
            Section::Cache | Section::Spares => SpaceClass::Normal,
        };
        now = Section::Tops(class);
        if members.len() < group.least() {
            let (kind, least) = (group.name(), group.least());
            return Err(LayoutFault::TooFew { kind, least }.into());
        }
        let parity = match group {
            Group::Mirror => None,
            Group::Raidz(_) => Some("raidz"),
            Group::Draid(_) => Some("draid"),
        };
        if let Some(kind) = parity.filter(|_| class != SpaceClass::Normal) {
            return Err(LayoutFault::WrongClass { class, kind }.into());
        }
        let leaves = members.into_iter().map(|w| leaf(&member_path(folder, w)?));
        let children = leaves.collect::<Result<Vec<_>>>()?;
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

/// The absolute path a word stands for.
///
/// # Errors
/// There is no such file or disk, or it is something else.
pub fn device_path(word: &str) -> Result<String> {
    device_path_in(Path::new(""), word)
}

/// The same, where relative paths begin in a folder.
fn device_path_in(folder: &Path, word: &str) -> Result<String> {
    let given = &folder.join(word);
    if let Some(name) = FarName::parse(Path::new(word)) {
        let name = name.map_err(|why| LayoutFault::FarName { word: word.to_owned(), why })?;
        return Ok(name.as_str().to_owned());
    }
    let known = Path::new("/dev").join(word);
    let path = match word.starts_with('/') || given.exists() || !known.exists() {
        true => std::path::absolute(given)?,
        false => known,
    };
    let Ok(found) = std::fs::metadata(&path) else {
        return Err(Error::new(ErrorKind::NotFound).at(Place::Path(path)));
    };
    if !found.is_file() && !found.file_type().is_block_device() {
        return Err(Error::new(ErrorKind::NoDevice).at(Place::Path(path)));
    }
    let text = path.into_os_string().into_string();
    Ok(text.map_err(|_| LayoutFault::NotUtf8)?)
}

/// The same of a device that is to be a part of a pool: a file can be made for it in a folder that
/// is there; disks come by themselves.
fn member_path(folder: &Path, word: &str) -> Result<String> {
    device_path_in(folder, word).map_err(|e| {
        let lacks =
            |path: &Path| path.parent().is_some_and(Path::is_dir) && !path.starts_with("/dev");
        match (e.kind(), e.place()) {
            (ErrorKind::NotFound, Some(Place::Path(path))) if lacks(path) => {
                let hint = Hint::MakeFile(path.clone());
                e.with_hint(hint)
            }
            _ => e,
        }
    })
}

fn leaf(path: &str) -> Result<VdevSpec> {
    // What is far is a disk wherever a system has it as a device.
    let is_file = !devices::is_far(Path::new(path)) && std::fs::metadata(path)?.is_file();
    Ok(VdevSpec::Leaf { path: path.to_owned(), is_file })
}

fn identity(path: &str) -> Result<(u64, u64)> {
    Ok(pool::live::identity(Path::new(path))?)
}

impl Layout {
    /// Every device in it.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let tops = self.tops.iter().flat_map(|t| t.spec.leaves());
        tops.chain(self.spares.iter().chain(&self.cache).flat_map(VdevSpec::leaves)).collect()
    }

    fn refuse_doubles(&self) -> Result<()> {
        let mut seen = HashMap::new();
        for path in self.paths() {
            if let Some(other) = seen.insert(identity(path)?, path) {
                let (path, other) = (path.to_owned(), other.to_owned());
                return Err(LayoutFault::SameDevice(path, other).into());
            }
        }
        Ok(())
    }

    /// What of it OpenZFS would not make without being forced, vdevs that are there already
    /// included.
    #[must_use]
    pub fn mismatch(&self, present: &[Level]) -> Option<Mismatch> {
        // A pool that is mixed already is not kept from being mixed further.
        if present.windows(2).any(|pair| pair[0].differs(pair[1])) {
            return None;
        }
        if let Some(why) = self.tops.iter().find_map(|top| uneven(&top.spec)) {
            return Some(why);
        }
        // A log survives without redundancy; whatever else is lost takes the pool with it.
        let counts = |t: &&NewTop| !matches!(t.class, SpaceClass::Log);
        let new: Vec<Level> = self.tops.iter().filter(counts).map(|t| Level::of(&t.spec)).collect();
        let mut pairs = new.iter().zip(new.iter().skip(1));
        if let Some((a, b)) = pairs.find(|(a, b)| a.differs(**b)) {
            return Some(Mismatch::Levels(*a, *b));
        }
        let (pool, new) = (*present.last()?, *new.last()?);
        pool.differs_from_new(new).then_some(Mismatch::WithPool { pool, new })
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
        assert_eq!(levels, [Level::Mirror(2), Level::Raidz(1, 3), Level::Single { is_file: true }]);
        assert_eq!(layout.tops[2].class, SpaceClass::Log);
        assert_eq!((layout.cache.len(), layout.spares.len()), (1, 1));
        // Each of them survives the loss of one device.
        assert_eq!(layout.mismatch(&[]), None);
    }

    /// What `zpool create -n` of OpenZFS 2.3.2 refuses.
    #[test]
    fn new_vdevs_that_do_not_go_together() {
        let (single, disk) = (Level::Single { is_file: true }, Level::Single { is_file: false });
        let fine = [
            (Level::Raidz(1, 3), Level::Raidz(1, 4)),
            (Level::Draid(1, 3), Level::Draid(1, 4)),
            (Level::Raidz(1, 3), Level::Draid(1, 4)),
            (Level::Raidz(1, 3), Level::Mirror(2)),
            (Level::Draid(2, 6), Level::Mirror(3)),
        ];
        for (a, b) in fine {
            assert!(!a.differs(b) && !b.differs(a), "{a:?} {b:?}");
        }
        let bad = [
            (Level::Draid(1, 3), Level::Draid(2, 4)),
            (Level::Raidz(1, 3), Level::Draid(2, 4)),
            (Level::Mirror(2), Level::Raidz(2, 3)),
            (Level::Draid(1, 3), Level::Mirror(3)),
            (Level::Mirror(2), Level::Mirror(3)),
            (single, Level::Mirror(2)),
            (disk, Level::Raidz(1, 3)),
            (disk, single),
        ];
        for (a, b) in bad {
            assert!(a.differs(b) && b.differs(a), "{a:?} {b:?}");
        }
    }

    /// What its `zpool add -n` refuses.
    #[test]
    fn new_vdevs_that_do_not_go_together_with_the_pool() {
        let (single, raidz) = (Level::Single { is_file: true }, Level::Raidz(1, 3));
        assert!(!raidz.differs_from_new(Level::Mirror(2)));
        assert!(!Level::Mirror(2).differs_from_new(raidz));
        let bad = [
            (raidz, Level::Raidz(1, 4)),
            (raidz, Level::Raidz(2, 4)),
            (raidz, Level::Draid(1, 4)),
            (raidz, Level::Mirror(3)),
            (raidz, single),
            (Level::Mirror(2), Level::Mirror(3)),
            (Level::Mirror(2), Level::Draid(2, 4)),
            (Level::Draid(1, 3), Level::Draid(2, 4)),
            (single, Level::Mirror(2)),
        ];
        for (pool, new) in bad {
            assert!(pool.differs_from_new(new), "{pool:?} {new:?}");
        }
        let (_dir, words) = files(&["mirror", "a", "b"]);
        let layout = parse(&words).unwrap();
        let new = Level::Mirror(2);
        assert_eq!(layout.mismatch(&[raidz, raidz]), None);
        assert_eq!(layout.mismatch(&[single]), Some(Mismatch::WithPool { pool: single, new }));
        // It is mixed already.
        assert_eq!(layout.mismatch(&[Level::Mirror(2), single]), None);
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
        assert!(text.contains("a mirror has at least 2 devices"), "{text}");
        let (_dir, mut words) = files(&["mirror", "a"]);
        words.push(words[1].clone());
        let text = parse(&words).unwrap_err().to_string();
        assert!(text.contains("are one device"), "{text}");
    }
}
