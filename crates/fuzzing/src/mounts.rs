//! What the kernel asks of a mount.

use super::Target;
use mount::decoders::{access_list, request, with_length};

pub(super) const TARGETS: [(&str, Target); 1] = [("fuse", fuse)];

/// The first byte is the target's: 0, a request as it is; 1, one without its length, which is right
/// then; 2, an access list.
fn fuse(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    match first % 3 {
        0 => bounded(data),
        1 => bounded(&with_length(data)),
        _ => {
            let Some((list, new)) = access_list(data) else { return };
            assert_eq!(list, data);
            assert_eq!(access_list(&list).map(|again| again.1), Some(new));
        }
    }
}

/// What a request asks for has no more bytes than the request.
fn bounded(message: &[u8]) {
    /// As text, a byte has five at most; names of what it is, and numbers.
    const MORE: usize = 1000;
    let length = request(message).map_or(0, |text| text.len());
    assert!(length <= message.len() * 5 + MORE);
}
