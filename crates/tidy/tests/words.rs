//! Comments, those of tests among them, and documents speak of threads, programs, files and
//! machines as of things: words that stand for persons are refused, so that they do not come back
//! where a thing is meant. So are turns that stand for a number or a noun without saying which.
//! Messages are held to the same, and say what a thing "is not" instead of what it "is no".

use tidy::source::has_word;
use tidy::{Tracked, report, tracked_files};

/// Words for persons that were used of things.
const WORDS: [&str; 7] =
    ["nobody", "somebody", "anybody", "everybody", "whoever", "whomever", "for who"];

/// Turns that leave out the noun, or the quantity that another word of the sentence has.
const TURNS: [&str; 7] =
    ["so many", "so much", "so long", "so often", "what is no", "what is none", "of no one"];

/// What may follow "is no" in a message.
const FINE: [&str; 5] =
    ["there is no", "is no longer", "is no larger", "is no faster", "is no more"];

/// The document of this path is held to the rule. What was released is left as it was said.
fn is_held(path: &str) -> bool {
    // This file has the words.
    let is_source = path.ends_with(".rs") && path != "crates/tidy/tests/words.rs";
    let is_top = ["ARCHITECTURE.md", "README.md"].contains(&path);
    let is_doc = path.starts_with("docs/") && path.ends_with(".md") && !path.contains("/holdout/");
    is_source || is_top || is_doc
}

/// What of a line is prose: all of a document's, the comment of a source's. Code in backticks is
/// left out.
fn prose(path: &str, line: &str) -> String {
    let text = match path.ends_with(".rs") {
        true => line.find("//").map_or("", |at| line.get(at..).unwrap_or_default()),
        false => line,
    };
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What of a source's line is said: its strings, as far as they are on one line.
fn message(path: &str, line: &str) -> String {
    let is_code = path.ends_with(".rs") && !line.trim_start().starts_with("//");
    let strings = is_code.then(|| line.split('"').skip(1).step_by(2));
    strings.into_iter().flatten().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn offences(files: &[Tracked]) -> Vec<String> {
    let mut out = Vec::new();
    for Tracked { path, text } in files.iter().filter(|file| is_held(&file.path)) {
        for (number, line) in (1..).zip(text.as_deref().unwrap_or_default().lines()) {
            let prose = prose(path, line);
            for word in WORDS.into_iter().filter(|word| has_word(&prose, word)) {
                out.push(format!("{path}:{number}: \"{word}\": say which thread, program or file"));
            }
            let mut message = message(path, line);
            FINE.into_iter().for_each(|turn| message = message.replace(turn, ""));
            if has_word(&message, "is no") {
                out.push(format!(
                    "{path}:{number}: \"is no\": say that it is not a thing of the kind"
                ));
            }
            let prose = prose.replace("no longer", "");
            for turn in TURNS.into_iter().filter(|turn| has_word(&prose, turn)) {
                out.push(format!("{path}:{number}: \"{turn}\": name the number, or the thing"));
            }
        }
    }
    out
}

#[test]
fn threads_and_programs_are_things() {
    report("words for persons, of things", &offences(&tracked_files()));
}

#[test]
fn the_rule_sees_words_in_comments_and_documents_and_nowhere_else() {
    let file = |path: &str, text: &str| Tracked { path: path.into(), text: Some(text.into()) };
    let bad = [
        file("crates/rt/src/lock.rs", "/// Waits until nobody has it.\nlet nobody = 1;\n"),
        file("docs/guide/nbd.md", "Whoever connects.\n"),
        file("crates/rt/src/wait.rs", "/// Waits so many seconds.\n// What is no lock.\n"),
        file("crates/far/src/name.rs", "fail(\"its port is no number\");\n"),
        file("crates/far/tests/any.rs", "/// Ends after so many requests.\n// Takes so long.\n"),
    ];
    assert_eq!(offences(&bad).len(), 7);
    let good = [
        file("crates/zpl/src/acl.rs", "/// `nobody`.\nconst NOBODY: u32 = 65534;\n"),
        file("crates/rt/src/gone.rs", "// Frees what is no longer used.\n"),
        file("crates/far/src/log.rs", "fail(\"there is no disk\", \"it is no longer there\");\n"),
        file("CHANGELOG.md", "Nobody.\n"),
    ];
    assert!(offences(&good).is_empty());
}
