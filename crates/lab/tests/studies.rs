//! The experiments on bare simulated disks, each row judged as the kind of evidence it is; and
//! their tables against the studies' data.

use lab::experiment::Setting;
use lab::outcome::Outcome;
use lab::row::{Kind, Row, Verdict};
use lab::target::Target;

/// Figures of the documents.
const DOCUMENTS: &str = include_str!("published.toml");

fn run(name: &str, sim: &str, seed: u64) -> Outcome {
    let Some(experiment) = lab::experiment(name) else { panic!("no experiment {name}") };
    let target = Target::sim(sim).unwrap_or_else(|e| panic!("{e}"));
    let setting = Setting { seed, ..Setting::default() };
    (experiment.run)(&target, &setting).unwrap_or_else(|e| panic!("{e}"))
}

/// What is outside its bounds.
fn misses(outcome: &Outcome) -> Vec<&str> {
    outcome.rows.iter().filter(|row| row.misses()).map(|row| row.row.as_str()).collect()
}

fn count(outcome: &Outcome, kind: Kind) -> usize {
    outcome.rows.iter().filter(|row| row.kind() == kind).count()
}

#[test]
fn raw_sweep_is_within_bounds_whatever_the_seed() {
    for seed in [1, 2, 3] {
        let outcome = run("raw-sweep", "", seed);
        assert_eq!(misses(&outcome), [""; 0], "{}", lab::report::text(&outcome, 100));
        assert!(outcome.says().contains("from 4 MiB on"), "{}", outcome.says());
        let kinds = [Kind::Predicted, Kind::Fitted, Kind::Derived, Kind::Input, Kind::Own];
        assert_eq!(kinds.map(|kind| count(&outcome, kind)), [9, 16, 21, 12, 1]);
    }
}

#[test]
fn every_row_of_seek_is_fitted_or_follows() {
    for seed in [1, 2, 3] {
        let outcome = run("seek", "", seed);
        let text = lab::report::text(&outcome, 100);
        assert_eq!(count(&outcome, Kind::Predicted), 0, "{text}");
        assert_eq!(count(&outcome, Kind::Fitted), 18 + 9, "{text}");
        let rates = outcome.rows.iter().filter(|row| row.unit == "reads/s");
        assert!(!rates.clone().any(Row::misses), "{text}");
        // What is not idle is the system's: both are within their bounds, or neither is.
        let misses = |name: &str| outcome.row(name).map(Row::misses);
        let idle = outcome.rows.iter().filter_map(|row| row.row.strip_suffix(": idle"));
        for name in idle {
            let both = ["idle", "system"].map(|what| misses(&format!("{name}: {what}")));
            assert_eq!(both[0], both[1], "{name}: {text}");
        }
        assert_eq!(misses("linear, 8192 bytes: idle"), Some(false), "{text}");
        assert_eq!(misses("linear, 512 bytes: idle"), Some(true), "{text}");
        // The preset met the 5 % of the text; the table says 4.2 %.
        let of = |by: &str| {
            let name = format!("break-even of 32 KiB instead of 16, by the {by}");
            outcome.row(&name).map(Row::verdict)
        };
        assert_eq!(of("text"), Some(Verdict::Within), "{text}");
        assert_eq!(of("table"), Some(Verdict::Outside), "{text}");
    }
}

#[test]
fn several_seeds_are_joined_and_shown_as_a_range() {
    let Some(experiment) = lab::experiment("seek") else { panic!("no seek") };
    let target = Target::sim("").unwrap_or_else(|e| panic!("{e}"));
    let setting = Setting { scale: 0.01, ..Setting::default() };
    let all = || experiment.repeat(&target, &setting, 3).unwrap_or_else(|e| panic!("{e}"));
    let outcome = all();
    assert_eq!(outcome.seeds, [1, 2, 3]);
    assert!(outcome.rows.iter().all(|row| row.values().len() == 3));
    let random = outcome.row("random, 512 bytes").map(|row| (row.min(), row.max()));
    assert!(random.is_some_and(|(low, high)| low < high), "{random:?}");
    // Whatever thread was faster.
    let report = |outcome| lab::report::json(&[outcome]).to_string();
    assert_eq!(report(all()), report(outcome));
}

#[test]
fn other_disks_are_not_judged() {
    let outcome = run("raw-sweep", "hdd-16t", 1);
    let judged = outcome.rows.iter().any(|row| !matches!(row.verdict(), Verdict::NotJudged(_)));
    assert!(!judged && outcome.within_bounds());
    assert!(outcome.rows.iter().any(|row| row.ratio().is_some_and(|r| !(0.9..1.1).contains(&r))));
}

