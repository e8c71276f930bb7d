//! Reports of states that no shipped pool is in, held as they are printed: a scrub, a resilver, a
//! removal, an expansion and a rebuild under way, a pool that is suspended, spares; what a check
//! and a repair found; events, txgs and the history. All are made of values: no pool is opened.
//!
//! A text that was changed on purpose is written anew by
//! `INSTA_UPDATE=always cargo test -p views --test reports`; what changed is then in the diff.

use engine::check::{BlockKind, Issue, Report, Sum, Totals};
use engine::config::{NvList, NvValue, VdevKind};
use engine::inside::check::{DeviceDamage, Location};
use engine::inside::ondisk::expand::Expansion;
use engine::inside::ondisk::indirect::RemovalState;
use engine::inside::ondisk::{DmuType, Dva};
use engine::inside::pool::ErrorLog;
use engine::inside::zio::Place;
use engine::live::{
    AbandonedHead, Event, EventValue, NotUsed, PushReason, Refused, SpaceClass, TxgRecord, TxgState,
};
use engine::pools::{
    CheckpointNote, Condition, ErrorScrubNote, ErrorScrubState, ExpansionNote, ExpansionWait,
    Function, HistoryRecord, LeafProgress, LeafWork, Reason, RebuildState, Remark, Removal,
    ScanPass, ScanProgress, ScanState, Section, Status, VdevState, VdevTreeView, VdevView, Verdict,
    ViewState, WorkProgress, WorkState,
};
use engine::repair::{Failure, Plan, Step};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use views::history::{HistoryFormat, history_text};
use views::json::Numbers;
use views::status::{View, WorkColumns};
use views::{check, events, repair, txgs};

/// A Monday in November.
const NOW: u64 = 1_763_370_000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn vdev(name: &str, kind: VdevKind, children: Vec<VdevView>) -> VdevView {
    VdevView {
        name: name.to_owned(),
        guid: 0,
        kind,
        path: None,
        phys_path: None,
        devid: None,
        whole_disk: false,
        state: ViewState::Vdev(VdevState::Online),
        remark: None,
        refused: None,
        works: Vec::new(),
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        slow_requests: 0,
        sits_out: false,
        store: None,
        is_top: false,
        size: 8 * GIB,
        space: [0; 3],
        deflated: 0,
        expand_size: 0,
        fragmentation: None,
        children,
    }
}

fn disk(name: &str) -> VdevView {
    vdev(name, VdevKind::Disk, Vec::new())
}

fn with(state: VdevState, remark: Option<Remark>, of: VdevView) -> VdevView {
    VdevView { state: ViewState::Vdev(state), remark, ..of }
}

/// A mirror of two disks with nothing wrong.
fn mirror() -> Vec<VdevView> {
    vec![vdev("mirror-0", VdevKind::Mirror, vec![disk("/dev/sda"), disk("/dev/sdb")])]
}

fn status(normal: Vec<VdevView>) -> Status {
    let mut vdevs = VdevTreeView::default();
    *vdevs.section_mut(Section::Tops(SpaceClass::Normal)) = normal;
    Status {
        pool: "tank".to_owned(),
        guid: 1,
        state: VdevState::Online,
        reason: Reason::None,
        health: "ONLINE".to_owned(),
        suspended: None,
        condition: None,
        scan: None,
        scan_pass: None,
        is_scan_left: false,
        is_rebuild_left: false,
        rebuilds: Vec::new(),
        lacking: 0,
        error_scrub: None,
        removal: None,
        removing: String::new(),
        expansion: None,
        checkpoint: None,
        vdevs,
        errors: ErrorLog::default(),
        damaged: Vec::new(),
    }
}

fn degraded(normal: Vec<VdevView>, condition: Condition) -> Status {
    Status {
        state: VdevState::Degraded,
        health: "DEGRADED".to_owned(),
        condition: Some(condition),
        ..status(normal)
    }
}

fn scan(function: Function, state: ScanProgress) -> Option<ScanState> {
    let mut scan = ScanState::default();
    scan.start_time = NOW;
    scan.end_time = if state == ScanProgress::Active { 0 } else { NOW + 90_061 };
    (scan.to_examine, scan.examined, scan.processed) = (3 * GIB, 2 * GIB, 5 * MIB);
    Some(scan.with(function, state))
}

/// Holds reports of one kind, each below its heading.
fn hold(name: &str, all: &[(&str, String)]) {
    let text: Vec<String> = all.iter().map(|(what, text)| format!("== {what}\n\n{text}")).collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text.join("\n")));
}

