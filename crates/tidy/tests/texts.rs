//! Rules about the text of the files: size, width, unfinished marks, secrets of a machine.

use tidy::source::{code, has_word, without_tests};
use tidy::{read, report, rust_files, tracked_files};

/// Longest file, in lines. A file that needs more holds a second idea.
const LINES_MAX: usize = 900;
/// Widest line of Rust, in characters.
const WIDTH_MAX: usize = 100;

#[test]
fn files_are_short_and_narrow() {
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            offences.push(format!("{path}: {lines} lines"));
        }
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            if width > WIDTH_MAX {
                offences.push(format!("{path}:{}: {width} columns", index + 1));
            }
        }
    }
    report("at most 900 lines of at most 100 columns", &offences);
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file passes its own rule.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let calls = [concat!("dbg", "!("), concat!("todo", "!("), concat!("unimplemented", "!(")];
    let ignored = concat!("#[ign", "ore");
    // The long form of a campaign whose bounded part runs always is the one reason to ignore,
    // beside missing material, which `needs` looks for.
    let long = concat!("#[ign", "ore = \"long form:");
    let mut offences = Vec::new();
    for file in tracked_files() {
        let rust = file.path.ends_with(".rs");
        let may_not_ignore = rust && file.path != "crates/needs/src/lib.rs";
        if !rust && !file.path.ends_with(".md") && !file.path.ends_with(".toml") {
            continue;
        }
        for (index, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            let marked = words.iter().any(|word| has_word(line, word));
            let unfinished = rust && calls.iter().any(|call| line.contains(call));
            if marked
                || unfinished
                || (may_not_ignore && line.contains(ignored) && !line.contains(long))
            {
                offences.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    report("unfinished marks", &offences);
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    let hosts = [
        concat!("crates", ".io"),
        concat!("deb.", "debian.org"),
        concat!("snapshot.", "debian.org"),
        concat!("pypi", ".org"),
        concat!("npmjs", ".org"),
        concat!("golang", ".org"),
        concat!("maven", ".org"),
    ];
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut offences = Vec::new();
    for file in tracked_files() {
        // The lock file and what the kernel module said of its own machine are not our words.
        if file.path.ends_with("Cargo.lock") || file.path.ends_with("manifest.json") {
            continue;
        }
        for (index, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            let path = paths.iter().any(|path| {
                line.match_indices(path).any(|(at, _)| {
                    !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '.')
                })
            });
            if path || hosts.iter().any(|host| line.contains(host)) {
                offences.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    report("paths of a machine and hosts of registries do not belong here", &offences);
}

#[test]
fn decisions_have_unique_listed_numbers() {
    let index = read("docs/decisions/README.md");
    let mut numbers = Vec::new();
    let mut offences = Vec::new();
    for file in tracked_files() {
        let Some(name) = file.path.strip_prefix("docs/decisions/") else { continue };
        if name == "README.md" {
            continue;
        }
        let number = name.split('-').next().unwrap_or("").to_owned();
        if number.len() != 4 || number.parse::<u32>().is_err() {
            offences.push(format!("{name}: no four-digit number"));
        }
        if numbers.contains(&number) {
            offences.push(format!("{name}: number {number} is taken"));
        }
        if !index.contains(&format!("({name})")) {
            offences.push(format!("{name}: not listed in docs/decisions/README.md"));
        }
        numbers.push(number);
    }
    report("a decision has a number of its own and is listed", &offences);
}

#[test]
fn format_pages_are_listed() {
    let files = tracked_files();
    let index = files.iter().find(|file| file.path == "docs/format/README.md");
    let index = index.and_then(|file| file.text.clone()).unwrap_or_default();
    let offences: Vec<String> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("docs/format/"))
        .filter(|name| *name != "README.md" && !index.contains(&format!("({name})")))
        .map(|name| format!("{name}: not linked from docs/format/README.md"))
        .collect();
    report("every page of the format is linked from its index", &offences);
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = testkit::workspace_root();
    let mut offences = Vec::new();
    for file in tracked_files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for piece in file.text.iter().flat_map(|text| text.split("](").skip(1)) {
            let target = piece.split([')', '#', ' ']).next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !root.join(folder).join(target).exists() {
                offences.push(format!("{}: {target}", file.path));
            }
        }
    }
    report("links that lead nowhere", &offences);
}

#[test]
fn every_unsafe_says_why_it_is_safe() {
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = code(line);
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            // The contract of a trait's functions stands once, at the trait.
            let declares = code.contains("pub unsafe fn");
            if !(opens || declares) || code.contains('"') {
                continue;
            }
            let before = &lines[index.saturating_sub(12)..=index];
            let has_reason = before
                .iter()
                .any(|line| line.contains("SAFETY:") || (declares && line.contains("# Safety")));
            if !has_reason {
                offences.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    report("unsafe without a SAFETY comment", &offences);
}

#[test]
fn libraries_do_not_print() {
    let speakers = ["crates/zinc/", "crates/testkit/", "crates/tidy/", "crates/fuzzing/"];
    let calls = ["println!(", "print!(", "eprintln!(", "eprint!("];
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        if !path.contains("/src/") || speakers.iter().any(|one| path.starts_with(one)) {
            continue;
        }
        for (number, line) in without_tests(&text) {
            if calls.iter().any(|call| code(line).contains(call)) {
                offences.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    report("a library never prints", &offences);
}
