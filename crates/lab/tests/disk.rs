//! Models of disks against what follows from their parameters.

use core::time::Duration;
use engine::inside::device::{
    DiskModel, ModelKind, ModelRequest, SimDisks, WriteDevice, run_model,
};
use engine::inside::rt::{Rng, Rt, Xoshiro256};
use lab::disk::{Order, Preset, Rotating, Spec, preset, presets};

fn named(name: &str) -> Preset {
    preset(name).unwrap_or_else(|| panic!("no preset {name}"))
}

fn rotating(preset: &mut Preset) -> &mut Rotating {
    match &mut preset.disk {
        Spec::Rotating(spec) => spec,
        other => panic!("{other:?} does not rotate"),
    }
}

/// Keeps `depth` of the requests under way; the next one arrives when one has ended. Returns
/// the time it all took, and the order of the ends.
fn closed(
    model: &mut dyn DiskModel,
    depth: usize,
    requests: &[(ModelKind, u64, u64)],
) -> (f64, Vec<u64>) {
    let mut left = requests.iter().enumerate();
    let (mut now, mut under_way, mut order) = (Duration::ZERO, 0, Vec::new());
    let mut ended = Vec::new();
    loop {
        while under_way < depth
            && let Some((id, (kind, offset, len))) = left.next()
        {
            let request = ModelRequest { id: id as u64, kind: *kind, offset: *offset, len: *len };
            model.arrive(now, request);
            under_way += 1;
        }
        if under_way == 0 {
            return (now.as_secs_f64(), order);
        }
        let Some(next) = model.next() else { panic!("the model forgot what is under way") };
        now = next.max(now);
        model.advance(now, &mut ended);
        under_way -= ended.len();
        order.append(&mut ended);
    }
}

fn in_a_row(kind: ModelKind, len: u64, count: u64) -> Vec<(ModelKind, u64, u64)> {
    (0..count).map(|n| (kind, n * len, len)).collect()
}

fn at_random(kind: ModelKind, len: u64, count: u64, span: u64) -> Vec<(ModelKind, u64, u64)> {
    let mut rng = Xoshiro256::seeded(7);
    (0..count).map(|_| (kind, rng.below(span / len) * len, len)).collect()
}

fn near(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() < part, "{found} instead of {expected}");
}

#[test]
fn a_write_without_cache_costs_a_rotation_more_than_its_bytes() {
    for kib in [16, 64, 256, 1024, 8192] {
        let mut model = named("hitachi-dk32ej36n").model(1 << 30, 1);
        let count = (16_384 / kib).max(20);
        let (took, _) = closed(&mut *model, 1, &in_a_row(ModelKind::Write, kib << 10, count));
        let expected = 0.006 + kib as f64 / 1024.0 / 64.0;
        near(took / count as f64, expected, 0.02);
    }
}

#[test]
fn writes_in_the_queue_miss_nothing() {
    let mut model = named("hitachi-dk32ej36n").model(1 << 30, 1);
    let (took, _) = closed(&mut *model, 35, &in_a_row(ModelKind::Write, 128 << 10, 1000));
    near(125.0 / took, 64.0, 0.02);
}

#[test]
fn a_write_cache_writes_at_the_rate_of_the_platter_and_a_flush_waits_for_it() {
    let mut model = named("hitachi-dk32ej36n-cached").model(1 << 30, 1);
    let mut requests = in_a_row(ModelKind::Write, 16 << 10, 64 * 128);
    let (took, _) = closed(&mut *model, 1, &requests);
    near(128.0 / took, 66.0, 0.04);
    // The cache's 4 MiB are not on the platter yet.
    requests.push((ModelKind::Flush, 0, 0));
    let mut model = named("hitachi-dk32ej36n-cached").model(1 << 30, 1);
    let (flushed, _) = closed(&mut *model, 1, &requests);
    near(flushed - took, 4.0 / 64.0, 0.15);
    near(128.0 / flushed, 64.0, 0.01);
}

#[test]
fn a_large_write_streams_through_a_small_cache() {
    let mut model = named("hitachi-dk32ej36n-cached").model(1 << 30, 1);
    let (took, _) = closed(&mut *model, 1, &in_a_row(ModelKind::Write, 8 << 20, 20));
    near(160.0 / took, 65.5, 0.03);
}

