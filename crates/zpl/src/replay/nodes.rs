//! The replay of a file system: what its records share, and new files.

use super::Target;
use super::acl;
use super::attrs::{File, Tables};
use super::refusal::Refusal;
use super::state::State;
use crate::fs::{CaseSensitivity, Filesystem};
use dmu::zap::{Match, ZapKey};
use dmu::{OverlayObject, Zap, ZapValue};
use ondisk::acl::{Ace, EMBEDDED_ACL_SIZE, VERSION_FUID, VERSION_INITIAL, encode_aces};
use ondisk::sa::zpl;
use ondisk::zil::{Body, Create, Record, TxType, Whiteout};
use ondisk::znode::{Dirent, Time, ZPL_VERSION_DIRENT_TYPE, ZPL_VERSION_FUID, flags, master, mode};
use ondisk::{Endian, fuid::Fuid};

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Longest name: 1023 bytes with the feature `longname`.
const NAME_MAX: usize = 1023;
/// Longest target of a symbolic link (`PATH_MAX` is 4096).
const LINK_MAX: usize = 4096;
/// Bytes of a dnode's bonus that a file of before version 5 had.
const OLD_BONUS_MAX: usize = 320;

/// Applies records to a file system.
pub(super) struct FileReplay {
    pub(super) state: State,
    pub(super) tables: Option<Tables>,
    pub(super) fs: Filesystem,
    /// Normalisation of names in directories.
    norm_flags: u64,
    /// Files have projects.
    projects: bool,
    /// When the record is thought to be applied; see [`super`].
    pub(super) now: Option<Time>,
}

impl FileReplay {
    pub(super) fn new(
        fs: &Filesystem,
        state: State,
        records: &[(&Record, Endian)],
    ) -> crate::Result<Self> {
        let objset = fs.objset();
        let root = Zap::open(&objset.object(fs.root_object())?)?;
        let tables = fs.sa_tables().map(|sa| Tables::new(objset, &sa)).transpose()?;
        let mut this = Self {
            state,
            tables,
            fs: fs.clone(),
            norm_flags: root.key_hash().norm_flags,
            projects: objset.phys().project_used.is_some(),
            now: records.iter().find_map(|(r, _)| time_of(r)),
        };
        this.empty_delete_queue()?;
        Ok(this)
    }

    /// What was unlinked while open is gone once the file system is mounted again.
    fn empty_delete_queue(&mut self) -> crate::Result<()> {
        let Some(queue) = self.fs.master()?.get_u64(master::DELETE_QUEUE)? else { return Ok(()) };
        let entries = Zap::open(&self.fs.objset().object(queue)?)?.to_vec()?;
        for e in entries {
            let (Some(name), Some(object)) = (e.name.bytes(), e.u64()) else { continue };
            if self.release(object).is_ok() {
                self.state.edit(queue).zap.insert(name.to_vec(), None);
                self.state.released += 1;
            }
        }
        Ok(())
    }

    pub(super) fn load(&self, object: u64) -> Result<File> {
        File::load(&self.state, self.tables.as_ref(), object)
    }

    pub(super) fn save(&mut self, file: File) -> Result<()> {
        file.save(&mut self.state, self.tables.as_mut())
    }

    /// Loads a directory.
    pub(super) fn load_dir(&self, object: u64) -> Result<File> {
        let file = self.load(object)?;
        if file.is_dir() { Ok(file) } else { Err(Refusal::NotDirectory) }
    }

    /// The file system keeps DOS attributes and FUIDs.
    pub(super) fn keeps_fuids(&self) -> bool {
        self.fs.version() >= ZPL_VERSION_FUID
    }