fn report(status: &Status) -> String {
    View { is_verbose: true, ..View::default() }.report(status)
}

#[test]
fn scrubs() {
    let of = |scan| Status { scan, ..status(mirror()) };
    let active = of(scan(Function::Scrub, ScanProgress::Active));
    let mut paused = scan(Function::Scrub, ScanProgress::Active).unwrap();
    paused.flags = ScanState::FLAG_PAUSED;
    let left = Status { is_scan_left: true, ..active.clone() };
    let mut failed = scan(Function::Scrub, ScanProgress::Finished).unwrap();
    failed.errors = 2;
    let mut lost = Status { condition: Some(Condition::DataErrors), ..of(Some(failed)) };
    let names = ["tank/home:/letters/one", "tank/home:/two\nlines", "<metadata>:<0x3e>"];
    lost.damaged = names.map(str::to_owned).to_vec();
    let terse = View::default().report(&lost);
    let pass = ScanPass {
        start_time: NOW,
        elapsed: 64,
        examined: 5 * GIB / 2,
        issued: 2 * GIB,
        collected: GIB / 2,
        paused: 0,
    };
    let here = Status { scan_pass: Some(pass), ..active.clone() };
    let pass = ScanPass { paused: NOW + 60, ..ScanPass::default() };
    let paused_here = Status { scan_pass: Some(pass), ..of(Some(paused)) };
    let all = [
        ("under way", report(&here)),
        ("under way, at a pace that is not known", report(&active)),
        ("paused", report(&paused_here)),
        ("paused by another process", report(&of(Some(paused)))),
        ("left when the pool was closed", report(&left)),
        ("finished", report(&of(scan(Function::Scrub, ScanProgress::Finished)))),
        ("canceled", report(&of(scan(Function::Scrub, ScanProgress::Canceled)))),
        ("finished, with errors", report(&lost)),
        ("the same, not verbose", terse),
    ];
    hold("status_scrub", &all);
}

/// A scrub of errors that began at a time, and looked at one block of three.
fn of_errors(state: ScanProgress, start_time: u64) -> ErrorScrubNote {
    let end_time = if state == ScanProgress::ErrorScrubbing { 0 } else { NOW + 90_061 };
    let mut words = ErrorScrubState::default();
    (words.start_time, words.end_time, words.examined, words.to_examine) =
        (start_time, end_time, 1, 2);
    ErrorScrubNote { state: words.with_state(state), paused_at: 0, is_left: false }
}

#[test]
fn scrubs_of_errors() {
    let of = |note| Status { error_scrub: Some(note), ..status(mirror()) };
    let active = of_errors(ScanProgress::ErrorScrubbing, NOW);
    let left = ErrorScrubNote { is_left: true, ..active };
    let mut paused = active;
    paused.state.paused = 1;
    let paused_here = ErrorScrubNote { paused_at: NOW + 60, ..paused };
    let finished = of_errors(ScanProgress::Finished, NOW);
    let scanned =
        |function| Status { scan: scan(function, ScanProgress::Finished), ..of(finished) };
    let before = Status {
        error_scrub: Some(of_errors(ScanProgress::Finished, NOW - 1)),
        ..scanned(Function::Scrub)
    };
    // To the letter, and the rest of the report is as that of any other scrub.
    let lines = |status: &Status| {
        let report = report(status);
        let (lines, _) = report.split_once("config:").unwrap();
        lines.to_owned()
    };
    let all = [
        ("under way", report(&of(active))),
        ("left when the pool was closed", lines(&of(left))),
        ("paused", lines(&of(paused_here))),
        ("paused by another process", lines(&of(paused))),
        ("finished", lines(&of(finished))),
        ("canceled", lines(&of(of_errors(ScanProgress::Canceled, NOW)))),
        ("an older scrub is not shown", lines(&scanned(Function::Scrub))),
        ("an older resilver is", lines(&scanned(Function::Resilver))),
        ("and it is not when a scrub began after it", lines(&before)),
    ];
    hold("status_error_scrub", &all);

    let view = View { numbers: Numbers::Plain, ..View::default() };
    let stats = |status: &Status| view.closed_value(status)["scan_stats"].clone();
    let expected = json!({
        "function": "NONE", "state": "NONE",
        "err_scrub_func": "ERRORSCRUB", "err_scrub_state": "ERRORSCRUBBING",
        "err_scrub_start_time": NOW, "err_scrub_end_time": 0, "err_scrub_examined": 1,
        "err_scrub_to_examine": 2, "err_scrub_pause": NOW + 60,
    });
    assert_eq!(stats(&of(paused_here)), expected);
    let both = stats(&scanned(Function::Resilver));
    assert_eq!(
        (&both["function"], &both["err_scrub_state"]),
        (&json!("RESILVER"), &json!("FINISHED"))
    );
    assert!(stats(&before).get("err_scrub_func").is_none());
    let suspended = Status { suspended: Some("it is".to_owned()), ..of(left) };
    assert!(lines(&suspended).contains("`zinc zpool clear` when they are back"));
    assert_eq!(views::status::latest(&of(paused_here)), NOW + 60);
}

