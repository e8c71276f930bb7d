//! What docs/lab says of the run with five seeds is what that run printed.

use std::collections::BTreeMap;

const README: &str = include_str!("../../../docs/lab/README.md");
const FIGURES: &str = include_str!("../../../docs/lab/figures.md");
const PRINTED: &str = include_str!("../../../docs/lab/five-seeds.txt");

/// How many predicted rows are within their bounds, and of how many.
type Counts = (u32, u32);

fn counts(line: &str) -> Option<Counts> {
    let (within, of) =
        line.split_once(" predicted rows are within their bounds")?.0.split_once(" of ")?;
    Some((within.parse().ok()?, of.parse().ok()?))
}

/// Those of each experiment that was run, in the order of the run, and those of all.
fn printed() -> (Vec<(&'static str, Option<Counts>)>, Counts) {
    let mut experiments: Vec<(&str, Option<Counts>)> = Vec::new();
    let mut all = None;
    for line in PRINTED.lines() {
        let name = line.split_once(" on simulated: ").map(|(name, _)| name);
        if let Some(name) = name.filter(|name| lab::experiment(name).is_some()) {
            experiments.push((name, None));
        } else if let Some(found) = counts(line) {
            match experiments.last_mut() {
                Some((_, of)) if of.is_none() => *of = Some(found),
                _ => all = Some(found),
            }
        } else if line.starts_with("No predicted row is judged")
            && let Some(last) = experiments.last_mut()
        {
            last.1 = Some((0, 0));
        }
    }
    (experiments, all.unwrap_or_default())
}

#[test]
fn every_experiment_is_in_the_run() {
    let (experiments, all) = printed();
    let names: Vec<&str> = experiments.iter().map(|(name, _)| *name).collect();
    let known: Vec<&str> = lab::EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    assert_eq!(names, known);
    let of_each = experiments.iter().filter_map(|(_, found)| *found);
    let sum = of_each.fold((0, 0), |sum, found| (sum.0 + found.0, sum.1 + found.1));
    assert_eq!(sum, all);
}

#[test]
fn the_counts_of_the_texts_are_those_of_the_run() {
    let (experiments, all) = printed();
    for text in [README, FIGURES] {
        assert_eq!(text.lines().find_map(counts), Some(all));
    }
    // The table has studies that were held out by their number.
    let called = |name: &str| match name.split('-').next() {
        Some(number) if number.len() == 2 && number.starts_with('h') => number.to_uppercase(),
        _ => format!("`{name}`"),
    };
    let run: BTreeMap<String, Counts> = experiments
        .iter()
        .filter_map(|(name, found)| Some((called(name), found.filter(|(_, of)| *of > 0)?)))
        .collect();
    let cells = README.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = cells.filter_map(|line| {
        let mut cells = line.split(" | ");
        let (name, within, of) = (cells.next()?, cells.next()?, cells.next()?);
        Some((name.to_owned(), (within.parse().ok()?, of.parse().ok()?)))
    });
    assert_eq!(cells.collect::<BTreeMap<_, _>>(), run);
}

#[test]
fn every_item_was_repeated_or_is_said_not_to_be() {
    let missing: Vec<&str> =
        FIGURES.lines().filter(|line| line.contains("not in this run")).collect();
    assert_eq!(missing, [""; 0]);
}
