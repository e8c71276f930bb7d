//! A directory as a store: for tests, and for what is mounted from elsewhere.
//!
//! An object is a file. It is written under a name of its own, made durable, and then linked to its
//! name, which fails when there is one: the system's `link` is the fence, on local file systems and
//! on NFS. What a program that died left behind lies in [`TEMPORARY`].

use super::{Answered, LISTED_MAX, Request, Response, Store, StoreError};
use device::Shared;
use parking_lot::Mutex;
use rt::Rt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Where objects are written before they have their names.
const TEMPORARY: &str = ".new";
/// Threads that carry out requests.
const THREADS: usize = 16;
/// Longest read at once, whatever is asked for, in bytes.
const GET_MAX: u64 = 256 << 20;

/// A directory with objects as files.
pub struct DirStore {
    work: Sender<(Request, Answered)>,
}

impl DirStore {
    /// A store in a directory, which must be there.
    ///
    /// # Errors
    /// It is not there, or there are no threads.
    pub fn new(folder: &Path) -> io::Result<Self> {
        if !std::fs::metadata(folder)?.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        let (work, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..THREADS {
            let (jobs, folder) = (Arc::clone(&jobs), folder.to_owned());
            drop(Rt::real().spawn("store", move || serve(&folder, &jobs))?);
        }
        Ok(Self { work })
    }
}

impl Store for DirStore {
    fn submit(&self, request: Request, answered: Answered) {
        // Its threads live as long as it does.
        let _ = self.work.send((request, answered));
    }
}

fn serve(folder: &Path, jobs: &Mutex<Receiver<(Request, Answered)>>) {
    loop {
        // One thread at a time waits for a request; the others wait for it.
        let next = jobs.lock().recv();
        let Ok((request, answered)) = next else { return };
        answered(answer(folder, &request));
    }
}

fn failure(error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::NotFound => StoreError::Absent,
        ErrorKind::AlreadyExists => StoreError::Exists,
        ErrorKind::PermissionDenied => StoreError::Denied("this user may not use the directory"),
        ErrorKind::ReadOnlyFilesystem => {
            StoreError::Denied("the file system of the directory is read-only")
        }
        ErrorKind::TimedOut | ErrorKind::StaleNetworkFileHandle => StoreError::Lost,
        _ => StoreError::Other(error.to_string()),
    }
}

/// What comes of a request. While the directory is away, such as one that is mounted, nothing is
/// known of what is in it.
fn answer(folder: &Path, request: &Request) -> Result<Response, StoreError> {
    match carry_out(folder, request) {
        Ok(Response::Done | Response::Names { .. }) | Err(StoreError::Absent)
            if !folder.is_dir() =>
        {
            Err(StoreError::Lost)
        }
        answer => answer,
    }
}

fn carry_out(folder: &Path, request: &Request) -> Result<Response, StoreError> {
    let done = match request {
        Request::Create { name, body } => create(folder, name, body).map(|()| Response::Done),
        Request::Get { name, from, len } => get(&path(folder, name)?, *from, *len),
        Request::Head { name } => {
            std::fs::metadata(path(folder, name)?).map(|m| Response::Size(m.len()))
        }
        Request::List { prefix, after } => {
            let mut names = Vec::new();
            let listed = list(folder, &path(folder, prefix)?, after, &mut names);
            let is_last = names.len() < LISTED_MAX;
            listed.map(|()| Response::Names { names, is_last })
        }
        Request::Delete { name } => match std::fs::remove_file(path(folder, name)?) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Response::Done),
            done => done.map(|()| Response::Done),
        },
    };
    done.map_err(|e| failure(&e))
}

/// Where an object is; names that would lead elsewhere are refused.
fn path(folder: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-/".contains(c);
    if name.starts_with('/') || name.contains("//") || !name.chars().all(is_plain) {
        return Err(StoreError::Other(format!("'{name}' is not a name of an object")));
    }
    Ok(folder.join(name))
}