#[test]
fn resilvers_and_rebuilds() {
    let side = |remark| {
        let old = with(VdevState::Unavail, Some(Remark::Was("/dev/sdb".to_owned())), disk("17"));
        let new = with(VdevState::Online, Some(remark), disk("/dev/sdc"));
        let pair = with(
            VdevState::Degraded,
            None,
            vdev("replacing-1", VdevKind::Replacing, vec![old, new]),
        );
        let mirror = vdev("mirror-0", VdevKind::Mirror, vec![disk("/dev/sda"), pair]);
        vec![with(VdevState::Degraded, None, mirror)]
    };
    let resilver = Status {
        scan: scan(Function::Resilver, ScanProgress::Active),
        ..degraded(side(Remark::Resilvering), Condition::Resilvering)
    };
    let lacking =
        Status { lacking: 1, ..degraded(side(Remark::AwaitingResilver), Condition::Lacking) };
    let done =
        Status { scan: scan(Function::Resilver, ScanProgress::Finished), ..status(mirror()) };
    let rebuild = RebuildState {
        start_time: NOW,
        bytes_scanned: 900 * MIB,
        bytes_issued: 600 * MIB,
        bytes_rebuilt: 300 * MIB,
        bytes_estimated: 1800 * MIB,
        scan_time_ms: 30_000,
        ..RebuildState::default()
    };
    let rebuilding = |state, end_time| {
        let state = RebuildState { end_time, ..rebuild }.with_state(state);
        vec![(state, "mirror-0".to_owned())]
    };
    let rebuild = Status {
        rebuilds: rebuilding(ScanProgress::Active, 0),
        ..degraded(side(Remark::Resilvering), Condition::Resilvering)
    };
    let left = Status { is_rebuild_left: true, lacking: 1, ..rebuild.clone() };
    let rebuilt =
        Status { rebuilds: rebuilding(ScanProgress::Finished, NOW + 30), ..status(mirror()) };
    let all = [
        ("a resilver", report(&resilver)),
        ("nothing goes on with it", report(&lacking)),
        ("a resilver has ended", report(&done)),
        ("a rebuild", report(&rebuild)),
        ("nothing goes on with the rebuild", report(&left)),
        ("a rebuild has ended", report(&rebuilt)),
    ];
    hold("status_resilver", &all);
}

