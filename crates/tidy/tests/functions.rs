//! A function can be read at one sight: it has no more lines than a screen.

use tidy::{report, rust_files};

/// Longest function, in lines.
const LINES_MAX: usize = 70;

/// Longer ones, with the reason. One that is no longer so is taken off.
const TABLES: [(&str, &str, &str); 3] = [
    ("crates/check/src/issue.rs", "fmt", "a table: the text of each finding"),
    ("crates/pool/src/error.rs", "fmt", "a table: the text of each error"),
    ("crates/views/src/status/condition.rs", "texts", "a table: what is said of each state"),
];

/// The name of the function that begins in this line.
fn begun(line: &str) -> Option<&str> {
    const BEFORE: [&str; 7] = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "fn"];
    let (words, name) = line.trim_start().split_once("fn ")?;
    let is_head = words.split_whitespace().all(|word| BEFORE.contains(&word));
    let end = name.find(['(', '<'])?;
    is_head.then(|| &name[..end])
}

/// The functions of a formatted file: name, first line, number of lines.
fn functions(text: &str) -> Vec<(&str, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = begun(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |other: &&str| {
            let rest = other.strip_prefix(indent);
            // A declaration without a body ends in `;`, and a body in one line in `}`.
            rest == Some("}")
                || rest.is_some_and(|rest| rest.starts_with(')') && rest.ends_with(';'))
        };
        let in_one = line.ends_with('}') || line.ends_with(';');
        let rest = if in_one { Some(0) } else { lines[at..].iter().position(is_end) };
        out.push((name, at + 1, rest.unwrap_or_default() + 1));
    }
    out
}

/// Code of the product: tests tell stories, which may be longer.
fn is_product(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && !path.contains("tests")
}

fn offences(files: &[(String, String)], tables: &[(&str, &str, &str)]) -> Vec<String> {
    let mut out = Vec::new();
    let mut met = vec![false; tables.len()];
    for (path, text) in files.iter().filter(|(path, _)| is_product(path)) {
        for (name, line, lines) in functions(text).into_iter().filter(|f| f.2 > LINES_MAX) {
            match tables.iter().position(|(file, function, _)| file == path && *function == name) {
                Some(at) => met[at] = true,
                None => out.push(format!("{path}:{line}: {name} has {lines} lines")),
            }
        }
    }
    let gone = tables.iter().zip(met).filter(|(_, met)| !met);
    out.extend(gone.map(|((file, name, _), _)| format!("{file}: {name} need not be listed")));
    out
}

#[test]
fn functions_are_short() {
    report("at most 70 lines in a function", &offences(&rust_files(), &TABLES));
}

#[test]
fn the_rule_can_fail() {
    let body = "    call();\n".repeat(LINES_MAX);
    let long = format!(
        "impl X {{\n    pub(crate) fn long<T>(\n        x: T,\n    ) {{\n{body}    }}\n}}\n"
    );
    let short = "fn one() {}\ntrait T {\n    fn two(\n        &self,\n    );\n}\nfn three() {\n}\n";
    let file = |text: &str| vec![("crates/x/src/y.rs".to_owned(), text.to_owned())];
    assert_eq!(functions(short).iter().map(|f| f.2).collect::<Vec<_>>(), [1, 3, 2]);
    assert!(offences(&file(short), &[]).is_empty());
    let found = offences(&file(&long), &[]);
    assert!(found.len() == 1 && found[0].contains("long has 74 lines"), "{found:?}");
    let table = ("crates/x/src/y.rs", "long", "");
    assert!(offences(&file(&long), &[table]).is_empty());
    assert_eq!(offences(&file(short), &[table]).len(), 1);
}
