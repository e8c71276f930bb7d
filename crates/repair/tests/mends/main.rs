//! One act of damage of each kind, and its repair: zdb errs before and finds nothing after, no file
//! is lost that was whole, and what the repair wrote can be put back.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../../check/tests/common/mod.rs"]
mod common;

mod apply;
mod counts;
mod encrypted;
mod files;
mod judge;
mod kit;
mod layouts;
mod links;
mod logs;
mod mos;
mod removed;
mod sets;
mod shared;
mod space;

// What the surgeon is made of.
use codec as _;
