//! What a reader of the page is told about each study: what it was, on which machine, what its
//! repetition cannot say, and, where a row is outside its bounds, what is known of the reason.
//!
//! A reason was looked for where a row was outside in a run of the whole study on its own machine,
//! on one side of its bounds. It is printed only where that is so again: of a row of its name that
//! is compared with something of the study, outside on that side. Elsewhere it is said that none
//! was looked for. What holds of the figures themselves is computed from them
//! ([`crate::outcome::Outcome::says`]).

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
    /// Why rows are outside, the first that is about a row.
    reasons: &'static [Reason],
}

/// Why rows are outside.
struct Reason {
    /// A part of their names, or where that is said their begin.
    part: &'static str,
    is_begin: bool,
    /// On which side of the bounds that was looked for.
    side: Side,
    why: &'static str,
}

/// On which side of its bounds a row is.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Below,
    Above,
    /// The reason is one for both, and says why it is.
    Either,
}

const fn below(part: &'static str, why: &'static str) -> Reason {
    Reason { part, is_begin: false, side: Side::Below, why }
}

const fn above(part: &'static str, why: &'static str) -> Reason {
    Reason { part, is_begin: false, side: Side::Above, why }
}

const fn either(part: &'static str, why: &'static str) -> Reason {
    Reason { part, is_begin: false, side: Side::Either, why }
}

impl Reason {
    /// The same, of rows whose names begin like that.
    const fn at_begin(self) -> Self {
        Self { is_begin: true, ..self }
    }

    fn is_about(&self, row: &str) -> bool {
        if self.is_begin { row.starts_with(self.part) } else { row.contains(self.part) }
    }
}

/// That of an experiment.
pub(super) fn story(experiment: &str) -> Option<&'static StudyText> {
    STORIES.iter().find(|story| story.experiment == experiment)
}

impl StudyText {
    /// Why a row is outside on these sides: below its bounds, above them.
    fn reason(&self, row: &str, (is_below, is_above): (bool, bool)) -> Option<&'static str> {
        let is_about = |reason: &&Reason| {
            let sides = match reason.side {
                Side::Below => is_below,
                Side::Above => is_above,
                Side::Either => is_below || is_above,
            };
            sides && reason.is_about(row)
        };
        self.reasons.iter().find(is_about).map(|reason| reason.why)
    }
}

/// Why a row is outside its bounds, as far as that is known; `None` where it is not outside.
pub(super) fn why(outcome: &Outcome, row: &Row) -> Option<&'static str> {
    let known = || story(outcome.experiment).and_then(|s| s.reason(&row.row, row.sides()));
    row.misses().then(|| match row.compared() {
        None => OURS,
        Some(_) if outcome.is_part => OF_A_PART,
        Some(_) => known().unwrap_or(UNKNOWN),
    })
}

/// The rows that are outside, by the reason for that.
pub(super) fn differences(outcome: &Outcome) -> Vec<(&'static str, Vec<&Row>)> {
    let mut found: Vec<(&'static str, Vec<&Row>)> = Vec::new();
    for row in &outcome.rows {
        let Some(why) = why(outcome, row) else { continue };
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, rows)) => rows.push(row),
            None => found.push((why, vec![row])),
        }
    }
    found
}

const UNKNOWN: &str = "No reason is known: on this side of its bounds none was looked for.";

const OURS: &str = "A goal of ours, no figure of the study. Why it is missed was not looked for.";

const OF_A_PART: &str = "Not looked for with a part of the study's work.";

const TWO_LIMITS: &str = "The study's text sets the limit to 800 MB, its report shows 1500 to \
                          1750; here it is what was set.";

const WELL_OVER: &str = "The text of the study, \"well over a second\", and its histogram, 0.7 s, \
                         contradict each other.";

const BEGIN: &str = "The model's three writers begin at the same moment. The study's, \"a couple\" \
                     of commands, were perhaps started one after the other by hand, of which it \
                     says nothing. With half a second between them there are 13 syncs in each \
                     report, which take 0.96 and 1.04 of the study's times on average; but then \
                     0.89 of its bytes are written in report 1, and the shortest sync of report 2 \
                     is 0.57 of its (--machine 'writers begin apart=0.5'). The model is left as it \
                     was before this was found.";

