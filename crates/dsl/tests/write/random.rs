//! Random histories.

use crate::audit;
use crate::pool::TestPool;
use dmu::{NewObject, Objset, Tx};
use dsl::write::{self, PropertyChange};
use dsl::{Error, StoredValue};
use ondisk::DmuType;
use std::collections::BTreeMap;
use testkit::Rng;

/// Bytes of a data block.
const BLOCK: u64 = 1024;

/// Writes blocks of an object, which is made when it is not there.
pub(crate) fn fill(
    set: &Objset,
    tx: &Tx,
    number: u64,
    blocks: std::ops::Range<u64>,
) -> dmu::Result<()> {
    let object = match set.object(number) {
        Ok(o) => o,
        Err(_) => {
            let spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(BLOCK as u32);
            set.create(tx, &spec.number(number))?
        }
    };
    for n in blocks {
        let word = (tx.txg() << 32 | n << 8 | number).to_le_bytes();
        let data: Vec<u8> = word.iter().copied().cycle().take(BLOCK as usize).collect();
        object.write_at(tx, n * BLOCK, &data)?;
    }
    Ok(())
}

struct History {
    pool: TestPool,
    rng: Rng,
    step: u64,
}

/// A refusal is one of the things that can happen; any other error is not.
fn allowed<T>(result: dsl::Result<T>) -> Option<T> {
    match result {
        Ok(v) => Some(v),
        Err(Error::Refused { .. }) => None,
        Err(e) => panic!("{e}"),
    }
}

/// Runs one history. Returns how often what can be refused was done, by the word for it.
pub(crate) fn run(steps: &[u64]) -> BTreeMap<String, u64> {
    let pool = TestPool::create();
    let mut h = History { pool, rng: Rng::new(0), step: 0 };
    let mut done = BTreeMap::new();
    for (step, number) in (0..).zip(steps) {
        h.step = step;
        h.rng = Rng::new(*number);
        let what = h.step();
        if let Some((word, _)) = what.split_once(' ').filter(|(_, rest)| rest.contains("Some(")) {
            *done.entry(word.to_owned()).or_default() += 1;
        }
        h.pool.sync();
        if h.rng.below(10) == 0 {
            h.pool.reopen();
        }
        let check = std::panic::AssertUnwindSafe(|| h.check());
        if let Err(e) = std::panic::catch_unwind(check) {
            let why = e.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("step {step}: {what}: {why}");
        }
    }
    h.destroy_everything();
    done
}

impl History {
    fn check(&self) {
        audit::check(&self.pool);
    }

    fn heads(&self) -> Vec<String> {
        let walk = self.pool.dsl().walk();
        walk.into_iter().map(|(n, d)| d.map(|_| n).unwrap()).collect()
    }

    fn snapshots(&self) -> Vec<String> {
        let all = self.pool.dsl().datasets();
        all.into_iter().map(|(n, _)| n).filter(|n| n.contains('@')).collect()
    }

    fn pick(&mut self, names: &[String]) -> Option<String> {
        (!names.is_empty()).then(|| self.rng.pick(names).clone())
    }

    fn head_object(&self, name: &str) -> u64 {
        self.pool.dsl().by_name(name).unwrap().object
    }

    fn step(&mut self) -> String {
        let heads = self.heads();
        let snaps = self.snapshots();
        let step = self.step;
        let head = self.pick(&heads).unwrap();
        let snap = self.pick(&snaps);
        match self.rng.below(24) {
            0 | 1 if heads.len() < 12 => {
                let name = format!("{head}/d{step}");
                allowed(self.pool.task(|cx, dsl| {
                    write::create_dataset(cx, dsl, &name, &[], &write::Encryption::Inherit)
                }));
                format!("create {name}")
            }
            2..=8 => self.change(&head),
            9..=12 if snaps.len() < 30 => self.snapshot(&head, &heads),
            13..=15 => {
                let Some(name) = snap else { return "nothing".into() };
                let defer = self.rng.below(3) == 0;
                let gone = self.pool.task(|cx, dsl| write::destroy_snapshot(cx, dsl, &name, defer));
                format!("destroy {name}: {:?}", allowed(gone))
            }
            16 if heads.len() < 12 => {
                let Some(origin) = snap else { return "nothing".into() };
                let name = format!("{head}/c{step}");
                let made =
                    self.pool.task(|cx, dsl| write::clone_dataset(cx, dsl, &name, &origin, &[]));
                if let Some(new) = allowed(made).filter(|_| self.rng.below(2) == 0) {
                    self.pool.sync();
                    self.pool.write(new.head, |set, tx| fill(set, tx, 1, 0..3));
                }
                format!("clone {origin} {name}")
            }
            17 | 18 => {
                let done = self.pool.task(|cx, dsl| write::promote(cx, dsl, &head));
                format!("promote {head}: {:?}", allowed(done))
            }
            19 => {
                let Some(name) = snap else { return "nothing".into() };
                let younger = self.rng.below(2) == 0;
                let done = self.pool.task(|cx, dsl| write::rollback(cx, dsl, &name, younger));
                let done = allowed(done);
                if done.is_some() {
                    let path = name.split('@').next().unwrap().to_owned();
                    let object = self.head_object(&path);
                    self.pool.close(object);
                }
                format!("rollback {name}: {done:?}")
            }
            20 => {
                let object = self.head_object(&head);
                let done = self.pool.task(|cx, dsl| write::destroy_head(cx, dsl, &head));
                if allowed(done).is_some() {
                    self.pool.close(object);
                }
                format!("destroy {head}")
            }
            21 => {
                let above = self.pick(&heads).unwrap();
                let to = format!("{above}/r{step}");
                let done = self.pool.task(|cx, dsl| write::rename_dir(cx, dsl, &head, &to));
                format!("rename {head} {to}: {:?}", allowed(done))
            }
            22 => self.property(&head),
            _ => self.bookmark_or_drain(&head, snap),
        }
    }

