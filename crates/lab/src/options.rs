//! Options of the experiments as they are typed.

use crate::experiment::Experiment;
use crate::runs::Job;
use crate::target::Target;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds of a day, longer than which nothing is measured.
const DAY: f64 = 86400.0;

/// A part of the study's work.
///
/// # Errors
/// Says from where to where it is.
pub fn part(text: &str) -> Result<f64, String> {
    number_up_to(text, 1.0)
}

/// Seconds of a measurement.
///
/// # Errors
/// As [`part`].
pub fn seconds(text: &str) -> Result<f64, String> {
    number_up_to(text, DAY)
}

/// A number of the machine, `NAME=VALUE`.
///
/// # Errors
/// It is not like that.
pub fn number(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("it takes NAME=VALUE")?;
    let value = value.trim().parse().map_err(|_| "it takes NAME=VALUE, the value a number")?;
    Ok((name.trim().to_owned(), value))
}

/// A number of more than nothing, up to this.
///
/// # Errors
/// Says so.
pub fn number_up_to(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| *n > 0.0 && *n <= most);
    number.ok_or_else(|| format!("it takes more than 0, and {most} at most"))
}

/// The experiments of these names, each once; `all` are those that can run on the target, and on a
/// device only those that do not write to it, if it may not be written to.
///
/// # Errors
/// The name that none has.
pub fn experiments(names: &[String], target: &Target) -> Result<Vec<&'static Experiment>, String> {
    if names.iter().any(|name| name == "all") {
        let kept = matches!(target, Target::Device { destroy: false, .. });
        let fits = |e: &&Experiment| target.suits(e) && !(kept && e.destroys());
        return Ok(crate::EXPERIMENTS.iter().filter(fits).collect());
    }
    let mut all: Vec<&'static Experiment> = Vec::new();
    for name in names {
        let one = crate::experiment(name).ok_or_else(|| name.clone())?;
        if all.iter().all(|other| other.name != one.name) {
            all.push(one);
        }
    }
    Ok(all)
}

/// The command that gave a report, of the experiments `names` with these options of a target.
#[must_use]
pub fn command(names: &[String], on: &str, job: &Job) -> String {
    let setting = &job.setting;
    let mut how = format!("zinc {}: zinc lab run {}", env!("CARGO_PKG_VERSION"), names.join(" "));
    how = format!("{how} {on}").trim_end().to_owned();
    for (name, value) in &setting.machine {
        how += &format!(" --machine '{name}={value}'");
    }
    how + &format!(" --scale {} --seed {} --seeds {}", setting.scale, setting.seed, job.seeds)
}

/// Whether a run is to end.
pub type IsCalledOff = Arc<dyn Fn() -> bool + Send + Sync>;

/// Says whether a signal came that ends programs. Of a second one it ends at once.
///
/// # Errors
/// The system refuses.
pub fn first_signal() -> std::io::Result<IsCalledOff> {
    let off = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(&off))?;
        flag::register(signal, Arc::clone(&off))?;
    }
    Ok(Arc::new(move || off.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_that_is_named_twice_runs_once() {
        let all = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = experiments(&names, &Target::Sim(None));
            found.map(|all| all.iter().map(|e| e.name).collect::<Vec<_>>())
        };
        assert_eq!(all(&["seek", "raw-sweep", "seek"]), Ok(vec!["seek", "raw-sweep"]));
        assert_eq!(all(&["seek", "none"]), Err("none".to_owned()));
        assert_eq!(all(&["seek", "all"]).map(|all| all.len()), Ok(crate::EXPERIMENTS.len()));
    }

    #[test]
    fn numbers_are_refused_with_what_they_can_be() {
        assert_eq!(part("-1"), Err("it takes more than 0, and 1 at most".to_owned()));
        assert_eq!(number("a = 2"), Ok(("a".to_owned(), 2.0)));
        assert!(number("a").is_err() && seconds("1e9").is_err() && part("0.5").is_ok());
    }
}
