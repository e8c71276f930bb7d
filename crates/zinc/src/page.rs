//! The file of a report. It is opened before the work that it is about begins: that it cannot be
//! written is said at once, and not after minutes of measuring.

use crate::asked;
use crate::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A report that will be written.
pub struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    /// Opens its file. What is in it stays until there is something new.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        let path = asked::path(path);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        match opened {
            Ok(file) => Ok(Self { path, file }),
            Err(e) => Err(failed(&path, &e)),
        }
    }

    /// Writes it.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let is_file = self.file.metadata().is_ok_and(|m| m.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|e| failed(&self.path, &e))
    }
}

fn failed(path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display())).because(e.to_string())
}
