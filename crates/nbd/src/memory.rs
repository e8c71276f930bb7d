//! An export and a connection in memory, for hostile bytes and tests.

use crate::export::{Export, Extent, Facts, RequestError, Source, Status};
use nbdwire::Connection;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of answers that are kept.
const KEPT: usize = 1 << 20;

/// A client that sent all it has to send, and takes all answers.
pub(crate) struct MemoryConnection {
    left: Mutex<Vec<u8>>,
    written: Mutex<Vec<u8>>,
}

impl MemoryConnection {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let left = bytes.iter().rev().copied().collect();
        Self { left: Mutex::new(left), written: Mutex::default() }
    }

    pub(crate) fn written(&self) -> Vec<u8> {
        std::mem::take(&mut self.written.lock())
    }
}

impl Connection for MemoryConnection {
    fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut left = self.left.lock();
        let n = out.len().min(left.len());
        for byte in out.iter_mut().take(n) {
            *byte = left.pop().unwrap_or_default();
        }
        Ok(n)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = self.written.lock();
        for part in parts {
            let room = KEPT.saturating_sub(written.len());
            written.extend(part.iter().take(room));
        }
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn set_patience(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn end_input(&self) {}

    fn hang_up(&self) {}
}

/// An export in memory, of which nothing is a hole.
pub(crate) struct MemorySource {
    name: String,
    export: Arc<MemoryExport>,
}

struct MemoryExport {
    bytes: Mutex<Vec<u8>>,
    facts: Facts,
}

impl MemorySource {
    pub(crate) fn new(name: &str, size: usize) -> Self {
        let facts = Facts {
            size: size as u64,
            is_read_only: false,
            block_size: 4096,
            since: vec!["before".to_owned()],
        };
        let bytes = Mutex::new(vec![0; size]);
        Self { name: name.to_owned(), export: Arc::new(MemoryExport { bytes, facts }) }
    }
}

impl Source for MemorySource {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        "memory".to_owned()
    }

    fn open(&self) -> Result<Arc<dyn Export>, RequestError> {
        let export: Arc<dyn Export> = Arc::<MemoryExport>::clone(&self.export);
        Ok(export)
    }
}

impl MemoryExport {
    /// The range, which was checked.
    fn range(bytes: &mut [u8], offset: u64, length: usize) -> &mut [u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = bytes.get_mut(start..).unwrap_or_default();
        rest.get_mut(..length).unwrap_or_default()
    }
}

impl Export for MemoryExport {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RequestError> {
        let mut bytes = self.bytes.lock();
        out.copy_from_slice(Self::range(&mut bytes, offset, out.len()));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        let mut bytes = self.bytes.lock();
        Self::range(&mut bytes, offset, data.len()).copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> Result<(), RequestError> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> Result<(), RequestError> {
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, _: bool, _: bool) -> Result<(), RequestError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Self::range(&mut self.bytes.lock(), offset, length).fill(0);
        Ok(())
    }

    fn status(
        &self,
        what: &Status,
        _: u64,
        length: u64,
        _: usize,
    ) -> Result<Vec<Extent>, RequestError> {
        Ok(vec![Extent { length, is: *what != Status::Allocation }])
    }
}
