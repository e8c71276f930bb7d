//! Having a server run a command line, with the streams of this process.

use crate::client::{CallError, Client};
use crate::command_line::CommandLine;
use crate::feed::StreamEnd;
use crate::sink;
use serde_json::Value;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Exit code where the answer has none.
const FAILED: u8 = 1;

/// The outcome of a command line that a server was to run.
#[derive(Debug)]
pub enum RunOutcome {
    /// It ended with this exit code.
    Code(u8),
    /// It did not begin, mostly because the pool is being let go.
    NotBegun(CallError),
}

impl RunOutcome {
    /// The outcome in the answer to `run`.
    fn ended(answer: &Value) -> Self {
        let code = answer["code"].as_u64().and_then(|c| u8::try_from(c).ok());
        Self::Code(code.unwrap_or(FAILED))
    }
}

impl Client {
    /// Has the server run this command line with these files as standard input, output and error.
    ///
    /// # Errors
    /// No answer came, and the command line may have been run.
    pub fn run(
        &mut self,
        line: &CommandLine,
        [input, output, errors]: [BorrowedFd<'_>; 3],
    ) -> Result<RunOutcome, CallError> {
        // Closed by the system when this process ends, however it does: so the server knows.
        let (mut mine, theirs) = UnixStream::pair()?;
        let files = [input, output, errors, theirs.as_fd()];
        match self.call_with("run", line.params(), &files) {
            Ok(answer) => Ok(RunOutcome::ended(&answer)),
            Err(e) => {
                // The server says first that it begins.
                mine.set_nonblocking(true)?;
                match mine.read(&mut [0]) {
                    Ok(1..) => Err(e),
                    _ => Ok(RunOutcome::NotBegun(e)),
                }
            }
        }
    }

    /// The same by a server of another user, which sends what it would print, a stream through a
    /// socket, and asks for a stream that it takes. `complain` gets what it prints to standard
    /// error, before its output is written.
    ///
    /// # Errors
    /// As [`Self::run`]; or `output` does not take what is written to it.
    pub fn run_elsewhere(
        &mut self,
        line: &CommandLine,
        [input, output]: [BorrowedFd<'_>; 2],
        complain: impl FnOnce(&str),
    ) -> Result<io::Result<RunOutcome>, CallError> {
        let params = line.params();
        let answer = match StreamEnd::of(&line.args) {
            Some(StreamEnd::Output) if !output.is_terminal() => {
                self.call_streaming("run", params, output)
            }
            Some(StreamEnd::Input) if !input.is_terminal() => {
                self.call_feeding("run", params, input.try_clone_to_owned()?)
            }
            _ => self.call("run", params),
        }?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default();
        complain(text("errors"));
        let written = sink::write(output, text("output").as_bytes());
        Ok(written.map(|()| RunOutcome::ended(&answer)))
    }
}
