//! Pools, as people see them: tables and screens.
//!
//! | module | what it shows |
//! | --- | --- |
//! | [`called`] | how messages begin, by the name under which the program was called |
//! | [`cannot`] | what cannot be done to a dataset or pool |
//! | [`check`] | what a check found |
//! | [`completion`] | what shells offer while a command line is typed |
//! | [`datasets`] | datasets and their properties, and what owners of files use |
//! | [`devices`] | why a device is not taken for a pool |
//! | [`diff`] | changes between a snapshot and something later |
//! | [`disks`] | names of disks |
//! | [`errors`] | what is said of a failure |
//! | [`events`] | what happened to pools |
//! | [`exit_codes`] | exit codes of OpenZFS's commands, where scripts look for them |
//! | [`far`] | disks in stores of objects |
//! | [`files`] | files and directories |
//! | [`hints`] | what can be done about a failure |
//! | [`history`] | what a pool remembers of what was done to it |
//! | [`import`] | pools that could be imported, and what is wrong with them |
//! | [`iostat`] | reads and writes by vdev, waiting times, stages, blocks, datasets |
//! | [`json`] | the shape that all JSON of OpenZFS's verbs has |
//! | [`keys`] | keys of encrypted datasets |
//! | [`layout`] | what a new pool is made of |
//! | [`listed`] | a pool in `zpool list` |
//! | [`members`] | why a device that was named is not taken |
//! | [`names`] | names of datasets that are wrong, or of nothing |
//! | [`naming`] | names of vdevs in tables |
//! | [`places`] | names and paths of files in messages |
//! | [`pool_properties`] | properties of pools and vdevs, one in a line |
//! | [`pool_settings`] | why a property of a pool is not set, and what to do |
//! | [`pools`] | pools and vdevs in rows and columns |
//! | [`progress`] | how far long work is, on one line |
//! | [`projects`] | projects of files |
//! | [`prometheus`] | everything, in the text format that Prometheus collects |
//! | [`receive`] | streams that are received |
//! | [`refusals`] | why a dataset or property cannot be changed |
//! | [`repair`] | a repair: its plan and its result |
//! | [`scripts`] | columns that scripts fill |
//! | [`states`] | states of a pool that could be opened |
//! | [`status`] | the health of pools |
//! | [`stored_only`] | properties that are stored for other systems alone |
//! | [`stores`] | the requests to object stores, and their cost |
//! | [`streams`] | send streams, record by record |
//! | [`top`] | one frame of a screen |
//! | [`tunables`] | what can be tuned |
//! | [`txg_lines`] | records of txgs, as lines of JSON |
//! | [`txgs`] | transaction groups |
//! | [`unsupported`] | verbs and options of OpenZFS's commands that are missing, and why |
//! | [`upgrade`] | features that pools have and lack |
//! | [`waiting`] | what is left of what goes on in a pool |
//!
//! **Invariant:** pure functions from the engine's figures to text; nothing is read, timed or
//! printed here, and no function is given what reads a pool.
#![forbid(unsafe_code)]

pub mod called;
pub mod cannot;
pub mod check;
pub mod completion;
pub mod datasets;
pub mod devices;
pub mod diff;
pub mod disks;
pub mod errors;
pub mod events;
pub mod exit_codes;
pub mod far;
pub mod files;
pub mod hints;
pub mod history;
mod host_info;
pub mod import;
pub mod iostat;
pub mod json;
pub mod keys;
pub mod layout;
pub mod listed;
pub mod members;
pub mod names;
pub mod naming;
pub mod places;
pub mod pool_properties;
pub mod pool_settings;
pub mod pools;
pub mod progress;
pub mod projects;
pub mod prometheus;
pub mod receive;
pub mod refusals;
pub mod repair;
pub mod scripts;
pub mod states;
pub mod status;
pub mod stored_only;
pub mod stores;
pub mod streams;
pub mod top;
pub mod tunables;
pub mod txg_lines;
pub mod txgs;
pub mod unsupported;
pub mod upgrade;
pub mod waiting;

pub use host_info::HostInfo;
