//! Whether the state of a txg is intact: a walk over metadata only, for choosing where to rewind.
//!
//! The blocks below an uberblock are overwritten bit by bit once newer txgs reuse their space, so
//! the older an uberblock, the more of it may be gone. Checked are the MOS with all its objects,
//! and of every dataset the dnodes and what it is entered by: enough to know what can still be
//! reached, and quick.

use dmu::Objset;
use ondisk::DmuType;
use pool::UnguardedDatasets as _;
use pool::{Pool, Verdict};

/// Objects and blocks that are lost, with a text about the first.
#[derive(Default)]
struct Losses {
    count: u64,
    first: Option<String>,
}

impl Losses {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(what());
        }
    }
}

/// Judges the state that `pool` was opened with.
#[must_use]
pub fn verdict(pool: &Pool) -> Verdict {
    let mut losses = Losses::default();
    let mut datasets = Vec::new();
    let mut objects = 0u64;
    for object in pool.mos().objects() {
        match object {
            Ok(o) => {
                objects += 1;
                if o.dnode().bonus_kind == DmuType::DSL_DATASET {
                    datasets.push(o.number());
                }
                // Data of the MOS is all metadata.
                let last = o.dnode().max_block;
                let mut at = Some(0);
                while let Some(from) = at.filter(|a| *a <= last) {
                    at = match o.next_block(from) {
                        Ok(Some(b)) => {
                            if let Err(e) = o.read_block(b) {
                                losses.add(|| e.to_string());
                            }
                            b.checked_add(1)
                        }
                        Ok(None) => None,
                        Err((e, resume)) => {
                            losses.add(|| e.to_string());
                            resume.filter(|r| *r > from)
                        }
                    };
                }
            }
            Err(e) => losses.add(|| e.to_string()),
        }
    }
    if objects == 0 {
        return Verdict::Lost(losses.first.unwrap_or_else(|| "the MOS is empty".to_owned()));
    }
    for number in datasets {
        match open(pool, number) {
            Ok(Some(set)) => {
                if let Err(e) = zpl::must_open(&set) {
                    losses.add(|| format!("dataset {number}: {e}"));
                }
                for object in set.objects().filter_map(Result::err) {
                    losses.add(|| object.to_string());
                }
            }
            Ok(None) => {}
            Err(e) => losses.add(|| format!("dataset {number}: {e}")),
        }
    }
    match losses.first {
        None => Verdict::Intact,
        Some(first) => Verdict::Partial { lost: losses.count, first },
    }
}

/// The object set of a dataset; `None` when it is empty or its dnodes are encrypted and locked.
fn open(pool: &Pool, number: u64) -> dsl::Result<Option<Objset>> {
    let root = pool.dsl().root()?;
    let d = pool.dsl().dataset(number, format!("dataset {number}"), &root)?;
    // One that is being received has not all of it yet.
    if d.phys.bp.is_hole() || d.phys.is_inconsistent() {
        return Ok(None);
    }
    let store = std::sync::Arc::clone(pool.mos().store());
    let set = Objset::open(store, number, &d.phys.bp, None)?;
    let meta = set.meta_object();
    let encrypted = meta.and_then(|m| m.block_pointer(0, 0).ok().flatten());
    Ok((!encrypted.is_some_and(|bp| bp.is_encrypted())).then_some(set))
}