#[test]
fn reads_in_a_row_come_at_the_rate_of_the_platter_or_of_the_commands() {
    let rate = |kib: u64, count| {
        let mut model = named("seek-study").model(1 << 30, 1);
        let (took, _) = closed(&mut *model, 1, &in_a_row(ModelKind::Read, kib << 10, count));
        (kib * count) as f64 / 1024.0 / took
    };
    near(rate(8, 10_000), 63.0, 0.02);
    near(rate(128, 1000), 63.0, 0.02);
    let command = 53.6e-6 + 1024.0 / 144e6;
    near(rate(1, 10_000), 1.0 / 1024.0 / command, 0.02);
}

#[test]
fn random_reads_cost_seek_half_a_rotation_and_transfer() {
    let preset = named("sas-10k-100g");
    let mut model = preset.model(0, 3);
    let requests = at_random(ModelKind::Read, 8 << 10, 20_000, preset.capacity_bytes);
    let (took, _) = closed(&mut *model, 1, &requests);
    // Places are even over bytes, and outer cylinders hold more of them: seeks are a bit shorter
    // than over even cylinders.
    let expected = 50e-6 + 3.8e-3 + 3e-3 + 8192.0 / 97.5e6;
    near(took / 20_000.0, expected, 0.03);
}

#[test]
fn the_order_of_the_queue_pays() {
    let took = |order| {
        let mut preset = named("sas-10k-100g");
        rotating(&mut preset).order = order;
        let requests = at_random(ModelKind::Read, 8 << 10, 3000, preset.capacity_bytes);
        closed(&mut *preset.model(0, 3), 32, &requests).0
    };
    let (fifo, elevator, shortest) =
        (took(Order::Fifo), took(Order::Elevator), took(Order::Shortest));
    assert!(elevator < 0.8 * fifo, "{elevator} against {fifo}");
    assert!(shortest < 0.8 * elevator, "{shortest} against {elevator}");
}

#[test]
fn the_elevator_goes_one_way_and_fifo_keeps_the_order() {
    let places = [500, 100, 900, 300, 700];
    let ends = |order| {
        let mut preset = named("sas-10k-100g");
        rotating(&mut preset).order = order;
        let requests: Vec<_> =
            places.iter().map(|gb| (ModelKind::Read, gb * 100_000_000, 4096)).collect();
        closed(&mut *preset.model(0, 3), 5, &requests).1
    };
    // The first one is under way before the others are decoded.
    assert_eq!(ends(Order::Elevator), [0, 4, 2, 1, 3]);
    assert_eq!(ends(Order::Fifo), [0, 1, 2, 3, 4]);
}

#[test]
fn no_request_waits_for_ever() {
    // One far away among a stream of near ones.
    let preset = named("sas-10k-100g");
    let mut requests = at_random(ModelKind::Read, 4096, 4000, 50_000_000);
    requests[8].1 = 140_000_000_000;
    let (_, order) = closed(&mut *preset.model(0, 3), 32, &requests);
    let place = order.iter().position(|id| *id == 8).expect("it ended");
    assert!(place < 1500, "{place}");
}

#[test]
fn long_requests_are_cut() {
    // Twice 8 MiB cost two rotations, and one of 16 MiB is just that.
    let took = |len, count| {
        let mut model = named("hitachi-dk32ej36n").model(1 << 30, 1);
        closed(&mut *model, 1, &in_a_row(ModelKind::Write, len, count)).0
    };
    assert_eq!(took(8 << 20, 4), took(16 << 20, 2));
}

#[test]
fn every_preset_ends_what_it_begins_and_repeats_itself() {
    testkit::scenarios((11..).zip(presets()), |steps, preset| {
        let mut requests = Vec::new();
        let mut at = Duration::ZERO;
        for number in (0..3000).filter_map(|_| steps.draw()) {
            let (id, mut rng) = (requests.len() as u64, testkit::Rng::new(number));
            at += Duration::from_micros(rng.below(2000));
            let kind = match rng.below(20) {
                0 => ModelKind::Flush,
                1..10 => ModelKind::Read,
                _ => ModelKind::Write,
            };
            let len = if kind == ModelKind::Flush { 0 } else { 512 << rng.below(12) };
            // Two thirds of them in a small place, so that they meet each other.
            let span = if rng.below(3) == 0 { 30_000_000_000 } else { 4 << 20 };
            let offset = rng.below(span) / 512 * 512;
            requests.push((at, ModelRequest { id, kind, offset, len }));
        }
        let run = |seed| run_model(&mut *preset.model(0, seed), &requests);
        let ends = run(5);
        let mut ids: Vec<u64> = ends.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>(), "{}", preset.name);
        for (id, end) in &ends {
            let (begun, request) = requests[*id as usize];
            // Lanes are for reads and writes.
            let lanes = matches!(preset.disk, Spec::Lanes(_));
            let at_once = lanes && request.kind == ModelKind::Flush;
            assert!(*end > begun || at_once, "{}: {id}", preset.name);
        }
        assert_eq!(ends, run(5), "{}", preset.name);
        if matches!(preset.disk, Spec::Rotating(_)) {
            assert_ne!(ends, run(6), "{}: the seed says where the platter stands", preset.name);
        }
    });
}

