//! Under which name the program was called. Under those of OpenZFS's commands its messages begin
//! as theirs do: programs that read them look at the beginning of lines.

use std::ffi::OsString;
use std::path::Path;

/// The names of OpenZFS's commands under which the program is that command.
pub const NAMES: [&str; 4] = ["zpool", "zfs", "zdb", "zstream"];

/// The one under which the program was called, of a command line that has it behind the program as
/// well.
#[must_use]
pub fn name(arguments: &[OsString]) -> Option<&'static str> {
    let [program, command, ..] = arguments else { return None };
    let is_it = |name: &&str| command == name && Path::new(program).file_name() == Some(command);
    NAMES.into_iter().find(|name| is_it(name))
}

/// How messages begin.
#[must_use]
pub fn prefix(arguments: &[OsString]) -> &'static str {
    match name(arguments) {
        None => "zinc: ",
        Some("zdb") => "zdb: ",
        Some(_) => "",
    }
}

/// A message with that beginning, which it may have already.
#[must_use]
pub fn begun(prefix: &str, message: &str) -> String {
    format!("{prefix}{}", message.strip_prefix(prefix).unwrap_or(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_as_those_of_the_command_that_was_called() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            prefix(&words)
        };
        assert_eq!(of("zinc zfs list"), "zinc: ");
        assert_eq!(of("/sbin/zfs zfs list"), "");
        assert_eq!(of("./zpool zpool list"), "");
        assert_eq!(of("zdb zdb p"), "zdb: ");
        assert_eq!(of("other other"), "zinc: ");
        assert_eq!(of("zfs"), "zinc: ");
        assert_eq!(begun("zdb: ", "zdb: name a pool"), "zdb: name a pool");
        assert_eq!(begun("zinc: ", "zdb: name a pool"), "zinc: zdb: name a pool");
    }
}
