//! The command is a front end: it may not grow into the place where things are done.

use tidy::{report, rust_files};

/// The command has less, in lines of all its sources, unit tests and comments among them.
const LINES_BOUND: usize = 20_000;
/// Where it is.
const COMMAND: &str = "crates/zinc/src/";

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
}