fn create(folder: &Path, name: &str, body: &[Shared]) -> io::Result<()> {
    let to = path(folder, name).map_err(io::Error::other)?;
    // Most often it tells of a name that is taken without writing anything.
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let new = folder.join(TEMPORARY);
    let parent = to.parent().unwrap_or(folder);
    make_folder(folder, &new)?;
    make_folder(folder, parent)?;
    let temporary = new.join(format!("{:016x}", Rt::real().random_u64()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let mut write = || {
        for part in body {
            file.write_all(part)?;
        }
        file.sync_data()?;
        std::fs::hard_link(&temporary, &to)
    };
    let written = write();
    let removed = std::fs::remove_file(&temporary);
    written?;
    removed?;
    File::open(parent)?.sync_all()
}

/// Makes a directory below `folder` and makes its name durable, unless it is there.
fn make_folder(folder: &Path, new: &Path) -> io::Result<()> {
    if new == folder || new.is_dir() {
        return Ok(());
    }
    let parent = new.parent().unwrap_or(folder);
    make_folder(folder, parent)?;
    match std::fs::create_dir(new) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

fn get(path: &Path, from: u64, len: u64) -> io::Result<Response> {
    let file = File::open(path)?;
    let left = file.metadata()?.len().saturating_sub(from).min(len).min(GET_MAX);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(Response::Bytes(bytes))
}

/// Adds the objects in a directory and below that come after a name, in order, until there are
/// enough.
fn list(folder: &Path, place: &Path, after: &str, out: &mut Vec<(String, u64)>) -> io::Result<()> {
    let entries = match std::fs::read_dir(place) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        paths.push((entry.path(), entry.file_type()?.is_dir()));
    }
    // In the order of whole names: that of a directory ends with `/`, which is before letters.
    paths.sort();
    for (path, is_folder) in paths {
        if path == folder.join(TEMPORARY) {
            continue;
        }
        let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) else { continue };
        if out.len() >= LISTED_MAX {
            return Ok(());
        }
        if is_folder {
            // Everything in it begins with its name: it is passed when that is before `after`.
            let is_before = after.get(..name.len()).is_some_and(|head| name < head);
            if !is_before {
                list(folder, &path, after, out)?;
            }
        } else if name > after {
            match path.metadata() {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                found => out.push((name.to_owned(), found?.len())),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, create, get, keeps_the_rules, one_wins};
    use super::*;

    #[test]
    fn it_keeps_the_rules_of_stores() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::new(folder.path()).unwrap();
        keeps_the_rules(&store);
        one_wins(&store);
        assert_eq!(std::fs::read_dir(folder.path().join(TEMPORARY)).unwrap().count(), 0);
    }

    #[test]
    fn lists_go_on_where_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirStore::new(folder.path()).unwrap();
        let all: Vec<String> = (0..1700).map(|n| format!("log/{:02x}/{n:08x}", n & 3)).collect();
        for name in &all {
            std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let list = Request::List { prefix: "log/".to_owned(), after: after.clone() };
            let Ok(Response::Names { names, .. }) = ask(&store, list) else { panic!("no names") };
            let Some(last) = names.last() else { break };
            after.clone_from(&last.0);
            seen.extend(names.into_iter().map(|(name, _)| name));
        }
        let mut all = all;
        all.sort();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_directory_that_is_away_has_lost_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (here, away) = (folder.path().join("store"), folder.path().join("away"));
        std::fs::create_dir(&here).unwrap();
        let store = DirStore::new(&here).unwrap();
        assert_eq!(ask(&store, create("a", b"1")), Ok(Response::Done));
        std::fs::rename(&here, &away).unwrap();
        let list = Request::List { prefix: String::new(), after: String::new() };
        let delete = Request::Delete { name: "a".to_owned() };
        for request in [create("b", b"2"), get("a", 0, 1), list, delete] {
            assert_eq!(ask(&store, request.clone()), Err(StoreError::Lost), "{request:?}");
        }
        std::fs::rename(&away, &here).unwrap();
        assert_eq!(ask(&store, get("a", 0, 1)), Ok(Response::Bytes(b"1".to_vec())));
        assert_eq!(ask(&store, get("b", 0, 1)), Err(StoreError::Absent));
    }

    #[test]
    fn no_name_leads_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let store = DirStore::new(&folder.path().join("in")).unwrap();
        for name in ["../x", "/x", "a/../../x", "a//x", "A"] {
            assert!(matches!(ask(&store, create(name, b"1")), Err(StoreError::Other(_))), "{name}");
            assert!(matches!(ask(&store, get(name, 0, 1)), Err(StoreError::Other(_))), "{name}");
        }
        assert!(DirStore::new(&folder.path().join("none")).is_err());
    }
}
