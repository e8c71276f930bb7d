//! Files of a dataset in a pool that is open for writing: `zplio` through the floor of files, and
//! `dmuio` past it, straight into the objects, one transaction for each chunk, as zpios does.
//!
//! Either way there are files afterwards, which any program can read: `dmuio` makes them at their
//! full length first, and then writes their objects.

use super::plan::{Layout, Plan};
use super::{PiosError, Result, Target};
use engine::inside::device::AlignedBuf;
use engine::inside::dmu::{Hold, Object};
use engine::inside::dsl::DatasetKind;
use engine::inside::dsl::write::{PropertyChange, parse_value};
use engine::inside::ondisk::Endian;
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::NewFilesystem;
use engine::inside::zio::Block;
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::{Filesystem, LivePool};
use std::fmt::Display;
use std::sync::Arc;

/// Bytes of metadata that a chunk makes dirty, at most.
const HOLD_TREE: u64 = 256 << 10;

/// How files of a pool are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMethod {
    /// As objects.
    Dmu,
    /// As files.
    Zpl,
}

/// Files of one run in a pool.
pub struct PoolFiles<'a> {
    pool: &'a LivePool,
    fs: Filesystem,
    method: PoolMethod,
    files: Vec<File>,
    /// A block of zeros that stands for all blocks of a run that fills nothing.
    zeros: Option<Arc<Block>>,
}

struct File {
    name: String,
    number: u64,
    object: Object,
}

/// A tenth more than is written has to be free, as pios wants it.
pub(super) fn enough(free: u64, plan: &Plan, place: &dyn Display) -> Result<()> {
    let needed = plan.total().saturating_add(plan.total() / 10);
    if needed <= free {
        return Ok(());
    }
    let (needed, free) = (super::human(needed), super::human(free));
    let what = format!("{needed} are needed in {place} and {free} are free");
    Err(PiosError::new(what).hint("fewer or smaller regions (-n, -s) need less"))
}

fn now(pool: &LivePool) -> Time {
    let wall = pool.rt().wall();
    Time { seconds: wall.as_secs().cast_signed(), nanos: u64::from(wall.subsec_nanos()) }
}

fn names(plan: &Plan) -> Vec<String> {
    let name = |n| match plan.layout {
        Layout::Shared => format!("pios-{}", plan.seed),
        Layout::PerRegion => format!("pios-{}.{n}", plan.seed),
    };
    (0..plan.files()).map(name).collect()
}

impl<'a> PoolFiles<'a> {
    /// Whether `dataset` has files of a run of this time stamp.
    #[must_use]
    pub fn is_taken(pool: &LivePool, dataset: &str, plan: &Plan) -> bool {
        let fs = pool.filesystem(dataset);
        let is_there = |fs: Filesystem| {
            names(plan).iter().any(|name| fs.by_path(name.as_bytes(), false).is_ok())
        };
        fs.is_ok_and(is_there)
    }

    /// The record size of `dataset`, when it is there.
    #[must_use]
    pub fn record_size(pool: &LivePool, dataset: &str) -> Option<u64> {
        pool.filesystem(dataset).ok().map(|fs| u64::from(fs.settings().record_size))
    }

    /// Makes the files of a run in `dataset`, which is made too when it is not there, without
    /// compression; its record size becomes the plan's block size.
    ///
    /// # Errors
    /// There is no room, or the files are there already.
    pub fn create(
        pool: &'a LivePool,
        dataset: &str,
        plan: &Plan,
        method: PoolMethod,
    ) -> Result<Self> {
        let fail = |e: &dyn Display| PiosError::new(format!("cannot use {dataset}")).because(e);
        let change = |name: &str, text: &str| {
            let value = parse_value(name, text, DatasetKind::Filesystem, true);
            let change = |v| PropertyChange { name: name.to_owned(), value: Some(v) };
            value.map(change).map_err(|e| fail(&e))
        };
        let record = change("recordsize", &plan.block_size.to_string())?;
        if pool.view().dsl().by_name(dataset).is_err() {
            let properties = vec![change("compression", "off")?, record];
            let made = pool.create_filesystem(dataset, NewFilesystem::default(), properties);
            made.map_err(|e| fail(&e))?;
        } else if Self::record_size(pool, dataset) != Some(plan.block_size) {
            pool.set_property(dataset, record).map_err(|e| fail(&e))?;
        }
        let found = pool.view().dsl().by_name(dataset).map_err(|e| fail(&e))?;
        let usable = pool.view().space().usable();
        let free = pool.view().dsl().available(&found, usable).map_err(|e| fail(&e))?;
        enough(free, plan, &dataset)?;
        let fs = pool.filesystem(dataset).map_err(|e| fail(&e))?;
        let files: Result<Vec<File>> = names(plan)
            .into_iter()
            .map(|name| {
                let fail = |e: &dyn Display| {
                    PiosError::new(format!("cannot make {name} in {dataset}")).because(e)
                };
                let new = NewFile::new(NewKind::File, 0o644, now(pool));
                let root = fs.root_object();
                let node = fs.create(root, name.as_bytes(), &new).map_err(|e| fail(&e))?;
                let number = node.number();
                let open = || fs.objset().object(number);
                let mut object = open().map_err(|e| fail(&e))?;
                if method == PoolMethod::Dmu {
                    let block = plan.block_size as u32;
                    let tx = fs.begin(Hold::write(HOLD_TREE)).map_err(|e| fail(&e))?;
                    object.set_block_size(&tx, block).map_err(|e| fail(&e))?;
                    drop(tx);
                    fs.truncate(number, plan.file_size(), now(pool)).map_err(|e| fail(&e))?;
                    object = open().map_err(|e| fail(&e))?;
                }
                Ok(File { name, number, object })
            })
            .collect();
        let bytes = || AlignedBuf::zeroed(plan.block_size as usize);
        let is_objects = method == PoolMethod::Dmu && !plan.fill;
        let zeros = is_objects.then(|| Arc::new(Block::new(bytes(), Endian::Little)));
        let out = Self { pool, fs, method, files: files?, zeros };
        out.sync()?;
        Ok(out)
    }

