//! A write and a read are followed in ARCHITECTURE.md, one hop a line: their functions are there.

use tidy::source::without_tests;
use tidy::{FLOORS, read, report, rust_files};

/// What begins the lines of the two lists.
const LISTS: [&str; 2] = ["A write followed from", "And a read back up"];

#[test]
fn each_hop_names_a_function_of_its_crate() {
    let text = read("ARCHITECTURE.md");
    let files = rust_files();
    let mut offences = Vec::new();
    for list in LISTS {
        let (_, behind) = text.split_once(list).expect(list);
        let block = behind.split("```").nth(1).expect("a block of hops");
        let hops: Vec<&str> = block.lines().filter(|line| !line.trim().is_empty()).collect();
        assert!(hops.len() > 5, "{list}: {} hops", hops.len());
        for hop in hops {
            let mut words = hop.split_whitespace();
            let (krate, path) = (words.next().unwrap_or_default(), words.next().unwrap_or(""));
            let name = path.rsplit("::").next().unwrap_or_default();
            let source = format!("crates/{krate}/src/");
            let (plain, generic) = (format!("fn {name}("), format!("fn {name}<"));
            let defines = |line: &str| line.contains(&plain) || line.contains(&generic);
            let is_there = files.iter().any(|(path, text)| {
                path.starts_with(&source) && without_tests(text).any(|(_, line)| defines(line))
            });
            if !FLOORS.contains(&krate) || !is_there {
                offences.push(format!("{list}: {hop}"));
            }
        }
    }
    report("a hop of ARCHITECTURE.md names a function that its crate has", &offences);
}
