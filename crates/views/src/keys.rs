//! Keys of encrypted datasets, in the words of OpenZFS.

use engine::keys::KeyFormat;

/// What is asked for in a format.
#[must_use]
pub fn asked(format: KeyFormat) -> &'static str {
    match format {
        KeyFormat::Raw => "raw key",
        KeyFormat::Hex => "hex key",
        KeyFormat::Passphrase => "passphrase",
    }
}