    /// Opens the files of an earlier run, named by its seed, to read them.
    ///
    /// # Errors
    /// One is not there.
    pub fn reopen(
        pool: &'a LivePool,
        dataset: &str,
        plan: &Plan,
        method: PoolMethod,
    ) -> Result<Self> {
        let fail = |what: &dyn Display, e: &dyn Display| {
            PiosError::new(format!("cannot read {what} of {dataset}")).because(e)
        };
        let fs = pool.filesystem(dataset).map_err(|e| fail(&"files", &e))?;
        let open = |name: String| {
            let node = fs.by_path(name.as_bytes(), false).map_err(|e| fail(&name, &e))?;
            let object = fs.objset().object(node.number()).map_err(|e| fail(&name, &e))?;
            Ok(File { name, number: node.number(), object })
        };
        let files: Result<Vec<File>> = names(plan).into_iter().map(open).collect();
        Ok(Self { pool, fs, method, files: files?, zeros: None })
    }

    fn file(&self, number: u64) -> Result<&File> {
        let missing = || PiosError::new(format!("there is no file number {number}"));
        self.files.get(number as usize).ok_or_else(missing)
    }
}

impl PoolFiles<'_> {
    /// The block of zeros, when this many bytes at this place are whole blocks.
    fn zeros_for(&self, at: u64, len: usize) -> Option<&Arc<Block>> {
        let whole =
            |b: &&Arc<Block>| at.is_multiple_of(b.len() as u64) && len.is_multiple_of(b.len());
        self.zeros.as_ref().filter(whole)
    }
}

fn failed(doing: &str, file: &File, e: &dyn Display) -> PiosError {
    PiosError::new(format!("cannot {doing} {}", file.name)).because(e)
}

impl Target for PoolFiles<'_> {
    fn write(&self, file: u64, at: u64, data: &[u8]) -> Result<()> {
        let file = self.file(file)?;
        let fail = |e: &dyn Display| failed("write", file, e);
        match self.method {
            PoolMethod::Zpl => {
                self.fs.write_at(file.number, at, data, now(self.pool)).map_err(|e| fail(&e))
            }
            PoolMethod::Dmu => {
                let hold = Hold::write(data.len() as u64 + HOLD_TREE);
                let tx = self.fs.begin(hold).map_err(|e| fail(&e))?;
                let Some(zeros) = self.zeros_for(at, data.len()) else {
                    return file.object.write_at(&tx, at, data).map_err(|e| fail(&e));
                };
                let (size, end) = (zeros.len() as u64, at + data.len() as u64);
                for blkid in at / size..end / size {
                    file.object.write_shared(&tx, blkid, zeros).map_err(|e| fail(&e))?;
                }
                Ok(())
            }
        }
    }

    fn read(&self, file: u64, at: u64, buf: &mut [u8]) -> Result<()> {
        let file = self.file(file)?;
        let fail = |e: &dyn Display| failed("read", file, e);
        match self.method {
            PoolMethod::Zpl => {
                let node = self.fs.node(file.number).map_err(|e| fail(&e))?;
                node.read_at(at, buf).map(drop).map_err(|e| fail(&e))
            }
            PoolMethod::Dmu => {
                let object = file.object.reopen().map_err(|e| fail(&e))?;
                object.read_at(at, buf).map(drop).map_err(|e| fail(&e))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.pool.sync().map_err(|e| PiosError::new("cannot sync the pool").because(&e))
    }

    fn remove(&self) -> Result<()> {
        let (root, now) = (self.fs.root_object(), now(self.pool));
        for file in &self.files {
            let removed = self.fs.unlink(root, file.name.as_bytes(), now);
            removed.map_err(|e| failed("remove", file, &e))?;
        }
        self.sync()
    }
}
