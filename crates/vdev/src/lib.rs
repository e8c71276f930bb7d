//! vdevs.
#![forbid(unsafe_code)]
pub mod draid;
mod draid_seeds;
pub mod map;
pub mod raidz;
