//! Every structure of the ZFS on-disk format: decode and encode, in both byte orders.
//!
//! Input is a byte slice and a byte order; output is an owned, checked value or an [`Error`] with
//! the fault and its place. This crate does no I/O, has no `unsafe` and does not panic on any
//! input. The structures are specified in `docs/format/`.
#![forbid(unsafe_code)]

pub mod acl;
pub mod blkptr;
pub mod bookmark;
pub mod bpobj;
pub mod brt;
pub mod checkpoint;
pub mod config;
pub mod cursor;
pub mod ddt;
pub mod deadlist;
pub mod dmu_type;
pub mod dnode;
pub mod dsl;
pub mod errlog;
pub mod error;
pub mod expand;
pub mod features;
pub mod fuid;
pub mod gang;
pub mod hex;
pub mod history;
pub mod indirect;
pub mod kinds;
pub mod label;
pub mod mos;
pub mod nvlist;
pub mod objset;
pub mod pool_props;
pub mod props;
pub mod redaction;
pub mod sa;
pub mod scan;
pub mod spacemap;
pub mod spelling;
pub mod stream;
pub mod uberblock;
mod wordstruct;
pub mod zap;
pub mod zil;
pub mod znode;

pub use blkptr::{BlkPtr, Dva, EmbeddedKind};
pub use config::{LabelConfig, PoolConfig, PoolState, VdevConfig, VdevKind};
pub use cursor::{Endian, Reader, Writer};
pub use dmu_type::{DmuType, Layout};
pub use dnode::Dnode;
pub use dsl::{DslDataset, DslDir};
pub use errlog::Zbookmark;
pub use error::{Error, ErrorKind, Result};
pub use features::Feature;
pub use gang::GangHeader;
pub use kinds::{Checksum, Compression};
pub use label::Label;
pub use nvlist::{NvList, NvPair, NvValue};
pub use objset::{ObjsetKind, ObjsetPhys, ZilHeader};
pub use uberblock::Uberblock;
