//! Reading several ranges and waiting for all of them.

use crate::{AlignedBuf, Device, Done, Error, ErrorKind, Read, complete};
use rt::Rt;
use std::sync::Arc;

/// Reads all `ranges` of (offset, length in bytes) at once and waits; the results are in the order
/// of the ranges, and each is its own success or failure.
///
/// May be called anywhere: inside a [`Done`], where waiting for a device is forbidden, it reads
/// the ranges one after the other on the calling thread.
pub fn read_batch(device: &dyn Device, ranges: &[(u64, usize)]) -> Vec<Result<AlignedBuf, Error>> {
    if ranges.len() <= 1 || complete::delivering() {
        return ranges.iter().map(|(offset, len)| read_one(device, *offset, *len)).collect();
    }
    let (collector, tickets) = complete::collect(&Rt::current(), ranges.len());
    let reads = ranges.iter().zip(tickets).map(|((offset, len), ticket)| {
        let done: Done = Box::new(move |result| ticket.give(result));
        Read { offset: *offset, len: *len, done }
    });
    device.submit(reads.collect());
    let name: Arc<str> = Arc::from(device.name());
    let fill = |(slot, (offset, len)): (Option<_>, &(u64, usize))| {
        slot.unwrap_or_else(|| Err(Error::read(ErrorKind::Gone, &name, *offset, *len)))
    };
    // Ends when every `done` was called or, should a device break its promise, dropped.
    collector.wait().into_iter().zip(ranges).map(fill).collect()
}

/// Reads one range into a new buffer and waits.
pub fn read_one(device: &dyn Device, offset: u64, len: usize) -> Result<AlignedBuf, Error> {
    device.read_new(offset, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    fn device() -> MemoryDevice {
        MemoryDevice::from_bytes("m", &(0..=255).collect::<Vec<u8>>())
    }

    #[test]
    fn results_stand_in_the_order_of_the_ranges() {
        let results = read_batch(&device(), &[(250, 6), (0, 3), (255, 2), (7, 0)]);
        assert_eq!(results[0].as_ref().map(|b| b.to_vec()), Ok(vec![250, 251, 252, 253, 254, 255]));
        assert_eq!(results[1].as_ref().map(|b| b.to_vec()), Ok(vec![0, 1, 2]));
        let kind = results[2].as_ref().map(|b| b.to_vec()).map_err(|e| e.kind);
        assert_eq!(kind, Err(ErrorKind::BeyondEnd { size: 256 }));
        assert_eq!(results[3].as_ref().map(|b| b.len()), Ok(0));
        assert!(read_batch(&device(), &[]).is_empty());
    }

    #[test]
    fn a_device_that_forgets_its_callbacks_is_gone_not_a_hang() {
        struct Forgetful;
        impl Device for Forgetful {
            fn name(&self) -> &str {
                "forgetful"
            }
            fn size(&self) -> u64 {
                100
            }
            fn sector_size(&self) -> u32 {
                512
            }
            fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Error> {
                Ok(())
            }
            fn submit(&self, batch: Vec<Read>) {
                drop(batch);
            }
        }
        for result in read_batch(&Forgetful, &[(0, 1), (1, 1)]) {
            assert_eq!(result.map(|_| ()).map_err(|e| e.kind), Err(ErrorKind::Gone));
        }
    }

    #[test]
    fn absurd_lengths_cost_no_memory() {
        let result = read_one(&device(), 0, usize::MAX);
        assert_eq!(result.map(|_| ()).map_err(|e| e.kind), Err(ErrorKind::BeyondEnd { size: 256 }));
    }
}
