//! Volumes and their snapshots.
//!
//! Clients request an export by the name that its volume had when it was exported. They get that
//! volume by its object, whatever its name is now, and writable or not as its property `readonly`
//! is now: a change of that is durable when its command ends, so it is looked up again in each new
//! txg.

use crate::extents::{push, read_only};
use engine::diff::VolumeDiff;
use engine::file_refusals::FileRefusal;
use engine::live::InUse;
use engine::{Error, ErrorKind, OpenPool, PropertyContext, Volume};
use nbd::{Errno, Export, Extent, Facts, RequestError, Source, Status};
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks that are looked at for one status; what lies behind is left to the next request.
const LOOKED_AT: usize = 16 << 10;
/// Bytes that are compared with a snapshot for one status.
const COMPARED: u64 = 1 << 30;
/// Bytes of zeros that are written at a time.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// A volume, or a snapshot of one.
#[derive(Clone)]
struct Exported {
    pool: OpenPool,
    /// Its object in the pool.
    object: u64,
}

impl Exported {
    /// Its name now.
    fn name(&self) -> Result<String, Error> {
        let dsl = self.pool.view().datasets();
        Ok(dsl.name_of(self.object)?)
    }

    /// Its property `readonly`.
    fn is_read_only(&self) -> Result<bool, Error> {
        let dsl = self.pool.view().datasets();
        let dataset = dsl.by_name(&dsl.name_of(self.object)?)?;
        let context = PropertyContext { pool_size: None, altroot: None };
        let property = dsl.property(&dataset, &context, "readonly")?;
        Ok(property.is_some_and(|property| property.value == "on"))
    }
}

/// A volume, or a snapshot of one, that is exported.
pub struct VolumeSource {
    exported: Exported,
    /// Its name at first.
    name: String,
    /// Whatever its properties say.
    is_read_only: bool,
    /// It is not destroyed, rolled back or made smaller as long as it is exported.
    _in_use: Option<InUse>,
}

struct VolumeExport {
    exported: Exported,
    volume: Volume,
    facts: Facts,
    /// Its properties when this txg was the last durable one.
    checked: Mutex<Option<(u64, bool)>>,
}

impl VolumeSource {
    /// Looks whether it is there.
    ///
    /// # Errors
    /// It is not, is not a volume, or cannot be read.
    pub fn new(pool: OpenPool, name: &str, is_read_only: bool) -> engine::Result<Self> {
        let is_read_only = is_read_only || name.contains('@') || pool.is_read_only();
        let in_use = match &pool {
            OpenPool::Live(pool) => Some(pool.hold_open(name)?),
            OpenPool::ReadOnly(_) => None,
        };
        let object = {
            let dsl = pool.view().datasets();
            dsl.by_name(name)?.object
        };
        let exported = Exported { pool, object };
        let source = Self { exported, name: name.to_owned(), is_read_only, _in_use: in_use };
        source.volume()?;
        Ok(source)
    }

    /// The names of the snapshots that are older than what is exported.
    fn snapshots(&self) -> Result<Vec<String>, Error> {
        let name = self.exported.name()?;
        let view = self.exported.pool.view();
        let dsl = view.datasets();
        let (head, own) = name.split_once('@').map_or((&*name, None), |(h, s)| (h, Some(s)));
        let all = dsl.snapshots(&dsl.by_name(head)?)?;
        let names = all.iter().filter_map(|snapshot| Some(snapshot.name.split_once('@')?.1));
        Ok(names.take_while(|name| own != Some(name)).map(str::to_owned).collect())
    }

    fn volume(&self) -> Result<Volume, Error> {
        self.exported.pool.volume(&self.exported.name()?)
    }
}

impl Source for VolumeSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        if self.name.contains('@') { "snapshot of a volume" } else { "volume" }.to_owned()
    }

    fn open(&self) -> Result<Arc<dyn Export>, RequestError> {
        let volume = self.volume().map_err(request_error)?;
        let since = self.snapshots().map_err(request_error)?;
        let facts = Facts {
            size: volume.size(),
            is_read_only: self.is_read_only
                || self.exported.is_read_only().map_err(request_error)?,
            block_size: u32::try_from(volume.block_size()).unwrap_or(u32::MAX),
            since,
        };
        let (exported, checked) = (self.exported.clone(), Mutex::default());
        Ok(Arc::new(VolumeExport { exported, volume, facts, checked }))
    }
}

/// An error as the protocol has them.
fn request_error(error: impl Into<Error>) -> RequestError {
    let error = error.into();
    let errno = match error.kind() {
        ErrorKind::NoSpace | ErrorKind::Quota => Errno::NoSpace,
        ErrorKind::ReadOnly | ErrorKind::FileRefused(FileRefusal::NotPermitted(_)) => {
            Errno::Permission
        }
        ErrorKind::Invalid | ErrorKind::FileRefused(FileRefusal::Invalid(_)) => Errno::Invalid,
        _ => Errno::Io,
    };
    RequestError::new(errno, term::escape::line(&error.to_string()))
}

