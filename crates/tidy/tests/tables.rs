//! The table of modules at the head of a crate has each public module, and no other.

use tidy::{report, rust_files};

/// The modules of a crate's table that it does not have, and those that the table lacks.
fn offences(path: &str, text: &str) -> Vec<String> {
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("//! | [`")).collect();
    let named: Vec<&str> = rows
        .iter()
        .flat_map(|row| row.split(" | ").nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
        .map(|name| name.trim_start_matches("mod@"))
        .collect();
    let public = text.lines().filter_map(|line| {
        let name = line.strip_prefix("pub mod ")?;
        name.split([' ', ';']).next()
    });
    let public: Vec<&str> = public.filter(|name| *name != "inside").collect();
    let lacking = public.iter().filter(|name| !named.contains(name));
    let gone = named.iter().filter(|name| !public.contains(name));
    let lacking = lacking.map(|name| format!("{path}: `{name}` is not in the table of modules"));
    lacking.chain(gone.map(|name| format!("{path}: there is no public module `{name}`"))).collect()
}

#[test]
fn tables_of_modules_are_complete() {
    let all = rust_files();
    let with_table = |(path, text): &&(String, String)| {
        path.ends_with("/src/lib.rs") && text.contains("//! | module | ")
    };
    let tables: Vec<_> = all.iter().filter(with_table).collect();
    assert!(tables.len() >= 3, "{} crates have a table of modules", tables.len());
    let found = tables.iter().flat_map(|(path, text)| offences(path, text));
    report("The table of modules has each public module.", &found.collect::<Vec<_>>());
}

#[test]
fn a_row_too_few_or_too_many_is_found() {
    let text = "//! | module | what |\n//! | --- | --- |\n//! | [`a`], [`mod@b`] | x |\n\
                //! | [`gone`] | y |\npub mod a;\npub mod b {\npub mod new;\n";
    let found = offences("lib.rs", text);
    assert!(found[0].contains("`new`") && found[1].contains("`gone`"), "{found:?}");
    assert_eq!(found.len(), 2);
}
