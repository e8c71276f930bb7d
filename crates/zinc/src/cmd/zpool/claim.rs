//! Taking devices for a pool: they are opened for this process alone, and what is on them is looked
//! at first, so that nothing of value is overwritten by a slip.

use super::layout::Layout;
use crate::failure::Failure;
use crate::live::Disks;
use engine::device::{Device, ErrorKind, WriteDeviceRef};
use engine::live::{DEVICE_MIN, Devices};
use engine::ondisk::config::{LabelConfig, PoolState};
use engine::pool;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens every device of a layout. Unless `force`, refuses those that hold something.
pub fn claim(layout: &Layout, force: bool) -> Result<Devices, Failure> {
    let mut disks = Disks::default();
    let mut out = Devices::new();
    for path in layout.paths() {
        let device = open(&mut disks, path)?;
        if device.size() < DEVICE_MIN {
            return Err(Failure::new(format!("'{path}' is too small"))
                .because(format!("it has {} bytes; a pool needs {DEVICE_MIN}", device.size()))
                .hint("`truncate -s 64M FILE` makes a file of the smallest size"));
        }
        if !force && let Some(what) = held(&device, Path::new(path)) {
            return Err(Failure::new("invalid vdev specification")
                .because(format!("{path} {what}"))
                .hint("use '-f' to override, which destroys what is on it"));
        }
        out.insert(path.to_owned(), device);
    }
    Ok(out)
}

/// Opens one device for this process alone.
pub fn open(disks: &mut Disks, path: &str) -> Result<WriteDeviceRef, Failure> {
    disks.open(Path::new(path)).map_err(|e| match e.kind {
        ErrorKind::InUse => Failure::new(format!("cannot open '{path}': Device or resource busy"))
            .because("somebody else writes to it, or the system has it in use"),
        _ => Failure::new(format!("cannot open '{path}'")).because(e.to_string()),
    })
}

/// What a device holds that would be lost, as the end of a sentence.
pub fn held(device: &WriteDeviceRef, path: &Path) -> Option<String> {
    let reader = Arc::clone(device).as_device();
    if let Some(found) = pool::look_at_device(&reader, PathBuf::from(path)) {
        let text = match found.config {
            LabelConfig::Member(c) => match c.state {
                PoolState::Destroyed => return None,
                PoolState::Exported => format!("is part of exported pool '{}'", c.name),
                _ if c.txg == 0 => return None,
                _ => format!("is part of active pool '{}'", c.name),
            },
            LabelConfig::Aux(_) => "is a spare or cache device of a pool".to_owned(),
        };
        return Some(text);
    }
    foreign(reader.as_ref()).map(|what| format!("contains {what}"))
}

/// Byte offset, bytes and name of what other systems put at the start of a device.
const SIGNS: [(u64, &[u8], &str); 8] = [
    (0x438, b"\x53\xef", "a file system of type 'ext4'"),
    (0, b"XFSB", "a file system of type 'xfs'"),
    (0x10040, b"_BHRfS_M", "a file system of type 'btrfs'"),
    (3, b"NTFS    ", "a file system of type 'ntfs'"),
    (0x36, b"FAT", "a file system of type 'vfat'"),
    (0x52, b"FAT32", "a file system of type 'vfat'"),
    (0, b"LUKS\xba\xbe", "an encrypted volume of type 'crypto_LUKS'"),
    (512, b"EFI PART", "a partition table"),
];

fn foreign(device: &dyn Device) -> Option<&'static str> {
    let has = |(offset, sign, _): &&(u64, &[u8], &str)| {
        let mut bytes = vec![0; sign.len()];
        device.read(*offset, &mut bytes).is_ok() && bytes == *sign
    };
    SIGNS.iter().find(has).map(|(_, _, name)| *name)
}
