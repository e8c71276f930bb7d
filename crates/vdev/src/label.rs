//! Writing labels and uberblocks. Specified in `docs/format/label.md` and `uberblock.md`.
//!
//! # Theory
//!
//! A label is a configuration and a ring of uberblocks; a device has four. A txg is committed by
//! its uberblock, which goes to the same slot in every label, and the slot it overwrites is that of
//! the oldest one: the uberblock of the txg before is on the device as long as this one is not. A
//! torn slot is not an uberblock, for it checks itself.
//!
//! A configuration has no ring, so it is written in two rounds around the uberblock:
//!
//! ```text
//! data of the txg   flush   -- everything the uberblock reaches is there
//! L0 and L2         flush   -- new configuration; L1 and L3 still have the old one
//! uberblocks        flush   -- THE COMMIT
//! L1 and L3         flush   -- both pairs fit
//! ```
//!
//! A crash before the commit leaves L1 and L3, which fit the old uberblock (the reader takes the
//! configuration with the highest txg not above the uberblock's); a crash after it leaves L0 and
//! L2, which fit the new one. Each round waits for the flush of the one before on *all* devices.
//! Without a new configuration only the data and the uberblocks are left of this. After a crash
//! between the uberblock and the last round the next txg begins with L1 and L3: they have an
//! old configuration, which must not be the only one while L0 and L2 are written.
//!
//! The configuration part is 112 KiB, sealed with its own offset, as is each slot: a label copied
//! from elsewhere does not verify.

use crate::queue::IoClass;
use crate::tree::{Node, NodeRef, TopRef, VdevTree};
use crate::write::WriteError;
use codec::checksum::{ByteOrder, seal_label};
use device::WriteDeviceRef;
use device::{AlignedBuf, Error as DeviceError, ErrorKind as DeviceErrorKind, Shared, WriteDevice};
use ondisk::label::{BOOT_AREA_START, BootEnv, LABEL_SIZE, LABELS, Part, label_offsets};
use ondisk::nvlist::Packing;
use ondisk::uberblock::{slot_count, slot_size};
use ondisk::{Endian, NvList, Uberblock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the header in front of the boot area's free space that a new device is given: zeros,
/// so that nothing there is taken for the scratch data of an expansion.
const BOOT_HEADER_SIZE: usize = 64 << 10;

/// Which of the four labels are written in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// L0 and L2: before the uberblock.
    First,
    /// L1 and L3: after it. Before it when these are the older ones, after a crash between the
    /// uberblock and this round: the newer ones stay while they are written over.
    Second,
}

impl Round {
    /// The numbers of its labels.
    #[must_use]
    pub fn labels(self) -> [usize; 2] {
        match self {
            Self::First => [0, 2],
            Self::Second => [1, 3],
        }
    }
}

