//! Mounting by dataset, from its properties and the request, and updating mounts when datasets
//! change ([`Follower`]).
//!
//! A dataset that is mounted where its property `mountpoint` says follows its properties: it moves
//! when that property or the name of its dataset changes, and goes when `canmount` is turned off.
//! One that was mounted at a given directory stays there.

mod error;
mod following;
mod links;

pub use error::DatasetError;
pub use following::{Changed, Changes, Follower, MountScope, Unmounted, Unmounting, is_below};

use crate::{MountSpec, Mounted, Mounts, Options, Snapshots, space_of, system};
use engine::{Dataset, DatasetKind, Datasets, OpenPool, Pool, PropertyContext, Source};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, DatasetError>;

/// Why an option is refused.
const XATTR_OFF: &str = "its property xattr is off, which mount options cannot override";
/// The option that changes the options of what is mounted.
const REMOUNT: &str = "remount";

/// A request to mount a dataset.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The file system or snapshot.
    pub name: String,
    /// Where; otherwise its property says.
    pub dir: Option<PathBuf>,
    /// Over what is there.
    pub overlay: bool,
    /// Options by their names.
    pub options: Vec<String>,
}

impl MountRequest {
    /// A dataset with these options, each a list.
    ///
    /// # Errors
    /// An option that there is not.
    pub fn new(name: &str, options: &[String]) -> Result<Self> {
        let options = options.iter().flat_map(|list| list.split(',')).filter(|o| !o.is_empty());
        let options: Vec<String> = options.map(str::to_owned).collect();
        let mut unused = Options::default();
        if let Some(wrong) = options.iter().find(|option| !set(&mut unused, option)) {
            return Err(DatasetError::Option(wrong.clone()));
        }
        Ok(Self { name: name.to_owned(), dir: None, overlay: false, options })
    }
}

/// Sets an option by its name; whether there is one.
fn set(options: &mut Options, name: &str) -> bool {
    match name {
        "ro" => options.read_only = true,
        "rw" => options.read_only = false,
        "suid" | "setuid" => options.set_id = true,
        "nosuid" | "nosetuid" => options.set_id = false,
        "dev" | "devices" => options.devices = true,
        "nodev" | "nodevices" => options.devices = false,
        "exec" => options.exec = true,
        "noexec" => options.exec = false,
        "atime" => options.atime = true,
        "noatime" => options.atime = false,
        "xattr" => options.xattrs = true,
        "noxattr" => options.xattrs = false,
        // Of others' lists of file systems; nothing is to be done about them here.
        REMOUNT | "defaults" | "zfsutil" | "relatime" | "auto" | "noauto" | "_netdev"
        | "nofail" | "nouser" | "async" => {}
        name if name.starts_with("x-") || name.starts_with("comment=") => {}
        _ => return false,
    }
    true
}

/// The properties of a dataset that concern its mount.
struct Properties {
    mountpoint: String,
    /// Where that value comes from.
    source: Source,
    canmount: String,
    options: Options,
}

impl Properties {
    /// It can be mounted without naming a directory.
    fn has_place(&self) -> bool {
        self.canmount != "off" && self.mountpoint.starts_with('/')
    }

    /// It is mounted automatically.
    fn is_automatic(&self) -> bool {
        self.canmount == "on" && self.has_place()
    }

    /// This is where it says.
    fn is_at(&self, dir: &Path) -> bool {
        self.has_place() && Path::new(&self.mountpoint).canonicalize().is_ok_and(|path| path == dir)
    }
}

/// The properties that say where and how something is mounted.
const PROPERTIES: [&str; 10] = [
    "mountpoint",
    "canmount",
    "readonly",
    "setuid",
    "devices",
    "exec",
    "atime",
    "xattr",
    "acltype",
    "overlay",
];

fn properties(dsl: &Datasets<'_>, dataset: &Dataset) -> engine::Result<Properties> {
    let altroot = dsl.pool().altroot().map(str::to_owned);
    let context = PropertyContext { pool_size: None, altroot };
    let all = dsl.kept_properties(dataset, &context, &PROPERTIES)?;
    let property = |name: &str| all.iter().find(|property| property.name == name);
    let text = |name: &str| property(name).map_or("", |property| property.value.as_str());
    let is_on = |name: &str| text(name) != "off";
    let source = property("mountpoint").map_or(Source::None, |property| property.source.clone());
    Ok(Properties {
        mountpoint: text("mountpoint").to_owned(),
        source,
        canmount: text("canmount").to_owned(),
        options: Options {
            read_only: dataset.is_snapshot() || text("readonly") == "on",
            set_id: is_on("setuid"),
            devices: is_on("devices"),
            exec: is_on("exec"),
            atime: is_on("atime"),
            xattrs: is_on("xattr"),
            posix_acls: ["posix", "posixacl"].contains(&text("acltype")),
            overlay: text("overlay") == "on",
            ..Options::default()
        },
    })
}