const LIMIT_MOVES: &str = "A sync longer than the target sets the limit to what was written, times \
                           target over time. If the study's longest sync was that of the group of \
                           2800 to 3000 MB, it gave the lowest limit, and twice that is the most \
                           frequent one: a group of half the limit took longer than full ones. \
                           That writers free the files of the test before, as dd does, was tried \
                           and is not it: the limit does not move (--machine 'report 2 frees what \
                           was written before=1'). Processors are not charged here, and the disks \
                           are always as fast; which of them it was cannot be told.";

const ANY_BLOCK: &str = "Eight threads each wait for a write of 128 KiB: 0.25 ms for its \
                         command, 1.5 ms that any block takes, and 2 ms for its bytes, whatever \
                         the number of units. All profiles have blocks of 1 MiB, so no row chose \
                         what any block takes. With 0.4 ms, and as much more for each MiB, rows \
                         of the profiles change by 2.2 % at most, larger blocks gain 31 and 38 \
                         MB/s, and 12 units do 305; but so do 2 and 4 units then, the second adds \
                         128, and SHA-256 costs 157. No choice of it brings all of these rows.";

const MEMORY: &str = "How much memory the study's machine had is not said, and it decides. 4 GiB \
                      of dirty data were assumed, the most that its engine allowed. With 800 \
                      MiB, a tenth of 8 GB, the four rates are 0.97, 1.16, 0.99 and 0.89 of the \
                      study's (one seed; --machine 'dirty data of the writes, of the whole \
                      machine=800'): each group rewrites more indirect blocks for a record, and \
                      what it costs whatever is in it, about 0.3 s, comes more often. That part \
                      does not become a two hundredth with the rest. If indirect blocks have no \
                      room in memory (2000 MiB), they are read for half of the writes, and the \
                      rate with 16 KiB is 0.82 of the study's with 4 GiB of dirty data, 0.37 \
                      with 800 MiB. Which it was cannot be told; the model is left as it was \
                      before this was found.";

const GAINS: &str = "From one seed to the next rates differ by a tenth and more, which is more \
                     than the gains that are compared, so that they come out on both sides. They \
                     depend on what the rates depend on: with 800 MiB of dirty data they are 24 \
                     and 0 % (one seed; published 4.5 and 10.6 %).";

const SAME_GAIN: &str = "Follows from both rates of the case: that with 16 KiB is too fast here, \
                         by a tenth where every 1024th block is read and by a sixteenth with \
                         every 128th, and that with 128 KiB is not. By the study's own counts of \
                         I/Os the first gain would be 5 %.";

const EQUALLY_FAST: &str = "From 2 leaf-sync threads on the model is equally fast, but for half a \
                            hundredth. What made more of them slower in the study is not in it.";

const MOSTLY_CACHED: &str = "Most are answered from memory here, of which 15 GiB of 16 were \
                             assumed to hold blocks; how many are is another number with each \
                             seed, also of the single disk that ratios are of, so that they come \
                             out on both sides. The assumption decides: with 8 GiB one disk does \
                             553 a second (1.41 of the study's), and 10 of the 25 ratios are \
                             within, of which none was (one seed; --machine 'memory for blocks, \
                             of that=8').";

const STALLS: &str = "The study has stalls of 5 to 28 seconds with this layout, and says nothing \
                      of them. No model has them.";

const IN_ORDER: &str = "The files were written one after the other into an empty pool and lie \
                        there in the order of bookmarks, so that sorting gains little. That \
                        decides: if a quarter of the small files were overwritten since, at \
                        random places, the scrub by bookmark does 548 MiB/s (0.98 of the \
                        study's) and that in disk order 2341 (1.43); if as many as there are, \
                        353 and 2103 (--machine '80 disks: small files overwritten, for \
                        each=0.25'). How the study's trees came to lie is not said. Processors \
                        and controllers, which 80 disks share, cost nothing here.";

const ONE_DISK_AT_A_TIME: &str = "Blocks of zinc's log are cut from pieces of 1 MiB, each of one \
                                  disk, and two batches are under way at most. So one or two disks \
                                  of all write at a time until a batch is larger than a piece \
                                  (eight are busy for 16 to 27 %, four for 30 to 49 %, and with \
                                  1024 threads nearly all), and with one thread the next block \
                                  waits for a whole turn of the same disk. The study's engine is \
                                  known to ask for another disk than that of the block before, \
                                  which waits for half of one. Found in the code of zinc; a log \
                                  that changes disks was not tried.";

