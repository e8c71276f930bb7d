//! What NBD clients send.

use super::Target;
use nbd::decoders::{Request, choice, contexts, conversation};

pub(super) const TARGETS: [(&str, Target); 1] = [("nbd", nbd)];

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
