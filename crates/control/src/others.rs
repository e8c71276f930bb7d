//! Processes that serve and are not reached by a socket: those of other users, and those whose
//! sockets are elsewhere. Any user may see that they are there, and the command line that started
//! them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

/// A process that serves.
pub struct ForeignServer {
    /// Its number.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// The words of its command line.
    pub words: Vec<Vec<u8>>,
    /// The name it serves, from its command line.
    pub serves: String,
}

/// The process with this number, if `serves` finds in its command line what it serves.
fn serving(pid: u32, serves: &dyn Fn(Vec<OsString>) -> Option<String>) -> Option<ForeignServer> {
    let place = format!("/proc/{pid}");
    let command = std::fs::read(format!("{place}/cmdline")).ok()?;
    let words: Vec<&[u8]> = command.split(|b| *b == 0).filter(|word| !word.is_empty()).collect();
    if !words.contains(&&b"serve"[..]) {
        return None;
    }
    let serves = serves(words.iter().map(|word| OsString::from_vec(word.to_vec())).collect())?;
    let words = words.iter().map(|word| word.to_vec()).collect();
    let user = std::fs::metadata(place).ok()?.uid();
    Some(ForeignServer { pid, user, words, serves })
}

/// All but those `reached`. This process is not one of them itself when it is about to serve, nor
/// is the one that started it for that.
#[must_use]
pub fn foreign_servers(
    reached: &[u64],
    serves: &dyn Fn(Vec<OsString>) -> Option<String>,
) -> Vec<ForeignServer> {
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let others = numbers.filter(|pid| !reached.contains(&u64::from(*pid)) && !own.contains(pid));
    others.filter_map(|pid| serving(pid, serves)).collect()
}
