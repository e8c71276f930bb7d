//! One place writes to standard output and standard error: `ui`, which keeps what fails and
//! escapes what a terminal would obey.

use tidy::source::{code, without_tests};
use tidy::{report, rust_files};

/// Ways around it.
const WAYS: [&str; 8] = [
    "stdout()",
    "stderr()",
    "print!(",
    "println!(",
    "eprint!(",
    "eprintln!(",
    ".exit()",
    "parse_from(",
];

/// Where each may stand: what is drawn over one's own line, and what only names it.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("crates/zinc/src/cli.rs", "use_stderr()"),
    ("crates/zinc/src/progress.rs", "ProgressDrawTarget::stderr()"),
    ("crates/zinc/src/cli.rs", "try_parse_from("),
    ("crates/zinc/src/foreign_servers.rs", "try_get_matches_from("),
];

#[test]
fn only_the_terminal_prints() {
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        let is_product = path.starts_with("crates/") && path.contains("/src/");
        let is_tests =
            ["testkit", "tidy", "fuzzing"].iter().any(|c| path.contains(&format!("/{c}/")));
        let is_terminal = path == "crates/zinc/src/ui.rs";
        if !is_product || is_tests || is_terminal || path.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in without_tests(&text) {
            let line = code(line);
            let fine = EXCEPTIONS.iter().any(|(file, part)| path == *file && line.contains(part));
            let way = WAYS.iter().find(|way| line.contains(*way));
            if let (Some(way), false) = (way, fine) {
                offences.push(format!("{path}:{number}: {way}"));
            }
        }
    }
    report("only `ui` writes to standard output and standard error", &offences);
}
