//! What a reader of the page is told about each study: what it was, on which machine, what its
//! repetition cannot say, and, where a row is outside its bounds, what is known of the reason.
//!
//! A reason is printed only where a row of its name is outside; what holds of the figures
//! themselves is computed from them ([`crate::outcome::Outcome::says`]).

use crate::outcome::Outcome;
use crate::row::Row;

/// About one study.
pub(super) struct StudyText {
    experiment: &'static str,
    /// Who measured what, and when.
    pub(super) study: &'static str,
    /// On what.
    pub(super) machine: &'static str,
    /// What the repetition cannot say.
    pub(super) limits: &'static str,
    /// A part of a row's name, and why such rows are outside.
    reasons: &'static [(&'static str, &'static str)],
}

/// That of an experiment.
pub(super) fn story(experiment: &str) -> Option<&'static StudyText> {
    STORIES.iter().find(|story| story.experiment == experiment)
}

impl StudyText {
    /// How many rows are outside for which known reason, and how many for none.
    pub(super) fn differences(&self, outcome: &Outcome) -> Vec<(usize, &'static str)> {
        let mut found: Vec<(usize, &'static str)> = Vec::new();
        for row in outcome.rows.iter().filter(|row| row.misses()) {
            let why = self.reason(row).unwrap_or(UNKNOWN);
            match found.iter_mut().find(|(_, known)| *known == why) {
                Some((count, _)) => *count += 1,
                None => found.push((1, why)),
            }
        }
        found
    }

    fn reason(&self, row: &Row) -> Option<&'static str> {
        self.reasons.iter().find(|(part, _)| row.row.contains(part)).map(|(_, why)| *why)
    }
}

const UNKNOWN: &str = "No reason is known.";

const TWO_LIMITS: &str = "The study's text sets the limit to 800 MB, its report shows 1500 to \
                          1750; here it is what was set.";