/// Names and words are those that OpenZFS 2.3.2 printed for a pool in the same states.
#[test]
fn what_a_pool_is_doing_in_json() {
    let view = View { numbers: Numbers::Plain, ..View::default() };
    let rebuild = RebuildState {
        start_time: NOW,
        end_time: NOW + 1,
        bytes_scanned: 4,
        bytes_issued: 3,
        bytes_rebuilt: 2,
        bytes_estimated: 5,
        scan_time_ms: 689,
        ..RebuildState::default()
    };
    let states = [
        (ScanProgress::Active, "ACTIVE"),
        (ScanProgress::Finished, "COMPLETE"),
        (ScanProgress::Canceled, "CANCELED"),
    ];
    for (state, word) in states {
        let rebuilds = vec![(rebuild.with_state(state), "mirror-0".to_owned())];
        let of = Status { rebuilds, ..status(mirror()) };
        let guid = of.vdevs.section(Section::Tops(SpaceClass::Normal))[0].guid;
        let stats = json!({
            "name": "mirror-0", "vdev_type": "mirror", "guid": guid, "class": "normal",
            "state": word, "start_time": NOW, "end_time": NOW + 1, "scan_time": 689_000_000,
            "scanned": 4, "issued": 3, "rebuilt": 2, "to_scan": 5, "errors": 0,
        });
        let scan = json!({ "rebuild_stats": { "mirror-0": stats } });
        assert_eq!(view.closed_value(&of)["scan_stats"], scan);
        let pass = ScanPass { start_time: NOW, examined: 7, issued: 6, ..ScanPass::default() };
        let both = Status { scan: scrubbed(), scan_pass: Some(pass), ..of };
        let both = &view.closed_value(&both)["scan_stats"];
        assert_eq!((&both["function"], &both["state"]), (&json!("SCRUB"), &json!("FINISHED")));
        assert_eq!(both["rebuild_stats"], scan["rebuild_stats"]);
        for (name, value) in [("pass_start", NOW), ("bytes_per_scan", 7), ("scrub_pause", 0)] {
            assert_eq!(both[name], value, "{name}");
        }
        assert_eq!(both["issued_bytes_per_scan"], 6);
    }
    assert!(view.closed_value(&status(mirror())).get("scan_stats").is_none());

    let mut words = RemovalState::default();
    (words.vdev, words.start_time, words.to_copy, words.copied) = (1, NOW, 5, 4);
    let state = words.with_state(ScanProgress::Active);
    let removal = Some(Removal { state, mapping_memory: 48 });
    let removing = Status { removal, removing: "/dev/sdb".to_owned(), ..status(mirror()) };
    let stats = json!({
        "name": "/dev/sdb", "state": "SCANNING", "removing_vdev": 1, "start_time": NOW,
        "end_time": 0, "to_copy": 5, "copied": 4, "mapping_memory": 48,
    });
    assert_eq!(view.closed_value(&removing)["removal_stats"], stats);

    for (made, stats) in [
        (Some(NOW), json!({ "state": "EXISTS", "start_time": NOW, "space": 44_544 })),
        (None, json!({ "state": "DISCARDING", "start_time": 0, "space": 44_544 })),
    ] {
        let checkpoint = Some(CheckpointNote { made, bytes: 44_544 });
        let kept = Status { checkpoint, ..status(mirror()) };
        assert_eq!(view.closed_value(&kept)["checkpoint_stats"], stats);
    }
}

fn scrubbed() -> Option<ScanState> {
    scan(Function::Scrub, ScanProgress::Finished)
}

#[test]
fn removals_expansions_and_checkpoints() {
    let removing = |state| {
        let mut words = RemovalState::default();
        (words.vdev, words.start_time, words.end_time) = (1, NOW, NOW + 7260);
        (words.to_copy, words.copied) = (900 * MIB, 300 * MIB);
        let removal = Removal { state: words.with_state(state), mapping_memory: 24_576 };
        let mut two = vec![disk("/dev/sda"), disk("/dev/sdb")];
        if state == ScanProgress::Active {
            two[1].remark = Some(Remark::Removing);
        }
        Status { removal: Some(removal), removing: "/dev/sdb".to_owned(), ..status(two) }
    };
    let expanding = |state, waits| {
        let state =
            Expansion { state, start_time: NOW, end_time: NOW + 600, bytes_copied: 300 * MIB };
        let (name, allocated) = ("raidz1-0".to_owned(), 900 * MIB);
        let note = ExpansionNote { vdev: 0, name, state, allocated, elapsed: 100, waits };
        let kind = VdevKind::Raidz { nparity: 1 };
        let disks = ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"].map(disk).to_vec();
        Status { expansion: Some(note), ..status(vec![vdev("raidz1-0", kind, disks)]) }
    };
    let (devices, spare) = (ExpansionWait::Devices, ExpansionWait::Spare("spare-1".to_owned()));
    let kept = |made| {
        let checkpoint = Some(CheckpointNote { made, bytes: 268 * 1024 });
        Status { checkpoint, ..status(mirror()) }
    };
    let all = [
        ("a removal", report(&removing(ScanProgress::Active))),
        ("a removal has ended", report(&removing(ScanProgress::Finished))),
        ("a removal was canceled", report(&removing(ScanProgress::Canceled))),
        ("an expansion", report(&expanding(ScanProgress::Active, None))),
        ("an expansion waits", report(&expanding(ScanProgress::Active, Some(devices)))),
        ("an expansion waits for a spare", report(&expanding(ScanProgress::Active, Some(spare)))),
        ("an expansion has ended", report(&expanding(ScanProgress::Finished, None))),
        ("a checkpoint", report(&kept(Some(NOW)))),
        ("a checkpoint is discarded", report(&kept(None))),
    ];
    hold("status_changes", &all);
}

