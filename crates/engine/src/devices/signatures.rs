//! Foreign contents of a device that is about to become part of a pool: file systems, swap, members
//! of other volume managers, partition tables.
//!
//! Each row of [`SIGNS`] is a fact about a format: bytes at a place. The places are those that the
//! formats' own documents, the database of file(1) and libblkid's documentation name, and the types
//! have libblkid's names, which OpenZFS's messages show. Formats that one magic number does not
//! distinguish from chance (partition tables of DOS and Atari) are checked more closely.

use device::Device;

/// Where the bytes of a sign are.
#[derive(Clone, Copy)]
enum SignatureOffset {
    /// This many bytes from the start.
    Start(u64),
    /// This many bytes before the end, rounded down to a multiple of the second number first.
    End(u64, u64),
    /// The same, and then this many bytes on.
    Within(u64, u64, u64),
}

use SignatureOffset::{End, Start, Within};

/// The sector that places at the end of a device are multiples of.
const SECTOR: u64 = 512;

/// Place, bytes, and type of what has them.
const SIGNS: &[(SignatureOffset, &[u8], &str)] = &[
    // Members of volume managers, before the file systems that may be left inside.
    (Start(0x018), b"LVM2 001", "LVM2_member"),
    (Start(0x218), b"LVM2 001", "LVM2_member"),
    (Start(0x418), b"LVM2 001", "LVM2_member"),
    (Start(0x618), b"LVM2 001", "LVM2_member"),
    (Start(0), b"HM\x01\0", "LVM1_member"),
    (Start(0), b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (Start(0x1000), b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (End(0x2000, 0x1000), b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (End(0x10000, 0x10000), b"\xfc\x4e\x2b\xa9", "linux_raid_member"),
    (End(0x10000, 0x10000), b"\xa9\x2b\x4e\xfc", "linux_raid_member"),
    (End(2 * SECTOR, SECTOR), b"Intel Raid ISM Cfg Sig. ", "isw_raid_member"),
    (End(SECTOR, SECTOR), b"\xde\x11\xde\x11", "ddf_raid_member"),
    (End(257 * SECTOR, SECTOR), b"\xde\x11\xde\x11", "ddf_raid_member"),
    (End(SECTOR, SECTOR), b"\x37\xfc\x4d\x1e", "adaptec_raid_member"),
    (Start(0x1220), b"\xf0\x16\x78\x5a", "hpt37x_raid_member"),
    (Start(0x1220), b"\xfd\x16\x78\x5a", "hpt37x_raid_member"),
    (End(11 * SECTOR, SECTOR), b"\xf3\x16\x78\x5a", "hpt45x_raid_member"),
    (End(11 * SECTOR, SECTOR), b"\xfd\x16\x78\x5a", "hpt45x_raid_member"),
    (End(SECTOR, SECTOR), b"JM", "jmicron_raid_member"),
    (End(SECTOR, SECTOR), b"$XIDE$", "lsi_mega_raid_member"),
    (End(2 * SECTOR, SECTOR), b"NVIDIA", "nvidia_raid_member"),
    (Within(SECTOR, SECTOR, 0x60), b"\0\0\0\x2f", "silicon_medley_raid_member"),
    (End(SECTOR, SECTOR), b"\x55\xaa", "via_raid_member"),
    (Within(0x1000, 0x1000, 0x3c), b"\x83\x74\x02\x6b", "drbd"),
    (Within(0x1000, 0x1000, 0x3c), b"\x83\x74\x02\x6c", "drbd"),
    (Within(0x1000, 0x1000, 0x3c), b"\x83\x74\x02\x6d", "drbd"),
    (Start(0x10), b"DRBDdlh*", "drbdproxy_datalog"),
    (Start(0), b"SnAp", "DM_snapshot_cow"),
    (Start(0), b"LUKS\xba\xbe", "crypto_LUKS"),
    (Start(0x4000), b"SKUL\xba\xbe", "crypto_LUKS"),
    (Start(3), b"-FVE-FS-", "BitLocker"),
    (Start(0x1018), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "bcache"),
    (Start(0x1018), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9", "bcachefs"),
    (Start(0x204), b"!Stra0tis\x86\xff\x02^\x41rh", "stratis"),
    (Start(0), b"dmvdo001", "vdo"),
    (Start(0), b"bluestore block device", "ceph_bluestore"),
    (Start(0x20), b"ORCLDISK", "oracleasm"),
    (Start(0), b"verity\0\0", "DM_verity_hash"),
    (Start(0), b"integrt\0", "DM_integrity"),
    (Start(0x200000), b"\x5e\xf1\xab\x2f", "VMFS"),
    (Start(0x100000), b"\x0d\xd0\x01\xc0", "VMFS_volume_member"),
    (Start(0), b"UBI#", "ubi"),
    // Swap, and images of suspended systems, for each size of page.
    (Start(0xff6), b"SWAPSPACE2", "swap"),
    (Start(0xff6), b"SWAP-SPACE", "swap"),
    (Start(0x1ff6), b"SWAPSPACE2", "swap"),
    (Start(0x3ff6), b"SWAPSPACE2", "swap"),
    (Start(0xfff6), b"SWAPSPACE2", "swap"),
    (Start(0xff6), b"S1SUSPEND\0", "swsuspend"),
    (Start(0xff6), b"S2SUSPEND\0", "swsuspend"),
    (Start(0xff6), b"ULSUSPEND\0", "swsuspend"),
    (Start(0xff6), b"LINHIB0001", "swsuspend"),
    // File systems.
    (Start(0), b"\0\0\0ReFS\0", "ReFS"),
    (Start(0), b"EXFS", "exfs"),
    (Start(0x400), b"BD", "hfs"),
    (Start(0x400), b"\xf5\xfc\x01\xa5", "vxfs"),
    (Start(0x2000), b"\xa5\x01\xfc\xf5", "vxfs"),
    (Start(0), b"\x31\x18\x10\x06", "ubifs"),
    (Start(0), b"\xce\xfa\xad\x1b", "bfs"),
    (Start(0x2000), b"OracleCFS", "ocfs"),
    (Start(0x2000), b"\x49\xe8\x95\xf9", "hpfs"),
    (Start(0x1000), b"SPB5", "nss"),
    (Start(0x8009), b"CDROM", "iso9660"),
    (Start(0x7f8), b"\x44\x55\x2b\0", "xenix"),
    (Start(0x7f8), b"\0\x2b\x55\x44", "xenix"),
    (Start(0x800), b"\x2b\x55\x44", "xenix"),
    (Start(0x800), b"\x44\x55\x2b", "xenix"),
    (Start(0x3f8), b"\xfd\x18\x7e\x20", "sysv"),
    (Start(0x3f8), b"\x20\x7e\x18\xfd", "sysv"),
    (Start(0x27f8), b"\xfd\x18\x7e\x20", "sysv"),
    (Start(0x27f8), b"\x20\x7e\x18\xfd", "sysv"),
    (Start(0x3ff8), b"\xfd\x18\x7e\x20", "sysv"),
    (Start(0x3ff8), b"\x20\x7e\x18\xfd", "sysv"),
    (Start(0x4bf8), b"\xfd\x18\x7e\x20", "sysv"),
    (Start(0x4bf8), b"\x20\x7e\x18\xfd", "sysv"),
    (Start(0), b"qshs", "squashfs3"),
    (Start(0), b"shsq", "squashfs3"),
    (Start(0), b"\x28\xcd\x3d\x45", "cramfs"),
    (Start(0x2034), b"ReIsErFs", "reiserfs"),
    (Start(0x220), b"BFS1", "befs"),
    (Start(0x438), b"\x53\xef", "ext4"),
    (Start(0), b"XFSB", "xfs"),
    (Start(0x10040), b"_BHRfS_M", "btrfs"),
    (Start(3), b"NTFS    ", "ntfs"),
    (Start(3), b"EXFAT   ", "exfat"),
    (Start(0x52), b"FAT32   ", "vfat"),
    (Start(0x36), b"FAT12   ", "vfat"),
    (Start(0x36), b"FAT16   ", "vfat"),
    (Start(0x36), b"FAT     ", "vfat"),
    (Start(0x8001), b"CD001", "iso9660"),
    (Start(0x8001), b"BEA01", "udf"),
    (Start(0x8801), b"NSR02", "udf"),
    (Start(0x8801), b"NSR03", "udf"),
    (Start(0x400), b"H+\x00\x04", "hfsplus"),
    (Start(0x400), b"HX\x00\x05", "hfsplus"),
    (Start(0x20), b"NXSB", "apfs"),
    (Start(0x8000), b"JFS1", "jfs"),
    (Start(0x10034), b"ReIsErFs", "reiserfs"),
    (Start(0x10034), b"ReIsEr2Fs", "reiserfs"),
    (Start(0x10034), b"ReIsEr3Fs", "reiserfs"),
    (Start(0x10000), b"ReIsEr4", "reiser4"),
    (Start(0x400), b"\x10\x20\xf5\xf2", "f2fs"),
    (Start(0x10000), b"\x01\x16\x19\x70", "gfs2"),
    (Start(0x400), b"OCFSV2", "ocfs2"),
    (Start(0x800), b"OCFSV2", "ocfs2"),
    (Start(0x1000), b"OCFSV2", "ocfs2"),
    (Start(0x2000), b"OCFSV2", "ocfs2"),
    (Start(0), b"hsqs", "squashfs"),
    (Start(0), b"sqsh", "squashfs"),
    (Start(0), b"\x45\x3d\xcd\x28", "cramfs"),
    (Start(0x400), b"\xe2\xe1\xf5\xe0", "erofs"),
    (Start(0x406), b"\x34\x34", "nilfs2"),
    (Start(0x410), b"\x7f\x13", "minix"),
    (Start(0x410), b"\x8f\x13", "minix"),
    (Start(0x410), b"\x68\x24", "minix"),
    (Start(0x410), b"\x78\x24", "minix"),
    (Start(0x418), b"\x5a\x4d", "minix"),
    (Start(0), b"-rom1fs-", "romfs"),
    (Start(0), b"SFOZ", "zonefs"),
    (Start(0x220), b"1SFB", "befs"),
    (Start(0x255c), b"\x54\x19\x01\x00", "ufs"),
    (Start(0x255c), b"\x00\x01\x19\x54", "ufs"),
    (Start(0x1055c), b"\x19\x01\x54\x19", "ufs"),
    (Start(0x1055c), b"\x19\x54\x01\x19", "ufs"),
];

/// Place, bytes, and type of tables of partitions.
const TABLES: &[(SignatureOffset, &[u8], &str)] = &[
    (Start(SECTOR), b"EFI PART", "gpt"),
    (Start(0x1000), b"EFI PART", "gpt"),
    (End(SECTOR, SECTOR), b"EFI PART", "gpt"),
    (End(0x1000, 0x1000), b"EFI PART", "gpt"),
    (Start(SECTOR), b"PM\0\0", "mac"),
    (Start(0), b"\x0b\xe5\xa9\x41", "sgi"),
    (Start(0x200), b"\x57\x45\x56\x82", "bsd"),
    (Start(0), b"RDSK", "amiga"),
    (Start(0x1fc), b"\xda\xbe", "sun"),
];

/// Describes the contents of the device, as the end of a sentence that begins with "contains";
/// `None` if nothing known is found.
#[must_use]
pub fn foreign(device: &dyn Device) -> Option<String> {
    if let Some(kind) = find(device, SIGNS).or_else(|| promise(device)) {
        return Some(format!("a filesystem of type '{kind}'"));
    }
    let table = find(device, TABLES).or_else(|| sector_table(device));
    table.map(|kind| format!("a partition table of type '{kind}'"))
}

fn from_end(size: u64, before: u64, step: u64) -> Option<u64> {
    size.checked_sub(before).map(|place| place - place % step)
}

fn find(
    device: &dyn Device,
    signs: &[(SignatureOffset, &[u8], &'static str)],
) -> Option<&'static str> {
    let has = |(at, sign, _): &&(SignatureOffset, &[u8], &str)| {
        let place = match at {
            Start(n) => Some(*n),
            End(n, step) => from_end(device.size(), *n, *step),
            Within(n, step, plus) => from_end(device.size(), *n, *step).map(|p| p + plus),
        };
        let mut bytes = vec![0; sign.len()];
        place.is_some_and(|p| device.read(p, &mut bytes).is_ok()) && bytes == *sign
    };
    signs.iter().find(has).map(|(_, _, kind)| *kind)
}

/// Configurations of RAID adapters of Promise are in one of many sectors before the end.
fn promise(device: &dyn Device) -> Option<&'static str> {
    const SECTORS: [u64; 14] =
        [63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087, 3072];
    const SIGN: &[u8] = b"Promise Technology, Inc.";
    let mut signs = SECTORS.iter().map(|n| (End(n * SECTOR, SECTOR), SIGN, "promise_raid_member"));
    signs.find_map(|sign| find(device, &[sign]))
}

/// Tables in the first sector without a distinctive magic number.
fn sector_table(device: &dyn Device) -> Option<&'static str> {
    let mut sector = [0; SECTOR as usize];
    device.read(0, &mut sector).ok()?;
    if is_dos(&sector) {
        return Some("dos");
    }
    is_atari(&sector, device.size() / SECTOR).then_some("atari")
}

/// Four entries of 16 bytes before the mark at the end; a boot sector without a table has the same
/// mark, so entries have to be possible, and one used.
fn is_dos(sector: &[u8; SECTOR as usize]) -> bool {
    let entries = sector.get(0x1be..0x1fe).unwrap_or_default();
    let possible = entries.chunks(16).all(|e| matches!(e.first(), Some(0 | 0x80)));
    let used = entries.chunks(16).any(|e| {
        let kind = e.get(4).copied().unwrap_or(0);
        kind != 0 && e.get(12..16).is_some_and(|sectors| sectors.iter().any(|b| *b != 0))
    });
    sector.ends_with(b"\x55\xaa") && possible && used
}

/// Four entries of 12 bytes: a flag, a name of three letters, start and length in sectors, most
/// significant byte first.
fn is_atari(sector: &[u8; SECTOR as usize], sectors: u64) -> bool {
    const NAMES: [&[u8]; 6] = [b"GEM", b"BGM", b"XGM", b"LNX", b"SWP", b"RAW"];
    let word = |e: &[u8], at: usize| {
        let bytes = e.get(at..at + 4).and_then(|b| b.try_into().ok());
        u64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
    };
    sector.get(0x1c6..0x1f6).unwrap_or_default().chunks(12).any(|e| {
        let (start, length) = (word(e, 4), word(e, 8));
        let named = e.get(1..4).is_some_and(|name| NAMES.contains(&name));
        let used = e.first().is_some_and(|flag| flag & 1 != 0);
        used && named && start > 0 && length > 0 && start + length <= sectors
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{FileDevice, Options};
    use std::os::unix::fs::FileExt as _;
    use std::process::Command;

    const SIZE: u64 = (16 << 20) + 512;

    fn seen(writes: &[(u64, &[u8])]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        writes.iter().for_each(|(at, bytes)| file.as_file().write_all_at(bytes, *at).unwrap());
        foreign(&FileDevice::open(file.path(), &Options::default()).unwrap())
    }

    #[test]
    fn every_sign_is_found_where_it_stands() {
        assert_eq!(seen(&[]), None);
        for (at, bytes, kind) in SIGNS.iter().chain(TABLES) {
            let place = match at {
                Start(n) => *n,
                End(n, step) => (SIZE - n) / step * step,
                Within(n, step, plus) => (SIZE - n) / step * step + plus,
            };
            let found = seen(&[(place, bytes)]).unwrap();
            assert!(found.ends_with(&format!("of type '{kind}'")), "{kind}: {found}");
        }
    }

    #[test]
    fn a_configuration_of_promise_is_found() {
        let found = seen(&[(SIZE - 951 * SECTOR, b"Promise Technology, Inc.")]).unwrap();
        assert!(found.ends_with("of type 'promise_raid_member'"), "{found}");
    }

    #[test]
    fn tables_without_a_magic_number_of_their_own() {
        let mut entry = [0; 16];
        (entry[4], entry[13]) = (0x83, 1);
        let dos: [(u64, &[u8]); 2] = [(0x1be, &entry), (0x1fe, b"\x55\xaa")];
        assert_eq!(seen(&dos).unwrap(), "a partition table of type 'dos'");
        // The boot sector of a system that has no table.
        assert_eq!(seen(&[(0, b"\xeb\x3c\x90"), (0x1fe, b"\x55\xaa")]), None);
        let atari: [(u64, &[u8]); 1] = [(0x1c6, b"\x01GEM\0\0\0\x02\0\0\x10\0")];
        assert_eq!(seen(&atari).unwrap(), "a partition table of type 'atari'");
        let beyond: [(u64, &[u8]); 1] = [(0x1c6, b"\x01GEM\0\0\0\x02\x7f\0\x10\0")];
        assert_eq!(seen(&beyond), None);
    }

    /// With the tools that make them, where they are installed.
    #[test]
    fn what_real_tools_make_is_found() {
        for (tool, more, kind) in [
            ("mkswap", "", "swap"),
            ("mkfs.ext4", "-q -F", "ext4"),
            ("mkfs.vfat", "", "vfat"),
            ("mkfs.minix", "", "minix"),
            ("mkfs.xfs", "-q -f", "xfs"),
            ("mkfs.btrfs", "-q -f", "btrfs"),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(512 << 20).unwrap();
            let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
            let mut command = Command::new(tool);
            command.env("PATH", path).args(more.split_whitespace()).arg(file.path());
            let made = command.output().is_ok_and(|o| o.status.success());
            if made {
                let found = foreign(&FileDevice::open(file.path(), &Options::default()).unwrap());
                let text = found.unwrap_or_default();
                assert!(text.ends_with(&format!("'{kind}'")), "{tool}: {text}");
            }
        }
    }
}