const ONE_CONSTANT: &str = "The processor's time is one constant for each command here, chosen \
                            by all sizes together, and there is none that is the study's with \
                            each of them: its time falls more slowly as reads get larger.";

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
        reasons: &[above(
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
            below("override 800 MB: lowest limit", TWO_LIMITS),
            below("override 800 MB: highest limit", TWO_LIMITS),
            above("override 800 MB: histogram of limits", TWO_LIMITS),
            above(
                "override 800 MB: delays",
                "Each write takes a tick while a group waits before the disks, as in the other \
             reports. The study's writers were hardly delayed in this one: they were slower, or \
             did not reach the limit.",
            ),
            above(
                "override",
                "With the limit that the text sets, all groups are of 200 MB, five a second, and \
             half as much again is written as in the study, most of whose groups are smaller and \
             some four times as large. With the limit that its report shows, twice as much is.",
            ),
            above(
                "mean sync: 1 s over",
                "By the study's text syncs are shorter on average than in report 1, by its \
             histograms longer by a twentieth: both cannot be.",
            ),
            below("synctime 5 s: mean sync, by the text", WELL_OVER),
            above("synctime 5 s: mean sync", BEGIN),
            above("synctime 1 s: mean sync", BEGIN),
            above("sync times, count", UNKNOWN),
            below("sync times, count", BEGIN),
            above("histogram of sync times", BEGIN),
            above(
                "shortest sync",
                "A group is pushed at 160 MB, which was chosen by report 3, and takes 160 ms then, \
             with flushes and labels; the study's first ones took 100 to 140 ms.",
            ),
            above("synctime 1 s: histogram of limits", LIMIT_MOVES),
            above("synctime 1 s: lowest limit", LIMIT_MOVES),
            below("synctime 1 s: highest limit", LIMIT_MOVES),
            above(
                "histogram of written",
                "Most of the study's groups have less than 200 MB, which its rates and sync times \
             do not allow. Read as every fourth group, counted as the limit counts, the histogram \
             agrees: see the row that reads one slot.",
            ),
            below(
                "synctime 5 s: longest sync",
                "A full group has 8100 MB as the limit counts, 2025 MB, and takes 1.2 s at the \
             rate that was fitted. The study's only says that its limit was 8000 MB or more.",
            ),
            above("delays: more with", "Follows from the delays of both reports."),
            above(
                "longest sync: 1 s over",
                "The longest sync of report 1 is a fifth shorter here than in the study.",
            ),
            below("zpool list", "620K used was not a new pool: one that was just made uses less."),
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
            below(
                "dd:",
                "A unit was given 350 million bytes a second, and a command costs it 0.25 ms, \
             which was chosen by the rate of one unit in a pool: in blocks of 1 MiB it does 323.",
            ),
            below(
                "spa_sync, I/O",
                "The sync thread waits once for each of six groups, for the labels (1.75 ms) and a \
             flush (26 ms, chosen by the runtimes). The study's waits 70 to 110 ms for each: four \
             such flushes, or metadata that it writes itself. Its text does not say which.",
            ),
            below(
                "spa_sync, checksums",
                "What the sync thread still sums are metadata, of another format's steps.",
            ),
            below(
                "more than with 8",
                "Follows from the bandwidths of both profiles, which are each within their bounds.",
            ),
            above("best number", EQUALLY_FAST),
            above("leaf-sync threads over 2", EQUALLY_FAST),
            above(
                "SHA-256",
                "SHA-256 on one thread of such processors could not have given the study's own 210 \
             to 350 MB/s: its text and its rates do not go together.",
            ),
            below(
                "checksums",
                "With blocks of 128 KiB eight threads that write are the limit, at some 270 \
             MiB/s; the sync thread, which sums, is ahead of them, at 443. So it does not matter \
             what sums cost. In the study both limits were perhaps close to each other.",
            ),
            below(
                "1 unit",
                "A unit takes the 210 MB/s while it is written to. While memory is filled, 0.9 s \
             for each group of 7.7 s, it has nothing to do; the parameter was chosen without that.",
            ),
            above("2 units", ANY_BLOCK),
            below("4 units", ANY_BLOCK),
            below("12 units", ANY_BLOCK),
            above("gain with", ANY_BLOCK),
            above(
                "64 threads over 1",
                "A group takes in what memory allows, 1.5 GiB, and is then synced while no thread \
             writes: these settings were chosen by the runtimes of the profiles. One thread needs \
             2.2 s to fill it, four and more 0.9 s, and a sync 5.7 s, which is the difference. In \
             the study either went on during the other, or the application was not what filled it.",
            ),
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
            either("bytes: idle", ONE_CONSTANT),
            either("bytes: system", ONE_CONSTANT),
            above(
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
            above(
                "every 1024th block: rate",
                "By the study's own counts 16 KiB have 4.6 % more I/Os than 128 KiB, and that is \
             by how much the model's rates differ. What the rest of its 14 % came from is in \
             none of its counts.",
            ),
            above(
                "steps from",
                "970 reads of each size: in a seed of five one step is slower by more than the 5 % \
             that are taken for chance.",
            ),
            below(
                "fragment",
                "Not found. That the model's records have 64 contents, so that the checksums in an \
             indirect block repeat and 128 KiB of it are packed into 21, was tried: with 60,000 \
             the percentages are 88 and 85 instead of 87 and 85 (one seed; --machine 'different \
             contents of the records that are written=60000'). But random writes with 128 KiB do \
             741 a second then (0.79 of the study's) instead of 2090.",
            ),
            below(
                "file, 200 times",
                "The study's file, compressed 2.90 times and with its metadata, takes more of its \
             disks than the 75 % that it says are allocated; here they are as full as it says.",
            ),
            below("block: gain", SAME_GAIN),
            either("128 KiB over 16 KiB, writes", GAINS),
            above("slower", GAINS),
            above("writes at", MEMORY),
        ],
    },
    StudyText {
        experiment: "h7-unequal-vdevs",
        study: "2015: how 252 MB are spread over two vdevs of 128 and 512 MiB.",
        machine: "None: no time is measured.",
        limits: "zinc has the metaslab sizes of today, not of 2015.",
        reasons: &[
            below(
                "small vdev: allocated",
                "zinc gives vdevs blocks by their free space from the first block on, and the \
                 small one has 19 % of that. In the study, where it has 22 % of the data, they \
                 began with equal shares.",
            ),
            above("large vdev: allocated", "What the small vdev has less, by the same rule."),
            below(
                "free",
                "Metaslabs are larger than in 2015, of 16 MiB at least, so more of a vdev is \
                 rounded away: 592 MiB of 640 are left. By the rule of 2015, of 128 KiB at least, \
                 627 would be, which is the study's sum.",
            ),
        ],
    },
    StudyText {
        experiment: "h3-latency-lanes",
        study: "2015: copies to disks of artificial latency, each with several lanes.",
        machine: "Lanes that take 10, 16 or 32 ms for any request.",
        limits: "The size of memory is assumed. The repetition was mended after it was compared, \
                 so none of its rows is a prediction any more.",
        reasons: &[
            below("standard deviation", "Nothing but the lanes takes time here."),
            below(
                "of two",
                "zinc fills vdevs by space, not by speed; and all eight copies wait in \
             sync at the same time here.",
            ),
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
            below(
                "single, in order",
                "Nothing is read ahead here, as zinc could not when this was predicted. With what \
                 it reads ahead today single disks do 100 MB/s in 1 MiB and 49 in 4 KiB \
                 (--machine 'read ahead of readers, at most=16'): 16 readers on two disks seek \
                 between them. The study's engine kept its disks in order nearly all of the time; \
                 how was not found.",
            )
            .at_begin(),
            above(
                "over single, in order",
                "Single disks seek between 16 readers here, whom the sides of a mirror share out \
                 among them; the study's single disks read in order nearly all of the time, and \
                 have less to gain. With what zinc reads ahead today the ratios stay (--machine \
                 'read ahead of readers, at most=16').",
            ),
            above(
                "single, at random, 1 MiB",
                "The study's disks took eight times as long for the same bytes. That its engine \
                 read ahead behind each of them was tried: with what zinc reads ahead today there \
                 are 81 reads a second instead of 92, not 11.",
            )
            .at_begin(),
        ],
    },
    StudyText {
        experiment: "h2-layouts",
        study: "2019: 26 layouts of up to 24 disks on one machine, by bonnie++.",
        machine: "WD 4 TB SAS disks, 16 GiB of memory; nothing was fitted.",
        limits: "A thirty-second of the bytes: a sync has as many flushes and labels as of all. \
                 Reading ahead is switched off: zinc could not when this was predicted.",
        reasons: &[
            above("raidz3:5: write", STALLS),
            below(
                ": write over",
                "Small syncs: with a fourth of the bytes stripes and RAID-Z come out.",
            ),
            above("raidz2:4: read", STALLS),
            below(
                ": read over",
                "Nothing is read ahead here, as zinc could not when this was predicted, so one \
                 reader has one record under way. That is much of it: with what zinc reads ahead \
                 today, 4 of the 11 are within and the others 0.5 to 2 times the study's (one \
                 seed; --machine 'read ahead of readers, at most=16').",
            ),
            above(
                "mirror:2: rewrite over",
                "The single disk that it is a ratio to is five times too slow, as nothing is read \
                 ahead here: each record is waited for, and several mirrors have one each. What \
                 reading ahead changes of these rows was not looked at by row.",
            ),
            below(
                "rewrite",
                "Each record is waited for, as nothing is read ahead here. With what zinc reads \
                 ahead today one disk does 58.7 MB/s (1.16 of the study's), not 10 (one seed; \
                 --machine 'read ahead of readers, at most=16'), and 10 of 25 ratios are within.",
            ),
            above("single: seeks", MOSTLY_CACHED),
            either("seeks over", MOSTLY_CACHED),
        ],
    },
    StudyText {
        experiment: "h6-throttle-curve",
        study: "2017 and 2024: how long transactions are delayed by how much is dirty, of \
                eighteen transaction groups; and the time of writes with two limits.",
        machine: "A virtual machine whose disks took 66 to 114 MB/s; one NVMe disk.",
        limits: "What is dirty in each group is given as it was printed.",
        reasons: &[
            below(
                "mean delay",
                "The simulated disk has one rate, so what is dirty hardly moves within a group; \
                 the mean of a curve that bends upwards would be above it. That the study's disks \
                 took 66 to 114 MB/s from group to group is not enough for that: with a rate that \
                 goes up and down by a quarter in seven seconds the delays are still 1.00 of the \
                 formula (--machine '(a) rate of the disk, up and down by=25'). What moved within \
                 the study's groups was not found.",
            ),
            above("limit default: p10", "The time of a copy, which is assumed."),
            above(
                "limit default",
                "Ten threads fill 60 % of 4 GiB within a tenth of a second here, and are delayed \
                 like any other then, each for a millisecond at least.",
            ),
            below(
                "limit default",
                "Nothing stalls here. What stood still in the study for up to a second is not in \
                 its text.",
            ),
            below(
                "limit 1 GiB: p10",
                "zinc sleeps for a millisecond at least, and lets those pass meanwhile that owe \
                 less: a tenth of the writes wait for nothing but the copy.",
            ),
            below(
                "limit 1 GiB",
                "Nothing stalls here. What stood still in the study for 44 ms is not in its text.",
            ),
        ],
    },
    StudyText {
        experiment: "h1-synchronous-writes",
        study: "2017: synchronous writes of 8 KiB by 1 to 1024 threads on 1 to 8 disks.",
        machine: "10,000 rpm disks that are not named.",
        limits: "A few seconds of each cell instead of a minute.",
        reasons: &[
            below("1 threads: writes", ONE_DISK_AT_A_TIME),
            below("busy", ONE_DISK_AT_A_TIME),
            above(
                "threads: writes",
                "zinc writes a batch while the last one is flushed: few threads keep a block \
             waiting behind the one that is written, and miss no turn, which the study's do. How \
             much of it that is with 256 threads and more was not looked at; processors, which \
             above 20,000 a second limit the study's, cost nothing here.",
            ),
        ],
    },
    StudyText {
        experiment: "h8-scan-order",
        study: "2016 to 2023: scrubs, resilvers and a rebuild of pools of hard disks, in the order \
                of bookmarks and of the disks.",
        machine: "7200 rpm disks that are not named.",
        limits: "A small part of the bytes, on disks that are smaller in proportion.",
        reasons: &[
            above("80 disks: scrub by bookmark", IN_ORDER),
            above("80 disks: in disk order", IN_ORDER),
            below("80 disks: disk order over", IN_ORDER),
            above(
                "aged: disk order",
                "Every record was overwritten once here. It is not that: with half and with a \
                 quarter as many the ratio is 3.95 and 3.33 (--machine 'aged: records \
                 overwritten, for each=0.25'). In bookmark order such a pool is read with a seek \
                 for nearly every record here, at 16 to 20 MB/s; what was under way in the \
                 study's is not said.",
            ),
            below(
                "resilver",
                "It waits for the writes of each 16 MiB before it reads on, and the disks, as is \
                 assumed, cache none. With a write cache of 64 MiB it does 52 MB/s (0.86; \
                 --machine 'disk: write cache of=64').",
            ),
            below(
                "1 disk, aged",
                "What is under way changes nothing. That three requests of a scrub at a time \
                 reach a disk is not why: with ten the ratio is 1.01 (--machine 'requests of a \
                 scrub at a disk, at most=10'), and with a quarter of the overwrites 0.84. Not \
                 found.",
            ),
            below(
                "4 disks: in disk order",
                "Not found. It is not how the files lie: in the aged pool the rate is lower still.",
            ),
            below(
                "4 disks",
                "Only one side of the sort is here: the pool is not aged. With a tenth of its \
                 records overwritten the ratio is 2.45 (1.24 of the study's), but then a scrub by \
                 bookmark does 37 MB/s instead of 61 (--machine '4 disks, not aged: records \
                 overwritten, for each=0.1').",
            ),
            above(
                "mirror",
                "Not found. That what a rebuild costs beside data was multiplied by sixteen with \
                 the data is not it: with a quarter of the data instead of a sixteenth it takes \
                 415 s (--machine 'mirror: part of it that is made=0.25'). With a write cache of \
                 64 MiB it takes 303 s, 2.9 times the study's.",
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Bound, Range};

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
        let rows =
            vec![row("4 disks: rewrite", 1.0), row("a: seeks over single", 9.0), row("odd", 9.0)];
        let outcome = Outcome { rows, ..Outcome::new("h2-layouts", String::new()) };
        let found = differences(&outcome);
        assert_eq!(found.len(), 2);
        assert!(found[0].0.contains("memory") && found[0].1 == [&outcome.rows[1]]);
        assert_eq!(found[1], (UNKNOWN, vec![&outcome.rows[2]]));
        assert_eq!(why(&outcome, &outcome.rows[0]), None);
    }

    #[test]
    fn a_reason_holds_on_the_side_and_for_the_work_that_it_was_looked_for() {
        let row = |value| Row::predicted("mirror: s", "s", 100.0, Bound::Within(0.1), value);
        let goal = Row::goal("mirror: ours", "", Range::at_most(1.0), 2.0);
        let mut outcome =
            Outcome { rows: vec![goal], ..Outcome::new("h8-scan-order", String::new()) };
        let of = |outcome: &Outcome, row: &Row| why(outcome, row).map(|why| why.split_at(9).0);
        assert_eq!(of(&outcome, &row(400.0)), Some("Not found"));
        assert_eq!(of(&outcome, &row(40.0)), Some("No reason"));
        assert_eq!(of(&outcome, &outcome.rows[0]), Some("A goal of"));
        outcome.is_part = true;
        assert_eq!(of(&outcome, &row(400.0)), Some("Not looke"));
    }

    /// A reason of one side says nothing of the other, nor of rows that only have its name in
    /// theirs.
    #[test]
    fn no_reason_is_of_rows_that_it_was_not_looked_for() {
        for story in STORIES {
            assert!(story.reasons.iter().all(|reason| !reason.part.is_empty()));
        }
        let of = |experiment: &str, row: &str, is_above: bool| {
            let story = story(experiment).unwrap_or_else(|| panic!("no {experiment}"));
            story.reason(row, (!is_above, is_above)).is_some()
        };
        for (experiment, row, is_above) in [
            ("h7-unequal-vdevs", "small vdev: allocated", false),
            ("h7-unequal-vdevs", "large vdev: allocated", true),
            ("h1-synchronous-writes", "4 disks, 8 threads: writes", true),
            ("h1-synchronous-writes", "4 disks, 64 threads: busy", false),
            ("h4-mirror-reads", "2-way over single, in order, 4 KiB", true),
            ("h4-mirror-reads", "single, in order, 4 KiB", false),
            ("h2-layouts", "5 disks, raidz1:5: write over single", false),
        ] {
            assert!(of(experiment, row, is_above), "{experiment}, {row}");
            assert!(!of(experiment, row, !is_above), "{experiment}, {row}: the other side");
        }
        assert!(!of("h4-mirror-reads", "2-way over single, at random, 1 MiB", true));
    }

    /// On which sides a printed row is outside: by its bounds and the range of what was measured.
    fn sides(cells: &str) -> (bool, bool) {
        let cells: Vec<&str> = cells.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let from_end = |n: usize| cells.iter().rev().nth(n).copied().unwrap_or("");
        let (range, bounds) = (from_end(0), from_end(2));
        let bounds = bounds.split(", by").next().unwrap_or(bounds);
        let number = |text: &str| text.parse::<f64>().ok();
        let ends = |text: &str| match text.split_once("..") {
            Some((low, high)) => (number(low), number(high)),
            None => (number(text), number(text)),
        };
        let (low, high) = match (bounds.strip_prefix(">= "), bounds.strip_prefix("<= ")) {
            (Some(low), _) => (number(low), None),
            (_, Some(high)) => (None, number(high)),
            _ => ends(bounds),
        };
        let (least, most) = ends(range);
        match (low.is_some() && least < low, high.is_some() && most > high) {
            // The end that it is beyond is printed rounded.
            (false, false) => (true, true),
            sides => sides,
        }
    }

    #[test]
    fn sides_of_a_printed_row() {
        let of =
            |bounds: &str, range: &str| sides(&format!("  a  s  own  1  {bounds}  2  {range}"));
        assert_eq!(of("1..3, by its words", "0.5..2"), (true, false));
        assert_eq!(of("<= 1", "0.5..2"), (false, true));
        assert_eq!(of(">= 1", "0.5..2"), (true, false));
        assert_eq!(of("2", "1..4"), (true, true));
    }

    /// No reason was put into the report after its run: each is one that the program prints.
    #[test]
    fn the_reasons_of_the_report_are_those_of_the_program() {
        let reasons = STORIES.iter().flat_map(|story| story.reasons).map(|reason| reason.why);
        let escape = super::super::escape::escape;
        let known: Vec<String> = reasons.chain([UNKNOWN, OURS, OF_A_PART]).map(escape).collect();
        let report = include_str!("../../../../docs/lab/report.html");
        let items = report.lines().filter_map(|l| l.strip_prefix("<li><span class=\"no\">"));
        let items = items.filter_map(|item| Some(item.split_once("</span> ")?.1));
        let printed: Vec<&str> = items.filter_map(|item| item.strip_suffix("</li>")).collect();
        assert!(printed.len() > 20, "{}", printed.len());
        let others = printed.iter().filter(|why| !known.iter().any(|known| known == **why));
        assert_eq!(others.collect::<Vec<_>>(), [&""; 0], "zinc lab run all --sim --html writes it");
    }

    /// Of each row that was outside in the run that docs/lab is of, something is known.
    #[test]
    fn every_row_that_was_outside_has_a_reason() {
        let (mut of, mut found, mut unknown) = ("", 0, Vec::new());
        for line in include_str!("../../../../docs/lab/five-seeds.txt").lines() {
            of = line.split_once(" on simulated: ").map_or(of, |(name, _)| name);
            let Some((cells, _)) = line.split_once("  OUTSIDE  ") else { continue };
            let row = cells.trim_start().split("  ").next().unwrap_or(cells);
            found += 1;
            if story(of).and_then(|story| story.reason(row, sides(cells))).is_none() {
                unknown.push(format!("{of}, {row}"));
            }
        }
        assert!(found > 100, "{found}");
        assert_eq!(unknown, [""; 0]);
    }
}
