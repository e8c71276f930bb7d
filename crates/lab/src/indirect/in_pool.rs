//! The study's file in a pool, as large a part of it as `scale` says and an eighth of the free
//! space holds: once with indirect blocks of 16 KiB and once of 128 KiB. Each case reads it in a
//! visit of its own, so that all metadata are cold; what was read by level is counted by the
//! engine.

use super::published::{BLOCKS, READS};
use super::reads;
use super::world::{self, RECORD};
use super::{EXPERIMENT, SHIFTS, case, chart, failed, kib, rows, study};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::Outcome;
use crate::stream::StreamError;
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace};

/// Part of a file's bytes that its metadata take at most, with sectors of 4 KiB.
const METADATA: u64 = 8;

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let (blocks, mut measured) = workspace::with_workspace(target, setting, |workspace| {
        let room = workspace.open(|open| open.budget())? / SHIFTS.len() as u64;
        let wanted = (BLOCKS as f64 * setting.scale.clamp(0.0, 1.0)) as u64;
        let blocks = wanted.min((room - room / METADATA) / RECORD).max(1);
        let mut measured = Vec::new();
        for shift in SHIFTS {
            let name = format!("indirect-{}", kib(shift));
            (setting.progress)(&format!("a file of {blocks} blocks, {name} KiB"));
            workspace.open(|open| make(open, &name, blocks, shift))?;
            for p in READS.iter().filter(|p| p.indirect_kib == kib(shift)) {
                (setting.progress)(&format!("{name} KiB, reads at every {}th block", p.alignment));
                let case = case(p, blocks, setting);
                let m = workspace.open(|open| {
                    let (pool, dataset) = (open.pool, open.name(&name));
                    reads::read(pool.rt(), pool.view(), &dataset, case)
                        .map_err(failed("cannot read the file"))
                })?;
                measured.push((p, case, m));
            }
        }
        Ok((blocks, measured))
    })?;
    // As published: by case, then by size.
    measured.sort_by_key(|(p, ..)| (p.reads, p.indirect_kib));
    let part = blocks as f64 / BLOCKS as f64;
    let outcome = Outcome {
        rows: rows::of_reads(&measured, part),
        charts: vec![chart(&measured)],
        texts: vec![
            ("Read from the disks, as the study prints it".to_owned(), study(&measured)),
            ("Size".to_owned(), size(blocks, part)),
        ],
        meaning: rows::meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    };
    Ok(outcome.elsewhere())
}

fn size(blocks: u64, part: f64) -> String {
    format!(
        "A file of {blocks} blocks of 8 KiB, a part of {part:.4} of the study's. A file that is \
         small beside a\ndisk's own cache, or the host's, says little: a larger --scale says \
         more.\n"
    )
}

fn make(open: &OpenWorkspace<'_>, name: &str, blocks: u64, shift: u8) -> Result<(), LabError> {
    open.filesystem(name, &world::PROPERTIES)?;
    let fs = open.pool.filesystem(&open.name(name)).map_err(StreamError::from)?;
    world::make_file(open.pool, &fs, blocks, shift).map_err(failed("cannot make the file"))
}
