//! The files that a verb writes to: the output of a verb (`-o FILE`), a file that zinc makes for
//! itself (`--pidfile`), and one that it appends to for as long as it runs (`--txgs-log`, `--log`,
//! `--record`). The rules for such a file are in [`hostfs::output`]; this module adds the caller's:
//! the folder that paths begin in, `/dev/stdout` and its like, which are the caller's streams also
//! when a server runs the verb, and an end when no client waits any more.

use crate::failure::Failure;
use crate::session::{Client, Session};
use crate::ui;
use control::sink::WaitLimit;
use control::stream::Stream;
use hostfs::output::{self, Remover};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of output that is being written. It has its name only after [`Output::finish`].
pub struct Output {
    path: PathBuf,
    inner: output::Output,
    /// The client that it is written for, from whatever thread, and the way there: a pipe that is
    /// not read must not keep what the client no longer wants.
    client: Option<(Arc<Client>, Stream)>,
}

/// The stream of a path, by its number.
fn stream(path: &Path) -> Option<usize> {
    match path.as_os_str().as_bytes() {
        b"/dev/stdout" | b"/dev/fd/1" | b"/proc/self/fd/1" => Some(0),
        b"/dev/stderr" | b"/dev/fd/2" | b"/proc/self/fd/2" => Some(1),
        _ => None,
    }
}

/// A stream of the user who runs the verb.
fn stream_file(session: &Session, number: usize) -> io::Result<File> {
    let [out, errors] = ui::streams(session)?;
    Ok(File::from(if number == 0 { out } else { errors }))
}

fn failed(path: &Path, e: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display())).because(e.to_string())
}

impl Output {
    /// Begins. An error of opening the file is reported now, not after the work.
    pub fn create(session: &Session, typed: &Path) -> Result<Self, Failure> {
        let path = session.path(typed);
        let opened = match stream(&path) {
            Some(number) => {
                stream_file(session, number).map(|file| output::Output::to_open(&path, file))
            }
            None => output::Output::create(&path, &|| session.check().is_ok()),
        };
        Self::begin(session, path, opened)
    }

    /// Begins a file that is zinc's own: it is a regular file in the end, or nothing is changed.
    pub fn own(session: &Session, typed: &Path) -> Result<Self, Failure> {
        let path = session.path(typed);
        let opened = output::Output::own(&path);
        Self::begin(session, path, opened)
    }

    fn begin(
        session: &Session,
        path: PathBuf,
        opened: io::Result<output::Output>,
    ) -> Result<Self, Failure> {
        let begun = opened.and_then(|inner| {
            let client = session.client().cloned().map(|client| {
                let stream = Stream::new(inner.again()?);
                Ok::<_, io::Error>((client, stream))
            });
            Ok((inner, client.transpose()?))
        });
        let (inner, client) = begun.map_err(|e| failed(&path, &e))?;
        Ok(Self { path, inner, client })
    }

    /// The file, empty, to be written at any offset; `None` when it takes bytes only in order.
    pub fn at_any_offset(&mut self) -> io::Result<Option<&File>> {
        let is_file = stream(&self.path).is_none() && self.inner.is_file()?;
        let file = self.inner.file()?;
        Ok(is_file.then_some(file))
    }

    /// The work ended: when all was written, the file gets its name, and else it goes.
    pub fn finish(self, written: io::Result<()>) -> Result<(), Failure> {
        self.inner.finish(written).map_err(|e| failed(&self.path, &e))
    }

    /// Removes the file, if it still is the one that was written: what ends with its program.
    pub fn remover(&self) -> io::Result<Remover> {
        self.inner.remover()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((client, stream)) = &self.client else { return self.inner.write(bytes) };
        self.inner.file()?;
        stream.write(bytes, WaitLimit::While(&client.presence)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a file to add to it, as `>>` does, but not through a link.
pub fn append(session: &Session, typed: &Path) -> Result<File, Failure> {
    long_lived(session, typed, output::append)
}

/// Opens a file that is written for as long as the program runs, and read meanwhile: emptied, as
/// `>` does, but not through a link.
pub fn stream_to(session: &Session, typed: &Path) -> Result<File, Failure> {
    long_lived(session, typed, output::stream_to)
}

fn long_lived(
    session: &Session,
    typed: &Path,
    open: impl Fn(&Path, output::CancelCheck<'_>) -> io::Result<File>,
) -> Result<File, Failure> {
    let path = session.path(typed);
    let opened = match stream(&path) {
        Some(number) => stream_file(session, number),
        None => open(&path, &|| session.check().is_ok()),
    };
    opened.map_err(|e| failed(&path, &e))
}
