//! Volumes: one object of data, one of properties.

use crate::error::{Error, Result};
use crate::fallback::Fallback;
use dmu::{Object, Objset, Segment, Zap};
use ondisk::ObjsetKind;
use std::sync::Arc;
use zil::IntentLog;

/// Object of a volume's data.
pub(crate) const VOLUME_DATA: u64 = 1;
/// Object of a volume's properties.
pub(crate) const VOLUME_PROPERTIES: u64 = 2;
/// Name of the size among the properties.
pub(crate) const SIZE: &str = "size";

/// A volume; one over a live object set can be changed.
#[derive(Clone)]
pub struct Volume {
    data: Object,
    size: u64,
    log: Option<Arc<IntentLog>>,
}

impl Volume {
    /// Opens the volume in `objset`.
    pub fn open(objset: &Objset) -> Result<Self> {
        if objset.phys().kind != ObjsetKind::Zvol {
            return Err(Error::WrongKind { wanted: "volume" });
        }
        let properties = Zap::open(&objset.object(VOLUME_PROPERTIES)?)?;
        let size = properties.need_u64(SIZE)?;
        Ok(Self { data: objset.object(VOLUME_DATA)?, size, log: None })
    }

    /// Opens one whose properties may be lost: it is as large as its blocks then.
    ///
    /// # Errors
    /// It is no volume, or its data cannot be read.
    pub fn salvage(objset: &Objset) -> Result<(Self, Option<Fallback>)> {
        let lost = match Self::open(objset) {
            Ok(volume) => return Ok((volume, None)),
            Err(e @ Error::WrongKind { .. }) => return Err(e),
            Err(e) => e,
        };
        let data = objset.object(VOLUME_DATA)?;
        let size = data.size_of_blocks();
        let instead = format!("the image is as large as its blocks, {size} bytes");
        let fallback =
            Fallback { lost: "the size of the volume", instead, cause: lost.to_string() };
        Ok((Self { data, size, log: None }, Some(fallback)))
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn with_log(self, log: Arc<IntentLog>) -> Self {
        Self { log: Some(log), ..self }
    }

    pub(crate) fn log(&self) -> Option<&Arc<IntentLog>> {
        self.log.as_ref()
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Size of its blocks in bytes.
    #[must_use]
    pub fn block_size(&self) -> u64 {
        self.data.dnode().block_size()
    }

    /// The object of the data.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.data
    }

    /// Reads up to `out.len()` bytes from `offset`; fewer only at the end.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let left = self.size.saturating_sub(offset);
        let n = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let out = out.get_mut(..n).unwrap_or_default();
        if !out.is_empty() {
            self.data.read_at(offset, out)?;
        }
        Ok(n)
    }

    /// Stored ranges.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        Ok(self.data.segments(self.size)?)
    }
}
