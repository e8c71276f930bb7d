//! How clients write where an export is.

/// The URI of an export; `place` is a scheme, with host and port where it has one.
///
/// ```
/// assert_eq!(nbd::uri("nbd://h:1", "tank/a b", None), "nbd://h:1/tank/a%20b");
/// assert_eq!(nbd::uri("nbd+unix://", "v", Some("/run/s&1")), "nbd+unix:///v?socket=/run/s%261");
/// ```
#[must_use]
pub fn uri(place: &str, name: &str, socket: Option<&str>) -> String {
    let quote = |text: &str| -> String {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/:".contains(&b);
        text.bytes()
            .map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
            .collect()
    };
    let socket = socket.map(|path| format!("?socket={}", quote(path))).unwrap_or_default();
    format!("{place}/{}{socket}", quote(name))
}
