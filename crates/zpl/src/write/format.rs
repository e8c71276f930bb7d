//! New file systems and volumes.

use super::create::Parent;
use crate::error::{Error, Result};
use crate::fs::{CaseSensitivity, Filesystem};
use crate::op::{NewFile, NewKind};
use crate::refusal::InvalidRequest;
use crate::volume::{VOLUME_DATA, VOLUME_PROPERTIES, Volume};
use dmu::zap::{self, ZapSpec};
use dmu::{NewObject, Objset, Tx};
use ondisk::DmuType;
use ondisk::sa::{AttrInfo, LAYOUTS, MASTER_NODE_ENTRY, REGISTRY, ZPL_ATTRS};
use ondisk::znode::{MASTER_NODE, Time, ZPL_VERSION_MAX, ZPL_VERSION_SA, master};

/// log2 of the size of the blocks of the table of layouts, which is fat.
const LAYOUTS_SHIFT: u32 = 14;

/// The properties of a new file system.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// How names are looked up.
    pub case: CaseSensitivity,
    /// Normal form of names: one of `NORM_NF…` of [`ondisk::zap`], 0 for none.
    pub normalization: u64,
    /// Only UTF-8 names are allowed; must be set with a normal form.
    pub utf8_only: bool,
    /// Owner of the root directory.
    pub uid: u64,
    /// Its group.
    pub gid: u64,
    /// Its permissions.
    pub mode: u32,
    /// Its times.
    pub now: Time,
    /// Files have projects (feature `project_quota`); before version 5 they have none.
    pub projects: bool,
    /// Version of the format, 1 to 5.
    pub version: u64,
}

impl FormatOptions {
    /// As `zfs create` makes it by default.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            case: CaseSensitivity::Sensitive,
            normalization: 0,
            utf8_only: false,
            uid: 0,
            gid: 0,
            mode: 0o755,
            now,
            projects: true,
            version: ZPL_VERSION_MAX,
        }
    }

    /// Whether a file system can be like that.
    ///
    /// # Errors
    /// Names that are normalised and need not be UTF-8; a version that there is not.
    pub fn check(&self) -> Result<()> {
        if !(1..=ZPL_VERSION_MAX).contains(&self.version) {
            return Err(Error::Version(self.version));
        }
        if self.normalization != 0 && !self.utf8_only {
            return Err(Error::refused(InvalidRequest::NormalizedBytes));
        }
        Ok(())
    }
}

impl Filesystem {
    /// Makes a file system in an empty live object set, as part of `tx`. Open it with
    /// [`Filesystem::open`] afterwards.
    ///
    /// Like OpenZFS on Linux it makes no directory of shares.
    ///
    /// # Errors
    /// The set is not empty; a block cannot be written.
    pub fn format(objset: &Objset, tx: &Tx, options: &FormatOptions) -> Result<()> {
        options.check()?;
        let master = ZapSpec::new(DmuType::MASTER_NODE).number(MASTER_NODE);
        let master = zap::create(objset, tx, &master)?;
        let set = |name: &str, value: u64| zap::set_u64(&master, tx, name, value);
        set(master::UTF8ONLY, u64::from(options.utf8_only))?;
        set(master::NORMALIZATION, options.normalization)?;
        let case = match options.case {
            CaseSensitivity::Sensitive => 0,
            CaseSensitivity::Insensitive => 1,
            CaseSensitivity::Mixed => 2,
        };
        set(master::CASESENSITIVITY, case)?;
        set(master::VERSION, options.version)?;
        if options.version >= ZPL_VERSION_SA {
            set(MASTER_NODE_ENTRY, make_tables(objset, tx)?)?;
        }
        let queue = zap::create(objset, tx, &ZapSpec::new(DmuType::UNLINKED_SET))?;
        set(master::DELETE_QUEUE, queue.number())?;
        // The root directory is made like any other, by a file system that has none yet.
        set(master::ROOT, 0)?;
        let mut fs = Self::open(objset.clone())?;
        fs.set_projects(options.projects && options.version >= ZPL_VERSION_SA);
        let new = NewFile {
            uid: options.uid,
            gid: options.gid,
            ..NewFile::new(NewKind::Dir, options.mode, options.now)
        };
        let root = fs.make(tx, &new, &Parent::None)?;
        Ok(set(master::ROOT, root)?)
    }
}

/// Makes the tables of attributes; returns their master node.
pub(super) fn make_tables(objset: &Objset, tx: &Tx) -> Result<u64> {
    let master = zap::create(objset, tx, &ZapSpec::new(DmuType::SA_MASTER_NODE))?;
    let registry = zap::create(objset, tx, &ZapSpec::new(DmuType::SA_ATTR_REGISTRATION))?;
    for ((name, length, class), number) in ZPL_ATTRS.into_iter().zip(0..) {
        let info = AttrInfo { number, length, class };
        zap::set_u64(&registry, tx, name, info.encode())?;
    }
    let layouts = ZapSpec::new(DmuType::SA_ATTR_LAYOUTS).fat(LAYOUTS_SHIFT);
    let layouts = zap::create(objset, tx, &layouts)?;
    zap::set_u64(&master, tx, REGISTRY, registry.number())?;
    zap::set_u64(&master, tx, LAYOUTS, layouts.number())?;
    Ok(master.number())
}

impl Volume {
    /// Whether a volume can have this size and blocks of `block_size` bytes.
    ///
    /// # Errors
    /// A block size that is not a power of two from 512 bytes to 16 MiB, a size that is not a
    /// multiple of it.
    pub fn check_format(size: u64, block_size: u32) -> Result<()> {
        if !block_size.is_power_of_two() || !(512..=16 << 20).contains(&block_size) {
            return Err(Error::refused(InvalidRequest::VolumeBlockSize));
        }
        Self::check_size(size, block_size.into())
    }

    /// Makes a volume of `size` bytes with blocks of `block_size` bytes in an empty live object
    /// set.
    ///
    /// # Errors
    /// A block size that is not a power of two from 512 bytes to 16 MiB, a size that is not a
    /// multiple of it; the set is not empty.
    pub fn format(objset: &Objset, tx: &Tx, size: u64, block_size: u32) -> Result<()> {
        Self::check_format(size, block_size)?;
        // One slot each, whatever the set's default: the second object is next to the first.
        let mut data = NewObject::new(DmuType::ZVOL).block_size(block_size).number(VOLUME_DATA);
        data.slots = Some(1);
        objset.create(tx, &data)?;
        let mut properties = ZapSpec::new(DmuType::ZVOL_PROP).number(VOLUME_PROPERTIES);
        properties.slots = Some(1);
        let properties = zap::create(objset, tx, &properties)?;
        Ok(zap::set_u64(&properties, tx, crate::volume::SIZE, size)?)
    }
}