impl VolumeExport {
    /// The changes since a snapshot.
    fn changed(
        &self,
        since: &str,
        offset: u64,
        length: u64,
        max: usize,
    ) -> Result<Vec<Extent>, Error> {
        let pool = &self.exported.pool;
        if let (OpenPool::Live(pool), true) = (pool, self.volume.has_changes()) {
            pool.sync()?;
        }
        let name = self.exported.name()?;
        let head = name.split('@').next().unwrap_or_default();
        let from = format!("{head}@{since}");
        let diff = VolumeDiff::new(pool.view(), &from, self.volume.clone())?;
        let end = offset.saturating_add(length.min(COMPARED));
        let (mut at, mut extents) = (offset, Vec::new());
        for range in diff.ranges(at, end - at)? {
            let behind = range.offset.saturating_add(range.length);
            let has_room = push(&mut extents, max, range.offset.saturating_sub(at), false)
                && push(&mut extents, max, range.length, true);
            if !has_room {
                return Ok(extents);
            }
            at = behind;
        }
        // The rest is left to the next request.
        push(&mut extents, max, end.saturating_sub(at), false);
        Ok(extents)
    }

    /// Whether its properties forbid changes by now.
    fn is_forbidden(&self) -> Result<bool, Error> {
        let OpenPool::Live(pool) = &self.exported.pool else { return Ok(true) };
        let durable = pool.last_synced();
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((txg, is_forbidden)) = *checked()
            && txg == durable
        {
            return Ok(is_forbidden);
        }
        let is_forbidden = self.exported.is_read_only()?;
        *checked() = Some((durable, is_forbidden));
        Ok(is_forbidden)
    }

    fn change(
        &self,
        change: impl FnOnce(&Volume) -> engine::Result<()>,
    ) -> Result<(), RequestError> {
        if self.facts.is_read_only || self.is_forbidden().map_err(request_error)? {
            return Err(read_only());
        }
        change(&self.volume).map_err(request_error)
    }
}

impl Export for VolumeExport {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RequestError> {
        match self.volume.read_at(offset, out) {
            Ok(n) if n == out.len() => Ok(()),
            Ok(_) => Err(RequestError::new(Errno::Invalid, "the volume is smaller now")),
            Err(e) => Err(request_error(e)),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        self.change(|volume| Ok(volume.write_at(offset, data)?))
    }

    fn flush(&self) -> Result<(), RequestError> {
        match self.facts.is_read_only {
            true => Ok(()),
            false => self.volume.flush().map_err(request_error),
        }
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), RequestError> {
        // Whole blocks alone: only they come free.
        let block = self.volume.block_size().max(1);
        let end = (offset.saturating_add(length) / block).saturating_mul(block);
        let start = offset.div_ceil(block).saturating_mul(block);
        if start >= end {
            return self.change(|_| Ok(()));
        }
        self.change(|volume| Ok(volume.trim(start, end - start)?))
    }

    fn zero(
        &self,
        offset: u64,
        length: u64,
        keeps: bool,
        is_fast: bool,
    ) -> Result<(), RequestError> {
        if !keeps {
            return self.change(|volume| Ok(volume.trim(offset, length)?));
        }
        if is_fast {
            return Err(RequestError::new(
                Errno::NotSupported,
                "zeros that keep their space allocated must be written",
            ));
        }
        self.change(|volume| {
            let (mut at, mut left) = (offset, length);
            while left > 0 {
                let n = left.min(ZEROS.len() as u64);
                volume.write_at(at, ZEROS.get(..n as usize).unwrap_or_default())?;
                at += n;
                left -= n;
            }
            Ok(())
        })
    }

    fn status(
        &self,
        what: &Status,
        offset: u64,
        length: u64,
        max: usize,
    ) -> Result<Vec<Extent>, RequestError> {
        if let Status::Since(snapshot) = what {
            return self.changed(snapshot, offset, length, max).map_err(request_error);
        }
        let (block, end) = (self.volume.block_size().max(1), offset.saturating_add(length));
        let (mut at, mut extents) = (offset, Vec::new());
        for _ in 0..LOOKED_AT {
            if at >= end {
                break;
            }
            let next = self.volume.next_data(at).map_err(request_error)?;
            let data = next.map_or(end, |data| data.clamp(at, end));
            if !push(&mut extents, max, data - at, true) {
                break;
            }
            let behind = (data / block).saturating_add(1).saturating_mul(block).min(end);
            if data < end && !push(&mut extents, max, behind - data, false) {
                break;
            }
            at = if data < end { behind } else { end };
        }
        Ok(extents)
    }
}