#[test]
fn devices_that_fail_and_spares() {
    let one = |state, remark, condition| {
        let two = vec![disk("/dev/sda"), with(state, remark, disk("/dev/sdb"))];
        let mirror = vdev("mirror-0", VdevKind::Mirror, two);
        degraded(vec![with(VdevState::Degraded, None, mirror)], condition)
    };
    let why = |reason| Some(Remark::Reason(reason));
    let faulted = one(VdevState::Faulted, why(Reason::TooManyErrors), Condition::Faulted);
    let mut suspended = faulted.clone();
    suspended.state = VdevState::Unavail;
    suspended.reason = Reason::NoReplicas;
    suspended.health = engine::pools::SUSPENDED.to_owned();
    suspended.condition = Some(Condition::Suspended);
    suspended.suspended = Some("/dev/sdb: no space left".to_owned());
    let stopped = Status { condition: Some(Condition::Stopped), ..suspended.clone() };
    let mut errors = Status { condition: Some(Condition::DeviceErrors), ..status(mirror()) };
    let [mirror] = &mut errors.vdevs.section_mut(Section::Tops(SpaceClass::Normal))[..] else {
        unreachable!()
    };
    let damaged = &mut mirror.children[1];
    (damaged.read_errors, damaged.write_errors, damaged.checksum_errors) = (3, 12_345, 862);
    let mut spare = {
        let failed = with(VdevState::Unavail, why(Reason::CannotOpen), disk("/dev/sdb"));
        let pair = vdev("spare-1", VdevKind::Spare, vec![failed, disk("/dev/sdc")]);
        let pair = with(VdevState::Degraded, None, pair);
        let mirror = vdev("mirror-0", VdevKind::Mirror, vec![disk("/dev/sda"), pair]);
        degraded(vec![with(VdevState::Degraded, None, mirror)], Condition::Missing)
    };
    let aux = |state, remark, of| VdevView { state, remark, ..of };
    *spare.vdevs.section_mut(Section::Tops(SpaceClass::Special)) = vec![disk("/dev/sde")];
    *spare.vdevs.section_mut(Section::Tops(SpaceClass::Log)) = vec![disk("/dev/sdf")];
    *spare.vdevs.section_mut(Section::Cache) = vec![disk("/dev/sdg")];
    *spare.vdevs.section_mut(Section::Spares) = vec![
        aux(ViewState::InUse, Some(Remark::InUse), disk("/dev/sdc")),
        aux(ViewState::InUse, Some(Remark::InUseBy("other".to_owned())), disk("/dev/sdd")),
        aux(ViewState::Available, None, disk("/dev/sdh")),
    ];
    let away = one(VdevState::Unavail, why(Reason::Behind(7)), Condition::Behind);
    let mut refused = one(VdevState::Removed, None, Condition::Removed);
    let [mirror] = &mut refused.vdevs.section_mut(Section::Tops(SpaceClass::Normal))[..] else {
        unreachable!()
    };
    let other = NotUsed::Newer { txg: 4711, pool: 815 };
    mirror.children[1].refused = Some(Refused { path: "/dev/sdx\n".into(), why: other });
    let all = [
        ("a device with too many errors", report(&faulted)),
        ("SUSPENDED", report(&suspended)),
        ("SUSPENDED, for good", report(&stopped)),
        ("errors that the other side made up for", report(&errors)),
        ("a spare in use", report(&spare)),
        ("a device that was away", report(&away)),
        ("a device that was written elsewhere is back", report(&refused)),
        ("a device offline", report(&one(VdevState::Offline, None, Condition::Offline))),
    ];
    hold("status_devices", &all);
}

#[test]
fn work_on_free_space_and_slow_devices() {
    let progress = |state| LeafProgress { state, offset: 4 * GIB, time: NOW, ..Default::default() };
    let seen = |work, state| WorkProgress { work, progress: progress(state), size: 8 * GIB };
    let mut disks = vec![disk("/dev/sda"), disk("/dev/sdb"), disk("/dev/sdc")];
    disks[0].works.push(seen(LeafWork::Initialize, WorkState::Active));
    disks[1].works.push(seen(LeafWork::Trim, WorkState::Suspended));
    (disks[2].slow_requests, disks[2].sits_out) = (17, true);
    let status = status(vec![vdev("raidz1-0", VdevKind::Raidz { nparity: 1 }, disks)]);
    let of = |view: View| view.report(&status);
    let works = WorkColumns { initialize: true, trim: true };
    let all = [
        ("as always", of(View::default())),
        ("-i -t", of(View { works, ..View::default() })),
        ("-s", of(View { shows_slow: true, ..View::default() })),
    ];
    hold("status_works", &all);
}

