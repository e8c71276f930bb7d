//! The metaslabs of a vdev, which may become more while they are used.
//!
//! A vdev whose devices have grown gets more of them, and nothing else changes: a thread that has a
//! metaslab, or its number, can use it further. So they are kept in generations, each made once,
//! and the next one is hung on the last without a lock that a reader would have to take.

use super::metaslab::Metaslab;
use std::slice;
use std::sync::OnceLock;

pub(super) struct Metaslabs {
    own: Vec<Metaslab>,
    more: OnceLock<Box<Metaslabs>>,
}

impl Metaslabs {
    pub(super) fn new(own: Vec<Metaslab>) -> Self {
        Self { own, more: OnceLock::new() }
    }

    fn generations(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |slabs| slabs.more.get().map(|more| &**more))
    }

    /// Adds metaslabs behind the last one. Of two threads that do it at once one does nothing, and
    /// returns `false`.
    pub(super) fn extend(&self, more: Vec<Metaslab>) -> bool {
        let last = self.generations().last().unwrap_or(self);
        last.more.set(Box::new(Self::new(more))).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.generations().map(|slabs| slabs.own.len()).sum()
    }

    pub(super) fn get(&self, mut index: usize) -> Option<&Metaslab> {
        for slabs in self.generations() {
            match index.checked_sub(slabs.own.len()) {
                Some(rest) => index = rest,
                None => return slabs.own.get(index),
            }
        }
        None
    }

    pub(super) fn last(&self) -> Option<&Metaslab> {
        self.generations().filter_map(|slabs| slabs.own.last()).last()
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        Iter { here: self.own.iter(), slabs: self }
    }
}

/// All metaslabs in order.
pub(super) struct Iter<'a> {
    here: slice::Iter<'a, Metaslab>,
    slabs: &'a Metaslabs,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Metaslab;

    fn next(&mut self) -> Option<&'a Metaslab> {
        loop {
            if let Some(next) = self.here.next() {
                return Some(next);
            }
            self.slabs = self.slabs.more.get()?;
            self.here = self.slabs.own.iter();
        }
    }
}

impl<'a> IntoIterator for &'a Metaslabs {
    type Item = &'a Metaslab;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
