//! The attributes of a file while they are changed.
//!
//! Since version 5 they are a list (`attrs/sa.rs`), before they were a fixed structure
//! (`attrs/old.rs`). A file keeps the form that it was made with, also when its file system is
//! upgraded.

mod old;
mod sa;

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::refusal::{InvalidRequest, Unsupported};
use dmu::{Object, Tx};
use ondisk::DmuType;
use ondisk::acl::{Ace, EMBEDDED_ACL_SIZE, VERSION_FUID, VERSION_INITIAL, encode_aces};
use ondisk::sa::zpl;
use ondisk::znode::{Time, ZNODE_SIZE, ZPL_VERSION_FUID, Znode, flags, mode};
use sa::SaList;

/// Flags that describe the ACL of a file.
const ACL_HINTS: u64 = flags::ACL_TRIVIAL
    | flags::INHERIT_ACE
    | flags::ACL_OBJ_ACE
    | flags::ACL_PROTECTED
    | flags::ACL_DEFAULTED
    | flags::ACL_AUTO_INHERIT
    | flags::NO_EXECS_DENIED;

/// The two forms attributes have.
#[derive(Clone)]
enum Form {
    List(SaList),
    Old(Box<Znode>),
}

/// A file's attributes. Nothing is changed before [`Attrs::save`].
#[derive(Clone)]
pub(crate) struct Attrs {
    object: Object,
    form: Form,
    /// Files have flags for what other systems call DOS attributes, and ids with domains.
    keeps_fuids: bool,
    /// The change was made before, and is repeated from a log.
    replays: bool,
}

impl Attrs {
    /// The attributes of a file that is there.
    pub(crate) fn load(fs: &Filesystem, number: u64) -> Result<Self> {
        let object = fs.objset().object(number).map_err(|e| match e.kind {
            dmu::ErrorKind::NoObject => Error::NotFound(format!("object {number}")),
            _ => e.into(),
        })?;
        let dnode = object.dnode();
        let form = match dnode.bonus_kind {
            DmuType::SA => Form::List(SaList::load(fs, &object)?),
            DmuType::ZNODE => {
                let znode = Znode::decode(&dnode.bonus, dnode.endian);
                Form::Old(Box::new(znode.map_err(|error| Error::Format { object: number, error })?))
            }
            other => {
                let kind = dmu::ErrorKind::WrongType { wanted: "a file", found: other.name() };
                return Err(object.error(kind).into());
            }
        };
        Ok(Self::of(fs, object, form))
    }

    /// Those of a regular file.
    pub(crate) fn load_regular(fs: &Filesystem, number: u64) -> Result<Self> {
        let file = Self::load(fs, number)?;
        match file.kind() {
            mode::FILE => Ok(file),
            mode::DIR => Err(Error::IsDirectory(format!("object {number}"))),
            _ => Err(Error::refused(InvalidRequest::ContentOfSpecial)),
        }
    }

    /// Those of a new file: none.
    pub(crate) fn new(fs: &Filesystem, object: Object) -> Result<Self> {
        let form = match object.dnode().bonus_kind {
            DmuType::ZNODE => {
                let znode = Znode::decode(&[0; ZNODE_SIZE], object.dnode().endian);
                let format = |error| Error::Format { object: object.number(), error };
                Form::Old(Box::new(znode.map_err(format)?))
            }
            _ => Form::List(SaList::new(fs)?),
        };
        Ok(Self::of(fs, object, form))
    }

    fn of(fs: &Filesystem, object: Object, form: Form) -> Self {
        let keeps_fuids = fs.version() >= ZPL_VERSION_FUID;
        Self { object, form, keeps_fuids, replays: fs.replays() }
    }

    /// The same as those of an object that was made in place of their own.
    pub(crate) fn of_object(self, object: Object) -> Self {
        Self { object, ..self }
    }

