//! Tables of what there is: experiments, simulated disks, and what was measured of a disk.

use crate::disk::presets as all_presets;
use crate::experiment::OnDevice;
use crate::validate::Validation;
use term::Table;

/// All experiments, and what they can run on.
#[must_use]
pub fn experiments() -> String {
    let mut table = Table::new(&["EXPERIMENT", "RUNS ON", "WHAT"], &[false; 3], false);
    for experiment in crate::EXPERIMENTS {
        let on = match experiment.on_device {
            OnDevice::Reads => "sim, pool, device (reads it)",
            OnDevice::Writes => "sim, pool, device (writes to it)",
            OnDevice::MakesPool => "sim, pool, device (makes a pool on it)",
            OnDevice::Nothing => "sim",
        };
        table.row([experiment.name, on, experiment.about].map(str::to_owned).to_vec());
    }
    table.text()
}

/// All simulated disks, and where their numbers are from.
#[must_use]
pub fn presets() -> String {
    let mut table = Table::new(&["PRESET", "DISK", "FROM"], &[false; 3], false);
    for preset in all_presets() {
        table.row(vec![preset.name, preset.description, preset.source]);
    }
    table.text()
}

/// What was measured of a disk, and what the model said of it.
#[must_use]
pub fn validations(found: &[Validation]) -> String {
    let headings = ["PATTERN", "MEASURED MB/S", "MODEL MB/S", "RATIO", "VERDICT"];
    let mut table = Table::new(&headings, &[false, true, true, true, false], false);
    for one in found {
        let [measured, predicted, ratio] =
            [one.measured, one.predicted, one.ratio()].map(|n| format!("{n:.2}"));
        let verdict = if one.is_within() { "within" } else { "OUTSIDE" }.to_owned();
        table.row(vec![one.pattern.clone(), measured, predicted, ratio, verdict]);
    }
    let outside = found.iter().filter(|one| !one.is_within()).count();
    table.text()
        + &match outside {
            0 => String::new(),
            n => format!(
                "{n} of {} patterns are outside: do not rely on the preset for requests like \
                 these.\n",
                found.len(),
            ),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_there_is_has_a_line() {
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&experiments()), crate::EXPERIMENTS.len() + 1);
        assert_eq!(lines(&presets()), all_presets().len() + 1);
        let pattern = "4 KiB".to_owned();
        let one = Validation { pattern, measured: 2.0, predicted: 1.9, part: 0.1 };
        let far = Validation { predicted: 1.0, ..one.clone() };
        let text = validations(std::slice::from_ref(&one));
        assert_eq!(lines(&text), 2);
        assert!(text.contains("0.95  within") && !text.contains("outside"), "{text}");
        let text = validations(&[one, far]);
        assert!(text.contains("0.50  OUTSIDE") && text.contains("1 of 2 patterns"), "{text}");
    }
}
