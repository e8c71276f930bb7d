//! The command is a front end: it may not grow into the place where things are done.

use tidy::source::{code, has_word, without_tests};
use tidy::{report, rust_files};

/// The command has less, in lines of all its sources, unit tests and comments among them.
const LINES_BOUND: usize = 20_000;
/// Where it is.
const COMMAND: &str = "crates/zinc/src/";

/// The one file of it that says what devices are opened with.
const SESSION: &str = "crates/zinc/src/session.rs";
/// What would open devices otherwise.
const SOURCES: [&str; 3] = ["AnyDevices", "LocalDevices", "SearchOptions::default"];

/// The lines of the command.
fn lines(files: &[(String, String)]) -> usize {
    let of_command = files.iter().filter(|(path, _)| path.starts_with(COMMAND));
    of_command.map(|(_, text)| text.lines().count()).sum()
}

fn offences(lines: usize) -> Vec<String> {
    let what = format!(
        "{COMMAND}: {lines} lines; what is shown goes to `views`, operations to `engine`, what is \
         this machine's to `hostfs` and `imported`"
    );
    if lines < LINES_BOUND { Vec::new() } else { vec![what] }
}

fn own_sources(files: &[(String, String)]) -> Vec<String> {
    let of_command = files.iter().filter(|(path, _)| path.starts_with(COMMAND) && path != SESSION);
    let mut out = Vec::new();
    for (path, text) in of_command {
        for (number, line) in without_tests(text) {
            let found = SOURCES.into_iter().find(|word| has_word(code(line), word));
            out.extend(found.map(|word| format!("{path}:{number}: {word}")));
        }
    }
    out
}

#[test]
fn verbs_have_their_devices_from_the_session() {
    report("devices are opened by `Session::devices`", &own_sources(&rust_files()));
}

#[test]
fn the_command_stays_small() {
    let lines = lines(&rust_files());
    assert!(lines > 1000, "the command was not found");
    report("less than 20,000 lines in the command", &offences(lines));
}

#[test]
fn the_rule_can_fail() {
    let file = |path: &str, lines: usize| (path.to_owned(), "x\n".repeat(lines));
    let files = [
        file("crates/zinc/src/cmd/a.rs", LINES_BOUND - 2),
        file("crates/zinc/src/b.rs", 1),
        file("crates/zinc/tests/c.rs", 5),
        file("crates/views/src/d.rs", 5),
    ];
    assert!(offences(lines(&files)).is_empty());
    let more = [&files[..], &[file("crates/zinc/src/e.rs", 1)]].concat();
    assert_eq!(offences(lines(&more)).len(), 1);
    let own = file("crates/zinc/src/cmd/f.rs", 1).0;
    let text = "let source = AnyDevices::default();\n".to_owned();
    assert_eq!(own_sources(&[(own, text.clone())]).len(), 1);
    assert!(own_sources(&[(SESSION.to_owned(), text)]).is_empty());
}