/// Mounts a dataset of the pool; where that is. Of a pool that is only read, and of a snapshot,
/// nothing can be changed, whatever the options say.
///
/// # Errors
/// It is not a file system, is locked or mounted already; its properties name no place; the system
/// refuses.
pub fn mount(pool: &OpenPool, mounts: &Mounts, wanted: &MountRequest) -> Result<PathBuf> {
    let name = wanted.name.as_str();
    let refuse = |why: &str| DatasetError::refused(name, why);
    let (dataset, values) = find(pool.view(), name)?;
    let is_fixed = pool.is_read_only() || dataset.is_snapshot();
    if mounts.is_idle() {
        // Before the first one: its threads have memory of their own.
        engine::process::map_large_blocks();
    }
    let remounts = wanted.options.iter().any(|option| option == REMOUNT);
    match mounts.of(name) {
        Some(mounted) if remounts => {
            return again(mounts, mounted, wanted, (is_fixed, &values.options));
        }
        Some(_) => return Err(refuse("filesystem already mounted")),
        None if remounts => return Err(refuse("it is not mounted")),
        None => {}
    }
    let dir = match &wanted.dir {
        Some(dir) => {
            system::clear_dead(dir).map_err(|e| DatasetError::system(name, e))?;
            dir.clone()
        }
        None => point(&values, &dataset).map_err(|why| refuse(&why))?,
    };
    let mut options = values.options.clone();
    // The property is for the place that the properties say.
    options.overlay = wanted.overlay || (wanted.dir.is_none() && options.overlay);
    change(&mut options, wanted, (is_fixed, &values.options)).map_err(refuse)?;
    let fs = pool.filesystem(name).map_err(|e| DatasetError::engine("mount", name, e))?;
    let own = mounts.clone();
    let is_mounted = move |name: &str| own.of(name).is_some();
    let snapshots = (!dataset.is_snapshot()).then(|| Snapshots::of(pool, name, is_mounted));
    let what = MountSpec { name: name.to_owned(), fs, space: space_of(pool, name), snapshots };
    mounts.mount(what, &dir, &options).map_err(|e| DatasetError::system(name, e))
}

/// A file system or snapshot that can be mounted, and its properties for that.
fn find(pool: &Pool, name: &str) -> Result<(Dataset, Properties)> {
    let dsl = pool.datasets();
    let dataset = dsl.by_name(name).map_err(|e| DatasetError::engine("open", name, e))?;
    let fail = |e| DatasetError::engine("mount", name, e);
    if dsl.kind(&dataset) != DatasetKind::Filesystem {
        return Err(DatasetError::refused(name, "it is not a file system"));
    }
    if !dsl.is_unlocked(&dataset).map_err(|e| fail(e.into()))? {
        return Err(DatasetError::refused(name, "encryption key not loaded"));
    }
    let values = properties(&dsl, &dataset).map_err(fail)?;
    Ok((dataset, values))
}

/// Sets the options that are requested, or says why not. `is_fixed`: nothing can be changed,
/// whatever they say. As with OpenZFS `rw` counts for this mount although the property `readonly`
/// is set.
fn change(
    options: &mut Options,
    wanted: &MountRequest,
    (is_fixed, by_properties): (bool, &Options),
) -> std::result::Result<(), &'static str> {
    for option in &wanted.options {
        // An unknown option was refused when it was read.
        let _ = set(options, option);
    }
    options.read_only |= is_fixed;
    options.overrides_readonly |= wanted.options.iter().any(|option| option == "rw");
    options.overrides_readonly &= by_properties.read_only && !options.read_only;
    if options.xattrs && !by_properties.xattrs { Err(XATTR_OFF) } else { Ok(()) }
}

/// Gives a mount the requested options; the others stay.
fn again(
    mounts: &Mounts,
    mounted: Mounted,
    wanted: &MountRequest,
    properties: (bool, &Options),
) -> Result<PathBuf> {
    let Mounted { name, dir, mut options } = mounted;
    change(&mut options, wanted, properties).map_err(|why| DatasetError::refused(&name, why))?;
    mounts.remount(&dir, &options).map_err(|e| DatasetError::system(&name, e))?;
    Ok(dir)
}