const STORIES: &[StudyText] = &[
    StudyText {
        experiment: "raw-sweep",
        study: "2006: single writes of 16 KiB to 32 MiB straight to a disk, each after the last \
                had ended, to find from which size on a disk is used well.",
        machine: "A Hitachi DK32EJ36N, 36 GB, 10,000 rpm SCSI, write cache off, once on.",
        limits: "The model has rotation, heads and a rate by zone. Where on the disk the study \
                 wrote is not said.",
        reasons: &[],
    },
    StudyText {
        experiment: "sync-stream",
        study: "2006: the same disk under a pool: how fast each transaction group of one \
                sequential writer was written, in blocks of 128 KiB, 35 of them under way.",
        machine: "The disk of raw-sweep with its write cache on.",
        limits: "The bytes of each group are given as the study printed them.",
        reasons: &[(
            "average I/O",
            "One of the study's groups has 126 KiB where the others have 127; here all are alike.",
        )],
    },
    StudyText {
        experiment: "throttle",
        study: "2008: writers that are faster than their disks, held back by a limit for each \
                transaction group: three reports of sync times, delays and limits.",
        machine: "A Sun Fire X4500, 42 disks of 500 GB, striped.",
        limits: "Number and speed of the writers and the rate of the disks were fitted. What else \
                 ran on the machine is not known.",
        reasons: &[
            ("override 800 MB: lowest limit", TWO_LIMITS),
            ("override 800 MB: highest limit", TWO_LIMITS),
            ("override 800 MB: histogram of limits", TWO_LIMITS),
            (
                "override 800 MB: delays",
                "Each write takes a tick while a group waits before the disks, as in the other \
             reports. The study's writers were hardly delayed in this one: they were slower, or \
             did not reach the limit.",
            ),
            (
                "override",
                "With the limit that the text sets, all groups are of 200 MB, five a second, and \
             half as much again is written as in the study, most of whose groups are smaller and \
             some four times as large. With the limit that its report shows, twice as much is.",
            ),
            (
                "mean sync: 1 s over",
                "By the study's text syncs are shorter on average than in report 1, by its \
             histograms longer by a twentieth; here they are about the same.",
            ),
            (
                "limit",
                "The limit of the study moved from 2750 to above 8000 within a report; here \
             it stands nearly still. A sync longer than the target sets it to what was written, \
             times target over time. If the study's longest sync was that of the group of 2800 to \
             3000 MB, it gave the lowest limit, and twice that is the most frequent one: a group \
             of half the limit took longer than full ones. Why is not known; here the disks are \
             always as fast.",
            ),
            (
                "synctime",
                "Hardly any group is as small here as most of the study's, whose \
             histogram of written bytes has nine of eleven below 200 MB, which its rates and \
             sync times do not allow. Read as every fourth group, counted as the limit counts, \
             it agrees: see the row that reads one slot. Short syncs are missing. The text and the \
             histogram of report 1 also differ: \"well over a second\" against 0.7 s.",
            ),
            ("delays", "Follows from the delays of both reports."),
            (
                "longest sync: 1 s over",
                "The longest sync of report 1 is a fifth shorter here than in the study.",
            ),
            ("zpool list", "620K used was not a new pool: one that was just made uses less."),
        ],
    },
    StudyText {
        experiment: "pios",
        study: "2007: a simulated parallel file system server writing through the object layer, \
                with few and many threads, disks and block sizes, and profiles of where time goes.",
        machine: "4 Xeons of 3.16 GHz and LUNs of a DDN S2A9550 array.",
        limits: "Processors and array were fitted to three profiles. The charts are lost; only \
                 what the text says of them can be compared.",
        reasons: &[
            (
                "dd:",
                "A command costs a unit 0.25 ms here, which was chosen by the rate of one unit in \
             a pool; so not even large writes reach the rate of dd.",
            ),
            (
                "spa_sync, I/O",
                "The model's syncs wait less for the array than the study's profile says; not \
             explained.",
            ),
            (
                "spa_sync, checksums",
                "What the sync thread still sums are metadata, of another format's steps.",
            ),
            (
                "more than with 8",
                "Follows from the bandwidths of both profiles, which are each within their bounds.",
            ),
            (
                "best number",
                "From 2 leaf-sync threads on the model is equally fast, but for half a hundredth. \
             What made more of them slower in the study is not in it.",
            ),
            (
                "SHA-256",
                "SHA-256 on one thread of such processors could not have given the study's own 210 \
             to 350 MB/s: its text and its rates do not go together.",
            ),
            (
                "checksums",
                "Checksums cost the model next to nothing; why the study gained without them was \
             not found.",
            ),
            (
                "unit",
                "Twelve units are no faster than two here, and one is slower than it was fitted \
             to: what limits the model is not what limited the study's machine.",
            ),
            (
                "threads",
                "64 threads are faster than one here. What kept the study's from it is not in the \
             model.",
            ),
            ("gain with", "Larger blocks gain more here than in the study; not explained."),
        ],
    },
    StudyText {
        experiment: "seek",
        study: "2009: reads of 512 bytes to 128 KiB in a row and at random, to find how many \
                later seeks a larger read has to save to pay.",
        machine: "A disk that is not named.",
        limits: "Every number of the disk was fitted to the rates that are compared; what agrees \
                 shows that such a disk can exist.",
        reasons: &[
            (
                "system",
                "The processor's time is one constant for each command here; the study's \
             falls more slowly as reads get larger.",
            ),
            (
                "by the table",
                "Text (5 %) and table (4.2 %) of the study differ; the model meets \
             the text.",
            ),
        ],
    },
    StudyText {
        experiment: "indirect",
        study: "2016: 16 KiB against 128 KiB indirect blocks on an 80 GB file of 8 KiB records: \
                random reads by number of cached levels, and random writes to full pools.",
        machine: "Three 100 GB disks, 10,000 rpm SAS.",
        limits: "One factor of the seek times was fitted. Writes are done on a two hundredth of \
                 the study's sizes.",
        reasons: &[
            (
                "fragment",
                "Fragmentation hardly differs between the sizes here (1 point, not 10); \
             not explained.",
            ),
            (
                "file, 200 times",
                "The study's file, compressed 2.90 times and with its metadata, takes more of its \
             disks than the 75 % that it says are allocated; here they are as full as it says.",
            ),
            (
                "writes",
                "Random writes are 2 to 3 times as fast as the study's, at a two hundredth \
             of its sizes; not explained.",
            ),
            (
                "slower",
                "The file without compression is written more slowly with large indirect \
             blocks here.",
            ),
        ],
    },
    StudyText {
        experiment: "h7-unequal-vdevs",
        study: "2015: how 252 MB are spread over two vdevs of 128 and 512 MiB.",
        machine: "None: no time is measured.",
        limits: "zinc has the metaslab sizes of today, not of 2015.",
        reasons: &[(
            "",
            "Metaslabs are larger than in 2015, so more of a small vdev is rounded \
                    away; and zinc fills by free space from the first block on, where the study \
                    began with equal shares.",
        )],
    },
    StudyText {
        experiment: "h3-latency-lanes",
        study: "2015: copies to disks of artificial latency, each with several lanes.",
        machine: "Lanes that take 10, 16 or 32 ms for any request.",
        limits: "The size of memory is assumed. The repetition was mended after it was compared, \
                 so none of its rows is a prediction any more.",
        reasons: &[
            (
                "of two",
                "zinc fills vdevs by space, not by speed; and all eight copies wait in \
             sync at the same time here.",
            ),
            ("standard deviation", "Nothing but the lanes takes time here."),
        ],
    },
    StudyText {
        experiment: "h5-one-mirror",
        study: "2016: one side of a mirror with ten writes under way, and with one.",
        machine: "7200 rpm, 135.7 MB/s.",
        limits: "Memory (4 GiB) and that the disks cache no writes are assumed; both decide.",
        reasons: &[],
    },
    StudyText {
        experiment: "h4-mirror-reads",
        study: "2013: 16 threads reading from two mirrors of one to four sides.",
        machine: "Disks that are not named; their seeks were fitted by one of 16 rows.",
        limits: "What zinc reads ahead of readers is switched off: it could not when this was \
                 predicted.",
        reasons: &[
            (
                "in order",
                "Nothing is read ahead here: single disks are not kept busy, and more sides \
             gain more than in the study.",
            ),
            (
                "at random, 1 MiB",
                "The study's disks took eight times as long for the same bytes; \
             its engine read ahead behind each of them.",
            ),
        ],
    },
    StudyText {
        experiment: "h2-layouts",
        study: "2019: 26 layouts of up to 24 disks on one machine, by bonnie++.",
        machine: "WD 4 TB SAS disks, 16 GiB of memory; nothing was fitted.",
        limits: "A thirty-second of the bytes: a sync has as many flushes and labels as of all. \
                 Reading ahead is switched off: zinc could not when this was predicted.",
        reasons: &[
            (": write", "Small syncs: with a fourth of the bytes stripes and RAID-Z come out."),
            (": read", "Nothing is read ahead here, so one reader has one record under way."),
            ("rewrite", "Each record is waited for, as nothing is read ahead here."),
            (
                "seeks",
                "Most are answered from memory here; how much of the study's held blocks \
             is not said.",
            ),
        ],
    },
    StudyText {
        experiment: "h6-throttle-curve",
        study: "2017 and 2024: how long transactions are delayed by how much is dirty, of \
                eighteen transaction groups; and the time of writes with two limits.",
        machine: "A virtual machine whose disks took 66 to 114 MB/s; one NVMe disk.",
        limits: "What is dirty in each group is given as it was printed.",
        reasons: &[
            (
                "mean delay",
                "The simulated disk has one rate, so what is dirty hardly moves within \
             a group; the study's moved, and the mean of a curve that bends upwards is above it.",
            ),
            (
                "limit default",
                "What stood still in the study for up to a second is not in its \
             text; here writers are delayed like any other once 60 % of 4 GiB are dirty.",
            ),
            (
                "limit 1 GiB",
                "zinc sleeps for a millisecond at least and lets others pass \
             meanwhile; and nothing stalls here.",
            ),
        ],
    },
    StudyText {
        experiment: "h1-synchronous-writes",
        study: "2017: synchronous writes of 8 KiB by 1 to 1024 threads on 1 to 8 disks.",
        machine: "10,000 rpm disks that are not named.",
        limits: "A few seconds of each cell instead of a minute.",
        reasons: &[
            ("busy", "Not looked for."),
            (
                "",
                "zinc writes a batch while the last one is flushed: few threads keep a block \
             waiting behind the one that is written, and miss no turn, which the study's do. One \
             thread misses each, on several disks too, where the study's waited for half of one.",
            ),
        ],
    },
    StudyText {
        experiment: "h8-scan-order",
        study: "2016 to 2023: scrubs, resilvers and a rebuild of pools of hard disks, in the order \
                of bookmarks and of the disks.",
        machine: "7200 rpm disks that are not named.",
        limits: "A small part of the bytes, on disks that are smaller in proportion.",
        reasons: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bound;

    #[test]
    fn every_experiment_has_a_story() {
        for experiment in crate::EXPERIMENTS {
            assert!(story(experiment.name).is_some(), "{}", experiment.name);
        }
        assert_eq!(STORIES.len(), crate::EXPERIMENTS.len());
    }

    #[test]
    fn only_what_is_outside_has_a_reason() {
        let row = |name: &str, value| Row::predicted(name, "", 1.0, Bound::Within(0.1), value);
        let rows = vec![row("4 disks: rewrite", 1.0), row("a: seeks", 9.0), row("odd", 9.0)];
        let outcome = Outcome { rows, ..Outcome::new("h2-layouts", String::new()) };
        let Some(story) = story("h2-layouts") else { panic!("no story") };
        let found = story.differences(&outcome);
        assert_eq!(found.len(), 2);
        assert!(found[0].1.contains("memory") && found[1] == (1, UNKNOWN));
    }
}
