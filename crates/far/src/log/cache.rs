//! What was read from segments, in a file on a local disk that may be lost.
//!
//! # Theory
//!
//! Segments never change, so what was read once may be kept for ever, and nothing is ever made
//! invalid. The file has a fixed number of *lines*, of [`LINE`] bytes of an object each, and a
//! table of them; the one that was not used for longest, about, gives way (a clock). The table is
//! read into memory when the disk is opened.
//!
//! The file is never trusted. Each line has a BLAKE3 over its bytes and its place in the log, so
//! that a write that was torn, a disk that forgets, or a file that someone edited is a line that is
//! not there. One thing such a sum cannot tell: a store that was reset to an older copy and written
//! anew has other segments under the same numbers. So the file has a *note*: the last place of the
//! log that was read, and the hash of its header, which has a random number of its writer. Lines
//! behind the note are not kept; and what is in the file is used again only if the store has that
//! very header at that very place. Otherwise the cache begins empty, as it does when it is missing,
//! damaged, of another disk or of another size. One program has the file; others do without.
//!
//! ```text
//!   file    head, note | table: place, line, length, sum of each | lines
//! ```
//!
//! One thread has the file and its index, so there is no lock but that of the queue. It answers
//! what it has, asks the store for the rest, and writes what comes; writes that wait are bounded,
//! and dropped beyond. A file that cannot be written to is only read from then on. Nothing is
//! flushed.

use super::format::{HEADER_BYTES, Hash, Header, Uuid, segment_name};
use crate::lock;
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, StoreError};
use ondisk::hex;
use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of an object that are kept or not: little more to read for one record of a pool, and
/// enough of them for large ones.
pub(super) const LINE: u64 = 128 << 10;
/// Bytes of a line in the table: its place in the log (64 bits), its number in the object (32), its
/// length (32), its sum (128).
const ENTRY: usize = 32;
const HEAD: usize = 4096;
const MAGIC: [u8; 8] = *b"zincche\x01";
/// Bytes of the head that are hashed.
const HASHED: usize = 8 + 16 + 8 + 8 + 32;
/// Bytes of a file at most: its table is in memory, and takes 340 MiB then.
const FILE_MAX: u64 = 1 << 40;
/// For its owner alone.
const MODE: u32 = 0o600;
/// Bytes that wait to be written at most.
const WAITING_MAX: u64 = 64 << 20;

/// Where a cache is, and how large it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlace {
    /// The folder: a file of it has the name of the disk.
    pub folder: PathBuf,
    /// Bytes of the file at most.
    pub bytes: u64,
}

impl CachePlace {
    /// Bytes that the file takes at most. The same at each opening, unlike what is free just then:
    /// a cache of another size begins empty.
    fn file_size(&self) -> io::Result<u64> {
        let system = rustix::fs::statvfs(&self.folder)?;
        let size = system.f_blocks.saturating_mul(system.f_frsize);
        Ok(self.bytes.min(FILE_MAX).min(size))
    }
}

/// What the store answered to a read.
pub(super) type Answer = Arc<Result<Response, StoreError>>;

/// Looks for something in the cache, on its thread; it must not wait.
pub(super) type Look = Box<dyn FnOnce(&mut Lines) + Send>;

/// The way to the thread that has the file. It ends with this.
pub(super) struct Cache(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// The file could not be written to.
    has_failed: AtomicBool,
}

struct State {
    /// Those that look for something.
    wanted: VecDeque<Look>,
    /// What is to be kept: place, byte in the object, bytes.
    found: VecDeque<(u64, u64, Answer)>,
    waiting: u64,
    /// The last place that is known to be in the log, and the hash of its header.
    note: (u64, Hash),
    is_over: bool,
}

impl Cache {
    /// A cache for a disk whose log was read up to a place.
    ///
    /// # Errors
    /// It cannot be had: `WouldBlock` when another program has it.
    pub(super) fn start(
        place: &CachePlace,
        client: &Client,
        disk: Uuid,
        note: (u64, Hash),
    ) -> io::Result<Self> {
        let mut lines = Lines::open(place, disk, client.rt())?;
        if !lines.note.is_some_and(|old| is_of_this_log(client, old, note)) {
            lines.clear()?;
        }
        lines.write_note(note)?;
        Self::serve(lines, client, note)
    }

