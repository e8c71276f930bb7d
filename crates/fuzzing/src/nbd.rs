//! What NBD clients and servers send.

use super::Target;
use nbd::decoders::{Request, choice, contexts, conversation};

pub(super) const TARGETS: [(&str, Target); 2] = [("nbd", nbd), ("nbd_client", nbd_client)];

/// The first byte is the target's: odd, the rest is a whole conversation; even, an option or a
/// request.
fn nbd(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    if first & 1 == 1 {
        let _ = conversation(data);
        return;
    }
    let _ = (choice(data), contexts(data));
    let _ = (Request::decode(data, false), Request::decode(data, true));
}

/// A whole conversation, as a client hears it; or the name of an export.
fn nbd_client(data: &[u8]) {
    let _ = far::decoders::conversation(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(Ok(name)) = far::Name::parse(text.as_ref()) {
        // Its one form is a name too, and of the same leaf.
        let again = far::Name::parse(name.as_str().as_ref());
        assert_eq!(
            again.map(|again| again.map(|again| again.identity())),
            Some(Ok(name.identity()))
        );
    }
}
