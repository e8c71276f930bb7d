//! How much hangs on each number of a machine, and on each row that a number was chosen by.
//!
//! An experiment is run again with each number of its disk, and of the rest of its machine, a part
//! smaller and larger: what each row does says what the row shows of the machine. And for each row
//! that numbers were chosen by, those numbers are fitted again without it, and the row is
//! predicted: a row that only comes out because it was fitted does not come out then.
//!
//! A fit minimizes the sum of the squares of ln(measured / published), by Gauss and Newton from the
//! machine as it is, with steps that are kept only where the sum becomes smaller. All runs have the
//! same seed, so that chance is the same in all.

use crate::disk::{Origins, Preset};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::Outcome;
use crate::parameter::{Number, Origin};
use crate::row::{Kind, Range, Row};
use crate::target::Target;
use engine::Rt;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

mod markdown;

pub use markdown::{json, markdown};

/// A row that a number was published for.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its name.
    pub row: String,
    /// Its unit.
    pub unit: &'static str,
    /// What kind of evidence it is on the study's own disk.
    pub kind: Kind,
    /// What was published.
    pub published: f64,
    /// Where it has to be.
    pub range: Range,
    /// What was measured on the disk as it is.
    pub measured: f64,
}

/// What a number of the machine does.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The number.
    pub name: &'static str,
    /// Its value and unit.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Of each row, the change in percent with the number smaller and larger; `None` where no
    /// machine has such a number.
    pub percent: Vec<(Option<f64>, Option<f64>)>,
}

impl Effect {
    /// The largest change of any row, in percent.
    #[must_use]
    pub fn most(&self) -> f64 {
        let changes = self.percent.iter().flat_map(|(low, high)| [*low, *high]).flatten();
        changes.map(f64::abs).filter(|p| p.is_finite()).fold(0.0, f64::max)
    }

    /// d ln(row) / d ln(number).
    fn slope(&self, row: usize, part: f64) -> f64 {
        let ln = |percent: f64| (1.0 + percent / 100.0).max(1e-6).ln();
        match self.percent.get(row) {
            Some((Some(low), Some(high))) => {
                (ln(*high) - ln(*low)) / ((1.0 + part).ln() - (1.0 - part).ln())
            }
            Some((None, Some(high))) => ln(*high) / (1.0 + part).ln(),
            Some((Some(low), None)) => ln(*low) / (1.0 - part).ln(),
            _ => 0.0,
        }
    }
}

/// A row that was left out of a fit.
#[derive(Clone, Debug)]
pub struct OmittedRow {
    /// The row, as an index.
    pub row: usize,
    /// What the machine says that was fitted to the other rows.
    pub predicted: f64,
    /// The number that changed most, and its ratio to what it is.
    pub moved: Option<(&'static str, f64)>,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    /// The experiment.
    pub experiment: &'static str,
    /// The disk.
    pub disk: String,
    /// The part by which numbers were changed.
    pub part: f64,
    /// The part of the study's amount of work that each run did.
    pub scale: f64,
    /// The rows.
    pub rows: Vec<Published>,
    /// What each number does.
    pub effects: Vec<Effect>,
    /// How many of the numbers, the last ones, are not the disk's.
    pub others: usize,
    /// Fitted rows, each predicted from the others.
    pub left_out: Vec<OmittedRow>,
}

/// Slopes below this move nothing.
const NOTHING: f64 = 1e-4;
/// Steps of a fit.
const STEPS: usize = 4;

/// A machine: its disks, and what other numbers of it are not the study's.
#[derive(Clone)]
struct Machine {
    preset: Preset,
    others: BTreeMap<String, f64>,
    /// All of its other numbers.
    numbers: &'static [Number],
}

impl Machine {
    /// Its numbers, of the disks and others.
    fn origins(&self) -> Vec<Origins> {
        let other = |n: &Number| (n.name, self.other(n), n.unit, n.origin);
        self.preset.origins().into_iter().chain(self.numbers.iter().map(other)).collect()
    }

    fn other(&self, number: &Number) -> f64 {
        self.others.get(number.name).copied().unwrap_or(number.value)
    }

    /// The same with one number changed, of whole numbers by one at least; `None` where there is no
    /// such machine, or where it would be no other one.
    fn with(&self, name: &str, value: f64) -> Option<Self> {
        let Some(number) = self.numbers.iter().find(|number| number.name == name) else {
            return Some(Self { preset: self.preset.with(name, value)?, ..self.clone() });
        };
        let now = self.other(number);
        let step = if value < now { -1.0 } else { 1.0 };
        let value = if number.whole && value.round() == now { now + step } else { value };
        (value >= 0.0 && value != now).then(|| self.having(number, value))
    }