#[test]
fn presets_can_be_written_down() {
    for preset in presets() {
        let text = serde_json::to_string(&preset).expect("json");
        assert_eq!(serde_json::from_str::<Preset>(&text).expect("preset"), preset);
    }
}

#[test]
fn a_device_takes_the_model_s_time_and_holds_bytes() {
    Rt::simulate(1, |rt| {
        let disk = named("hitachi-dk32ej36n").device(&SimDisks::new(rt), 1 << 40, 1);
        let data = vec![7; 1 << 20];
        let begin = rt.now();
        for n in 0..10 {
            disk.write((1 << 39) + (n << 20), &data).expect("write");
        }
        let took = (rt.now() - begin).as_secs_f64();
        assert!(took > 10.0 * (0.006 + 1.0 / 64.0) * 0.95, "{took}");
        disk.flush().expect("flush");
        let mut back = vec![0; 100];
        engine::inside::device::Device::read(&*disk, (1 << 39) + 5, &mut back).expect("read");
        assert_eq!(back, vec![7; 100]);
        assert!(disk.contents().allocated() < 20 << 20);
    });
}

#[test]
fn an_ssd_reads_in_parallel_and_writes_at_the_rate_of_its_units() {
    let preset = named("nvme");
    let per_second = |depth, count: u64| {
        let requests = at_random(ModelKind::Read, 4096, count, preset.capacity_bytes);
        count as f64 / closed(&mut *preset.model(0, 1), depth, &requests).0
    };
    near(per_second(1, 2000), 1e6 / 74.9, 0.02);
    let many = per_second(1024, 200_000);
    assert!((900e3..1.15e6).contains(&many), "{many}");
    // Four times the buffer: what is beyond it goes at the rate of 128 units of 4 KiB in 105 us.
    let requests = in_a_row(ModelKind::Write, 1 << 20, 8192);
    let (took, _) = closed(&mut *preset.model(0, 1), 32, &requests);
    near(8192.0 * f64::from(1 << 20) / took, 128.0 * 4096.0 / 105e-6, 0.05);
    // A flush waits for the buffer.
    let mut few = in_a_row(ModelKind::Write, 1 << 20, 64);
    let (took, _) = closed(&mut *preset.model(0, 1), 1, &few);
    few.push((ModelKind::Flush, 0, 0));
    let (flushed, _) = closed(&mut *preset.model(0, 1), 1, &few);
    assert!(flushed > took + 20e-6, "{took} {flushed}");
    // Without the buffer a write waits for its pages, two in each unit, which are written at once.
    let mut preset = preset;
    preset.disk.switch_write_cache(false);
    let (took, _) = closed(&mut *preset.model(0, 1), 1, &in_a_row(ModelKind::Write, 1 << 20, 10));
    let one = 0.9e-6 + f64::from(1 << 20) / 7e9 + 2.0 * 105e-6 + 14e-6;
    near(took / 10.0, one, 0.01);
}

#[test]
fn luns_share_their_controller() {
    let mut preset = named("ddn-s2a9550-lun");
    let latency = |under_way: u64| 10e-3 + 1e-3 * under_way as f64;
    // One alone, and sixteen at once over four LUNs.
    let (took, _) = closed(&mut *preset.model(0, 1), 1, &in_a_row(ModelKind::Write, 1 << 20, 10));
    near(took / 10.0, latency(1), 0.001);
    let mut models = preset.models(4, 0, 1);
    for n in 0..16_u64 {
        let request = ModelRequest { id: n, kind: ModelKind::Write, offset: n << 20, len: 1 << 20 };
        models[n as usize % 4].arrive(Duration::ZERO, request);
    }
    let last = models.iter().filter_map(|model| model.next()).max().unwrap_or_default();
    near(last.as_secs_f64(), latency(4), 0.001);
    // One LUN cannot do more than its disks, nor several more than the controller.
    let many = in_a_row(ModelKind::Write, 1 << 20, 2000);
    if let Spec::Lun(lun) = &mut preset.disk {
        (lun.latency_us, lun.latency_us_per_mib) = (100.0, 0.0);
        (lun.command_us, lun.crowding_us_per_mib) = (0.0, 0.0);
    }
    let (took, _) = closed(&mut *preset.model(0, 1), 16, &many);
    near(2000.0 / took, 350e6 / f64::from(1 << 20), 0.01);
}