    pub(crate) fn number(&self) -> u64 {
        self.object.number()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// They are the fixed structure from before version 5.
    pub(crate) fn is_old_form(&self) -> bool {
        matches!(self.form, Form::Old(_))
    }

    /// Changes repeat earlier ones, from a log.
    pub(crate) fn replays(&self) -> bool {
        self.replays
    }

    /// Bytes of an attribute of the list, if the file has it.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match &self.form {
            Form::List(list) => list.bytes(name),
            Form::Old(_) => None,
        }
    }

    /// Gives the file an attribute of the list, or another value to one it has.
    ///
    /// # Errors
    /// Before version 5 there is no list.
    pub(crate) fn set_bytes(&mut self, name: &'static str, bytes: &[u8]) -> Result<()> {
        match &mut self.form {
            Form::List(list) => list.set_bytes(name, bytes),
            Form::Old(_) => return Err(Error::refused(Unsupported::NewAttributeOfOldFile)),
        }
        Ok(())
    }

    /// Takes an attribute away.
    pub(crate) fn remove(&mut self, name: &str) {
        match &mut self.form {
            Form::List(list) => list.remove(name),
            Form::Old(z) => {
                if let Some(word) = old::word_mut(z, name) {
                    *word = 0;
                }
            }
        }
    }

    /// A one-word attribute; 0 where the file has none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        match &self.form {
            Form::List(list) => {
                let [word] = list.words(name);
                word
            }
            Form::Old(z) => old::word(z, name),
        }
    }

    pub(crate) fn set(&mut self, name: &'static str, value: u64) {
        match &mut self.form {
            Form::List(list) => list.set_words(name, &[value]),
            Form::Old(z) => {
                if let Some(word) = old::word_mut(z, name) {
                    *word = value;
                }
            }
        }
    }

    pub(crate) fn time(&self, name: &str) -> Time {
        match &self.form {
            Form::List(list) => {
                let [seconds, nanos] = list.words(name);
                Time { seconds: seconds.cast_signed(), nanos }
            }
            Form::Old(z) => old::time(z, name),
        }
    }

    pub(crate) fn set_time(&mut self, name: &'static str, time: Time) {
        match &mut self.form {
            Form::List(list) => list.set_words(name, &time.words()),
            Form::Old(z) => {
                if let Some(slot) = old::time_mut(z, name) {
                    *slot = time;
                }
            }
        }
    }

    pub(crate) fn mode(&self) -> u64 {
        self.get(zpl::MODE)
    }

    pub(crate) fn kind(&self) -> u64 {
        self.mode() & mode::TYPE
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == mode::DIR
    }

    pub(crate) fn size(&self) -> u64 {
        self.get(zpl::SIZE)
    }

    pub(crate) fn links(&self) -> u64 {
        self.get(zpl::LINKS)
    }

    /// Any of `flags` is set.
    pub(crate) fn has_flag(&self, flags: u64) -> bool {
        self.get(zpl::FLAGS) & flags != 0
    }

    pub(crate) fn set_flag(&mut self, flag: u64, on: bool) {
        let before = self.get(zpl::FLAGS);
        let after = if on { before | flag } else { before & !flag };
        if after != before {
            self.set(zpl::FLAGS, after);
        }
    }

    /// The project the file belongs to.
    pub(crate) fn project(&self) -> u64 {
        if self.has_flag(flags::PROJID) { self.get(zpl::PROJID) } else { 0 }
    }

    /// Object of an access list that does not fit the file's attributes; 0 without one.
    pub(crate) fn external_acl(&self) -> u64 {
        match &self.form {
            Form::List(_) => 0,
            Form::Old(z) => z.acl.external_object,
        }
    }

    /// When a change is noted that happens at `now`. The time of a replay is only known roughly,
    /// so it does not bring a file's own back.
    fn stamp(&self, now: Time) -> Time {
        if self.replays { now.max(self.time(zpl::CTIME)) } else { now }
    }

    /// The content changed at `now`.
    pub(crate) fn content_changed(&mut self, now: Time) {
        let now = self.stamp(now);
        self.set_time(zpl::MTIME, now);
        self.set_time(zpl::CTIME, now);
        if self.keeps_fuids {
            self.set_flag(flags::ARCHIVE | flags::AV_MODIFIED, true);
        }
    }

    /// The attributes changed at `now`.
    pub(crate) fn state_changed(&mut self, now: Time) {
        let now = self.stamp(now);
        self.set_time(zpl::CTIME, now);
        if self.keeps_fuids {
            self.set_flag(flags::ARCHIVE, true);
        }
    }

    /// Flags that a new file or a moved one has where there are such flags.
    pub(crate) fn marks(&self, wanted: u64) -> u64 {
        if self.keeps_fuids { wanted } else { 0 }
    }

    /// Sets the target of a symbolic link; false when it must go into the link's data.
    pub(crate) fn set_target(&mut self, target: &[u8]) -> bool {
        match &mut self.form {
            Form::List(list) => {
                list.set_bytes(zpl::SYMLINK, target);
                true
            }
            Form::Old(z) => old::set_target(z, target),
        }
    }

    /// Sets the stamp of a virus scanner.
    pub(crate) fn set_stamp(&mut self, stamp: &[u8]) {
        match &mut self.form {
            Form::List(list) => list.set_bytes(zpl::SCANSTAMP, stamp),
            Form::Old(z) => old::set_stamp(z, stamp.to_vec()),
        }
    }

    /// Gives the file the list that corresponds to its mode. `kept`: hints of the list before that
    /// stay.
    pub(crate) fn set_trivial_acl(&mut self, kept: u64) -> Result<()> {
        self.set_acl(&crate::acl::trivial(self.mode()), flags::ACL_TRIVIAL | kept)
    }

    /// Gives the file an access list, and the flags that describe it.
    ///
    /// # Errors
    /// It does not fit.
    pub(crate) fn set_acl(&mut self, aces: &[Ace], hints: u64) -> Result<()> {
        let executable = if self.mode() & 0o111 == 0o111 { flags::NO_EXECS_DENIED } else { 0 };
        let hints = (hints & ACL_HINTS) | executable;
        self.set(zpl::FLAGS, (self.get(zpl::FLAGS) & !ACL_HINTS) | hints);
        let count = aces.len() as u64;
        match &mut self.form {
            Form::List(list) => {
                list.set_words(zpl::DACL_COUNT, &[count]);
                let bytes = encode_aces(aces, VERSION_FUID, list.endian());
                list.set_bytes(zpl::DACL_ACES, &bytes);
            }
            Form::Old(z) => {
                let version = if self.keeps_fuids { VERSION_FUID } else { VERSION_INITIAL };
                let bytes = encode_aces(aces, version, self.object.dnode().endian);
                let mut embedded = [0; EMBEDDED_ACL_SIZE];
                let Some(start) = embedded.get_mut(..bytes.len()) else {
                    return Err(Error::refused(Unsupported::LongAclOfOldFile));
                };
                start.copy_from_slice(&bytes);
                z.acl.external_object = 0;
                z.acl.version = version;
                z.acl.count = count;
                z.acl.size = bytes.len() as u64;
                z.acl.embedded = embedded;
            }
        }
        Ok(())
    }

    /// Puts the attributes back as they were when they were loaded, whatever became of them since.
    pub(crate) fn restore(self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        match self.form {
            Form::List(list) => list.restore(&self.object, fs, tx),
            Form::Old(_) => self.save(fs, tx),
        }
    }

    /// Puts the attributes into the object.
    pub(crate) fn save(self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        match self.form {
            Form::List(list) => list.save(&self.object, fs, tx),
            Form::Old(z) => {
                let bonus = z.encode(self.object.dnode().endian);
                Ok(self.object.set_bonus(tx, DmuType::ZNODE, &bonus)?)
            }
        }
    }
}
