//! A file that may never take what is written to it, because a terminal is stopped, a pipe is full,
//! or a network file system hangs.
//!
//! # Theory
//!
//! No question put to the system tells for sure that a write will not block, and the files of a
//! client cannot be made non-blocking: the client, and others, have the same open file. So a thread
//! writes, and a caller that wants something written waits for that thread only as long as its
//! [`WaitLimit`] lasts. A thread that is not waited for any more stays where it hangs, with its own
//! hold on the file; it ends when the write does, or with the process. It also closes the file,
//! since that may hang too.

use crate::sink::{self, WaitLimit};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that the thread is given at once, and has copies of.
const PIECE: usize = 1 << 20;

/// The file.
pub struct Stream {
    // In this order: the thread has the file last.
    file: Arc<File>,
    jobs: Mutex<Option<Sender<Job>>>,
}

type Work = Box<dyn FnOnce(&File) -> io::Result<()> + Send>;

/// Something to be done with the file.
struct Job {
    work: Work,
    answer: Sender<io::Result<()>>,
    is_wanted: Arc<AtomicBool>,
}

impl Stream {
    /// Of this file. The thread begins with the first write.
    pub fn new(file: File) -> Self {
        Self { file: Arc::new(file), jobs: Mutex::default() }
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The system's error, or that `patience` is at its end. Bytes may be written then or not.
    pub fn write(&self, bytes: &[u8], patience: WaitLimit<'_>) -> io::Result<()> {
        bytes.chunks(PIECE).try_for_each(|piece| {
            let piece = piece.to_vec();
            self.ask(move |file| sink::write(file, &piece), patience)
        })
    }

    /// The error of closing the file, which stays open.
    pub fn close_error(&self, patience: WaitLimit<'_>) -> Option<io::Error> {
        self.ask(|file| sink::close_error(file).map_or(Ok(()), Err), patience).err()
    }

    fn ask(
        &self,
        work: impl FnOnce(&File) -> io::Result<()> + Send + 'static,
        patience: WaitLimit<'_>,
    ) -> io::Result<()> {
        patience.check()?;
        let ended = || io::Error::other("the thread that writes has ended");
        let (answer, answered) = mpsc::channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let job = Job { work: Box::new(work), answer, is_wanted: Arc::clone(&is_wanted) };
        self.jobs()?.send(job).map_err(|_| ended())?;
        loop {
            match answered.recv_timeout(patience.tick()) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) => patience.check().inspect_err(|_| {
                    is_wanted.store(false, Ordering::Relaxed);
                })?,
            }
        }
    }

    /// Where the thread takes its work from.
    fn jobs(&self) -> io::Result<Sender<Job>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = &*jobs {
            return Ok(jobs.clone());
        }
        let (sender, receiver) = mpsc::channel();
        let file = Arc::clone(&self.file);
        let work = move || serve(&file, &receiver);
        std::thread::Builder::new().name("stream".to_owned()).spawn(work)?;
        *jobs = Some(sender.clone());
        Ok(sender)
    }
}

fn serve(file: &File, jobs: &Receiver<Job>) {
    for Job { work, answer, is_wanted } in jobs {
        if is_wanted.load(Ordering::Relaxed) {
            // The result of what no thread waits for is not needed.
            let _ = answer.send(work(file));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::presence::Presence;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    fn pipe() -> (io::PipeReader, Stream) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, Stream::new(File::from(OwnedFd::from(writer))))
    }

    #[test]
    fn a_reader_that_reads_nothing_holds_a_command_up_until_it_is_called_off() {
        let (_reader, stream) = pipe();
        let presence = Presence::default();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| stream.write(&[7; 1 << 20], WaitLimit::While(&presence)));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!writing.is_finished(), "a pipe holds less than this");
            presence.cancel("it is enough");
            assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
        // The thread still hangs in its write, and nothing waits for it.
        let end = WaitLimit::Until(Instant::now() + Duration::from_millis(20));
        assert_eq!(stream.write(b"x", end).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let end = WaitLimit::Until(Instant::now() + Duration::from_millis(20));
        assert!(stream.close_error(end).is_some());
    }

    #[test]
    fn what_is_written_arrives_whole() {
        let (mut reader, stream) = pipe();
        let (presence, sent) = (Presence::default(), vec![9; (2 << 20) + 1]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let patience = WaitLimit::While(&presence);
                stream.write(&sent, patience).unwrap();
                assert!(stream.close_error(patience).is_none());
                drop(stream);
            });
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert!(all == sent);
        });
    }

    #[test]
    fn a_terminal_that_was_stopped_holds_nothing_up() {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let terminal = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap();
        let stream = Stream::new(File::from(terminal));
        let end = WaitLimit::Until(Instant::now() + Duration::from_millis(300));
        // Room for a few bytes is not room for 4096, however often it is tried.
        let late = stream.write(&[b'x'; 1 << 16], end).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