/// A disk with the name of the study's and other numbers is another disk; one that no disk is like
/// is refused.
#[test]
fn a_file_is_not_taken_for_the_study_s_disk_by_its_name() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let path = dir.path().join("disk.json");
    let Some(mut preset) = lab::disk::preset("seek-study") else { panic!("no preset") };
    let target = |preset: &lab::disk::Preset| {
        let text = serde_json::to_string(preset).unwrap_or_default();
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{e}"));
        Target::sim(path.to_str().unwrap_or(""))
    };
    let Some(seek) = lab::experiment("seek") else { panic!("no seek") };
    assert!(target(&preset).is_ok_and(|target| target.is_the_study_s(seek)));
    preset.host.command_cpu_us += 1.0;
    assert!(target(&preset).is_ok_and(|target| !target.is_the_study_s(seek)));
    if let lab::disk::Spec::Rotating(spec) = &mut preset.disk {
        spec.rpm = 0.0;
    }
    let refused = target(&preset).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("rpm is 0"), "{refused}");
}

/// A line `KEY = [[…], …]` of a file of figures, which is JSON on its right.
fn data(text: &str, section: &str, key: &str) -> Vec<Vec<f64>> {
    let head = format!("[{section}]");
    let line = text
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    let json = line.map(|line| line.split('#').next().unwrap_or(line));
    json.and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_else(|| panic!("no {key} in [{section}]"))
}

#[test]
fn the_tables_of_seek_are_the_published_ones() {
    let published = |outcome: &Outcome, rows: &[String]| -> Vec<f64> {
        let figure = |name: &String| outcome.row(name)?.published()?.figure();
        rows.iter().map(|name| figure(name).unwrap_or(f64::NAN)).collect()
    };
    let column = |rows: &[Vec<f64>], n: usize| rows.iter().map(|r| r[n]).collect::<Vec<f64>>();
    let seek = run("seek", "", 1);
    for pattern in ["linear", "random"] {
        let rows = data(DOCUMENTS, "seek", pattern);
        assert_eq!(column(&rows, 0), (9..=17).map(|n| f64::from(1 << n)).collect::<Vec<_>>());
        for (n, what) in ["", ": bandwidth", ": user", ": system", ": idle"].iter().enumerate() {
            let name = |row: &Vec<f64>| format!("{pattern}, {} bytes{what}", row[0]);
            let names: Vec<String> = rows.iter().map(name).collect();
            assert_eq!(published(&seek, &names), column(&rows, n + 1), "{pattern}{what}");
        }
    }
    let pairs = ["32 KiB instead of 16", "64 KiB instead of 32", "128 KiB instead of 64"];
    let names = pairs.map(|pair| format!("break-even of {pair}, by the text"));
    let break_even = data(DOCUMENTS, "seek", "break_even_percent");
    assert_eq!(published(&seek, &names), column(&break_even, 1));
}

/// Members of a file as `SECTION KEY = VALUE`, in its order.
fn members(text: &str) -> Vec<String> {
    let mut section = "";
    let mut out = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or(line).trim()) {
        if line.starts_with('[') {
            section = line;
        } else if line.contains(" = ") {
            out.push(format!("{section} {line}"));
        }
    }
    out
}

/// Members of the data file beside the documents that are not what the documents say.
const OTHERWISE: [&str; 6] = [
    "[seek] linear",
    "[seek] random",
    "[throttle.override_800mb] sync_ms_range",
    "[throttle.synctime_1s] sync_ms",
    "[throttle.synctime_1s] write_limit_mb",
    "[throttle.synctime_1s] written_mb",
];

/// Members that it does not have: where the documents say them.
const OF_DOCUMENTS: [(&str, &str, &str); 15] = [
    ("[raw_sweep] text_mb_per_s", D0, "a single 2MB physical I/O will get 46 MB/sec"),
    ("[raw_sweep] transfer_s", D0, "~0.13 seconds of data transfer"),
    ("[sync_stream] write_cache_off_mb_per_s", D0, "Results are the same 60MB/sec"),
    ("[throttle] listed_size_tib", D1, "h     19.0T   620K  19.0T     0%"),
    ("[throttle] listed_available_tib", D1, "h     19.0T   620K  19.0T     0%"),
    ("[throttle] listed_used_kib", D1, "h     19.0T   620K  19.0T     0%"),
    ("[throttle] listed_capacity_percent", D1, "h     19.0T   620K  19.0T     0%"),
    ("[throttle.default] mean_sync_ms_above", D1, "takes well over a second"),
    ("[pios] checksums_percent_of_runtime", D2, "(48% of runtime)"),
    ("[pios] more_with_16_zio_threads_mb_per_s", D2, "40MB/s speed-up"),
    ("[pios] best_leaf_sync_threads", D2, "best performance using 2"),
    ("[seek] reseek_ms", D3, "like 7ms"),
    ("[seek] bandwidth_of_the_double", D3, "for random I/O doubles"),
    ("[indirect] best_gain_percent", D4, "Best case performance improvement: 80%"),
    ("[indirect] worst_gain_percent", D4, "Worst case performance improvement: 14%"),
];
/// And those of tables of theirs, or of none of their words.
const OF_TABLES: [&str; 4] = [
    "[indirect] workloads_slower",
    "[raw_sweep] elapsed_ms",
    "[raw_sweep] was_mb_per_s",
    "[raw_sweep] written_mb",
];
const D0: &str = "000_ca64b4819a7b2be8.txt";
const D1: &str = "001_4c5b96ab6be1dfd1.txt";
const D2: &str = "002_fcb5771fb657da7a.txt";
const D3: &str = "003_5ab444fba215f4f0.txt";
const D4: &str = "004_5c526e026d7838fb.txt";

