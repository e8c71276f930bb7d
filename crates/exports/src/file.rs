//! A file of this machine, for reading.

use crate::extents::{push, read_only};
use nbd::{Errno, Export, Extent, Facts, RequestError, Source, Status};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is exported.
pub struct FileSource {
    name: String,
    file: Arc<FileExport>,
}

struct FileExport {
    file: File,
    facts: Facts,
    /// Looking for holes moves the position of the file.
    seeking: Mutex<()>,
}

impl FileSource {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened for reading, or is a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A pipe is not waited for.
        let file = engine::devices::open_input(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let size = seek(&file, SeekFrom::End(0))?;
        let facts = Facts { size, is_read_only: true, block_size: 4096, since: Vec::new() };
        let file = Arc::new(FileExport { file, facts, seeking: Mutex::default() });
        Ok(Self { name: path.display().to_string(), file })
    }
}

impl Source for FileSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        "file".to_owned()
    }

    fn open(&self) -> Result<Arc<dyn Export>, RequestError> {
        let file: Arc<dyn Export> = Arc::<FileExport>::clone(&self.file);
        Ok(file)
    }
}

impl FileExport {
    /// The next place from `at` on that is of a kind; the end, when there is none.
    fn next(&self, what: SeekFrom) -> Result<u64, RequestError> {
        match seek(&self.file, what) {
            Ok(at) => Ok(at.min(self.facts.size)),
            Err(rustix::io::Errno::NXIO) => Ok(self.facts.size),
            Err(e) => Err(request_error(&e.into())),
        }
    }
}

fn request_error(e: &io::Error) -> RequestError {
    RequestError::new(Errno::Io, e.to_string())
}

impl Export for FileExport {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RequestError> {
        self.file.read_exact_at(out, offset).map_err(|e| request_error(&e))
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), RequestError> {
        Err(read_only())
    }

    fn flush(&self) -> Result<(), RequestError> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> Result<(), RequestError> {
        Err(read_only())
    }

    fn zero(&self, _: u64, _: u64, _: bool, _: bool) -> Result<(), RequestError> {
        Err(read_only())
    }

    fn status(
        &self,
        _: &Status,
        offset: u64,
        length: u64,
        max: usize,
    ) -> Result<Vec<Extent>, RequestError> {
        let _one = self.seeking.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset.saturating_add(length);
        let (mut at, mut extents) = (offset, Vec::new());
        while at < end {
            let data = self.next(SeekFrom::Data(at))?.min(end);
            if !push(&mut extents, max, data.saturating_sub(at), true) || data >= end {
                break;
            }
            let hole = self.next(SeekFrom::Hole(data))?.min(end);
            if !push(&mut extents, max, hole.saturating_sub(data), false) || hole <= at {
                break;
            }
            at = hole;
        }
        Ok(extents)
    }
}
