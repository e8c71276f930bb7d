//! A secret that is typed at a terminal, which does not show it.
//!
//! The terminal may be another process's, whose command is carried out here. So Ctrl-C is no
//! signal, which would end this process, and the terminal is as it was before when the question
//! ends, however it ends. Reading does not wait for longer than [`TURN`], to notice that the answer
//! is not needed any more.

use crate::keys::KeyBytes;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a read waits, in tenths of a second.
const TURN: u8 = 2;

/// Between two reads that found nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest secret; what is typed beyond it is dropped.
const LONGEST: usize = 4096;

/// A terminal that shows nothing of what is typed, and sends no signals.
struct Silent<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Silent<'t> {
    fn new(terminal: &'t File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 0;
        silent.special_codes[SpecialCodeIndex::VTIME] = TURN;
        tcsetattr(terminal, OptionalActions::Now, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Reads a line from a terminal. Backspace takes the last byte away, Ctrl-U all.
///
/// # Errors
/// [`io::ErrorKind::Interrupted`] for Ctrl-C, and when `is_wanted` has become false;
/// [`io::ErrorKind::UnexpectedEof`] for Ctrl-D before anything was typed, and when the terminal is
/// gone; it is not a terminal.
pub fn secret(terminal: &File, is_wanted: &dyn Fn() -> bool) -> io::Result<KeyBytes> {
    let silent = Silent::new(terminal)?;
    // As long as it gets, so that no shorter copy is left behind by growing.
    let mut typed = Zeroizing::new(Vec::with_capacity(LONGEST));
    loop {
        let mut byte = [0];
        let mut terminal = silent.terminal;
        let count = terminal.read(&mut byte)?;
        if !is_wanted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match byte {
            // A terminal that is gone does not wait.
            _ if count == 0 => std::thread::sleep(PAUSE),
            [b'\r' | b'\n'] => return Ok(typed),
            [0x03] => return Err(io::ErrorKind::Interrupted.into()),
            [0x04] if typed.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            [0x04] => return Ok(typed),
            [0x08 | 0x7f] => drop(typed.pop()),
            [0x15] => typed.clear(),
            [byte] if typed.len() < LONGEST => typed.push(byte),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Write as _;
    use std::os::unix::ffi::OsStringExt as _;

    /// Both ends of a terminal: the user's side, and that of the program.
    fn terminal() -> (File, File) {
        let typist = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&typist).unwrap();
        unlockpt(&typist).unwrap();
        let name = ptsname(&typist, Vec::new()).unwrap().into_bytes();
        let path = std::ffi::OsString::from_vec(name);
        let program = File::options().read(true).write(true).open(path).unwrap();
        (File::from(typist), program)
    }

    fn typing(keys: &[u8]) -> (io::Result<KeyBytes>, bool) {
        let (mut typist, program) = terminal();
        let before = tcgetattr(&program).unwrap().local_modes;
        let answer = std::thread::scope(|scope| {
            let reader = scope.spawn(|| secret(&program, &|| true));
            while tcgetattr(&program).unwrap().local_modes == before {
                std::thread::yield_now();
            }
            typist.write_all(keys).unwrap();
            reader.join().unwrap()
        });
        (answer, tcgetattr(&program).unwrap().local_modes == before)
    }

    #[test]
    fn a_line_is_read_and_the_terminal_is_as_before() {
        let (answer, is_as_before) = typing(b"wrong\x15sec\x7fcret\r");
        assert_eq!((answer.unwrap().as_slice(), is_as_before), (&b"secret"[..], true));
    }

    #[test]
    fn an_interrupt_ends_the_question_and_no_process() {
        let (answer, is_as_before) = typing(b"half\x03");
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert!(is_as_before);
        let (answer, _) = typing(b"\x04");
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_not_waited_for_is_not_asked_for_ever() {
        let (_typist, program) = terminal();
        let answer = secret(&program, &|| false);
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
