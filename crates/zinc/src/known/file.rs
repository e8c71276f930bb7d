//! A cache file: a packed name-value list with one member for each pool, under its name, which is
//! the pool's configuration.
//!
//! It is written to a file beside it, made durable, and renamed; a program that ends in between
//! leaves the old one. Who changes it locks `NAME.lock` first, because the file itself is replaced.
//! Without any pool in it there is no file, as OpenZFS has it.

use super::Known;
use crate::failure::Failure;
use crate::ui;
use engine::ondisk::nvlist::{NvList, NvPair, NvValue, Packing};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A list of thousands of pools stays far below this.
const SIZE_MAX: u64 = 64 << 20;

/// A cache file, which need not exist.
pub(super) struct CacheFile {
    path: PathBuf,
}

/// Why there are no entries.
enum Unreadable {
    NoFile,
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for Unreadable {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::NotFound { Self::NoFile } else { Self::Io(e) }
    }
}

/// The pools in a file that somebody named.
pub fn read(path: &Path) -> Result<Vec<Known>, Failure> {
    let fail = |why: String| {
        Failure::new(format!("cannot read cache file {}", path.display())).because(why)
    };
    entries(path).map_err(|e| match e {
        Unreadable::NoFile => fail("No such file or directory".to_owned()),
        Unreadable::Io(e) => fail(e.to_string()),
        Unreadable::Damaged(why) => fail(why),
    })
}

fn entries(path: &Path) -> Result<Vec<Known>, Unreadable> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SIZE_MAX).read_to_end(&mut bytes)?;
    let list = NvList::decode(&bytes).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    let entry = |pair: NvPair| match pair.value {
        NvValue::NvList(config) => Known::new(config).ok_or_else(|| {
            let name = String::from_utf8_lossy(&pair.name).into_owned();
            Unreadable::Damaged(format!("the entry {name:?} is no configuration of a pool"))
        }),
        _ => Err(Unreadable::Damaged("an entry is not a list".to_owned())),
    };
    list.pairs.into_iter().map(entry).collect()
}

impl CacheFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The pools in it. A damaged file is put aside, and counts as none.
    pub(super) fn entries(&self) -> Vec<Known> {
        match entries(&self.path) {
            Ok(entries) => entries,
            Err(Unreadable::NoFile) => Vec::new(),
            Err(Unreadable::Io(e)) => {
                let path = self.path.display();
                ui::error(&format!("zinc: cannot read the list of known pools {path}: {e}\n"));
                Vec::new()
            }
            Err(Unreadable::Damaged(why)) => {
                self.put_aside(&why);
                Vec::new()
            }
        }
    }

    fn put_aside(&self, why: &str) {
        let aside = self.beside("damaged");
        let mut text =
            format!("zinc: the list of known pools {} is damaged\n", self.path.display());
        text.push_str(&format!("  because: {why}\n"));
        match std::fs::rename(&self.path, &aside) {
            Ok(()) => text.push_str(&format!("  because: it is now {}\n", aside.display())),
            Err(e) => text.push_str(&format!("  because: it cannot be put aside: {e}\n")),
        }
        text.push_str(
            "  hint: `zinc zpool import` finds pools again; -f takes those still active\n",
        );
        ui::error(&text);
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    }

    /// Adds an entry, in place of one with the same name or guid.
    pub(super) fn put(&self, known: &Known) -> Result<(), Failure> {
        self.change(|entries| {
            entries.retain(|e| e.guid() != known.guid() && e.name() != known.name());
            entries.push(known.clone());
            true
        })
    }

    /// Takes an entry out, when it is there.
    pub(super) fn remove(&self, guid: u64) -> Result<(), Failure> {
        if !self.path.exists() {
            return Ok(());
        }
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|e| e.guid() != guid);
            entries.len() != before
        })
    }

    /// Changes the entries, under the lock; `change` says whether it did.
    fn change(&self, change: impl FnOnce(&mut Vec<Known>) -> bool) -> Result<(), Failure> {
        let fail = |e: io::Error| {
            Failure::new(format!("cannot write {}", self.path.display())).because(e.to_string())
        };
        if let Some(folder) = self.path.parent() {
            make_folder(folder).map_err(fail)?;
        }
        // Let go when it is closed, however this process ends.
        let lock = private().write(true).open(self.beside("lock")).map_err(fail)?;
        lock.lock().map_err(fail)?;
        let mut entries = self.entries();
        if !change(&mut entries) {
            return Ok(());
        }
        self.replace(&entries).map_err(fail)
    }

    fn replace(&self, entries: &[Known]) -> io::Result<()> {
        if entries.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let mut list = NvList::new();
        for known in entries {
            list.set(known.name(), NvValue::NvList(known.list().clone()));
        }
        let bytes = list.encode(Packing::XDR).map_err(io::Error::other)?;
        let new = self.beside("new");
        let mut file = private().write(true).truncate(true).open(&new)?;
        file.write_all(&bytes).and_then(|()| file.sync_all())?;
        std::fs::rename(&new, &self.path)?;
        match self.path.parent().map(File::open) {
            Some(Ok(folder)) => folder.sync_all(),
            // One that cannot be opened cannot be made durable; the file itself is.
            _ => Ok(()),
        }
    }
}

/// A file that others may read, and that is no link.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    options
}

/// Makes the folder that keeps the file; others may look into it.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, guid: u64) -> Known {
        let mut root = NvList::new();
        root.set("type", NvValue::String(b"root".to_vec()));
        root.set("id", NvValue::U64(0)).set("guid", NvValue::U64(guid));
        let mut list = NvList::new();
        for (member, value) in [("version", 5000), ("state", 0), ("txg", 4), ("pool_guid", guid)] {
            list.set(member, NvValue::U64(value));
        }
        list.set("name", NvValue::String(name.as_bytes().to_vec()));
        list.set("vdev_tree", NvValue::NvList(root));
        Known::new(list).unwrap()
    }

    fn names(file: &CacheFile) -> Vec<String> {
        file.entries().iter().map(|k| k.name().to_owned()).collect()
    }

    #[test]
    fn pools_come_and_go_and_the_last_takes_the_file_along() {
        let dir = tempfile::tempdir().unwrap();
        let file = CacheFile::new(dir.path().join("deep/zpool.cache"));
        assert!(names(&file).is_empty());
        file.put(&pool("a", 1)).unwrap();
        file.put(&pool("b", 2)).unwrap();
        file.put(&pool("c", 2)).unwrap();
        assert_eq!(names(&file), ["a", "c"]);
        file.remove(1).unwrap();
        file.remove(7).unwrap();
        assert_eq!(names(&file), ["c"]);
        file.remove(2).unwrap();
        assert!(!file.path.exists());
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_the_next_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = CacheFile::new(dir.path().join("zpool.cache"));
        std::fs::write(&file.path, b"\x01\x01\0\0nonsense").unwrap();
        file.put(&pool("a", 1)).unwrap();
        assert_eq!(names(&file), ["a"]);
        assert_eq!(std::fs::read(file.beside("damaged")).unwrap(), b"\x01\x01\0\0nonsense");
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zpool.cache");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let file = CacheFile::new(path.clone());
                scope.spawn(move || file.put(&pool(&format!("p{n}"), n)).unwrap());
            }
        });
        assert_eq!(CacheFile::new(path).entries().len(), 8);
    }
}
