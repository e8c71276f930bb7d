//! What stores of objects have.

use super::Target;
use far::log::format::{
    Header, Kind, Root, Superblock, WriterId, decode_page, decode_table, encode_table, object,
};

pub(super) const TARGETS: [(&str, Target); 1] = [("far_log", far_log)];

/// An object of a disk in a store. Its hashes are made right first, so that what lies below them is
/// reached; the first byte is the target's, and its lowest bit says whether they are.
fn far_log(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if first & 1 == 1 && bytes.len() >= 256 {
        let body = far::decoders::hash(&bytes[256..]);
        bytes[128..160].copy_from_slice(&body);
        let header = far::decoders::hash(&bytes[..224]);
        bytes[224..256].copy_from_slice(&header);
    }
    let Ok(header) = Header::decode(&bytes) else { return };
    assert_eq!(header.encode(), bytes[..256]);
    let Ok(body) = header.body_of(&bytes) else { return };
    match header.kind {
        Kind::Super => {
            if let Ok(found) = Superblock::decode(body) {
                assert_eq!(Superblock::decode(&found.encode()), Ok(found));
            }
        }
        Kind::Epoch | Kind::Pin => {
            if let Ok(found) = WriterId::decode(body) {
                assert_eq!(WriterId::decode(&found.encode()), Ok(found));
            }
        }
        Kind::Data | Kind::Seal | Kind::Close => {
            if let Ok(entries) = decode_table(&header, body, 1 << 20) {
                assert_eq!(encode_table(&entries), body);
            }
        }
        Kind::Pages => drop(decode_page(0, 1 << 16, body)),
        Kind::Checkpoint => {
            if let Ok(root) = Root::decode(body) {
                assert_eq!(root.encode(), body);
            }
        }
    }
    assert_eq!(object(&header, body), bytes[..256 + body.len()]);
}
