//! What a pool does, as people see it: tables and screens.
//!
//! | module | what it shows |
//! | --- | --- |
//! | [`import`] | pools that could be imported, and what is wrong with them |
//! | [`iostat`] | reads and writes by vdev, waiting times, stages, blocks, datasets |
//! | [`prometheus`] | everything, in the text format that Prometheus collects |
//! | [`top`] | one frame of a screen |
//! | [`txgs`] | transaction groups |
//!
//! **Invariant:** pure functions from the engine's figures to text; nothing is read, timed or
//! printed here.
#![forbid(unsafe_code)]

pub mod import;
pub mod iostat;
pub mod prometheus;
pub mod top;
pub mod txgs;
