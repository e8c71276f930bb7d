//! A server that speaks as Google's cloud does: fake-gcs-server, as `scripts/fake-gcs-server`
//! builds it under `target/fake-gcs-server`. It knows creates only by the JSON interface, where it
//! honours their condition; in front of it is what makes such of those of the XML interface.

use crate::running::{Running, free_port};
use crate::workspace_root;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What must be nowhere but in the environment.
const SECRET: &str = "vYq3s0Kx-of-the-tests-8fR2";
/// The condition of a create, in its two forms.
const CONDITION: (&str, &str) = ("x-goog-if-generation-match: 0", "&ifGenerationMatch=0");

/// A server on this machine, killed when it is dropped. Its objects are files of a folder.
pub struct GoogleServer {
    _running: Running,
    port: u16,
}

impl GoogleServer {
    /// What is missing when the program is not there, for tests that [`needs`](crate::needs)
    /// cannot mark.
    #[must_use]
    pub fn missing() -> Option<&'static str> {
        (!program().is_file()).then_some("fake-gcs-server (scripts/fake-gcs-server)")
    }

    /// Starts one with a bucket; unless it is fenced, conditions of creates are ignored.
    ///
    /// # Panics
    /// It is not there, or does not start.
    #[must_use]
    pub fn start(folder: &Path, bucket: &str, is_fenced: bool) -> Self {
        std::fs::create_dir_all(folder.join(bucket)).expect("a folder");
        let behind = free_port();
        let mut program = Command::new(program());
        program.args(["-scheme", "http", "-host", "127.0.0.1", "-port", &behind.to_string()]);
        program.args(["-public-host", &format!("127.0.0.1:{behind}")]);
        program.args(["-backend", "filesystem", "-filesystem-root"]).arg(folder);
        let running = Running::start(&mut program, behind);
        let front = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = front.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for stream in front.incoming().flatten() {
                // Either end may end first, at the latest with the test.
                std::thread::spawn(move || drop(pass_on(stream, behind, is_fenced)));
            }
        });
        Self { _running: running, port }
    }

    /// Where it answers.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a program that uses it has in its environment.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &'static str); 1] {
        [("GOOGLE_BEARER_TOKEN", SECRET)]
    }

    /// What must be nowhere but there.
    #[must_use]
    pub fn secret(&self) -> &'static str {
        SECRET
    }
}

fn program() -> PathBuf {
    workspace_root().join("target/fake-gcs-server/fake-gcs-server")
}

/// The lines of a head, without the empty one behind it.
fn head(stream: &mut impl io::BufRead) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? <= 2 {
            return Ok(lines);
        }
        lines.push(line.trim_end().to_owned());
    }
}

/// One request and its answer.
fn pass_on(stream: TcpStream, behind: u16, is_fenced: bool) -> io::Result<()> {
    let mut from = BufReader::new(stream);
    let mut request = head(&mut from)?;
    let value = |line: &String, name: &str| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    let length = request.iter().find_map(|line| value(line, "content-length")?.parse().ok());
    let put =
        request.first().and_then(|line| line.strip_prefix("PUT /")?.strip_suffix(" HTTP/1.1"));
    let is_put = put.is_some();
    if let Some((bucket, object)) = put.and_then(|path| path.split_once('/')) {
        let has_condition = request.iter().any(|line| line.eq_ignore_ascii_case(CONDITION.0));
        let condition = if has_condition && is_fenced { CONDITION.1 } else { "" };
        let path = format!("/upload/storage/v1/b/{bucket}/o?uploadType=media&name={object}");
        request[0] = format!("POST {path}{condition} HTTP/1.1");
    }
    request.retain(|line| value(line, "connection").is_none() && value(line, "host").is_none());
    request.push(format!("Host: 127.0.0.1:{behind}\r\nConnection: close\r\n\r\n"));
    let mut to = TcpStream::connect(("127.0.0.1", behind))?;
    to.write_all(request.join("\r\n").as_bytes())?;
    io::copy(&mut from.by_ref().take(length.unwrap_or(0)), &mut to)?;
    let mut answers = BufReader::new(to);
    let mut answer = head(&mut answers)?;
    if is_put {
        // The JSON interface has it in the body.
        answer.push("ETag: \"0\"".to_owned());
    }
    answer.push("\r\n".to_owned());
    let mut back = from.into_inner();
    back.write_all(answer.join("\r\n").as_bytes())?;
    io::copy(&mut answers, &mut back).map(drop)
}
