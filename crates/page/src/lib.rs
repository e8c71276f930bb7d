//! The page that shows in a browser what pools do: what is remembered for it, and what a browser
//! is answered.
//!
//! # Theory
//!
//! ```text
//! source --sample, each second--> recorder: points and txgs of an hour      (series)
//!        --report, while a page is open--> space, scan, advice              (report)
//! browser --GET /            --> one document, the same for all requests    (document)
//!         --GET /data?after=T--> JSON: how it is now, and what came after T (answer)
//! ```
//!
//! A *source* is where a pool is held: in this process, or in another one behind a socket. Each has
//! two threads, so that one that hangs keeps neither the others nor the browser waiting: its last
//! answer is shown with its age. Samples are counters and touch no device; they are taken whether a
//! page is open or not, so that the hour is there when one is opened. Reports walk the datasets, so
//! they are made only while a browser polls, and at most one in [`REPORT_EACH`].
//!
//! The browser polls: a request is answered at once and its connection closed, so the number of
//! open connections is that of requests under way, and a browser that vanishes costs nothing.
//!
//! # Bounds
//!
//! An hour of one pool is 3600 points of less than 72 bytes and 4096 txgs of less than 300
//! ([`series`]): below 1.5 MB, whatever the pool does. A report names at most
//! [`report::DATASETS_MAX`] datasets, those that use the most.
//!
//! # Hostile names
//!
//! Names of pools, datasets and devices come from disks. They pass `term::escape` here, and the
//! document puts them into the page as text, never as HTML. Its policy
//! ([`document::Document::policy`]) lets a browser run the one script of the document and nothing
//! else, whatever is injected.
#![forbid(unsafe_code)]

mod answer;
mod document;
mod recorder;
mod report;
mod series;

pub use document::Document;
pub use recorder::{REPORT_EACH, Recorder, Sample, Source};
pub use report::{Report, Scan, Space};
