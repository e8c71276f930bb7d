//! What comes in over the control socket and from monitoring systems.

use super::Target;
use control::Request;
use control::http::wanted;
use control::protocol::{answer, decode_answer};

pub(super) const TARGETS: [(&str, Target); 2] = [("control", control_lines), ("http", http)];

/// The first byte is the target's, and means nothing here.
fn control_lines(data: &[u8]) {
    let data = data.get(1..).unwrap_or_default();
    for line in data.split(|b| *b == b'\n') {
        let _ = decode_answer(line);
        match Request::decode(line) {
            Ok(request) => {
                let again = Request::decode(request.encode().trim_ascii_end());
                assert_eq!(again.as_ref(), Ok(&request));
                for name in ["args", "folder", "count", "command", "name", "value"] {
                    let _ = (request.text(name), request.number(name));
                    let _ = (request.words(name), request.word(name));
                }
            }
            Err((id, refusal)) => {
                let line = answer(&id, &Err(refusal.clone()));
                assert_eq!(decode_answer(line.trim_ascii_end()), Some(Err(refusal)));
            }
        }
    }
}

fn http(data: &[u8]) {
    let _ = wanted(data.get(1..).unwrap_or_default());
}