    /// Looks a name up: the name as it stands in the directory, and its value.
    pub(super) fn lookup(
        &self,
        dir: u64,
        name: &[u8],
        any_case: bool,
    ) -> Result<Option<(Vec<u8>, Dirent)>> {
        // Where every byte of a name counts, what was changed is found without a search.
        let changed = self.state.changes(dir).filter(|_| self.norm_flags == 0);
        if let Some(value) = changed.and_then(|o| o.zap.get(name)) {
            let word = value.as_ref().and_then(|v| v.values.first_chunk::<8>());
            return Ok(word.map(|w| (name.to_vec(), Dirent::decode(u64::from_be_bytes(*w)))));
        }
        let table = match changed {
            Some(o) if o.detached => return Ok(None),
            Some(_) => Zap::open(&self.fs.objset().object(dir)?)?,
            None => Zap::open(&self.state.object(dir)?)?,
        };
        let how = match self.fs.case_sensitivity() {
            CaseSensitivity::Mixed if !any_case => Match::NormalizeKeepCase,
            _ => Match::Normalize,
        };
        let found = table.find(&ZapKey::name(&table.key_hash(), name, how))?;
        Ok(found.and_then(|e| Some((e.name.bytes()?.to_vec(), Dirent::decode(e.ints().next()?)))))
    }

