//! A fit finds the parameters of the disk it measured.

use lab::disk::{Preset, Rotating, Spec, preset};
use lab::fit::{Effort, fit, with_writes};
use lab::raw_disk::{Access, FileDisk, ModelDisk};
use lab::validate::{Steps, Validation, fitted, validate, validate_writes};

const EFFORT: Effort = Effort { seconds: 1e9, requests: 2000 };

fn found_again(name: &str) -> (Preset, Preset) {
    let Some(original) = preset(name) else { panic!("no preset {name}") };
    let mut disk = ModelDisk::new(&original, 3);
    let found = fit(&mut disk, name, EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
    (original, found)
}

fn rotating(preset: &Preset) -> &Rotating {
    match &preset.disk {
        Spec::Rotating(spec) => spec,
        other => panic!("{}: {other:?} does not rotate", preset.name),
    }
}

/// Rotation, rates and command within 3 %; bus within 10 %; seeks within 6 % or 0.2 ms.
#[test]
fn a_fit_finds_a_disk_s_parameters_again() {
    for name in ["sas-10k-100g", "hitachi-dk32ej36n", "x4500-sata", "hdd-16t"] {
        let (original, found) = found_again(name);
        let (a, b) = (rotating(&original), rotating(&found));
        let check = |what: &str, expected: f64, found: f64, part: f64, free: f64| {
            let good = (found - expected).abs() <= (part * expected).max(free);
            assert!(good, "{name}: {what}: {found} instead of {expected}");
        };
        check("rpm", a.rpm, b.rpm, 0.03, 0.0);
        check("outer", a.outer_bytes_per_second, b.outer_bytes_per_second, 0.03, 0.0);
        check("inner", a.inner_bytes_per_second, b.inner_bytes_per_second, 0.03, 0.0);
        check("command", a.command_us, b.command_us, 0.03, 1.0);
        check("bus", a.bus_bytes_per_second, b.bus_bytes_per_second, 0.1, 0.0);
        check("one track", a.seek.one_track_ms, b.seek.one_track_ms, 0.06, 0.2);
        check("average", a.seek.average_ms, b.seek.average_ms, 0.06, 0.2);
        check("full", a.seek.full_ms, b.seek.full_ms, 0.06, 0.2);
        assert_eq!(a.order, b.order, "{name}");
    }
}

#[test]
fn a_solid_state_disk_is_seen_as_one() {
    let (original, found) = found_again("sata-ssd");
    let (Spec::Ssd(a), Spec::Ssd(b)) = (&original.disk, &found.disk) else {
        panic!("{found:?}");
    };
    let near = |a: f64, b: f64, part: f64| assert!((a / b - 1.0).abs() < part, "{a} {b}");
    near(b.bus_bytes_per_second, a.bus_bytes_per_second, 0.15);
    near(b.read_us + b.latency_us, a.read_us + a.latency_us, 0.2);
}

#[test]
fn a_file_can_be_fitted() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let path = dir.path().join("disk");
    let written = std::fs::write(&path, vec![1; 64 << 20]);
    written.unwrap_or_else(|e| panic!("{e}"));
    let mut disk = FileDisk::open(&path, Access::Read).unwrap_or_else(|e| panic!("{e}"));
    let effort = Effort { seconds: 0.02, requests: 1000 };
    let found = fit(&mut disk, "disk", effort, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
    let text = serde_json::to_string(&found).unwrap_or_else(|e| panic!("{e}"));
    let again: Preset = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.capacity_bytes, 64 << 20);
}

