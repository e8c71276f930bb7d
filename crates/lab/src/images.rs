//! What is on disks when an experiment begins, where the seed does not decide it: made once for all
//! seeds of a job, and for all its repetitions with other disks.

use engine::inside::device::MemoryDevice;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One of them; `None` until it is made.
type Slot = Arc<Mutex<Option<Vec<MemoryDevice>>>>;

/// Images by a key that says all that decides them.
#[derive(Default)]
pub struct Images(Mutex<BTreeMap<String, Slot>>);

impl Images {
    /// Disks that hold the image of this key, independent of all others. The first caller makes it,
    /// and those that come meanwhile wait for it: none of them may be a thread of a simulation.
    ///
    /// # Errors
    /// As `make`.
    pub(crate) fn get<E>(
        &self,
        key: String,
        make: impl FnOnce() -> Result<Vec<MemoryDevice>, E>,
    ) -> Result<Vec<MemoryDevice>, E> {
        let slot = Arc::clone(self.0.lock().entry(key).or_default());
        let mut slot = slot.lock();
        let image = match slot.take() {
            Some(image) => image,
            None => make()?,
        };
        let disks = image.iter().map(MemoryDevice::fork).collect();
        *slot = Some(image);
        Ok(disks)
    }

    /// Gives their memory back.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::inside::device::{Device as _, WriteDevice as _};

    #[test]
    fn an_image_is_made_once_and_stays_as_it_was_made() {
        let images = Images::default();
        let mut made = 0;
        let mut get = |key: &str| {
            let make = || {
                made += 1;
                Ok::<_, std::io::Error>(vec![MemoryDevice::from_bytes("disk", key.as_bytes())])
            };
            images.get(key.to_owned(), make).expect("an image").remove(0)
        };
        let byte = |disk: &MemoryDevice| disk.read_new(0, 1).expect("a read")[0];
        get("a").write(0, b"x").expect("a write");
        assert_eq!((byte(&get("a")), byte(&get("b"))), (b'a', b'b'));
        assert_eq!(made, 2);
        images.forget();
        let failed: Result<_, &str> = images.get("a".to_owned(), || Err("no"));
        assert_eq!(failed.err(), Some("no"));
        assert!(images.get("a".to_owned(), || Ok::<_, &str>(Vec::new())).is_ok());
    }
}