    /// Puts an entry into a directory's table; the directory's attributes are the caller's.
    pub(super) fn enter(&mut self, dir: u64, name: &[u8], object: u64, m: u64) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&b'/') {
            return Err(Refusal::Damaged("a name no file can have"));
        }
        let typed = self.fs.version() >= ZPL_VERSION_DIRENT_TYPE;
        let kind = if typed { ((m & mode::TYPE) >> 12) as u8 } else { 0 };
        let value = ZapValue::from_u64(Dirent { object, kind }.encode());
        self.state.edit(dir).zap.insert(name.to_vec(), Some(value));
        Ok(())
    }

    /// Takes an entry out of a directory's table.
    pub(super) fn leave(&mut self, dir: u64, name: &[u8]) {
        self.state.edit(dir).zap.insert(name.to_vec(), None);
    }

    /// Counts an entry that came to (`came`) or left a directory.
    pub(super) fn count_entry(&mut self, dir: u64, is_dir: bool, came: bool) -> Result<()> {
        let mut file = self.load_dir(dir)?;
        let change = |n: u64| if came { n.saturating_add(1) } else { n.saturating_sub(1) };
        file.set(zpl::SIZE, change(file.get(zpl::SIZE)));
        if is_dir {
            file.set(zpl::LINKS, change(file.get(zpl::LINKS)));
        }
        file.content_changed(self.now, self.keeps_fuids());
        self.save(file)
    }

    /// An id of a record as the file system stores it: one with a domain gets the number the
    /// domain has here, for that in the record only counts the record's own list.
    pub(super) fn id(&self, logged: u64, domains: &[Vec<u8>]) -> Result<u64> {
        let id = Fuid(logged);
        let Some(at) = id.domain().checked_sub(1) else { return Ok(logged) };
        let name =
            domains.get(at as usize).ok_or(Refusal::Damaged("a domain that is not listed"))?;
        let mut known = self.fs.fuids().domains.iter();
        let (number, _) = known
            .find(|(_, d)| *d == name)
            .ok_or(Refusal::Unsupported("a domain new to the file system"))?;
        Ok(Fuid::new(*number, id.id()).0)
    }

    /// Gives a file an NFSv4 list, and the flags that say what kind it is.
    pub(super) fn set_acl(&self, file: &mut File, aces: &[Ace], hints: u64) -> Result<()> {
        /// The flags of a list.
        const HINTS: u64 = flags::ACL_TRIVIAL
            | flags::INHERIT_ACE
            | flags::ACL_OBJ_ACE
            | flags::ACL_PROTECTED
            | flags::ACL_DEFAULTED
            | flags::ACL_AUTO_INHERIT
            | flags::NO_EXECS_DENIED;
        let endian = file.endian();
        let executable = file.get(zpl::MODE) & 0o111 == 0o111;
        let hints = hints | if executable { flags::NO_EXECS_DENIED } else { 0 };
        let kept = file.get(zpl::FLAGS) & !HINTS;
        file.set(zpl::FLAGS, kept | hints);
        let version = if self.keeps_fuids() { VERSION_FUID } else { VERSION_INITIAL };
        let count = aces.len() as u64;
        let Some(z) = file.old() else {
            file.set(zpl::DACL_COUNT, count);
            file.set_bytes(zpl::DACL_ACES, encode_aces(aces, VERSION_FUID, endian));
            return Ok(());
        };
        let bytes = encode_aces(aces, version, endian);
        let mut embedded = [0; EMBEDDED_ACL_SIZE];
        match embedded.get_mut(..bytes.len()) {
            Some(start) => start.copy_from_slice(&bytes),
            None => return Err(Refusal::Unsupported("an ACL longer than an old znode holds")),
        }
        z.acl.external_object = 0;
        z.acl.version = version;
        z.acl.count = count;
        z.acl.size = bytes.len() as u64;
        z.acl.embedded = embedded;
        Ok(())
    }

    /// Makes the object of a new file below `parent`. Its number must be free.
    fn make(&mut self, new: &NewFile, parent: &File) -> Result<File> {
        if new.object == 0 || !self.state.view().is_free(new.object, new.slots)? {
            return Err(Refusal::Exists);
        }
        let is_dir = new.mode & mode::TYPE == mode::DIR;
        let mut file = File::new(new.object, new.slots, is_dir, self.tables.is_none())?;
        let mut m = new.mode;
        if is_dir && parent.get(zpl::MODE) & 0o2000 != 0 {
            m |= 0o2000;
        }
        let mut pflags = if self.keeps_fuids() { flags::ARCHIVE | flags::AV_MODIFIED } else { 0 };
        if new.is_xattr || parent.has_flag(flags::XATTR) {
            pflags |= flags::XATTR;
        }
        let may_have_project = matches!(m & mode::TYPE, mode::FILE | mode::DIR);
        let inherits = parent.has_flag(flags::PROJINHERIT) && may_have_project;
        if inherits {
            pflags |= flags::PROJINHERIT;
        }
        let has_project = may_have_project && self.projects && self.tables.is_some();
        if has_project {
            pflags |= flags::PROJID;
        }
        let (size, links) = if is_dir { (2, 2) } else { (0, 1) };
        file.set(zpl::MODE, m);
        file.set(zpl::SIZE, size);
        file.set(zpl::GEN, new.generation);
        file.set(zpl::UID, new.uid);
        file.set(zpl::GID, new.gid);
        file.set(zpl::PARENT, parent.number);
        file.set(zpl::FLAGS, pflags);
        for name in [zpl::ATIME, zpl::MTIME, zpl::CTIME, zpl::CRTIME] {
            file.set_time(name, new.time);
        }
        file.set(zpl::LINKS, links);
        if has_project {
            file.set(zpl::PROJID, if inherits { parent.get(zpl::PROJID) } else { 0 });
        }
        if matches!(m & mode::TYPE, mode::BLOCK | mode::CHAR) {
            file.set(zpl::RDEV, new.rdev);
        }
        self.set_acl(&mut file, &acl::trivial(m), flags::ACL_TRIVIAL)?;
        let norm_flags = self.norm_flags;
        let object = OverlayObject { detached: true, norm_flags, ..OverlayObject::default() };
        self.state.put(new.object, object);
        Ok(file)
    }

    /// `CREATE…`, `MKDIR…`, `MKXATTR`, `SYMLINK`.
    fn create(&mut self, record: &Record, c: &Create, endian: Endian) -> Result<()> {
        let kind = c.mode & mode::TYPE;
        let (is_xattr, fits) = match record.kind {
            TxType::MKXATTR => (true, kind == mode::DIR),
            TxType::SYMLINK => (false, kind == mode::SYMLINK),
            k if k == TxType::MKDIR || k.0 >= TxType::MKDIR_ACL.0 => (false, kind == mode::DIR),
            _ => (false, !matches!(kind, mode::DIR | mode::SYMLINK)),
        };
        if !fits {
            return Err(Refusal::Damaged("the mode is not that of what is made"));
        }
        let parent = if is_xattr { self.load(c.directory)? } else { self.load_dir(c.directory)? };
        if !is_xattr && self.lookup(c.directory, &c.name, record.case_insensitive)?.is_some() {
            // To create a file that exists is to open it.
            let opens = !matches!(kind, mode::DIR | mode::SYMLINK);
            return if opens { Ok(()) } else { Err(Refusal::Exists) };
        }
        let domains = c.acl.as_ref().map_or(&c.domains, |a| &a.domains);
        let new = NewFile {
            object: c.object,
            slots: c.slots,
            mode: c.mode,
            uid: self.id(c.uid, domains)?,
            gid: self.id(c.gid, domains)?,
            generation: c.generation,
            time: time(c.create_time),
            rdev: c.rdev,
            is_xattr,
        };
        let mut file = self.make(&new, &parent)?;
        if let Some(attrs) = &c.attrs {
            self.set_extra(&mut file, attrs, endian);
        }
        if let Some(part) = &c.acl {
            self.set_logged_acl(&mut file, part, endian)?;
        }
        let target = c.link.as_ref().map(|t| self.set_target(&mut file, t)).transpose()?;
        let m = file.get(zpl::MODE);
        self.save(file)?;
        if let Some(Some(target)) = target {
            let hole = ondisk::BlkPtr::HOLE;
            self.state.grow(c.object, 0, target.len() as u64)?;
            let logged = self.state.logged(c.object, 0, target.len() as u64, &hole, &target)?;
            self.state.write(c.object, &logged)?;
        }
        if is_xattr {
            let mut owner = parent;
            owner.set(zpl::XATTR, c.object);
            return self.save(owner);
        }
        self.enter(c.directory, &c.name, c.object, m)?;
        self.count_entry(c.directory, kind == mode::DIR, true)
    }

    /// Sets the target of a symbolic link; returns it when it must go into the link's data.
    fn set_target(&self, file: &mut File, target: &[u8]) -> Result<Option<Vec<u8>>> {
        if target.len() > LINK_MAX {
            return Err(Refusal::Damaged("the target is longer than any path"));
        }
        file.set(zpl::SIZE, target.len() as u64);
        let Some(z) = file.old() else {
            file.set_bytes(zpl::SYMLINK, target.to_vec());
            return Ok(None);
        };
        if ondisk::znode::ZNODE_SIZE + target.len() <= OLD_BONUS_MAX {
            z.rest = target.to_vec();
            return Ok(None);
        }
        Ok(Some(target.to_vec()))
    }

    /// The character device that takes the place of a name (`RENAME_WHITEOUT`).
    pub(super) fn whiteout(&mut self, dir: u64, name: &[u8], w: &Whiteout) -> Result<()> {
        if w.mode & mode::TYPE != mode::CHAR {
            return Err(Refusal::Damaged("a whiteout is a character device"));
        }
        let parent = self.load_dir(dir)?;
        let new = NewFile {
            object: w.object,
            slots: w.slots,
            mode: w.mode,
            uid: w.uid,
            gid: w.gid,
            generation: w.generation,
            time: time(w.create_time),
            rdev: w.rdev,
            is_xattr: false,
        };
        let file = self.make(&new, &parent)?;
        self.save(file)?;
        self.enter(dir, name, w.object, w.mode)?;
        self.count_entry(dir, false, true)
    }
}

