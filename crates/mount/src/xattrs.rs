//! Extended attributes.

use crate::Options;
use crate::acl;
use crate::attrs::now;
use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{Errno, INodeNo};
use crate::served::Front;
use engine::files::{SetAttrs, XattrMode};

/// Flags of `setxattr`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// The name spaces of attributes, beside that of the lists of access rights.
const NAME_SPACES: [&[u8]; 3] = [USER, b"trusted.", b"security."];

/// Names that a file without a name space may have on disk are of this one.
const USER: &[u8] = b"user.";

/// Whether it is the name of an access list.
fn is_list(name: &[u8]) -> bool {
    name == acl::ACCESS || name == acl::DEFAULT
}

impl Front {
    pub(crate) fn xattr(&self, ino: INodeNo, name: &[u8]) -> FuseResult<Vec<u8>> {
        let has_lists = self.is_on(Options::has_lists);
        if is_list(name) && !has_lists {
            // The kernel asks whenever it checks rights, and takes any other error for its result.
            return Err(Errno::ENODATA);
        }
        self.check_xattr_name(name)?;
        if self.of(ino).is_virtual() {
            return Err(Errno::ENODATA);
        }
        let mut all = self.node(ino)?.linux_xattrs(has_lists).or_errno()?;
        all.remove(name).ok_or(Errno::ENODATA)
    }

    /// The names, each ended by a zero byte.
    pub(crate) fn xattr_names(&self, ino: INodeNo) -> FuseResult<Vec<u8>> {
        if self.of(ino).is_virtual() {
            return Ok(Vec::new());
        }
        if !self.is_on(|options| options.xattrs) {
            return Err(Errno::EOPNOTSUPP);
        }
        let has_lists = self.is_on(Options::has_lists);
        let all = self.node(ino)?.linux_xattrs(has_lists).or_errno()?;
        Ok(all.into_keys().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(crate) fn set_xattr(
        &self,
        ino: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> FuseResult<()> {
        self.check_xattr_name(name)?;
        let how = match flags {
            CREATE => XattrMode::Create,
            REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        let file = self.object(ino)?;
        if is_list(name) {
            return self.set_list(file, name, value);
        }
        let stored = self.stored_name(ino, name)?;
        let set = self.fs.set_xattr(file, stored.as_deref().unwrap_or(name), value, how, now());
        set.or_errno().map_err(|e| match e {
            Errno::EFBIG => Errno::E2BIG,
            e => e,
        })
    }

    pub(crate) fn remove_xattr(&self, ino: INodeNo, name: &[u8]) -> FuseResult<()> {
        self.check_xattr_name(name)?;
        let stored = self.stored_name(ino, name)?;
        let stored = stored.as_deref().unwrap_or(name);
        match self.fs.remove_xattr(self.object(ino)?, stored, now()).or_errno() {
            // A file without a list of its own has the one that its mode says.
            Err(Errno::ENODATA) if is_list(name) => Ok(()),
            done => done,
        }
    }

    /// Sets an access list, and the mode that corresponds to it. A list that is equivalent to a
    /// mode, or empty, is not stored.
    fn set_list(&self, file: u64, name: &[u8], value: &[u8]) -> FuseResult<()> {
        let list = acl::List::decode(value)?;
        let (is_access, now) = (name == acl::ACCESS, now());
        let kept = list.as_ref().filter(|list| !(is_access && list.is_mode()));
        match kept {
            Some(list) => {
                let value = list.encode();
                self.fs.set_xattr(file, name, &value, XattrMode::Any, now).or_errno()?;
            }
            None => match self.fs.remove_xattr(file, name, now).or_errno() {
                Err(Errno::ENODATA) => {}
                done => done?,
            },
        }
        let Some(list) = list.filter(|_| is_access) else { return Ok(()) };
        let node = self.fs.node(file).or_errno()?;
        let mode = (node.permissions() & !0o777) | list.mode();
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        self.fs.set_attrs(file, &set, now).or_errno()
    }

    /// The name under which another system stored an attribute that is shown as `name`; `None` when
    /// it is stored by this name, or not at all.
    fn stored_name(&self, ino: INodeNo, name: &[u8]) -> FuseResult<Option<Vec<u8>>> {
        let Some(bare) = name.strip_prefix(USER) else { return Ok(None) };
        let all = self.node(ino)?.xattrs().or_errno()?;
        Ok((!all.contains_key(name) && all.contains_key(bare)).then(|| bare.to_vec()))
    }

    /// Lists of access rights are attributes only where the dataset has them, and attributes only
    /// where it has any. Linux hands over any name; that of an attribute is of a name space, and
    /// not empty in it.
    fn check_xattr_name(&self, name: &[u8]) -> FuseResult<()> {
        let space = NAME_SPACES.iter().find(|space| name.starts_with(space));
        let is_known = |options: &Options| {
            options.xattrs && (space.is_some() || is_list(name) && options.posix_acls)
        };
        match self.is_on(is_known) {
            false => Err(Errno::EOPNOTSUPP),
            true if space.is_some_and(|space| *space == name) => Err(Errno::EINVAL),
            true => Ok(()),
        }
    }
}
