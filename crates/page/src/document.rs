//! The document: one file that needs nothing else, and the policy under which a browser shows it.

use sha2::{Digest as _, Sha256};

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The document. It is the same for all pools and requests.
pub struct Document {
    /// HTML.
    pub html: String,
    /// Its `Content-Security-Policy`: this script and this style, requests to this server, and
    /// nothing else.
    pub policy: String,
}

impl Default for Document {
    fn default() -> Self {
        let html = FRAME.replace("/*style*/", STYLE).replace("/*script*/", SCRIPT);
        let policy = format!(
            "default-src 'none'; connect-src 'self'; img-src data:; script-src 'sha256-{}'; \
             style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(SCRIPT),
            hash(STYLE),
        );
        Self { html, policy }
    }
}

fn hash(text: &str) -> String {
    base64(&Sha256::digest(text.as_bytes()))
}

/// As RFC 4648 has it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
            out.push(if at <= three.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_document_needs_nothing_else() {
        let Document { html, policy } = Document::default();
        assert!(
            html.contains(STYLE) && html.contains(SCRIPT) && html.starts_with("<!doctype html>")
        );
        for word in
            ["http://", "https://", "innerHTML", "document.write", "eval(", " style=\"", " onclick"]
        {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(word), "{word}");
        }
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
    }
}