    fn serve(lines: Lines, client: &Client, note: (u64, Hash)) -> io::Result<Self> {
        let state = State {
            wanted: VecDeque::new(),
            found: VecDeque::new(),
            waiting: 0,
            note,
            is_over: false,
        };
        let changed = client.rt().condvar();
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            changed,
            has_failed: AtomicBool::new(false),
        });
        let own = Arc::clone(&queue);
        drop(client.rt().spawn("far cache", move || own.serve(lines))?);
        Ok(Self(queue))
    }

    /// It could not be written to, and is only read since.
    pub(super) fn has_failed(&self) -> bool {
        self.0.has_failed.load(Relaxed)
    }

    /// Has something looked for.
    pub(super) fn look(&self, look: Look) {
        self.0.state.lock().wanted.push_back(look);
        self.0.changed.notify_one();
    }

    /// What the store has of a segment from a byte on, the beginning of a line.
    pub(super) fn keep(&self, seq: u64, from: u64, answer: Answer) {
        let mut state = self.0.state.lock();
        let waiting = state.waiting + bytes_of(&answer).len() as u64;
        if waiting <= WAITING_MAX && seq <= state.note.0 {
            state.waiting = waiting;
            state.found.push_back((seq, from, answer));
            drop(state);
            self.0.changed.notify_one();
        }
    }

    /// The log of this writer goes up to this place, all of it.
    pub(super) fn note(&self, note: (u64, Hash)) {
        let mut state = self.0.state.lock();
        if note.0 > state.note.0 {
            state.note = note;
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// The log that was read is a later state of the one that a note is of.
fn is_of_this_log(client: &Client, old: (u64, Hash), now: (u64, Hash)) -> bool {
    if old.0 >= now.0 {
        return old == now;
    }
    let get = Request::Get { name: segment_name(old.0), from: 0, len: HEADER_BYTES as u64 };
    match client.call(Urgency::Read, get) {
        Ok(Response::Bytes(bytes)) => Header::decode(&bytes).is_ok_and(|h| h.hash() == old.1),
        _ => false,
    }
}

impl Queue {
    fn serve(&self, mut lines: Lines) {
        let mut state = self.state.lock();
        loop {
            let note = state.note;
            if let Some(look) = state.wanted.pop_front() {
                drop(state);
                look(&mut lines);
            } else if let Some((seq, from, answer)) = state.found.pop_front() {
                let bytes = bytes_of(&answer);
                state.waiting -= bytes.len() as u64;
                drop(state);
                lines.keep(note, seq, from, bytes);
                self.has_failed.store(lines.is_broken, Relaxed);
            } else if state.is_over {
                return;
            } else {
                self.changed.wait(&mut state);
                continue;
            }
            state = self.state.lock();
        }
    }
}

/// The bytes of an answer that has some.
fn bytes_of(answer: &Answer) -> &[u8] {
    match &**answer {
        Ok(Response::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

/// What a line is of.
type Key = (u64, u32);

#[derive(Clone, Copy, Default)]
struct Line {
    key: Key,
    /// 0: there is nothing in it.
    len: u32,
    sum: [u8; 16],
    /// It was used since the hand passed it.
    is_used: bool,
}

/// The file, and what is in it.
pub(super) struct Lines {
    file: File,
    disk: Uuid,
    lines: Vec<Line>,
    index: HashMap<Key, usize>,
    /// Where the next one is looked for that gives way.
    hand: usize,
    /// What stands in the file.
    note: Option<(u64, Hash)>,
    is_broken: bool,
}

/// What a pool has may be secret: a file that another user made in a folder for all is not used,
/// since that user can read it.
fn keep_from_others(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the file of the cache belongs to another user"));
    }
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(MODE)),
    }
}

impl Lines {
    fn open(place: &CachePlace, disk: Uuid, rt: &Rt) -> io::Result<Self> {
        let count = place.file_size()?.saturating_sub(2 * HEAD as u64) / (LINE + ENTRY as u64);
        let count = usize::try_from(count).map_err(io::Error::other)?;
        if count == 0 {
            return Err(io::Error::other("the cache is too small for a single line"));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(MODE).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(place.folder.join(format!("{}.cache", hex::encode(&disk))))?;
        keep_from_others(&file)?;
        lock::lock(&file, rt).map_err(io::Error::from)?;
        let (lines, index) = (vec![Line::default(); count], HashMap::new());
        let mut own = Self { file, disk, lines, index, hand: 0, note: None, is_broken: false };
        // Whatever is in it and cannot be read is not there.
        let _ = own.load();
        Ok(own)
    }

    fn table(&self) -> usize {
        self.lines.len() * ENTRY
    }

    fn offset(&self, at: usize) -> u64 {
        let lines = ((HEAD + self.table()) as u64).next_multiple_of(HEAD as u64);
        lines + at as u64 * LINE
    }

    fn load(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, 0)?;
        let (hashed, rest) = head.split_at(HASHED);
        let (own, note) = hashed.split_at(32);
        let (place, hash) = note.split_at(8);
        let (Ok(place), Ok(hash)) = (place.try_into(), hash.try_into()) else { return Ok(()) };
        if own != self.head() || rest[..32] != *blake3::hash(hashed).as_bytes() {
            return Ok(());
        }
        let note = (u64::from_le_bytes(place), hash);
        let mut table = vec![0; self.table()];
        self.file.read_exact_at(&mut table, HEAD as u64)?;
        for (at, entry) in table.chunks_exact(ENTRY).enumerate() {
            let Some(line) = decode(entry).filter(|line| line.key.0 <= note.0) else { continue };
            if self.index.insert(line.key, at).is_none() {
                self.lines[at] = line;
            }
        }
        self.note = Some(note);
        Ok(())
    }

    /// What tells the file of this disk and size.
    fn head(&self) -> [u8; 32] {
        let mut head = [0; 32];
        head[..8].copy_from_slice(&MAGIC);
        head[8..24].copy_from_slice(&self.disk);
        head[24..].copy_from_slice(&(self.lines.len() as u64).to_le_bytes());
        head
    }

    /// Forgets everything, and gives the space back.
    fn clear(&mut self) -> io::Result<()> {
        self.lines.fill(Line::default());
        self.index.clear();
        self.file.set_len(0)?;
        self.file.set_len(self.offset(self.lines.len()))
    }

    fn write_note(&mut self, note: (u64, Hash)) -> io::Result<()> {
        let mut head = Vec::with_capacity(HASHED + 32);
        head.extend(self.head());
        head.extend(note.0.to_le_bytes());
        head.extend(note.1);
        head.extend(blake3::hash(&head).as_bytes());
        self.file.write_all_at(&head, 0)?;
        self.note = Some(note);
        Ok(())
    }

    /// Bytes of a segment, if all of them are here.
    pub(super) fn read(&mut self, seq: u64, from: u64, len: usize) -> Option<Vec<u8>> {
        let (first, last) = (from / LINE, (from + len as u64).div_ceil(LINE));
        let (mut all, mut is_whole) = (Vec::new(), true);
        // All of them are looked at, so that all that are damaged are replaced.
        for line in first..last {
            let key = u32::try_from(line).ok().map(|line| (seq, line));
            let at = key.and_then(|key| self.index.get(&key).copied());
            match at.and_then(|at| self.line(at)) {
                Some(bytes) => all.extend(bytes),
                None => is_whole = false,
            }
        }
        let skip = (from - first * LINE) as usize;
        all.truncate(skip + len);
        all.drain(..skip.min(all.len()));
        (is_whole && all.len() == len).then_some(all)
    }

    /// The bytes of a line, if they are what was written.
    fn line(&mut self, at: usize) -> Option<Vec<u8>> {
        let line = self.lines.get(at).copied()?;
        let mut bytes = vec![0; line.len as usize];
        let read = self.file.read_exact_at(&mut bytes, self.offset(at));
        if read.is_err() || sum(line.key, &bytes) != line.sum {
            self.index.remove(&line.key);
            self.lines[at] = Line::default();
            return None;
        }
        self.lines[at].is_used = true;
        Some(bytes)
    }

    /// Keeps what was read of a segment, from the beginning of a line on; the last line may be cut
    /// off by the end of the object.
    fn keep(&mut self, note: (u64, Hash), seq: u64, from: u64, bytes: &[u8]) {
        if self.note.is_none_or(|old| old.0 < seq) && self.write_note(note).is_err() {
            self.is_broken = true;
        }
        for (part, number) in bytes.chunks(LINE as usize).zip(from / LINE..) {
            let Ok(number) = u32::try_from(number) else { return };
            let key = (seq, number);
            if self.is_broken || self.index.contains_key(&key) {
                continue;
            }
            let line = Line { key, len: part.len() as u32, sum: sum(key, part), is_used: false };
            let at = self.free();
            let table = (HEAD + at * ENTRY) as u64;
            let written = self.file.write_all_at(part, self.offset(at));
            if written.and_then(|()| self.file.write_all_at(&encode(&line), table)).is_err() {
                self.is_broken = true;
                return;
            }
            self.lines[at] = line;
            self.index.insert(key, at);
        }
    }

    /// A line for new bytes; what was in it is forgotten.
    fn free(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.lines.len();
            if !core::mem::replace(&mut self.lines[at].is_used, false) {
                let old = core::mem::take(&mut self.lines[at]);
                if self.index.get(&old.key) == Some(&at) {
                    self.index.remove(&old.key);
                }
                return at;
            }
        }
    }
}

fn sum((seq, line): Key, bytes: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(&line.to_le_bytes());
    hasher.update(bytes);
    let mut sum = [0; 16];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    sum
}

fn encode(line: &Line) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..8].copy_from_slice(&line.key.0.to_le_bytes());
    entry[8..12].copy_from_slice(&line.key.1.to_le_bytes());
    entry[12..16].copy_from_slice(&line.len.to_le_bytes());
    entry[16..].copy_from_slice(&line.sum);
    entry
}

