//! What hangs on the numbers of a disk, where it can be said beforehand.

use lab::experiment::Setting;
use lab::sensitivity::{Effect, Sensitivity, json, markdown, sensitivity};
use lab::target::Target;

fn of(name: &str, scale: f64) -> Result<Sensitivity, String> {
    let Some(experiment) = lab::experiment(name) else { panic!("no experiment {name}") };
    let setting = Setting { scale, ..Setting::default() };
    sensitivity(experiment, &Target::Sim(None), &setting, 0.1).map_err(|e| e.to_string())
}

fn effect<'a>(all: &'a Sensitivity, name: &str) -> &'a Effect {
    let found = all.effects.iter().find(|effect| effect.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn small_writes_hang_on_the_rotation_and_large_ones_on_the_rate() {
    let all = of("raw-sweep", 1.0).unwrap_or_else(|e| panic!("{e}"));
    let row = |name: &str| {
        let found = all.rows.iter().position(|row| row.row == name && row.unit == "MB/s");
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let change = |name: &str, at: usize| match effect(&all, name).percent[at] {
        (Some(low), Some(high)) => (low, high),
        other => panic!("{name}: {other:?}"),
    };
    let (low, high) = change("rpm", row("16 KiB"));
    assert!((-10.0..-9.0).contains(&low) && (9.0..10.1).contains(&high), "{low} {high}");
    let (low, high) = change("outer_bytes_per_second", row("8192 KiB"));
    assert!((-10.1..-9.0).contains(&low) && (9.0..10.1).contains(&high), "{low} {high}");
    // Reads ahead do nothing to writes.
    assert_eq!(effect(&all, "read_ahead_bytes").most(), 0.0);
    // One rate was chosen by sixteen rows: none of them is needed for it.
    assert_eq!(all.left_out.len(), 16);
    for left in &all.left_out {
        let row = &all.rows[left.row];
        assert!(row.range.holds(left.predicted), "{}: {}", row.row, left.predicted);
        assert!((left.predicted / row.measured - 1.0).abs() < 0.05, "{}", row.row);
    }
    let text = markdown(std::slice::from_ref(&all));
    assert!(text.contains("16 of 16 are within their bounds"), "{text}");
    let value = json(&[all]);
    assert_eq!(value["experiments"][0]["left_out"].as_array().map(Vec::len), Some(16));
}

#[test]
fn what_has_no_disk_of_its_own_is_refused() {
    let disk = Target::sim("nvme").unwrap_or_else(|e| panic!("{e}"));
    let Some(h3) = lab::experiment("h3-latency-lanes") else { panic!("no h3") };
    let refused = sensitivity(h3, &disk, &Setting::default(), 0.1);
    assert!(refused.is_err_and(|e| e.what.contains("has no disk")));
}
