//! The studies that were held out: what is predicted was written down before it was compared.

use lab::experiment::{Outcome, Setting};
use lab::row::{Kind, Row};
use lab::target::Target;

fn run(name: &str, target: &Target, scale: f64) -> Result<Outcome, String> {
    let Some(experiment) = lab::experiment(name) else { panic!("no experiment {name}") };
    let setting = Setting { scale, ..Setting::default() };
    experiment.repeat(target, &setting, 1).map_err(|e| e.to_string())
}

fn simulated(name: &str, scale: f64) -> Outcome {
    run(name, &Target::Sim(None), scale).unwrap_or_else(|e| panic!("{e}"))
}

/// The rows of the file of predictions.
fn written_down(text: &str) -> Vec<(String, String)> {
    let file: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let rows = file["rows"].as_array().cloned().unwrap_or_default();
    let of = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("").to_owned();
    rows.iter().map(|row| (of(row, "row"), of(row, "unit"))).collect()
}

fn predicted(outcome: &Outcome) -> impl Iterator<Item = &Row> {
    outcome.rows.iter().filter(|row| row.published().is_some())
}

fn was_written_down(outcome: &Outcome, text: &str) {
    let before = written_down(text);
    for row in predicted(outcome) {
        assert_eq!(row.kind(), Kind::Predicted, "{}", row.row);
        let mine = (row.row.clone(), row.unit.to_owned());
        assert!(before.contains(&mine), "{} was not written down", row.row);
    }
}

#[test]
fn unequal_vdevs_are_filled_in_proportion() {
    let outcome = simulated("h7-unequal-vdevs", 1.0);
    was_written_down(&outcome, include_str!("../../../docs/lab/holdout/h7.json"));
    assert_eq!(predicted(&outcome).count(), 6);
    let score = outcome.score().unwrap_or_else(|| panic!("no score"));
    assert_eq!((score.rows, score.free_parameters), (6, 2));
    assert!(score.rank_correlation > 0.5, "{score:?}");
    assert!(outcome.says().contains("with 2 free parameters"), "{}", outcome.says());
    let of = |name: &str| outcome.measured(name).unwrap_or(f64::NAN);
    let sum = of("small vdev: allocated") + of("large vdev: allocated");
    assert!((sum - of("pool: allocated")).abs() < 0.01);
}

#[test]
fn lanes_hold_as_many_writes_as_the_dirty_data_say() {
    let outcome = simulated("h3-latency-lanes", 0.01);
    was_written_down(&outcome, include_str!("../../../docs/lab/holdout/h3.json"));
    assert_eq!(predicted(&outcome).count(), 18);
    let of = |name: &str| outcome.measured(name).unwrap_or(f64::NAN);
    // A lane of 10 ms does a hundred writes a second; while sync waits one is under way, not ten.
    assert!((99.0..=100.0).contains(&of("10 ms x 1: writes")));
    assert!(of("10 ms x 1: mean latency") < 45.0, "{}", of("10 ms x 1: mean latency"));
    assert!(of("10 ms x 16: writes") > 120.0);
    // More memory, less urgent.
    let memory = |gib: u64| of(&format!("10 ms x 16, {gib} GiB of memory: writes"));
    assert!(memory(8) > memory(32));
}

#[test]
fn what_has_a_simulated_machine_runs_nowhere_else() {
    let path = std::path::PathBuf::from("disk");
    let refused = run("h7-unequal-vdevs", &Target::Device { path, destroy: true }, 1.0);
    assert!(refused.is_err_and(|e| e.contains("h7-unequal-vdevs does not run there")));
    let Ok(other) = Target::sim("nvme") else { panic!("no preset") };
    assert!(run("h3-latency-lanes", &other, 0.0).is_err_and(|e| e.contains("machine of its own")));
}
