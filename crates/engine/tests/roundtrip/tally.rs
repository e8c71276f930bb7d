//! What was compared, how often, and what was not the same.

use engine::inside::ondisk::{Endian, Error};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Differences that are printed; more of them say nothing new.
const SHOWN: usize = 40;

/// Counts per structure, and differences.
#[derive(Default)]
pub(crate) struct Tally {
    place: String,
    counts: BTreeMap<String, u64>,
    wrong: Vec<String>,
    wrong_count: u64,
}

impl Tally {
    /// Names where the structures that follow are from.
    pub(crate) fn at(&mut self, place: &str) {
        place.clone_into(&mut self.place);
    }

    /// Counts one structure that was compared.
    pub(crate) fn count(&mut self, what: &str) {
        match self.counts.get_mut(what) {
            Some(n) => *n += 1,
            None => {
                self.counts.insert(what.to_owned(), 1);
            }
        }
    }

    /// Notes a difference.
    pub(crate) fn wrong(&mut self, what: &str, why: &str) {
        self.wrong_count += 1;
        if self.wrong.len() < SHOWN {
            self.wrong.push(format!("{}: {what}: {why}", self.place));
        }
    }

    /// Counts one structure and compares its bytes with those it encodes to.
    pub(crate) fn same(&mut self, what: &str, stored: &[u8], encoded: &[u8]) {
        self.count(what);
        if stored != encoded {
            let at = stored.iter().zip(encoded).position(|(a, b)| a != b);
            let at = at.unwrap_or(stored.len().min(encoded.len()));
            let show = |b: &[u8]| format!("{:02x?}", &b[at.min(b.len())..(at + 16).min(b.len())]);
            let (from, to) = (show(stored), show(encoded));
            let sizes = format!("{} and {} bytes", stored.len(), encoded.len());
            self.wrong(what, &format!("{sizes} differ from byte {at}: {from} became {to}"));
        }
    }

    /// Compares equal values.
    pub(crate) fn equal<T: PartialEq + Debug>(&mut self, what: &str, one: &T, other: &T) {
        self.count(what);
        if one != other {
            self.wrong(what, &format!("{one:?} became {other:?}"));
        }
    }

    /// Decodes, encodes and compares, and does so by way of the other byte order. The encoder
    /// may write less than `stored` has: the caller has cut it to the part that is defined.
    pub(crate) fn round<T: PartialEq + Debug, B: AsRef<[u8]>>(
        &mut self,
        what: &str,
        stored: &[u8],
        endian: Endian,
        decode: impl Fn(&[u8], Endian) -> Result<T, Error>,
        encode: impl Fn(&T, Endian) -> B,
    ) -> Option<T> {
        let value = match decode(stored, endian) {
            Ok(value) => value,
            Err(error) => {
                self.wrong(what, &error.to_string());
                return None;
            }
        };
        self.same(what, stored, encode(&value, endian).as_ref());
        let other = endian.swapped();
        match decode(encode(&value, other).as_ref(), other) {
            Ok(again) if encode(&again, endian).as_ref() == stored => {}
            Ok(again) => self.wrong(what, &format!("{value:?} is {again:?} by way of {other:?}")),
            Err(error) => self.wrong(what, &format!("{error} by way of {other:?}")),
        }
        Some(value)
    }

    /// Fails when one of the structures was not met.
    pub(crate) fn require(&self, names: &[&str]) {
        let missing: Vec<_> = names.iter().filter(|n| !self.counts.contains_key(**n)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}; met: {:?}", self.counts);
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        for (what, count) in &self.counts {
            println!("{count:>9}  {what}");
        }
    }

    /// Fails with what was different.
    pub(crate) fn finish(&self) {
        let (n, shown) = (self.wrong_count, self.wrong.join("\n"));
        assert!(self.wrong.is_empty(), "{n} differences:\n{shown}");
    }
}
