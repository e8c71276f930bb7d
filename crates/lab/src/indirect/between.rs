//! The sizes between: the study says that 32 and 64 KiB give what lies between 16 and 128, without
//! figures. All four sizes read a tenth of its file here, and in each case every step to a larger
//! size has to read no more slowly.

use super::published::READS;
use super::rows::PART;
use super::world::Image;
use super::{case, failed, kib, make, rate, reads};
use crate::disk::Preset;
use crate::error::LabError;
use crate::experiment::Setting;
use crate::row::{Bound, Row};

/// The sizes, in bits.
const SHIFTS: [u8; 4] = [14, 15, 16, 17];
/// A part of the file.
const FILE_PART: u64 = 10;
/// But no smaller than this.
const SMALLEST: u64 = 50_000;
/// A step whose reads are slower by no more than this is one by chance: the first case has 970.
const NOISE: f64 = 0.05;

/// Files of this many blocks, by the two sizes of the study.
pub(super) struct TestFiles {
    pub(super) blocks: u64,
    pub(super) images: Vec<Image>,
}

/// The rates of all sizes, and in how many steps they fall; and the files of the two sizes that
/// the study has figures of.
pub(super) fn rows(
    (blocks, part): (u64, f64),
    preset: &Preset,
    setting: &Setting,
) -> Result<(Vec<Row>, TestFiles), LabError> {
    let blocks = (blocks / FILE_PART).max(SMALLEST);
    let mut out = Vec::new();
    let mut made = Vec::new();
    let mut falls = 0;
    let mut rates: Vec<Vec<f64>> = Vec::new();
    for shift in SHIFTS {
        (setting.progress)(&format!("a file of {blocks} blocks, indirect {} KiB", kib(shift)));
        let image = make(blocks, shift, setting).map_err(failed("cannot make the file"))?;
        let mut of_size = Vec::new();
        for p in READS.iter().filter(|p| p.indirect_kib == kib(14)) {
            let case = case(p, blocks, setting);
            let measured = reads::run(image.fork(), preset, case);
            let rate = rate(&case, &measured.map_err(failed("cannot read the file"))?);
            let name = format!("{blocks} blocks, every {}th: {} KiB", p.alignment, kib(shift));
            out.push(Row::own(name, "reads/s", rate));
            of_size.push(rate);
        }
        let before = rates.last().into_iter().flatten();
        falls += before.zip(&of_size).filter(|(b, r)| **r < **b * (1.0 - NOISE)).count();
        rates.push(of_size);
        made.extend(super::SHIFTS.contains(&shift).then_some(image));
    }
    out.push(of_steps(falls, part));
    Ok((out, TestFiles { blocks, images: made }))
}

/// In how many steps to a larger size rates fall.
pub(super) fn of_steps(falls: usize, part: f64) -> Row {
    let name = "steps from 16 to 32, 64 and 128 KiB that read more slowly";
    let row = Row::predicted(name, "", 0.0, Bound::AtMost, falls as f64);
    let row = row.follows("its words");
    row.judged_if(part >= 1.0, PART)
}