    fn having(&self, number: &Number, value: f64) -> Self {
        let mut other = self.clone();
        let value = if number.whole { value.round() } else { value };
        other.others.insert(number.name.to_owned(), value);
        other
    }
}

/// Runs an experiment with every number of its machine changed.
///
/// # Errors
/// Those of the experiment.
pub fn sensitivity(
    experiment: &Experiment,
    target: &Target,
    setting: &Setting,
    part: f64,
) -> Result<Sensitivity, LabError> {
    let what = format!("{} has no disk whose numbers could be changed", experiment.name);
    let none = || LabError::new(what, "it runs on a machine of its own, or not on simulated disks");
    // The disks of a study with a machine of its own are not a preset.
    let own = experiment.on_device == OnDevice::Nothing;
    let preset = target.preset(experiment).filter(|_| !own).ok_or_else(none)?;
    let quiet = Setting { progress: std::sync::Arc::new(|_| {}), ..setting.clone() };
    experiment.check_machine(setting)?;
    let run = |machine: &Machine| {
        let target = Target::Sim(Some(Box::new(machine.preset.clone())));
        (experiment.run)(&target, &Setting { machine: machine.others.clone(), ..quiet.clone() })
    };
    let (others, numbers) = (setting.machine.clone(), experiment.numbers);
    let machine = Machine { preset, others, numbers };
    let base = run(&machine)?;
    let rows: Vec<Published> = base.rows.iter().filter_map(published).collect();
    let numbers = machine.origins();
    let mut jobs = Vec::new();
    for (number, (name, value, ..)) in numbers.iter().enumerate() {
        for (high, by) in [(false, 1.0 - part), (true, 1.0 + part)] {
            jobs.extend(machine.with(name, value * by).map(|changed| (number, high, changed)));
        }
    }
    let all = jobs.len();
    let done = Mutex::new(BTreeMap::new());
    Rt::real().for_each_parallel(0, jobs, |(number, high, changed)| {
        let outcome = run(&changed)?;
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert((number, high), outcome);
        (setting.progress)(&format!("{} of {all} changes", done.len()));
        Ok::<(), LabError>(())
    })?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let effect = |(number, (name, value, unit, origin)): (usize, &Origins)| {
        let change = |row: &Published, high| {
            let measured = value_of(done.get(&(number, high))?, row)?;
            (row.measured != 0.0).then(|| 100.0 * (measured / row.measured - 1.0))
        };
        let percent = rows.iter().map(|row| (change(row, false), change(row, true))).collect();
        Effect { name, value: *value, unit, origin: *origin, percent }
    };
    let effects: Vec<Effect> = numbers.iter().enumerate().map(effect).collect();
    let left_out = leave_out(&Fit { run: &run, machine: &machine, rows: &rows, part }, &effects)?;
    Ok(Sensitivity {
        experiment: experiment.name,
        disk: machine.preset.name,
        part,
        scale: setting.scale,
        rows,
        effects,
        others: machine.numbers.len(),
        left_out,
    })
}

fn published(row: &Row) -> Option<Published> {
    Some(Published {
        row: row.row.clone(),
        unit: row.unit,
        kind: row.kind(),
        published: row.compared()?.figure().filter(|figure| *figure > 0.0)?,
        range: row.range(),
        measured: row.measured(),
    })
}

fn value_of(outcome: &Outcome, row: &Published) -> Option<f64> {
    let found = outcome.rows.iter().find(|r| r.row == row.row && r.unit == row.unit)?;
    Some(found.measured()).filter(|value| value.is_finite())
}

/// What a fit needs.
struct Fit<'a, F> {
    run: &'a F,
    machine: &'a Machine,
    rows: &'a [Published],
    part: f64,
}

/// A number that rows chose, with the slopes of the rows that are fitted.
struct Free<'a> {
    name: &'static str,
    value: f64,
    effect: &'a Effect,
}