/// Patterns that nothing was fitted to: reads in a row and larger random reads, several at once.
#[test]
fn a_fitted_model_predicts_other_patterns() {
    for (name, part) in
        [("sas-10k-100g", 0.15), ("hdd-16t", 0.15), ("nvme", 0.25), ("sata-ssd", 0.25)]
    {
        let (original, found) = found_again(name);
        let mut disk = ModelDisk::new(&original, 3);
        let all = validate(&mut disk, &found, EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(all.len(), 8);
        for one in &all {
            let far = (one.ratio() - 1.0).abs();
            assert!(far < part, "{name}: {one:?}");
        }
        // A model of another disk is told from it.
        let other = preset("seek-study").unwrap_or_else(|| panic!("no preset"));
        let wrong = validate(&mut disk, &other, EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        assert!(wrong.iter().any(|one| !(0.7..1.4).contains(&one.ratio())), "{wrong:?}");
    }
}

/// What writes show of a disk that may be written.
#[test]
fn writes_show_the_write_cache() {
    let written = |original: &Preset| {
        let mut disk = ModelDisk::new(original, 3);
        let found = fit(&mut disk, "x", EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        with_writes(&mut disk, found, EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"))
    };
    let near = |found: f64, expected: f64, part: f64| {
        assert!((found / expected - 1.0).abs() < part, "{found} instead of {expected}");
    };
    for name in ["hdd-16t", "sas-10k-100g"] {
        let Some(mut original) = preset(name) else { panic!("no preset") };
        let found = written(&original);
        let (a, b) = (rotating(&original), rotating(&found));
        assert!(b.write_cache, "{name}");
        near(b.write_cache_bytes as f64, a.write_cache_bytes as f64, 0.3);
        original.disk.switch_write_cache(false);
        let found = written(&original);
        let (a, b) = (rotating(&original), rotating(&found));
        assert!(!b.write_cache && b.write_cache_bytes == 0, "{name}");
        assert!((b.write_settle_us - a.write_settle_us).abs() < 250.0, "{}", b.write_settle_us);
    }
    for name in ["sata-ssd", "nvme"] {
        let Some(mut original) = preset(name) else { panic!("no preset") };
        let found = written(&original);
        let (Spec::Ssd(a), Spec::Ssd(b)) = (&original.disk, &found.disk) else { panic!("{name}") };
        assert!(b.write_cache, "{name}");
        let rate = |spec: &lab::disk::Ssd| spec.units as f64 / spec.program_us;
        near(rate(b), rate(a), 0.15);
        original.disk.switch_write_cache(false);
        let found = written(&original);
        let Spec::Ssd(b) = &found.disk else { panic!("{name}") };
        assert!(!b.write_cache, "{name}: {b:?}");
    }
}

/// Writes, too, of sizes and numbers that nothing was fitted to, with the write cache and without.
#[test]
fn a_fitted_model_predicts_other_writes() {
    let mut shown = String::new();
    for (name, part) in [("sas-10k-100g", 0.2), ("hdd-16t", 0.2), ("sata-ssd", 0.4), ("nvme", 0.4)]
    {
        for cache in [true, false] {
            let Some(mut original) = preset(name) else { panic!("no preset {name}") };
            original.disk.switch_write_cache(cache);
            let mut disk = ModelDisk::new(&original, 3);
            let found = fit(&mut disk, name, EFFORT, &|_| {})
                .and_then(|found| with_writes(&mut disk, found, EFFORT, &|_| {}))
                .unwrap_or_else(|e| panic!("{e}"));
            let all = validate_writes(&mut disk, &found, EFFORT, &|_| {})
                .unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(all.len(), 6);
            for one in &all {
                let far = (one.ratio() - 1.0).abs();
                let verdict = if far < part { "" } else { "  FAR" };
                shown += &format!("{name} {cache}: {:.2} {one:?}{verdict}\n", one.ratio());
            }
        }
    }
    assert!(!shown.contains("FAR"), "{shown}");
}

/// All in one run. Reads come first, else they would wait for what the cache holds.
#[test]
fn reads_and_writes_are_validated_in_one_run() {
    let Some(original) = preset("hdd-16t") else { panic!("no preset") };
    let mut disk = ModelDisk::new(&original, 3);
    let steps = Steps { write: true, validate: true };
    let (_, all) = fitted(&mut disk, "x", EFFORT, steps, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
    let writes = all.iter().filter(|one| one.pattern.starts_with("writes "));
    assert_eq!((all.len(), writes.count()), (14, 6));
    for one in &all {
        assert!((one.ratio() - 1.0).abs() < 0.2, "{one:?}");
    }
}

/// A disk whose reads are counted by how many are under way.
struct Counting(ModelDisk, std::collections::BTreeMap<usize, usize>);

impl lab::raw_disk::RawDisk for Counting {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        self.0.read(offset, len)
    }
    fn write(&mut self, offset: u64, len: u64) -> std::io::Result<()> {
        self.0.write(offset, len)
    }
    fn now(&self) -> std::time::Duration {
        self.0.now()
    }
    fn cpu(&self) -> Option<std::time::Duration> {
        self.0.cpu()
    }
}

impl lab::raw_disk::Fitted for Counting {
    fn read_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        *self.1.entry(depth).or_default() += offsets.len();
        self.0.read_many(depth, len, offsets)
    }
    fn write_many(&mut self, depth: usize, len: u64, offsets: &[u64]) -> std::io::Result<f64> {
        self.0.write_many(depth, len, offsets)
    }
}

/// One at a time decides what a page takes: it is not measured by a few reads.
#[test]
fn every_number_under_way_is_measured_for_as_long() {
    let Some(original) = preset("nvme") else { panic!("no preset") };
    let mut disk = Counting(ModelDisk::new(&original, 3), std::collections::BTreeMap::new());
    fit(&mut disk, "nvme", EFFORT, &|_| {}).unwrap_or_else(|e| panic!("{e}"));
    for depth in [1, 2, 64] {
        let reads = disk.1.get(&depth).copied().unwrap_or(0);
        assert!(reads as u64 >= EFFORT.requests, "{depth}: {reads}");
    }
}

/// What the guide says of the presets (docs/guide/lab.md): a fit knows of no garbage collection and
/// of no bands, and a validation says so.
#[test]
fn a_validation_says_of_which_disks_a_fit_knows_too_little() {
    for (name, reads, writes) in [
        ("indirect-study", 0, 0),
        ("nvme", 0, 0),
        ("seek-study", 1, 2),
        ("sata-ssd-full", 0, 5),
        ("nvme-full", 0, 3),
        ("smr-5t", 0, 4),
        ("ddn-s2a9550-lun", 3, 0),
    ] {
        let Some(original) = preset(name) else { panic!("no preset {name}") };
        let mut disk = ModelDisk::new(&original, 3);
        let steps = Steps { write: true, validate: true };
        let found = fitted(&mut disk, "x", EFFORT, steps, &|_| {});
        let (_, all) = found.unwrap_or_else(|e| panic!("{name}: {e}"));
        let outside = |of_writes| {
            let is_of = |one: &&Validation| one.pattern.starts_with("writes ") == of_writes;
            all.iter().filter(is_of).filter(|one| !one.is_within()).count()
        };
        assert_eq!((outside(false), outside(true)), (reads, writes), "{name}: {all:?}");
    }
}