#[test]
fn a_lane_does_one_request_after_the_other_whatever_its_size() {
    let mut preset = named("lanes-10ms");
    let all = in_a_row(ModelKind::Write, 1 << 20, 160);
    // Sixteen at once fill the lanes; more wait, fewer leave some free.
    for (depth, took) in [(1, 1.6), (4, 0.4), (16, 0.1), (64, 0.1)] {
        near(closed(&mut *preset.model(0, 1), depth, &all).0, took, 0.001);
    }
    if let Spec::Lanes(lanes) = &mut preset.disk {
        lanes.lanes = 1;
    }
    near(closed(&mut *preset.model(0, 1), 16, &all).0, 1.6, 0.001);
    let flush = [(ModelKind::Flush, 0, 0)];
    assert_eq!(closed(&mut *preset.model(0, 1), 1, &flush).0, 0.0);
}

/// Random writes over the whole of a full disk cost what moving its valid pages costs; the same
/// region in order, again and again, hardly anything.
#[test]
fn a_full_solid_state_disk_collects_garbage() {
    let rate = |name: &str, requests: &[(ModelKind, u64, u64)]| {
        let mut preset = named(name);
        if let Spec::Ssd(spec) = &mut preset.disk {
            spec.write_cache = false;
            if let Some(garbage) = &mut spec.garbage {
                garbage.block_bytes = 4 << 20;
            }
        }
        let (took, _) = closed(&mut *preset.model(0, 1), 32, requests);
        (requests.len() as f64 / 8.0) / took
    };
    let random = at_random(ModelKind::Write, 128 << 10, 2000, 900 << 30);
    let (empty, full) = (rate("sata-ssd", &random), rate("sata-ssd-full", &random));
    assert!(full < empty / 5.0, "{full} of {empty}");
    let round = in_a_row(ModelKind::Write, 128 << 10, 512);
    let rounds: Vec<_> = (0..10).flat_map(|_| round.iter().copied()).collect();
    let again = rate("sata-ssd-full", &rounds);
    assert!(again > 3.0 * full, "{again} of {full}");
}

fn smr(cache_bytes: u64) -> Preset {
    let mut preset = named("smr-5t");
    let spec = rotating(&mut preset);
    let Some(shingled) = &mut spec.shingled else { panic!("not shingled") };
    shingled.cache_bytes = cache_bytes;
    preset
}

#[test]
fn a_shingled_disk_streams_and_stands_still_when_its_cache_is_full() {
    let written = |preset: &Preset, requests: &[(ModelKind, u64, u64)]| {
        let (took, _) = closed(&mut *preset.model(0, 1), 8, requests);
        requests.iter().map(|r| r.2).sum::<u64>() as f64 / 1e6 / took
    };
    let row = in_a_row(ModelKind::Write, 1 << 20, 1000);
    near(written(&smr(64 << 20), &row), 180.0, 0.1);
    // Of each 64 MiB that fill the cache, 8 KiB at a time, every unit is in a band of its own.
    let random = at_random(ModelKind::Write, 8 << 10, 3000, 1 << 40);
    let (fits, full) = (written(&smr(1 << 30), &random), written(&smr(8 << 20), &random));
    assert!(fits > 20.0, "{fits}");
    assert!(full < fits / 20.0, "{full} of {fits}");
}

#[test]
fn a_shingled_disk_reads_what_its_cache_has_and_cleans_when_idle() {
    let preset = smr(1 << 30);
    let mut model = preset.model(0, 1);
    let mut ended = Vec::new();
    let mut run = |id: u64, at: Duration, kind, offset, len| -> Duration {
        model.arrive(at, ModelRequest { id, kind, offset, len });
        let mut now = at;
        while ended.last() != Some(&id) {
            now = model.next().map_or(now, |next| next.max(now));
            model.advance(now, &mut ended);
        }
        now - at
    };
    let mut at = Duration::from_secs(1);
    // Two places of one band, neither of which goes on where it ends: they lie together.
    for (id, offset) in [(1, 9_u64 << 20), (2, 20 << 20)] {
        at += run(id, at, ModelKind::Write, offset, 64 << 10) + Duration::from_millis(1);
    }
    at += run(3, at, ModelKind::Flush, 0, 0);
    // Long after, the band was cleaned: written from its begin on, so that this goes on there.
    let later = at + Duration::from_secs(60);
    while let Some(next) = model.next().filter(|next| *next < later) {
        model.advance(next, &mut ended);
    }
    assert_eq!(ended, [1, 2, 3]);
    assert!(model.next().is_none(), "it still has something to do");
}
