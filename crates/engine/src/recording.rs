//! Recordings: snapshots of a pool in a file, one a line.
//!
//! The first line is `{"zinc_recording": 1}`, each other one a snapshot as JSON, in the order of
//! their times (`docs/format/recording.md`). A line without an end is what was being written when
//! the writer was killed: it is left out.

use crate::error::{Error, Hint, Place, Result};
use crate::stats::Snapshot;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Version of the form.
const VERSION: u64 = 1;
/// Longest line in bytes.
const LINE_MAX: u64 = 64 << 20;

/// A recording that is being written.
///
/// ```
/// use engine::recording::{Recorder, Recording};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("recording");
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// let mut recorder = Recorder::begin(std::fs::File::create(&path)?, &path)?;
/// recorder.add(&pool.stats())?;
/// pool.sync()?;
/// recorder.add(&pool.stats())?;
///
/// let mut recording = Recording::open(&path)?;
/// let first = recording.next_snapshot()?.expect("a snapshot");
/// let second = recording.next_snapshot()?.expect("another");
/// assert!(first.pool == "tank" && second.txg > first.txg);
/// assert_eq!(recording.next_snapshot()?, None);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Recorder {
    file: File,
    path: PathBuf,
}

impl Recorder {
    /// Begins one in a file, which is called `path` in errors.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(mut file: File, path: &Path) -> Result<Self> {
        let fail = |e: std::io::Error| cannot("write", path, &e.to_string());
        file.write_all(format!("{}\n", json!({ "zinc_recording": VERSION })).as_bytes())
            .map_err(fail)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Adds a snapshot. It is in the file when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, snapshot: &Snapshot) -> Result<()> {
        let fail = |why: String| cannot("write", &self.path, &why);
        let mut line = serde_json::to_vec(snapshot).map_err(|e| fail(e.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| fail(e.to_string()))
    }
}

/// A recording that is being read.
///
/// ```
/// use engine::Hint;
/// use engine::recording::Recording;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("recording");
/// std::fs::write(&path, "{\"zinc_recording\": 1}\n")?;
/// assert_eq!(Recording::open(&path)?.next_snapshot()?, None);
/// std::fs::write(&path, "something else\n")?;
/// assert_eq!(Recording::open(&path).err().unwrap().hint(), Some(&Hint::Record));
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Recording {
    reader: BufReader<File>,
    path: PathBuf,
    line: u64,
}

impl Recording {
    /// Opens one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a recording of a known form.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            crate::devices::open_input(path).map_err(|e| cannot("read", path, &e.to_string()))?;
        let mut out = Self { reader: BufReader::new(file), path: path.to_owned(), line: 0 };
        let head = out.next_line()?.unwrap_or_default();
        let head: Value = serde_json::from_slice(&head).unwrap_or_default();
        match head["zinc_recording"].as_u64() {
            Some(VERSION) => Ok(out),
            Some(other) => {
                let why = format!("its form is {other}, and only {VERSION} is known");
                Err(cannot("read", path, &why).with_hint(Hint::Record))
            }
            None => Err(cannot("read", path, "it is not a recording").with_hint(Hint::Record)),
        }
    }

    /// The next snapshot; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read; a line is not a snapshot, or too long.
    pub fn next_snapshot(&mut self) -> Result<Option<Snapshot>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        let read = serde_json::from_slice(&line);
        read.map(Some).map_err(|e| {
            cannot("read", &self.path, &format!("line {} is not a snapshot: {e}", self.line))
        })
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_MAX).read_until(b'\n', &mut line);
        read.map_err(|e| cannot("read", &self.path, &e.to_string()))?;
        self.line += 1;
        if line.pop() == Some(b'\n') {
            return Ok(Some(line));
        }
        if line.len() as u64 >= LINE_MAX - 1 {
            let why = format!("line {} has more than {LINE_MAX} bytes", self.line);
            return Err(cannot("read", &self.path, &why));
        }
        Ok(None)
    }
}

fn cannot(doing: &str, path: &Path, why: &str) -> Error {
    let text = format!("cannot {doing} {}: {why}", path.display());
    Error::external(text).at(Place::Path(path.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn snapshot(txg: u64) -> Snapshot {
        Snapshot { txg, pool: "tank".to_owned(), ..Snapshot::default() }
    }

    #[test]
    fn what_was_recorded_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        let mut recorder = Recorder::begin(File::create(&path).unwrap(), &path).unwrap();
        recorder.add(&snapshot(1)).unwrap();
        recorder.add(&snapshot(2)).unwrap();
        // As a killed writer leaves it.
        recorder.file.write_all(b"{\"version\": 1, \"tx").unwrap();
        let mut recording = Recording::open(&path).unwrap();
        assert_eq!(recording.next_snapshot().unwrap(), Some(snapshot(1)));
        assert_eq!(recording.next_snapshot().unwrap(), Some(snapshot(2)));
        assert_eq!(recording.next_snapshot().unwrap(), None);
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let texts: [&[u8]; 4] = [b"", b"hello\n", b"{\"zinc_recording\": 99}\n", b"\xff\xff\n"];
        for text in texts {
            std::fs::write(&path, text).unwrap();
            let error = Recording::open(&path).err().unwrap();
            assert_eq!(error.place(), Some(&Place::Path(path.clone())), "{text:?}");
            assert_eq!(error.hint(), Some(&Hint::Record), "{text:?}");
        }
        std::fs::write(&path, "{\"zinc_recording\": 1}\n[]\nnonsense\n").unwrap();
        let mut recording = Recording::open(&path).unwrap();
        let failure =
            recording.next_snapshot().and_then(|_| recording.next_snapshot()).unwrap_err();
        assert!(format!("{failure:?}").contains("is not a snapshot"), "{failure:?}");
    }
}
