//! Numbers of the five documents that no row publishes, and why.
//!
//! The data file of the documents is tests/published.toml. Each of its numbers is the published
//! value of a row, or a part of a row's name, or stands here (`both_ways.rs`).

/// A number of the data file that no row publishes.
pub(super) struct NotARow {
    /// Section and key.
    pub(super) member: &'static str,
    /// Which numbers of each line of it; all where there are none.
    pub(super) columns: &'static [usize],
    /// What the numbers are.
    pub(super) what: &'static str,
    /// Why none of the rows publishes them.
    pub(super) why: &'static str,
}

impl NotARow {
    /// Its line in the document.
    pub(super) fn line(&self) -> String {
        let columns: String =
            self.columns.iter().map(|at| format!(", number {}", at + 1)).collect();
        format!("| `{}`{columns} | {} | {} |\n", self.member, self.what, self.why)
    }
}

const fn all(member: &'static str, what: &'static str, why: &'static str) -> NotARow {
    NotARow { member, columns: &[], what, why }
}

const SETTING: &str = "a setting of the test, which is made";
const PART_OF_THE_LOAD: &str = "a part of the load, which is made; it is among the parameters";
const LOST: &str =
    "the points of a chart that the document no longer has; ours are rows of our own";

pub(super) const NOT_ROWS: &[NotARow] = &[
    all("raw_sweep queue_depth", "requests under way", PART_OF_THE_LOAD),
    all("sync_stream concurrent_ios", "writes under way", PART_OF_THE_LOAD),
    all("throttle.default synctime_s", "the target time of report 1", SETTING),
    all("throttle.synctime_1s synctime_s", "the target time of report 2", SETTING),
    all("pios threads_surveyed", "threads of the application", LOST),
    all("pios zio_threads_surveyed", "zio threads", LOST),
    all(
        "pios zio_threads_default",
        "zio threads by default",
        "the setting of all surveys but that of zio threads",
    ),
    NotARow {
        member: "pios.profile threads",
        columns: &[0],
        what: "threads of each kind",
        why: "settings of the profiles; they are in the names of rows",
    },
    NotARow {
        member: "pios.profile threads: zio_issue_writers",
        columns: &[1],
        what: "checksums of the writers, about 0",
        why: "threads that write make no checksums with these settings, by construction",
    },
    NotARow {
        member: "pios.profile threads: spa_sync",
        columns: &[3],
        what: "I/Os of the sync thread at once, 1",
        why: "it is one thread",
    },
    NotARow {
        member: "pios.profile threads: leaf_sync",
        columns: &[2],
        what: "I/O of the threads that sync leaves, none",
        why: "they do none, by construction",
    },
    all("indirect.read reads", "reads of a case", "a part of the load, which is made"),
    all("indirect.write compress_ratio", "compression of the second write case", PART_OF_THE_LOAD),
];
