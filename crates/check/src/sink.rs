//! Where all threads put what they find.

use crate::issue::Issue;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Collects issues up to a limit; beyond they are only counted.
pub(crate) struct Sink {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    issues: Vec<Issue>,
    dropped: BTreeMap<&'static str, u64>,
}

impl Sink {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, inner: Mutex::default() }
    }

    pub(crate) fn put(&self, issue: Issue) {
        let mut inner = self.inner.lock();
        if inner.issues.len() < self.limit {
            inner.issues.push(issue);
        } else {
            *inner.dropped.entry(issue.name()).or_default() += 1;
        }
    }

    /// Takes back what turned out to be something else.
    pub(crate) fn retain(&self, is_so: impl FnMut(&Issue) -> bool) {
        self.inner.lock().issues.retain(is_so);
    }

    /// Adds what another collector counted and did not keep.
    pub(crate) fn put_dropped(&self, dropped: BTreeMap<&'static str, u64>) {
        let mut inner = self.inner.lock();
        for (name, count) in dropped {
            *inner.dropped.entry(name).or_default() += count;
        }
    }

    /// The issues in order of weight, and how many of each kind were not kept.
    pub(crate) fn finish(self) -> (Vec<Issue>, BTreeMap<&'static str, u64>) {
        let inner = self.inner.into_inner();
        let mut issues = inner.issues;
        issues.sort_by_key(|i| std::cmp::Reverse(i.severity()));
        (issues, inner.dropped)
    }
}
