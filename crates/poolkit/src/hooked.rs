//! A device that does something of a test's choice with what is written, and before it is read.

use device::{
    Device, DeviceRef, Error, ErrorKind, Read, Shared, Write, WriteDevice, WriteDeviceRef,
};
use std::sync::Arc;

/// Takes a batch of writes, and returns those that the device is to carry out now.
pub type WriteHook = Box<dyn Fn(Vec<Write>) -> Vec<Write> + Send + Sync>;

/// Is told how many bytes are to be read, before they are.
pub type ReadHook = Box<dyn Fn(u64) + Send + Sync>;

/// A device whose writes pass through a hook, or that tells one of reads; all else is the device's.
pub struct HookedDevice {
    inner: WriteDeviceRef,
    on_write: WriteHook,
    on_read: ReadHook,
}

impl HookedDevice {
    /// `inner` with this hook.
    pub fn new(inner: WriteDeviceRef, on_write: WriteHook) -> Self {
        Self { inner, on_write, on_read: Box::new(|_| ()) }
    }

    /// `inner` with this hook before each read.
    pub fn before_reads(inner: WriteDeviceRef, on_read: ReadHook) -> Self {
        Self { inner, on_write: Box::new(|batch| batch), on_read }
    }
}

impl Device for HookedDevice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        (self.on_read)(buf.len() as u64);
        self.inner.read(offset, buf)
    }

    fn submit(&self, batch: Vec<Read>) {
        (self.on_read)(batch.iter().map(|read| read.len as u64).sum());
        self.inner.submit(batch);
    }
}

impl WriteDevice for HookedDevice {
    fn submit_writes(&self, batch: Vec<Write>) {
        self.inner.submit_writes((self.on_write)(batch));
    }

    fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }

    fn forget_failed_flush(&self) {
        self.inner.forget_failed_flush();
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let writes = vec![(offset, vec![Shared::copy_of(data)])];
        let mut done = device::write_batch(self, writes);
        done.pop().unwrap_or_else(|| {
            Err(Error::write(ErrorKind::Gone, &Arc::from(self.name()), offset, data.len()))
        })
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}
