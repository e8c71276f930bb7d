//! The experiments on bare simulated disks, judged; and their tables against the studies' data.

use lab::experiment::{Outcome, Setting};
use lab::target::Target;

fn run(name: &str, sim: &str, seed: u64) -> Outcome {
    let Some(experiment) = lab::experiment(name) else { panic!("no experiment {name}") };
    let target = Target::sim(sim).unwrap_or_else(|e| panic!("{e}"));
    let setting = Setting { seed, ..Setting::default() };
    (experiment.run)(&target, &setting).unwrap_or_else(|e| panic!("{e}"))
}

fn assert_within(outcome: &Outcome) {
    let text = lab::report::text(outcome, 100);
    assert!(outcome.within_bounds(), "{text}");
}

#[test]
fn raw_sweep_is_within_bounds_whatever_the_seed() {
    for seed in [1, 2, 3] {
        let outcome = run("raw-sweep", "", seed);
        assert_within(&outcome);
        assert!(outcome.meaning.contains("saturates at 4 MiB"), "{}", outcome.meaning);
        assert_eq!(outcome.rows.len(), 13);
    }
}

#[test]
fn seek_is_within_bounds_whatever_the_seed() {
    for seed in [1, 2, 3] {
        let outcome = run("seek", "", seed);
        assert_within(&outcome);
        assert_eq!(outcome.rows.len(), 18 + 3 + 2 + 9);
    }
}

#[test]
fn other_disks_are_not_judged() {
    let outcome = run("raw-sweep", "hdd-16t", 1);
    assert!(outcome.within_bounds());
    assert!(outcome.rows.iter().any(|row| row.ratio().is_some_and(|r| !(0.9..1.1).contains(&r))));
}

/// A line `KEY = [[…], …]` of the data file, which is JSON on its right.
fn data(text: &str, section: &str, key: &str) -> Vec<Vec<f64>> {
    let head = format!("[{section}]");
    let line = text
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    let json = line.map(|line| line.split('#').next().unwrap_or(line));
    json.and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_else(|| panic!("no {key} in [{section}]"))
}

#[test]
fn the_tables_are_those_of_the_data_file() {
    let Some(text) = testkit::figures() else { return };
    let published = |outcome: &Outcome, from: usize, count: usize| -> Vec<f64> {
        outcome.rows[from..from + count].iter().filter_map(|row| row.published).collect()
    };
    let column = |rows: Vec<Vec<f64>>, n: usize| rows.iter().map(|r| r[n]).collect::<Vec<f64>>();
    let sweep = run("raw-sweep", "", 1);
    assert_eq!(published(&sweep, 0, 12), column(data(&text, "raw_sweep", "rows"), 1));
    assert!(text.contains("write_cache_on_mb_per_s = 66"));
    assert_eq!(published(&sweep, 12, 1), [66.0]);
    let seek = run("seek", "", 1);
    assert_eq!(published(&seek, 0, 9), column(data(&text, "seek", "linear"), 1));
    assert_eq!(published(&seek, 9, 9), column(data(&text, "seek", "random"), 1));
    assert_eq!(published(&seek, 18, 3), column(data(&text, "seek", "break_even_percent"), 1));
    assert_eq!(published(&seek, 23, 9), column(data(&text, "seek", "linear"), 3));
    assert!(text.contains("bandwidth_break_bytes = 8192"));
    assert!(text.contains("idle_break_bytes = 32768"));
}