fn leave_out<F>(fit: &Fit<'_, F>, effects: &[Effect]) -> Result<Vec<OmittedRow>, LabError>
where
    F: Fn(&Machine) -> Result<Outcome, LabError> + Sync,
{
    let free: Vec<Free<'_>> = effects
        .iter()
        .filter(|e| matches!(e.origin, Origin::Fitted(_)) && e.most() > 100.0 * NOTHING)
        .map(|effect| Free { name: effect.name, value: effect.value, effect })
        .collect();
    let moves = |row: usize| free.iter().any(|f| f.effect.slope(row, fit.part).abs() > NOTHING);
    let fitted: Vec<usize> = (0..fit.rows.len())
        .filter(|row| fit.rows[*row].kind == Kind::Fitted && moves(*row))
        .collect();
    // With one row there is nothing to fit to without it.
    if fitted.len() < 2 {
        return Ok(Vec::new());
    }
    let out = Mutex::new(BTreeMap::new());
    Rt::real().for_each_parallel(0, fitted.iter().copied(), |row| {
        let rest: Vec<usize> = fitted.iter().copied().filter(|other| *other != row).collect();
        let one = fit.without(row, &rest, &free)?;
        out.lock().unwrap_or_else(PoisonError::into_inner).insert(row, one);
        Ok::<(), LabError>(())
    })?;
    Ok(out.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
}

impl<F> Fit<'_, F>
where
    F: Fn(&Machine) -> Result<Outcome, LabError> + Sync,
{
    /// ln(measured / published) of each row.
    fn apart(&self, outcome: &Outcome) -> Vec<f64> {
        let ln = |row: &Published| {
            let measured = value_of(outcome, row).unwrap_or(f64::NAN);
            (measured / row.published).ln()
        };
        self.rows.iter().map(ln).collect()
    }

    fn without(
        &self,
        row: usize,
        rest: &[usize],
        free: &[Free<'_>],
    ) -> Result<OmittedRow, LabError> {
        let sum = |apart: &[f64]| rest.iter().map(|r| apart[*r].powi(2)).sum::<f64>();
        let slopes: Vec<Vec<f64>> = rest
            .iter()
            .map(|r| free.iter().map(|f| f.effect.slope(*r, self.part)).collect())
            .collect();
        let mut at = vec![0.0; free.len()];
        let mut apart: Vec<f64> =
            self.rows.iter().map(|r| (r.measured / r.published).ln()).collect();
        for _ in 0..STEPS {
            let right: Vec<f64> = rest.iter().map(|r| -apart[*r]).collect();
            let step = least_squares(&slopes, &right);
            let mut better = false;
            for shorter in [1.0, 0.5, 0.25] {
                let next: Vec<f64> = at
                    .iter()
                    .zip(&step)
                    .map(|(at, s)| (at + s * shorter).clamp(-0.7, 0.7))
                    .collect();
                let Some(machine) = self.moved(free, &next) else { continue };
                let found = self.apart(&(self.run)(&machine)?);
                if sum(&found) < sum(&apart) * 0.999 {
                    (at, apart, better) = (next, found, true);
                    break;
                }
            }
            if !better {
                break;
            }
        }
        let most = (0..free.len()).max_by(|a, b| at[*a].abs().total_cmp(&at[*b].abs()));
        let moved = most.filter(|n| at[*n] != 0.0).map(|n| (free[n].name, at[n].exp()));
        Ok(OmittedRow { row, predicted: self.rows[row].published * apart[row].exp(), moved })
    }

    /// The machine with each free number so far, in logarithms, from what it is; `None` where there
    /// is none like that.
    fn moved(&self, free: &[Free<'_>], at: &[f64]) -> Option<Machine> {
        let mut machine = self.machine.clone();
        for (one, by) in free.iter().zip(at) {
            let value = one.value * by.exp();
            machine = match machine.numbers.iter().find(|number| number.name == one.name) {
                Some(number) => machine.having(number, value),
                None => machine.with(one.name, value)?,
            };
        }
        Some(machine)
    }
}

/// The solution of the normal equations, with a little less weight on directions that nothing
/// decides.
fn least_squares(slopes: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let count = slopes.first().map_or(0, Vec::len);
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for (line, right) in slopes.iter().zip(right) {
        for a in 0..count {
            for b in 0..count {
                matrix[a][b] += line[a] * line[b];
            }
            matrix[a][count] += line[a] * right;
        }
    }
    for (n, line) in matrix.iter_mut().enumerate() {
        line[n] += 1e-2;
    }
    for pivot in 0..count {
        let by = matrix[pivot].clone();
        for (row, line) in matrix.iter_mut().enumerate() {
            if row != pivot {
                let part = line[pivot] / by[pivot];
                line.iter_mut().zip(&by).for_each(|(value, by)| *value -= part * by);
            }
        }
    }
    (0..count).map(|n| matrix[n][count] / matrix[n][n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_change_by_one_at_least() {
        const NUMBERS: [Number; 3] = [
            Number::whole("writers", 3.0, "", Origin::Assumed),
            Number::new("time", 2.0, "s", Origin::Assumed),
            Number::new("nothing", 0.0, "s", Origin::Assumed),
        ];
        let preset = crate::disk::preset("nvme").expect("a preset");
        let machine = Machine { preset, others: BTreeMap::new(), numbers: &NUMBERS };
        let with = |name: &str, value| machine.with(name, value).map(|m| m.others[name]);
        assert_eq!((with("writers", 2.7), with("writers", 3.3)), (Some(2.0), Some(4.0)));
        assert_eq!((with("time", 1.8), with("time", 2.2)), (Some(1.8), Some(2.2)));
        assert_eq!((with("nothing", 0.0), with("time", -1.0)), (None, None));
        let other_disk = machine.with("read_us", 90.0).expect("a disk");
        assert!(other_disk.others.is_empty() && other_disk.preset != machine.preset);
    }

    #[test]
    fn least_squares_solve_what_can_be_solved() {
        let slopes = vec![vec![1.0, 0.0, 0.0], vec![0.0, 2.0, 0.0], vec![1.0, 2.0, 0.0]];
        let found = least_squares(&slopes, &[0.1, 0.4, 0.5]);
        assert!((found[0] - 0.1).abs() < 0.01 && (found[1] - 0.2).abs() < 0.01, "{found:?}");
        assert_eq!(found[2], 0.0);
    }
}
