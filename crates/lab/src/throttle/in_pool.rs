//! The same writers in a pool: the study's three tests with the settings of the model, then today's
//! throttle with everything as the pool has it.
//!
//! The disks are what they are, so nothing is judged. Each test is as long as the study's at
//! `--seconds 2`. What is written goes round in volumes of a quarter of the free space together; it
//! is zeros that are stored, so a limit of gigabytes takes no such memory.

use super::judge::{self, Measured};
use super::run::{Test, known, on_pool};
use super::{DISKS, EXPERIMENT, INFLATION, LEAD_OF_2, OBSERVED, Part, reports, test};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::Outcome;
use crate::stream::RECORD_BYTES;
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace};

/// Seconds of a figure at which tests are as long as the study's.
const AS_LONG_AS_THE_STUDY: f64 = 2.0;

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let part = Part { disks: DISKS as usize, setting };
    let writers = part.writers();
    let groups = part.tests_of_2008();
    let shorter = |tests: &[Test]| -> Vec<Test> {
        let factor = (setting.seconds / AS_LONG_AS_THE_STUDY).clamp(0.001, 1000.0);
        let of = |t: &Test| {
            let (lead, observe) = (t.lead.mul_f64(factor), t.observe.mul_f64(factor));
            Test { lead, observe, ..t.clone() }
        };
        tests.iter().map(of).collect()
    };
    let own_time = part.of_2008().own_time;
    let tests = |open: &OpenWorkspace<'_>, tests: &[Test]| {
        let volumes: Vec<String> = (0..writers).map(|n| open.name(&volume(n))).collect();
        on_pool(open.pool, &volumes, own_time, &shorter(tests), setting.seed)
    };
    let (old, new) = workspace::with_workspace(target, setting, |workspace| {
        (setting.progress)("write-limit, with two target times and an override");
        let old = workspace.open(|open| {
            let each = open.budget()? / writers as u64;
            for n in 0..writers {
                open.volume(&volume(n), each, RECORD_BYTES)?;
            }
            open.set(&known(&part.of_2008().tunables))?;
            Ok(tests(open, &groups.concat())?)
        })?;
        (setting.progress)("the same writers with dirty-delay");
        let new = workspace.open(|open| {
            open.set(&["zinc_throttle=dirty-delay".to_owned()])?;
            Ok(tests(open, &[test(&[], writers, part.number(&LEAD_OF_2), OBSERVED)])?)
        })?;
        Ok((old, new))
    })?;
    let Some(today) = new.first() else {
        return Err(LabError::new("throttle", "today's throttle has no report"));
    };
    let reports = reports(&groups, &old);
    let (part, inflation) = (part.of_all(), part.number(&INFLATION));
    let measured = Measured { reports: &reports, as_shown: None, today, part, inflation };
    Ok(judge::outcome(target.describe(&EXPERIMENT), &measured).elsewhere())
}

fn volume(writer: usize) -> String {
    format!("writer-{writer}")
}
