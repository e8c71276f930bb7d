//! A test tests, or is reported as ignored: it does not return early, which counts as passed.

use tidy::source::{code, has_word};
use tidy::{report, rust_files, tracked_files};

/// `needs` says `ignore`, which `test` takes note of only from the attributes below it.
#[test]
fn what_a_test_needs_stands_above_it() {
    let needs = concat!("#[testkit::", "needs(");
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, pair) in lines.windows(2).enumerate() {
            if pair[0] == "#[test]" && pair[1].starts_with(needs) {
                offences.push(format!("{path}:{}: below `#[test]` it ignores nothing", index + 2));
            }
        }
    }
    report("material that a test needs", &offences);
}

/// What was not tested is said by the harness, which counts it, and not by a line of output.
#[test]
fn nothing_says_by_itself_that_it_was_skipped() {
    let word = concat!("\"SKIP", "PED");
    let mut offences = Vec::new();
    for file in tracked_files() {
        let is_code = file.path.ends_with(".rs")
            || file.path.starts_with("scripts/")
            || ["test", "run"].contains(&file.path.as_str());
        for (index, line) in
            file.text.iter().filter(|_| is_code).flat_map(|t| t.lines().enumerate())
        {
            if line.contains(word) {
                offences.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    report("use `#[testkit::needs(…)]`", &offences);
}

#[test]
fn tests_do_not_return_early() {
    let mut offences = Vec::new();
    // There is an example below.
    let files = rust_files().into_iter().filter(|(path, _)| !path.starts_with("crates/tidy/"));
    for (path, text) in files {
        let early = early_returns(&text);
        offences.extend(early.into_iter().map(|(n, line)| format!("{path}:{n}: {line}")));
    }
    report("an early return counts as passed: use `#[testkit::needs(…)]`", &offences);
}

/// Lines of tests that return, and how they read. A closure or a function within a test may: what
/// it returns from is not the test. Since they are indented, code that is formatted says where one
/// is.
fn early_returns(text: &str) -> Vec<(usize, &str)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    // How far the test and the blocks that are still its own are indented.
    let (mut test, mut inner) = (None, None);
    for (index, line) in text.lines().enumerate() {
        let (depth, code) = (indent(line), code(line).trim());
        let Some(own) = test else {
            test = (code == "#[test]").then_some(depth);
            continue;
        };
        if code == "}" && depth == own {
            (test, inner) = (None, None);
        } else if inner.is_some_and(|outer| depth > outer) || code.is_empty() {
            continue;
        } else {
            let opens = code.ends_with('{') || code.ends_with('(');
            let is_condition = ["if ", "while ", "} else if "].iter().any(|w| code.starts_with(w));
            let plain = if is_condition { code.replace(" || ", " ") } else { code.to_owned() };
            let is_apart = plain.contains('|') || has_word(code, "fn") && depth > own;
            inner = (opens && is_apart).then_some(depth);
            if (code.starts_with("return") || code.contains("{ return")) && !is_apart {
                found.push((index + 1, code));
            }
        }
    }
    found
}

#[test]
fn an_early_return_is_found() {
    let text = "
#[test]
fn one() {
    let Some(zdb) = zdb() else { return };
    if x || y {
        for a in b {
            return skip();
        }
    }
    all(|a| {
        return;
    });
    fn inner() {
        return;
    }
    b.map(|a| return a);
    return;
}
fn helper() {
    return;
}
";
    let lines: Vec<usize> = early_returns(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [4, 7, 17]);
}