    /// Snapshots of one or two heads, of which one may have changed in the same txg: its blocks are
    /// the snapshot's.
    fn snapshot(&mut self, head: &str, heads: &[String]) -> String {
        if self.rng.below(2) == 0 {
            self.change(head);
        }
        let step = self.step;
        let mut names = vec![format!("{head}@s{step}")];
        let other = self.pick(heads).filter(|o| *o != head);
        names.extend(other.map(|o| format!("{o}@s{step}")));
        allowed(self.pool.task(|cx, dsl| write::snapshot(cx, dsl, &names, &[])));
        format!("snapshot {names:?}")
    }

    fn bookmark_or_drain(&mut self, head: &str, snap: Option<String>) -> String {
        let step = self.step;
        match (self.rng.below(4), snap) {
            (0, Some(snap)) => {
                let mark = format!("{}#m{step}", snap.split('@').next().unwrap());
                let made = self.pool.task(|cx, dsl| write::create_bookmark(cx, dsl, &mark, &snap));
                allowed(made);
                format!("bookmark {mark} {snap}")
            }
            (1, _) => {
                let dsl = self.pool.dsl();
                let marks = dsl.bookmarks(&dsl.by_name(head).unwrap()).unwrap();
                let Some(mark) = marks.into_iter().next() else { return "nothing".into() };
                let copy = format!("{head}#c{step}");
                let made =
                    self.pool.task(|cx, dsl| write::create_bookmark(cx, dsl, &copy, &mark.name));
                assert_eq!(made.unwrap(), mark.phys);
                format!("bookmark {copy} {}", mark.name)
            }
            (2, _) => {
                let dsl = self.pool.dsl();
                let marks = dsl.bookmarks(&dsl.by_name(head).unwrap()).unwrap();
                let Some(mark) = marks.into_iter().next() else { return "nothing".into() };
                let gone = self.pool.task(|cx, dsl| write::destroy_bookmark(cx, dsl, &mark.name));
                gone.unwrap();
                format!("destroy {}", mark.name)
            }
            _ => {
                let max = 1 + self.rng.below(60);
                let done = self.pool.task(|cx, _| write::drain(cx, max)).unwrap();
                assert_eq!(done.lost, 0);
                format!("drain {max}: {done:?}")
            }
        }
    }

    fn change(&mut self, head: &str) -> String {
        let object = self.head_object(head);
        let mut plan = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let number = 1 + self.rng.below(5);
            let first = self.rng.below(40);
            plan.push((self.rng.below(5), number, first, 1 + self.rng.below(20)));
        }
        self.pool.write(object, |set, tx| {
            for (what, number, first, n) in &plan {
                match (what, set.object(*number)) {
                    (0, Ok(_)) => set.free(tx, *number)?,
                    (1, Ok(o)) => o.free_range(tx, first * BLOCK, n * BLOCK)?,
                    _ => fill(set, tx, *number, *first..first + n)?,
                }
            }
            Ok(())
        });
        format!("change {head}: {plan:?}")
    }

    fn property(&mut self, head: &str) -> String {
        let name = *self.rng.pick(&["reservation", "refreservation", "quota", "refquota"]);
        let value = match self.rng.below(3) {
            0 => None,
            _ => Some(StoredValue::Number(self.rng.below(400) * 1024)),
        };
        let change = PropertyChange { name: name.to_owned(), value };
        let done = self.pool.task(|cx, dsl| write::set_property(cx, dsl, head, &change));
        format!("set {change:?} {head}: {:?}", allowed(done))
    }

    /// Nothing is left but the root's own.
    fn destroy_everything(&mut self) {
        // A clone may be above its origin; side by side nothing is in the way of anything.
        for (i, name) in self.heads().into_iter().rev().enumerate() {
            let to = format!("p/z{i}");
            if name != "p" {
                for limit in ["quota", "reservation"] {
                    let change = PropertyChange { name: limit.to_owned(), value: None };
                    self.pool.task(|cx, dsl| write::set_property(cx, dsl, &name, &change)).unwrap();
                }
                self.pool.task(|cx, dsl| write::rename_dir(cx, dsl, &name, &to)).unwrap();
            }
        }
        self.pool.sync();
        self.check();
        // The root may be a clone of what was once a clone of it.
        while allowed(self.pool.task(|cx, dsl| write::promote(cx, dsl, "p"))).is_some() {}
        for _ in 0..200 {
            let (heads, snaps) = (self.heads(), self.snapshots());
            if heads.len() == 1 && snaps.is_empty() {
                break;
            }
            for name in snaps {
                let gone = self.pool.task(|cx, dsl| match dsl.by_name(&name) {
                    Ok(_) => write::destroy_snapshot(cx, dsl, &name, true).map(drop),
                    Err(_) => Ok(()),
                });
                allowed(gone);
            }
            for name in heads.into_iter().rev() {
                allowed(self.pool.task(|cx, dsl| write::destroy_head(cx, dsl, &name)));
            }
            self.pool.sync();
        }
        assert_eq!(self.heads(), ["p"]);
        assert!(self.snapshots().is_empty());
        self.check();
        while !self.pool.task(|cx, _| write::drain(cx, 100)).unwrap().done {
            self.pool.sync();
            self.check();
        }
        self.pool.sync();
        self.check();
    }
}
