//! The write throttle observed, as in the study of 2008: how often and how long txgs sync, how fast
//! data goes in, how often writers are delayed, and where the limit is. Then today's throttle on
//! the same disks.
//!
//! # Theory
//!
//! The machine of the study: 42 SATA disks of 500 GB in one striped pool, a couple of `dd` from
//! `/dev/zero` with writes of 1 MiB. The disks are a preset made from their data sheet; the rest is
//! a model, stated here:
//!
//! - A `dd` copies each write once out of `/dev/zero` and once into the pool, on a processor of
//!   2008: [`Machine::own_time`].
//! - The memory: what may be dirty at most ([`Machine::dirty_max`]), and the largest limit of a txg
//!   ([`Machine::inflated_max`]), which is what the study's first report shows as `>= 8000`.
//! - A byte counts twice (`zinc_write_limit_inflation`), which is how an override of 800 MB became a
//!   limit of 1600.
//!
//! The report counts txgs with data, over the time from the first write on.

pub mod report;