/// Every condition, with what to do about it.
#[test]
fn conditions() {
    use Condition as C;
    let all = [
        C::Resilvering,
        C::Suspended,
        C::Stopped,
        C::MissingFatal,
        C::BadLabelFatal,
        C::DataErrors,
        C::Faulted,
        C::Missing,
        C::BadLabel,
        C::Diverged,
        C::Behind,
        C::Lacking,
        C::Displaced,
        C::Short,
        C::DeviceErrors,
        C::Offline,
        C::Removed,
        C::SpareMissing,
        C::OldVersion,
        C::FeaturesDisabled,
        C::UnreadSet,
        C::OutsideSet,
    ];
    let mut text = String::new();
    for condition in all {
        let status = Status { condition: Some(condition), ..status(Vec::new()) };
        let report = report(&status);
        let lines = report.lines().skip_while(|l| !l.starts_with("status:"));
        for line in lines.take_while(|l| !l.starts_with("config:")) {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    hold("status_conditions", &[("all of them", text)]);
}

fn at(dataset: &str, object: u64, blkid: u64) -> Location {
    Location { dataset: Arc::from(dataset), place: Place { objset: 54, object, level: 0, blkid } }
}

/// Something of each weight.
fn issues() -> Vec<Issue> {
    let dva = |offset| Dva::new(0, offset, 4096, false);
    let damaged = DeviceDamage {
        vdev: 0,
        guid: 17,
        path: Arc::from("/dev/sdb"),
        io: 1,
        checksum: 862,
        parity: 2,
        missing: 0,
        stale: 0,
        bytes: 3 * MIB,
        repairable: 860,
        lost: 1,
        ranges: (0..10).map(|n| (n * MIB, n * MIB + 4096)).collect(),
    };
    vec![
        Issue::BlockLost {
            at: at("tank/home", 7, 3),
            copies: vec![dva(0x40_0000)],
            size: 128 << 10,
            kind: DmuType::PLAIN_FILE_CONTENTS,
            cause: "checksum does not match".to_owned(),
        },
        Issue::Leaked { vdev: 0, metaslab: 3, offset: 0x60_0000, size: 8192 },
        Issue::UsedButFree { vdev: 0, metaslab: 4, offset: 0x80_0000, size: 4096 },
        Issue::SpaceMap { vdev: 0, metaslab: 3, cause: "entry 4 is free already".to_owned() },
        Issue::LinkCount { at: at("tank/home", 8, 0), stored: 7, counted: 1 },
        Issue::DanglingEntry {
            at: at("tank/home", 34, 0),
            name: "a\\x0ab".to_owned(),
            object: 4711,
        },
        Issue::DeviceDamaged(damaged),
        Issue::Label { device: "/dev/sdb".to_owned(), label: 2, cause: "is empty".to_owned() },
        Issue::DeviceAbsent {
            device: "/dev/sdc".to_owned(),
            guid: 18,
            state: "missing".to_owned(),
        },
        Issue::Locked { dataset: Arc::from("tank/secret") },
    ]
}

fn found(issues: Vec<Issue>) -> Report {
    let sum = Sum {
        count: 12,
        logical: 3 * MIB,
        physical: 2 * MIB,
        allocated: 4 * MIB,
        ..Sum::default()
    };
    let table = BTreeMap::from([
        ((BlockKind::Type(DmuType::PLAIN_FILE_CONTENTS), 0), sum),
        (
            (BlockKind::Type(DmuType::DNODE), 0),
            Sum { count: 2, ditto_same_vdev: 2, ..Sum::default() },
        ),
    ]);
    Report {
        pool: "tank".to_owned(),
        txg: 4711,
        issues,
        dropped: BTreeMap::new(),
        totals: Totals { table, ..Totals::default() },
        allocated: 4 * MIB,
        checkpointed: 0,
        blocks_read: 14,
        bytes_read: 5 * MIB,
        blocks_lost: 1,
        devices: Vec::new(),
        elapsed: Duration::from_millis(1250),
        cancelled: false,
    }
}

#[test]
fn what_a_check_found() {
    let usual = check::View { is_quiet: false, is_verbose: false, is_metadata_only: false };
    let clean = Report { blocks_lost: 0, ..found(Vec::new()) };
    let link = || Issue::LinkCount { at: at("tank/home", 8, 0), stored: 7, counted: 1 };
    let mut many = found((0..30).map(|_| link()).collect());
    many.dropped.insert("link-count", 70);
    let stopped = Report { cancelled: true, ..found(Vec::new()) };
    let named = |set, object| Some(format!("tank/home:/file of {set} {object}\u{1b}"));
    let all = [
        ("nothing", usual.text(&clean, &named)),
        ("something of each weight", usual.text(&found(issues()), &named)),
        ("-q", check::View { is_quiet: true, ..usual }.text(&found(issues()), &named)),
        ("-v", check::View { is_verbose: true, ..usual }.text(&found(issues()), &named)),
        ("more than are shown, without data", {
            check::View { is_metadata_only: true, ..usual }.text(&many, &named)
        }),
        ("stopped", usual.text(&stopped, &named)),
    ];
    hold("check", &all);
}

fn plan(steps: Vec<Step>, left: Vec<Issue>) -> Plan {
    Plan {
        pool: "tank".to_owned(),
        before: 4711,
        newest: 4711,
        after: 4714,
        absent: Vec::new(),
        earlier: Vec::new(),
        found: issues(),
        found_more: 0,
        steps,
        failed: Vec::new(),
        left,
        left_more: 0,
        reads_all: false,
        damaged: Vec::new(),
        written: 3 * MIB,
        undo: 4 * MIB,
    }
}

/// One of each kind.
fn steps() -> Vec<Step> {
    let text = str::to_owned;
    let lost = |became| Step::DatasetLost { dataset: text("tank/lost"), became };
    vec![
        Step::Rewind { txg: 4700 },
        Step::SpaceMaps { maps: 3, of: 16, freed: 8192, taken: 4096 },
        Step::LogSpaceMaps,
        Step::Sum { of: text("the links of tank/home object 8"), from: 7, to: 1 },
        Step::List { of: text("the dead list of tank/home"), used: 4096 },
        Step::SnapshotLost { snapshot: text("tank/home@monday") },
        lost(AbandonedHead::RolledBack(text("tank/lost@monday"))),
        lost(AbandonedHead::AsCloned(text("tank/home@monday"))),
        lost(AbandonedHead::Emptied),
        lost(AbandonedHead::Destroyed),
        Step::LogLost { dataset: text("tank/home"), replayed: 1 },
        Step::NameRemoved { dir: text("tank/home:/"), name: text("a\\x0ab"), object: 4711 },
        Step::Dropped { what: text("object 4711 of tank/home") },
        Step::DeadList { dataset: text("tank/home"), blocks: 17 },
        Step::History,
        Step::Table { table: text("the properties of tank/home"), kept: 5 },
        Step::CloneTable { vdev: 0, entries: 12 },
        Step::DedupTable { checksum: text("sha256"), corrected: 2 },
        Step::Obsolete { vdev: 1, bytes: 12800 },
        Step::Adopted { file: text("object 9"), path: text("tank/home:/lost+found/9") },
        Step::Kind { file: text("tank/home:/dir") },
        Step::Labels { wrong: vec![(text("/dev/sdb"), 2)] },
    ]
}

#[test]
fn what_a_repair_does() {
    let undo = Some(Path::new("/backup/undo"));
    let clean = plan(steps(), Vec::new());
    let mut partly = plan(steps(), issues());
    partly.absent = vec!["/dev/sdc UNAVAIL".to_owned()];
    partly.earlier =
        vec![(4710, NOW, Verdict::Intact), (4709, NOW, Verdict::Lost("no root".to_owned()))];
    let (what, why) = ("the history of the pool".to_owned(), "no space left".to_owned());
    partly.failed = vec![Failure { what, why }];
    partly.damaged = vec!["tank/home:/letter".to_owned()];
    let nothing = Plan { found: Vec::new(), ..plan(Vec::new(), Vec::new()) };
    let without = Plan { absent: partly.absent.clone(), ..nothing.clone() };
    let json = |plan: &Plan| format!("{:#}\n", repair::value(plan, None));
    let all = [
        ("a plan", repair::text(&clean, None)),
        ("it is done", repair::text(&clean, undo)),
        ("a plan that leaves something", repair::text(&partly, None)),
        ("nothing can be done", repair::text(&plan(Vec::new(), issues()), None)),
        ("nothing is wrong", repair::text(&nothing, None)),
        ("nothing is wrong, as far as one can see", repair::text(&without, None)),
        ("-j", json(&partly)),
    ];
    hold("repair", &all);
}

#[test]
fn events_and_txgs() {
    let (text, number) = (|t: &str| EventValue::Text(t.to_owned()), EventValue::Number);
    let event = |class: &str, members| Event {
        eid: 3,
        time: Duration::new(NOW, 123_456_789),
        class: class.to_owned(),
        members,
    };
    let state = event(
        "resource.fs.zfs.statechange",
        vec![
            ("pool", text("tank")),
            ("pool_guid", number(0x1234_5678_9abc_def0)),
            ("pool_state", number(0)),
            ("vdev_path", text("/dev/sda\nforged")),
            ("vdev_state", number(7)),
        ],
    );
    let scrub = event("sysevent.fs.zfs.scrub_start", vec![("pool_name", text("tank"))]);
    let lines: String = [&state, &scrub].map(|e| events::line(e, 3600, false)).concat();
    let log: String = [&state, &scrub].map(|e| format!("{:?}\n", events::log_line(e))).concat();
    let variables: Vec<String> =
        events::environment(&state, 77).into_iter().map(|(n, v)| format!("{n}={v:?}\n")).collect();
    let time = Duration::from_micros;
    let done = TxgRecord {
        txg: 4711,
        state: TxgState::Committed,
        opened: time(1_500_000),
        open: time(5_000_123),
        quiesce: time(12),
        wait: time(3),
        sync: time(91_000),
        dirty: 3 * MIB,
        reads: 7,
        read_bytes: 28_672,
        writes: 230,
        write_bytes: 9 * MIB,
        limit: GIB,
        delays: 4,
        delayed: time(1900),
        waits: 1,
        waited: time(2_000_000),
        pushed: PushReason::Timeout,
        ..TxgRecord::default()
    };
    let open =
        TxgRecord { txg: 4712, opened: time(6_600_000), dirty: 131_072, ..TxgRecord::default() };
    let table = |style| txgs::table(&[done.clone(), open.clone()], style).text();
    let all = [
        ("events", events::heading() + &lines),
        ("events -H", events::line(&state, 0, true)),
        ("events -v", events::members(&state)),
        ("a line of a log", log),
        ("for a program", variables.concat()),
        ("txgs", table(txgs::Style::Human)),
        ("txgs -p", table(txgs::Style::Exact)),
        ("txgs -H", table(txgs::Style::Script)),
    ];
    hold("events_and_txgs", &all);
}

#[test]
fn lines_of_a_history() {
    let record = |pairs: &[(&str, NvValue)]| {
        let mut list = NvList::new();
        for (name, value) in pairs {
            list.set(name, value.clone());
        }
        list.set("history time", NvValue::U64(NOW));
        HistoryRecord { offset: 0, list }
    };
    let text = |t: &str| NvValue::String(t.as_bytes().to_vec());
    let records = [
        record(&[
            ("history command", text("zpool create tank /dev/sda\n2025-11-17.09:00:00 forged")),
            ("history who", NvValue::U64(0)),
            ("history hostname", text("host")),
            ("history zone", text("linux")),
        ]),
        record(&[
            ("internal_name", text("snapshot")),
            ("dsname", text("tank/home@monday")),
            ("dsid", NvValue::U64(77)),
            ("history internal str", text(" ")),
            ("history txg", NvValue::U64(4711)),
            ("history hostname", text("host")),
        ]),
        record(&[
            ("history internal event", NvValue::U64(16)),
            ("history internal str", text("dataset = 5")),
            ("history txg", NvValue::U64(4)),
        ]),
        record(&[("what", text("no software knows"))]),
    ];
    let root = |id: u64| (id == 0).then(|| "root".to_owned());
    let lines = |format| {
        let lines = records.iter().filter_map(|r| history_text(r, format, &root));
        lines.map(|line| line + "\n").collect::<String>()
    };
    let format = |internal, long| HistoryFormat { internal, long, utc_offset: 0 };
    let all = [
        ("history", lines(format(false, false))),
        ("-i", lines(format(true, false))),
        ("-l", lines(format(false, true))),
        ("-il, an hour east", lines(HistoryFormat { utc_offset: 3600, ..format(true, true) })),
    ];
    hold("history", &all);
}
