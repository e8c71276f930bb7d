//! The verbs, one file (or folder) each.

pub mod advise;
pub mod cat;
pub mod check;
pub mod completions;
pub mod cp;
pub mod far;
pub mod files;
pub mod inventory;
pub mod lab;
pub mod ls;
pub mod man;
pub mod mount;
pub mod nbd;
pub mod pios;
pub mod repair;
pub mod rescue;
pub mod serve;
pub mod stat;
pub mod throttle;
pub mod top;
pub mod tunables;
pub mod txgs;
pub mod verb;
pub mod zdb;
pub mod zfs;
pub mod zpool;
