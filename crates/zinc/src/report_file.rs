//! The file of a report. It is opened before the work that it is about begins: an error of writing
//! it is reported at once, and not after minutes of measuring.

use crate::failure::Failure;
use crate::session::Session;
use crate::target::Output;
use std::io::Write as _;
use std::path::Path;

/// A report that will be written.
pub struct ReportFile(Output);

impl ReportFile {
    /// Opens its file. Its contents stay until there is something new.
    pub fn begin(session: &Session, path: &Path) -> Result<Self, Failure> {
        Output::create(session, path).map(Self)
    }

    /// Writes it.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.0.write_all(text.as_bytes());
        self.0.finish(written)
    }
}