/// `None`: there is nothing in it.
fn decode(entry: &[u8]) -> Option<Line> {
    let (seq, rest) = entry.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let key = (u64::from_le_bytes(*seq), u32::from_le_bytes(*number));
    let len = u32::from_le_bytes(*len);
    let is_line = len > 0 && u64::from(len) <= LINE;
    Some(Line { key, len, sum: rest.try_into().ok()?, is_used: false }).filter(|_| is_line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::Superblock;
    use crate::log::{LogDevice, Options};
    use crate::store::DirStore;
    use core::time::Duration;
    use device::{Device as _, WriteDevice as _};
    use std::path::Path;

    const MIB: usize = 1 << 20;
    const SIZE: usize = 4 * MIB;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(place.path("store")).unwrap();
            std::fs::create_dir_all(place.path("cache")).unwrap();
            let is = Superblock {
                size: SIZE as u64,
                sector: 4096,
                target: MIB as u32,
                window: 4,
                is_fenced: false,
                limit: None,
                made_by: String::new(),
            };
            let patience = Duration::from_secs(10);
            LogDevice::create(place.store(), &Rt::real(), &is, patience).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn store(&self) -> Arc<DirStore> {
            Arc::new(DirStore::new(&self.path("store")).unwrap())
        }

        /// Writes the whole disk anew.
        fn write(&self, byte: u8) {
            let rt = Rt::real();
            let device = LogDevice::claim(self.store(), "disk", &rt, Options::default(), None);
            device.unwrap().write(0, &vec![byte; SIZE]).unwrap();
        }

        fn reader(&self, bytes: usize) -> Arc<LogDevice> {
            let cache = Some(CachePlace { folder: self.path("cache"), bytes: bytes as u64 });
            let options = Options { cache, ..Options::default() };
            LogDevice::open(self.store(), "disk", &Rt::real(), options).unwrap()
        }

        /// Opens it and reads all of it; how many requests the reading took.
        fn reads(&self, bytes: usize, byte: u8) -> u64 {
            let device = self.reader(bytes);
            let before = device.usage().gets;
            for at in (0..SIZE).step_by(MIB / 2) {
                let found = device.read_new(at as u64, MIB / 2).unwrap();
                assert!(found.iter().all(|found| *found == byte), "at {at}");
            }
            let took = device.usage().gets - before;
            drop(device);
            self.rests();
            took
        }

        /// Waits until nothing is to be written any more, and the file is closed.
        fn rests(&self) {
            let file = File::open(self.file()).unwrap();
            for _ in 0..2000 {
                if file.try_lock().is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            panic!("the cache is still in use");
        }

        fn file(&self) -> PathBuf {
            let entry = std::fs::read_dir(self.path("cache")).unwrap().next();
            entry.unwrap().unwrap().path()
        }

        fn copy(&self, from: &str, to: &str) {
            fn copy(from: &Path, to: &Path) {
                std::fs::create_dir_all(to).unwrap();
                for entry in std::fs::read_dir(from).unwrap().flatten() {
                    let to = to.join(entry.file_name());
                    match entry.file_type().unwrap().is_dir() {
                        true => copy(&entry.path(), &to),
                        false => drop(std::fs::copy(entry.path(), to).unwrap()),
                    }
                }
            }
            copy(&self.path(from), &self.path(to));
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_closed_to_them_or_not_used() {
        let place = Place::new();
        place.write(1);
        place.reads(16 * MIB, 1);
        let mode = || place.file().metadata().unwrap().mode() & 0o777;
        std::fs::set_permissions(place.file(), Permissions::from_mode(0o644)).unwrap();
        assert_eq!((place.reads(16 * MIB, 1), mode()), (0, MODE));
        // Only root can have it belong to another user.
        if std::os::unix::fs::chown(place.file(), Some(65534), None).is_ok() {
            let device = place.reader(16 * MIB);
            assert_eq!(device.usage().cache_failures, 1);
        }
    }

    #[test]
    fn what_was_read_is_not_asked_for_again() {
        let place = Place::new();
        place.write(1);
        assert!(place.reads(16 * MIB, 1) > 0);
        assert_eq!(place.reads(16 * MIB, 1), 0);
        // Of what was written since, nothing is there; the rest still is.
        place.write(2);
        assert!(place.reads(16 * MIB, 2) > 0);
        assert_eq!(place.reads(16 * MIB, 2), 0);
        // Another size is another cache.
        assert!(place.reads(24 * MIB, 2) > 0);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let place = Place::new();
        place.write(1);
        for _ in 0..3 {
            assert!(place.reads(MIB, 1) > 0);
            assert!(std::fs::metadata(place.file()).unwrap().len() <= MIB as u64);
        }
    }

    #[test]
    fn it_is_no_larger_than_its_file_system() {
        let place = Place::new();
        let folder = place.path("cache");
        let size_for = |bytes| CachePlace { folder: folder.clone(), bytes }.file_size().unwrap();
        assert_eq!(size_for(MIB as u64), MIB as u64);
        let system = rustix::fs::statvfs(&folder).unwrap();
        assert_eq!(size_for(u64::MAX), (system.f_blocks * system.f_frsize).min(FILE_MAX));
    }

    /// One that has room for nothing, or no folder, keeps nothing, and that is counted.
    #[test]
    fn one_that_cannot_be_opened_is_counted() {
        let place = Place::new();
        place.write(1);
        let fails = |bytes| {
            let device = place.reader(bytes);
            assert_eq!(device.read_new(0, 4096).unwrap()[0], 1);
            device.stats().store.unwrap().cache_failures
        };
        assert_eq!(fails(MIB), 0);
        place.rests();
        assert_eq!(fails(1000), 1);
        std::fs::remove_dir_all(place.path("cache")).unwrap();
        assert_eq!(fails(MIB), 1);
        std::fs::write(place.path("cache"), "no folder").unwrap();
        assert_eq!(fails(MIB), 1);
    }

    #[test]
    fn one_that_cannot_be_written_to_is_only_read() {
        let place = Place::new();
        let rt = Rt::real();
        let client = Client::new(place.store(), &rt, Duration::from_secs(10));
        let cache = CachePlace { folder: place.path("cache"), bytes: 16 * MIB as u64 };
        let mut lines = Lines::open(&cache, [7; 16], &rt).unwrap();
        lines.clear().unwrap();
        let note = (9, [0; 32]);
        lines.keep(note, 1, 0, b"kept");
        assert!(!lines.is_broken);
        lines.file = File::open(place.file()).unwrap();
        let cache = Cache::serve(lines, &client, note).unwrap();
        assert!(!cache.has_failed());
        cache.keep(2, 0, Arc::new(Ok(Response::Bytes(b"not kept".to_vec()))));
        let (sender, seen) = std::sync::mpsc::channel();
        let find = move |lines: &mut Lines| {
            sender.send((lines.read(1, 0, 4), lines.read(2, 0, 8))).unwrap();
        };
        for _ in 0..2000 {
            if cache.has_failed() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(cache.has_failed());
        cache.look(Box::new(find));
        assert_eq!(seen.recv().unwrap(), (Some(b"kept".to_vec()), None));
    }

    #[test]
    fn damage_makes_it_only_slower() {
        let place = Place::new();
        place.write(1);
        place.reads(16 * MIB, 1);
        let file = File::options().read(true).write(true).open(place.file()).unwrap();
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        // One byte in each KiB of what holds data.
        bytes.iter_mut().skip(64 << 10).step_by(1024).for_each(|byte| *byte ^= 1);
        file.write_all_at(&bytes, 0).unwrap();
        assert!(place.reads(16 * MIB, 1) > 0);
        // What came with all of its object, before its damage was seen, is kept another time.
        assert!((0..6).any(|_| place.reads(16 * MIB, 1) == 0));
        file.set_len(100).unwrap();
        assert!(place.reads(16 * MIB, 1) > 0);
        file.write_all_at(&[7; 4096], 0).unwrap();
        assert!(place.reads(16 * MIB, 1) > 0);
        assert_eq!(place.reads(16 * MIB, 1), 0);
    }

    #[test]
    fn a_store_that_was_reset_and_written_anew_is_not_mixed_up() {
        let place = Place::new();
        place.write(1);
        place.copy("store", "older");
        place.write(2);
        assert!(place.reads(16 * MIB, 2) > 0);
        std::fs::remove_dir_all(place.path("store")).unwrap();
        place.copy("older", "store");
        // The same places of the log as those of the writer before.
        place.write(3);
        assert!(place.reads(16 * MIB, 3) > 0);
        assert_eq!(place.reads(16 * MIB, 3), 0);
        // Also if the log is longer now than what the cache knows of.
        std::fs::remove_dir_all(place.path("store")).unwrap();
        place.copy("older", "store");
        place.write(4);
        place.write(5);
        assert!(place.reads(16 * MIB, 5) > 0);
    }

    #[test]
    fn another_reader_does_without() {
        let place = Place::new();
        place.write(1);
        let first = place.reader(16 * MIB);
        let second = place.reader(16 * MIB);
        for device in [&first, &second, &first, &second] {
            assert!(device.read_new(0, SIZE).unwrap().iter().all(|byte| *byte == 1));
        }
        let gets = |device: &LogDevice| device.usage().gets;
        let before = gets(&second);
        // From now on nothing of what it reads is in memory.
        drop(second.core().recent.end());
        second.read_new(0, SIZE).unwrap();
        assert!(gets(&second) > before);
        assert_eq!(second.usage().cache_failures, 0);
    }
}