/// Name of a member.
fn name(member: &str) -> &str {
    member.split(" = ").next().unwrap_or(member)
}

/// Whether a member has numbers that are not in a text.
fn has_numbers(member: &str) -> bool {
    let value = member.split_once(" = ").map_or("", |(_, value)| value);
    value.split('"').step_by(2).any(|part| part.contains(|c: char| c.is_ascii_digit()))
}

/// The figures that all tables are compared with, and the documents: every number of the data file
/// beside them is here, and what is here is there or in the documents themselves, which count
/// where the data file has other figures than they.
#[testkit::needs("figures")]
#[test]
fn the_figures_are_those_of_the_documents() {
    let (theirs, mine) = (members(&testkit::figures()), members(DOCUMENTS));
    let differs = |member: &&String| !OTHERWISE.contains(&name(member));
    for member in theirs.iter().filter(|member| has_numbers(member)).filter(differs) {
        assert!(mine.contains(member), "{member} is not here");
    }
    let more = mine.iter().filter(differs).filter(|member| !theirs.contains(member));
    let mut more: Vec<&str> = more.map(|member| name(member)).collect();
    let of_words = OF_DOCUMENTS.iter().map(|(member, ..)| *member);
    let mut known: Vec<&str> = of_words.chain(OF_TABLES).collect();
    more.sort_unstable();
    known.sort_unstable();
    assert_eq!(more, known);
    let document = |name: &str| {
        let dir = testkit::shared_dir().expect("the documents are beside their figures");
        std::fs::read_to_string(dir.join("seeds").join(name)).unwrap_or_else(|e| panic!("{e}"))
    };
    for (member, name, words) in OF_DOCUMENTS {
        assert!(document(name).contains(words), "{member}");
    }
    assert!(document(D4).contains("find a workload where this change decreased performance"));
    // The table of single writes, every column.
    let (mut written, mut elapsed, mut was) = (Vec::new(), Vec::new(), Vec::new());
    for line in document(D0).lines().filter(|line| line.contains("ms of phys; avg sz")) {
        let words = line.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        let [mb, ms, kib, _, rest @ ..] = &numbers[..] else { continue };
        written.push(vec![*kib, *mb]);
        elapsed.push(vec![*kib, *ms]);
        was.extend(rest.first().map(|rate| vec![*kib, *rate]));
    }
    let table = |key| data(DOCUMENTS, "raw_sweep", key);
    assert_eq!(written, table("written_mb"));
    assert_eq!(elapsed, table("elapsed_ms"));
    assert_eq!(was, table("was_mb_per_s"));
    // Both tables of reads, every column.
    let text = document(D3);
    let lines = text.lines().filter(|line| line.contains("bs="));
    let numbers = |line: &str| -> Vec<f64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let columns = [10, 3, 4, 5, 7, 9].map(|n| words[n].trim_start_matches("bs=").parse().ok());
        columns.into_iter().flatten().collect()
    };
    let tables = ["linear", "random"].map(|pattern| data(DOCUMENTS, "seek", pattern)).concat();
    assert_eq!(lines.map(numbers).collect::<Vec<_>>(), tables);
    // The histograms of the second of three reports.
    let text = document(D1);
    let report = text.split("Sync time (ms)").nth(2).expect("the second report");
    let report = report.split("Two things").next().unwrap_or(report);
    let buckets: Vec<Vec<f64>> = report
        .lines()
        .filter(|line| line.contains('|'))
        .map(|line| line.replace("< 200", "0").replace(['>', '=', '|', '@'], " "))
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .filter(|bucket: &Vec<f64>| bucket.last() != Some(&0.0))
        .collect();
    let keys = ["sync_ms", "written_mb", "write_limit_mb"];
    let tables = keys.map(|key| data(DOCUMENTS, "throttle.synctime_1s", key)).concat();
    assert_eq!(buckets, tables);
}
