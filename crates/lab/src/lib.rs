//! Measurements of the engine and of disks: workloads, models of disks, experiments, reports.
//!
//! zinc began with five published measurements of ZFS. Each is an experiment here: it runs the
//! engine (or a bare disk) under the study's load, on a real device, a pool, or a simulated disk in
//! virtual time, and gives an [`outcome::Outcome`]: its figures beside the published ones.
//!
//! **Invariant: every published figure stands in the table of its experiment, and in no other
//! code;** the code that measures does not know it. Tests compare the tables, in both directions,
//! with `tests/published.toml` and, of studies that were held out, `tests/held_out.toml`, and those
//! with the documents.
#![forbid(unsafe_code)]

pub mod advise;
mod content;
mod digits;
pub mod disk;
pub mod distribution;
pub mod error;
pub mod experiment;
pub mod figures;
pub mod fit;
mod held_out;
pub mod images;
mod indirect;
pub mod options;
pub mod outcome;
pub mod parameter;
pub mod pios;
pub mod pios_study;
pub mod raw_disk;
mod raw_sweep;
pub mod report;
pub mod row;
pub mod runs;
pub mod score;
mod seek;
pub mod sensitivity;
pub mod stream;
mod striped;
pub mod sweep;
mod sync_stream;
pub mod target;
pub mod throttle;
pub mod validate;
pub mod what_if;
pub mod workspace;

use experiment::Experiment;

/// Figures of the documents, which tests compare the tables with.
#[cfg(test)]
const DOCUMENTS: &str = include_str!("../tests/published.toml");

/// All experiments, in the order of the studies; behind them those that were held out.
pub const EXPERIMENTS: &[Experiment] = &[
    raw_sweep::EXPERIMENT,
    sync_stream::EXPERIMENT,
    throttle::EXPERIMENT,
    pios_study::EXPERIMENT,
    seek::EXPERIMENT,
    indirect::EXPERIMENT,
    held_out::H7,
    held_out::H3,
    held_out::H5,
    held_out::H4,
    held_out::H2,
    held_out::H6,
    held_out::H1,
    held_out::H8,
];

/// The experiment of this name.
#[must_use]
pub fn experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