/// What a new file is made of.
struct NewFile {
    object: u64,
    slots: u16,
    mode: u64,
    uid: u64,
    gid: u64,
    generation: u64,
    time: Time,
    rdev: u64,
    is_xattr: bool,
}

/// A time as records have it.
pub(super) fn time(words: [u64; 2]) -> Time {
    Time { seconds: words[0].cast_signed(), nanos: words[1] }
}

/// The time a record was made, when it says so.
fn time_of(record: &Record) -> Option<Time> {
    match &record.body {
        Body::Create(c) => Some(time(c.create_time)),
        Body::Rename { whiteout: Some(w), .. } => Some(time(w.create_time)),
        _ => None,
    }
}

impl Target for FileReplay {
    fn apply(&mut self, record: &Record, endian: Endian) -> Result<()> {
        self.now = self.now.max(time_of(record));
        let any_case = record.case_insensitive;
        match &record.body {
            Body::Create(c) => self.create(record, c, endian),
            Body::Remove { directory, name } => {
                self.remove(*directory, name, any_case, record.kind == TxType::RMDIR)
            }
            Body::Link { directory, object, name } => {
                self.link(*directory, *object, name, any_case)
            }
            Body::Rename { source_directory, target_directory, whiteout, source, target } => {
                let from = (*source_directory, source.as_slice());
                let to = (*target_directory, target.as_slice());
                if record.kind == TxType::RENAME_EXCHANGE {
                    return self.exchange(from, to, any_case);
                }
                self.rename(from, to, any_case)?;
                whiteout.as_ref().map_or(Ok(()), |w| self.whiteout(from.0, from.1, w))
            }
            _ => self.apply_to_file(record, endian),
        }
    }

    fn state(&mut self) -> &mut State {
        &mut self.state
    }
}
