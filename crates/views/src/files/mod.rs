//! Files of a pool: directories as `zinc ls` lists them ([`list`]), and everything about one file
//! as `zinc stat` prints it ([`stat`]).

pub mod list;
pub mod stat;

use crate::HostInfo;
use engine::files::{FileKind, FileSummary, Time};
use term::human::Civil;

/// `2026-11-21 20:18:34` in local time; before 1970 as if the zone had been then what it was in
/// 1970.
#[must_use]
pub fn time_text(host_info: &dyn HostInfo, t: Time) -> String {
    let offset = host_info.utc_offset(u64::try_from(t.seconds).unwrap_or(0));
    Civil::of(t.seconds.saturating_add(offset)).stamp(' ')
}

/// Type and permissions in ten letters.
#[must_use]
pub fn mode_text(file: &FileSummary) -> String {
    let kind = match file.kind {
        FileKind::File => '-',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::Block => 'b',
        FileKind::Char => 'c',
        FileKind::Unknown => '?',
    };
    let m = file.permissions;
    let mut out = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = m >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, m & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}
