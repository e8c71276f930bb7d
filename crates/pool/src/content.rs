//! The contents of a pool that is open for reading, by name.

use crate::error::{Error, Result};
use crate::open::Pool;
use crate::refusal::PoolRefusal;
use ondisk::ObjsetKind;
use zpl::{Filesystem, Volume};

impl Pool {
    /// A file system, or a snapshot of one (`pool/a@x`), as it is on disk. Of a pool that was not
    /// exported, what was promised last may be in its intent log alone, and is not seen so:
    /// `engine::replay` says whether there is such (`is_pending`), and shows it (`objset`).
    pub fn filesystem(&self, name: &str) -> Result<Filesystem> {
        let objset = self.dsl().objset(&self.dsl().by_name(name)?)?;
        if objset.phys().kind != ObjsetKind::Zfs {
            return Err(Error::refused(self.name(), PoolRefusal::NotFilesystem(name.to_owned())));
        }
        Ok(Filesystem::open(objset)?)
    }

    /// A volume, or a snapshot of one, as it is on disk: without its intent log, as with
    /// [`Self::filesystem`].
    pub fn volume(&self, name: &str) -> Result<Volume> {
        let objset = self.dsl().objset(&self.dsl().by_name(name)?)?;
        if objset.phys().kind != ObjsetKind::Zvol {
            return Err(Error::refused(self.name(), PoolRefusal::NotVolume(name.to_owned())));
        }
        Ok(Volume::open(&objset)?)
    }
}