/// Why a label could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The device has no room for labels and data.
    #[error("{device} is too small for labels: {size} bytes")]
    TooSmall {
        /// Its name.
        device: String,
        /// Its size in bytes.
        size: u64,
    },
    /// The configuration does not fit into a label.
    #[error("the configuration takes {size} bytes and a label has room for {room}")]
    TooLarge {
        /// Bytes it takes.
        size: usize,
        /// Bytes there are.
        room: usize,
    },
    /// The configuration cannot be packed.
    #[error("the configuration cannot be packed: {0}")]
    Config(#[from] ondisk::Error),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// More devices refused than redundancy covers.
    #[error(transparent)]
    Vdev(#[from] WriteError),
}

/// Writes the configuration into two of the labels, and waits. Not durable before a flush.
///
/// # Errors
/// The device is too small or refuses, or the configuration does not fit.
pub fn write_config(
    device: &dyn WriteDevice,
    config: &NvList,
    round: Round,
) -> Result<(), LabelError> {
    let offsets = offsets(device)?;
    let packed = pack(config)?;
    let mut writes = Vec::with_capacity(2);
    for label in round.labels() {
        let at = offsets[label] + Part::Config.start();
        writes.push((at, sealed_part(&packed, Part::Config, at)));
    }
    Ok(put(device, writes)?)
}

/// Writes the uberblock into its slot in all four labels, and waits. Not durable before a flush.
/// `ashift` is that of the top-level vdev the device belongs to.
///
/// # Errors
/// The device is too small or refuses.
pub fn write_uberblock(
    device: &dyn WriteDevice,
    ashift: u32,
    uberblock: &Uberblock,
) -> Result<(), LabelError> {
    let offsets = offsets(device)?;
    let size = slot_size(u64::from(ashift));
    let body = uberblock.encode(Endian::Little);
    let mut writes = Vec::with_capacity(LABELS);
    for start in offsets {
        let at = start + Part::Ring.start() + (slot(uberblock, ashift) * size) as u64;
        writes.push((at, sealed(&body, size, at)));
    }
    Ok(put(device, writes)?)
}

/// Number of the slot an uberblock goes to. With multihost on, the last one is not for txgs.
#[must_use]
pub fn slot(uberblock: &Uberblock, ashift: u32) -> usize {
    let multihost = uberblock.mmp().is_some_and(|m| m.delay != 0);
    let slots = slot_count(u64::from(ashift)) - usize::from(multihost);
    (uberblock.txg % slots as u64) as usize
}

/// Makes a device one of a pool's: all four labels with this configuration, an empty boot
/// environment and an empty ring, and nothing at the start of the boot area. Waits until that is
/// durable. A pool that the device had is gone.
///
/// # Errors
/// The device is too small or refuses, or the configuration does not fit.
pub fn initialise(device: &dyn WriteDevice, config: &NvList) -> Result<(), LabelError> {
    let offsets = offsets(device)?;
    let packed = pack(config)?;
    let boot_env = BootEnv::Empty.encode()?;
    let ring = Shared::from(AlignedBuf::zeroed(Part::Ring.size() as usize));
    let blank = Shared::from(AlignedBuf::zeroed(Part::Blank.size() as usize));
    let mut writes = Vec::with_capacity(4 * LABELS + 1);
    for start in offsets {
        let at = |part: Part| start + part.start();
        writes.push((at(Part::Blank), blank.clone()));
        let env = sealed_part(&boot_env, Part::BootEnv, at(Part::BootEnv));
        writes.push((at(Part::BootEnv), env));
        let config = sealed_part(&packed, Part::Config, at(Part::Config));
        writes.push((at(Part::Config), config));
        writes.push((at(Part::Ring), ring.clone()));
    }
    writes.push((BOOT_AREA_START, Shared::from(AlignedBuf::zeroed(BOOT_HEADER_SIZE))));
    put(device, writes)?;
    Ok(device.flush()?)
}

/// Makes the rings of uberblocks zeros, in all labels, so that no state of the pool is found on the
/// device. Waits until it is durable.
///
/// # Errors
/// The device is too small to have labels, or refuses.
pub fn clear_rings(device: &dyn WriteDevice) -> Result<(), LabelError> {
    let zeros = Shared::from(AlignedBuf::zeroed(Part::Ring.size() as usize));
    let rings = offsets(device)?.map(|start| (start + Part::Ring.start(), zeros.clone()));
    put(device, rings.to_vec())?;
    Ok(device.flush()?)
}

/// Makes labels zeros, by their numbers, so that the device belongs to no pool when all that are
/// good go. Waits until it is durable.
///
/// # Errors
/// The device is too small to have labels, or refuses.
pub fn clear(device: &dyn WriteDevice, which: &[usize]) -> Result<(), LabelError> {
    let zeros = Shared::from(AlignedBuf::zeroed(LABEL_SIZE as usize));
    let all = offsets(device)?;
    let chosen = which.iter().filter_map(|n| all.get(*n));
    put(device, chosen.map(|start| (*start, zeros.clone())).collect())?;
    Ok(device.flush()?)
}

fn offsets(device: &dyn WriteDevice) -> Result<[u64; LABELS], LabelError> {
    let size = device.size();
    let too_small = || LabelError::TooSmall { device: device.name().to_owned(), size };
    label_offsets(size).ok_or_else(too_small)
}

fn pack(config: &NvList) -> Result<Vec<u8>, LabelError> {
    let packed = config.encode(Packing::XDR)?;
    let room = Part::Config.size() as usize - codec::checksum::TRAILER_SIZE;
    let size = packed.len();
    if size > room { Err(LabelError::TooLarge { size, room }) } else { Ok(packed) }
}

fn sealed_part(body: &[u8], part: Part, at: u64) -> Shared {
    sealed(body, part.size() as usize, at)
}

/// `body`, zeros, and the trailer, for the place `at` on the device.
fn sealed(body: &[u8], size: usize, at: u64) -> Shared {
    let mut buf = AlignedBuf::zeroed(size);
    // Every part and slot is longer than a trailer, and what goes into it was measured.
    if let Some(front) = buf.get_mut(..body.len()) {
        front.copy_from_slice(body);
    }
    let sealed = seal_label(&mut buf, ByteOrder::Little, at);
    debug_assert!(sealed.is_ok());
    buf.into()
}

/// Writes everything and waits; the first error of all.
fn put(device: &dyn WriteDevice, writes: Vec<(u64, Shared)>) -> Result<(), DeviceError> {
    let writes = writes.into_iter().map(|(at, bytes)| (at, vec![bytes])).collect();
    device::write_batch(device, writes).into_iter().collect()
}

impl VdevTree {
    /// Counts the writes that `put` makes past the queue of the leaf at `index`, by their sizes.
    fn counted<T, E>(
        &self,
        index: usize,
        sizes: &[u64],
        put: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let queue = self.nodes.get(index).and_then(|n| n.queue.as_ref());
        let began = queue.map_or(0, |q| q.now());
        let result = put();
        if let Some(queue) = queue {
            queue.count_writes(IoClass::SyncWrite, sizes, began, result.is_err());
        }
        result
    }

    /// Writes the configuration to two labels of every device that is written to, and flushes.
    /// `config` makes the list of one device; it is called before anything is written.
    ///
    /// # Errors
    /// A list does not fit (nothing is written then), or more devices failed than redundancy
    /// covers; a device that fails is not written to any more.
    pub fn write_labels(
        &self,
        round: Round,
        config: &dyn Fn(NodeRef<'_>, TopRef<'_>) -> NvList,
    ) -> Result<(), LabelError> {
        let mut lists = BTreeMap::new();
        for top in self.tops() {
            let mut indices = Vec::new();
            self.leaves_below(top.index(), &mut |i| indices.push(i));
            for i in indices {
                let Some(leaf) = self.node(i).filter(|l| l.writer().is_some()) else { continue };
                let list = config(leaf, top);
                pack(&list)?;
                lists.insert(i, list);
            }
        }
        self.on_all_writers(&|i, device| {
            let Some(list) = lists.get(&i) else { return Ok(()) };
            let written =
                self.counted(i, &[Part::Config.size(); 2], || write_config(&**device, list, round));
            written.map_err(|e| as_device_error(&**device, e))?;
            device.flush()
        })?;
        Ok(())
    }

    /// Commits: writes the uberblock to all labels of every device that is written to, and flushes.
    /// Everything it reaches must have been flushed before, or [ordered](Self::order_writes).
    ///
    /// # Errors
    /// More devices failed than redundancy covers; it is not known then whether the txg is
    /// committed. A device that fails is not written to any more.
    pub fn write_uberblock(&self, uberblock: &Uberblock) -> Result<(), LabelError> {
        let mut ashifts = BTreeMap::new();
        for top in self.tops() {
            self.leaves_below(top.index(), &mut |i| {
                ashifts.insert(i, top.ashift());
            });
        }
        // A device that lacks something is last: the newest uberblock is never on such a one alone,
        // which would be taken for a state that the others do not have.
        let missed_some = |n: &Node| n.writer.is_some() && n.health.has_missed_any();
        let late: Vec<bool> = self.nodes.iter().map(missed_some).collect();
        let is_late = |i: usize| late.get(i).copied().unwrap_or(false);
        let write = |i: usize, device: &WriteDeviceRef| {
            let Some(ashift) = ashifts.get(&i) else { return Ok(()) };
            let size = slot_size(u64::from(*ashift)) as u64;
            let written =
                self.counted(i, &[size; LABELS], || write_uberblock(&**device, *ashift, uberblock));
            written.map_err(|e| as_device_error(&**device, e))?;
            device.flush()
        };
        let round = |wants_late: bool| {
            self.on_all_writers(&|i, d| if is_late(i) == wants_late { write(i, d) } else { Ok(()) })
        };
        round(false)?;
        if late.contains(&true) {
            round(true)?;
        }
        Ok(())
    }
}

/// A label that cannot be written is a fault of its device, whatever the reason.
fn as_device_error(device: &dyn WriteDevice, error: LabelError) -> DeviceError {
    match error {
        LabelError::Device(e) => e,
        _ => {
            let kind = DeviceErrorKind::BeyondEnd { size: device.size() };
            DeviceError::write(kind, &Arc::from(device.name()), 0, LABEL_SIZE as usize)
        }
    }
}