/// Where a dataset is mounted by its properties; the directory is made.
fn point(values: &Properties, dataset: &Dataset) -> std::result::Result<PathBuf, String> {
    if dataset.is_snapshot() {
        return Err("a snapshot has no mount point: name a directory".to_owned());
    }
    if values.canmount == "off" {
        return Err("'canmount' property is set to 'off'".to_owned());
    }
    match values.mountpoint.as_str() {
        "none" | "-" | "" => Err("no mountpoint set".to_owned()),
        "legacy" => Err("legacy mountpoint: name a directory".to_owned()),
        path => {
            let trusted = [0, nix::unistd::geteuid().as_raw()];
            links::refuse_foreign(Path::new(path), &trusted)?;
            // No directory is made below a mount whose process died.
            system::clear_dead(Path::new(path)).map_err(|e| e.to_string())?;
            let made = std::fs::create_dir_all(path);
            made.map_err(|e| format!("cannot make {path}: {e}"))?;
            Ok(PathBuf::from(path))
        }
    }
}

/// The file systems of a pool that its properties want mounted, those above before those below.
///
/// # Errors
/// Properties cannot be read.
pub fn all_wanted(pool: &Pool) -> Result<Vec<MountRequest>> {
    wanted_among(pool, |_| true)
}

/// Those of them that have these names or are below, and are not among the pool's `mounted` ones.
/// The system's list does not tell those: another pool may have the same name.
///
/// # Errors
/// One of the names is of no dataset.
pub fn wanted_below(
    pool: &Pool,
    names: &[String],
    mounted: &BTreeSet<String>,
) -> Result<Vec<MountRequest>> {
    for name in names {
        let there = pool.datasets().by_name(name);
        there.map_err(|e| DatasetError::engine("mount", name, e))?;
    }
    wanted_among(pool, |name| {
        names.iter().any(|top| is_below(name, top)) && !mounted.contains(name)
    })
}

/// Those of them that are meant: the properties of no others are read.
pub(crate) fn wanted_among(
    pool: &Pool,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Vec<MountRequest>> {
    let dsl = pool.datasets();
    let mut out = Vec::new();
    for (name, _) in dsl.walk().into_iter().filter(|(name, _)| is_meant(name)) {
        let Ok(dataset) = dsl.by_name(&name) else { continue };
        // A partly received dataset is mounted when it is complete.
        if dsl.kind(&dataset) != DatasetKind::Filesystem || dataset.is_partly_received() {
            continue;
        }
        let fail = |e: engine::Error| DatasetError::engine("mount", &name, e);
        let values = properties(&dsl, &dataset).map_err(fail)?;
        if values.is_automatic() && dsl.is_unlocked(&dataset).map_err(|e| fail(e.into()))? {
            out.push((values.mountpoint, MountRequest::new(&name, &[])?));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out.into_iter().map(|(_, wanted)| wanted).collect())
}

/// Whether a mount stays when all are removed: of a file system whose properties only allow a mount
/// by name.
#[must_use]
pub fn is_mounted_by_hand(pool: &Pool, name: &str) -> bool {
    let dsl = pool.datasets();
    let dataset = dsl.by_name(name);
    dataset.is_ok_and(|dataset| {
        !dataset.is_snapshot() && properties(&dsl, &dataset).is_ok_and(|says| !says.is_automatic())
    })
}

/// The properties that a mount with these options has, whatever its dataset has.
#[must_use]
pub fn in_effect(options: &Options) -> Vec<(&'static str, &'static str)> {
    let pairs = [
        ("readonly", options.read_only),
        ("setuid", options.set_id),
        ("devices", options.devices),
        ("exec", options.exec),
        ("atime", options.atime),
    ];
    let all = pairs.map(|(name, is_set)| (name, if is_set { "on" } else { "off" }));
    // How attributes are kept is up to the property.
    all.into_iter().chain((!options.xattrs).then_some(("xattr", "off"))).collect()
}

/// The options of a mount by their names.
pub(crate) fn shown(options: &Options) -> Vec<String> {
    let pairs = [
        (options.read_only, "ro", "rw"),
        (options.set_id, "suid", "nosuid"),
        (options.devices, "dev", "nodev"),
        (options.exec, "exec", "noexec"),
        (options.atime, "atime", "noatime"),
    ];
    let named = pairs.iter().map(|(is_set, yes, no)| if *is_set { *yes } else { *no });
    // Whether there are attributes is decided by the property, also when it has changed.
    named.chain((!options.xattrs).then_some("noxattr")).map(str::to_owned).collect()
}
