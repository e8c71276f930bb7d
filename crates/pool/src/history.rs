//! The pool's history: its records.

use crate::open::Pool;
use ondisk::history::{HistoryPhys, HistoryRecord};
use ondisk::mos;

impl Pool {
    /// The records, oldest first. The creation of the pool is always there; of the others the
    /// oldest may have been overwritten. Damage ends the list with an error item.
    pub fn history(&self) -> dmu::Result<Vec<dmu::Result<HistoryRecord>>> {
        let Some(number) = self.directory()?.get_u64(mos::HISTORY)?.filter(|n| *n != 0) else {
            return Ok(Vec::new());
        };
        let object = self.mos().object(number)?;
        let phys = HistoryPhys::decode(&object.dnode().bonus, object.dnode().endian);
        let phys = phys.map_err(|e| object.format_error(0, e))?;
        let read = |offset: u64, length: u64| -> Result<Vec<u8>, Wrapped> {
            let mut bytes = vec![0; length as usize];
            object.read_at(offset, &mut bytes)?;
            Ok(bytes)
        };
        let unwrap = |w| match w {
            Wrapped::Read(e) => e,
            Wrapped::Decode(e) => object.format_error(0, e),
        };
        Ok(phys.records(read).map(|r| r.map_err(unwrap)).collect())
    }
}

/// Errors of reading and of decoding in one, as the record iterator wants them.
enum Wrapped {
    Read(dmu::Error),
    Decode(ondisk::Error),
}

impl From<dmu::Error> for Wrapped {
    fn from(e: dmu::Error) -> Self {
        Self::Read(e)
    }
}

impl From<ondisk::Error> for Wrapped {
    fn from(e: ondisk::Error) -> Self {
        Self::Decode(e)
    }
}
