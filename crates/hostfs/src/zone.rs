//! Local time on this machine.
//!
//! The rules come from the system's zone file (`/etc/localtime`, or the one `TZ` names), in the
//! format of RFC 8536: a header with counts, then transition times, the index of the type that
//! holds from each, and types with their offset to UTC. Files of version 2 hold everything twice,
//! the second time with 64-bit times. The rule for times after the last transition, which follows
//! the tables, is not read: the last offset holds.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const HEADER: usize = 44;
const ZONES: &str = "/usr/share/zoneinfo";
/// Zone files have a few KiB.
const FILE_MAX: usize = 1 << 20;

/// Seconds that local time is ahead of UTC at `time`; 0 where the zone is not known. `zone` is what
/// `TZ` says; without it the machine's zone counts.
#[must_use]
pub fn utc_offset(zone: Option<&OsStr>, time: u64) -> i64 {
    let content = file(zone).and_then(|path| std::fs::read(path).ok());
    content.and_then(|content| offset_in(&content, time)).unwrap_or(0)
}

fn file(zone: Option<&OsStr>) -> Option<PathBuf> {
    let Some(zone) = zone else { return Some("/etc/localtime".into()) };
    let zone = zone.to_str()?;
    let zone = zone.strip_prefix(':').unwrap_or(zone);
    (!zone.is_empty()).then(|| Path::new(ZONES).join(zone))
}

/// Counts in a header, in its order.
struct Counts {
    utc_marks: usize,
    standard_marks: usize,
    leaps: usize,
    times: usize,
    types: usize,
    chars: usize,
}

fn counts(data: &[u8]) -> Option<(u8, Counts)> {
    let header = data.get(..HEADER)?;
    if !header.starts_with(b"TZif") {
        return None;
    }
    let n = |i: usize| -> Option<usize> {
        let bytes = header.get(20 + 4 * i..24 + 4 * i)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok().filter(|n| *n <= FILE_MAX)
    };
    let [utc_marks, standard_marks, leaps] = [n(0)?, n(1)?, n(2)?];
    let [times, types, chars] = [n(3)?, n(4)?, n(5)?];
    Some((header[4], Counts { utc_marks, standard_marks, leaps, times, types, chars }))
}

fn offset_in(data: &[u8], time: u64) -> Option<i64> {
    let (version, c) = counts(data)?;
    if version == 0 {
        return lookup(data.get(HEADER..)?, &c, 4, time);
    }
    let first = c.times * 5 + c.types * 6 + c.chars + c.leaps * 8 + c.standard_marks + c.utc_marks;
    let second = data.get(HEADER + first..)?;
    let (_, c) = counts(second)?;
    lookup(second.get(HEADER..)?, &c, 8, time)
}

fn lookup(data: &[u8], c: &Counts, width: usize, time: u64) -> Option<i64> {
    let at = |i: usize| -> Option<i64> {
        let bytes = data.get(i * width..(i + 1) * width)?;
        match width {
            4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        }
    };
    let time = i64::try_from(time).ok()?;
    let past = (0..c.times).take_while(|i| at(*i).is_some_and(|t| t <= time)).count();
    let indices = data.get(c.times * width..)?;
    let kind = match past {
        0 => 0,
        n => usize::from(*indices.get(n - 1)?),
    };
    let types = indices.get(c.times..)?;
    let offset = types.get(kind * 6..kind * 6 + 4)?.try_into().ok()?;
    Some(i64::from(i32::from_be_bytes(offset)))
}

#[cfg(test)]
mod tests {
    use super::offset_in;

    fn zone(width: usize, times: &[i64], version: u8) -> Vec<u8> {
        let mut out = b"TZif".to_vec();
        out.push(version);
        out.resize(20, 0);
        for n in [0, 0, 0, times.len() as u32, 2, 4] {
            out.extend(n.to_be_bytes());
        }
        for t in times {
            out.extend(&t.to_be_bytes()[8 - width..]);
        }
        out.extend(times.iter().enumerate().map(|(i, _)| (i % 2) as u8 ^ 1));
        for offset in [3600i32, 7200] {
            out.extend(offset.to_be_bytes());
            out.extend([0, 0]);
        }
        out.extend(b"CET\0");
        out
    }

    #[test]
    fn the_offset_of_the_last_transition_holds() {
        let mut file = zone(4, &[], 2);
        file.extend(zone(8, &[1000, 2000], 2));
        assert_eq!(offset_in(&file, 0), Some(3600));
        assert_eq!(offset_in(&file, 1000), Some(7200));
        assert_eq!(offset_in(&file, 5000), Some(3600));
        assert_eq!(offset_in(&zone(4, &[1000], 0), 1500), Some(7200));
    }

    #[test]
    fn a_damaged_file_is_no_zone() {
        let mut file = zone(4, &[], 2);
        file.extend(zone(8, &[1000, 2000], 2));
        for n in 0..file.len() {
            let _ = offset_in(&file[..n], 1500);
        }
        assert_eq!(offset_in(b"TZjf", 0), None);
    }
}
