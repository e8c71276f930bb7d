//! Disks by name.

use super::{Garbage, Host, Lanes, Lun, Order, Preset, Rotating, Seek, Shingled, Spec, Ssd};

/// The preset of this name.
#[must_use]
pub fn preset(name: &str) -> Option<Preset> {
    presets().into_iter().find(|preset| preset.name == name)
}

/// All presets.
#[must_use]
pub fn presets() -> Vec<Preset> {
    vec![
        hitachi("hitachi-dk32ej36n", false, "write cache off"),
        hitachi("hitachi-dk32ej36n-cached", true, "write cache on"),
        seek_study(),
        indirect_study(),
        x4500_sata(),
        ddn_lun(),
        sas_10k(),
        hdd_16t(),
        sata_ssd(),
        nvme(),
        full("sata-ssd-full", sata_ssd(), 7.0, 256 << 20),
        full("nvme-full", nvme(), 7.0, 1 << 30),
        shingled(),
        lanes(),
    ]
}

const MIB: f64 = 1_048_576.0;

/// The disk of the raw write sweep.
///
/// Fitted: the sustained rate (64 MiB/s outside: between the 66 the study reaches with the write
/// cache on and the 59 it reaches with 8 MiB a write); rotation gives the rest, because each of
/// its synchronous writes misses one.
fn hitachi(name: &str, write_cache: bool, cache: &str) -> Preset {
    Preset {
        name: name.to_owned(),
        description: format!("Hitachi DK32EJ36N, 36 GB, 10,000 rpm SCSI, {cache}"),
        source: "data sheet: rotation, seek times, Ultra320 at 160 MB/s; fitted to the study \
                 of single writes: sustained rate"
            .to_owned(),
        capacity_bytes: 36_420_000_000,
        host: Host { command_cpu_us: 20.0, max_transfer_bytes: 8 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 10_000.0,
            heads: 4,
            zones: 16,
            track_sectors_multiple: 1,
            outer_bytes_per_second: 64.0 * MIB,
            inner_bytes_per_second: 42.0 * MIB,
            head_switch_us: 600.0,
            seek: Seek { one_track_ms: 0.5, average_ms: 4.9, full_ms: 10.5 },
            write_settle_us: 200.0,
            command_us: 120.0,
            bus_bytes_per_second: 160e6,
            depth: 64,
            order: Order::Shortest,
            read_ahead_bytes: 1 << 20,
            segments: 4,
            write_cache_bytes: 4 << 20,
            write_cache,
            shingled: None,
        }),
    }
}

/// The disk of the study of seeks.
///
/// Fitted, all of it. Reads in a row give the sustained rate outside (63 MiB/s), the time of a
/// command and the rate of the bus (57 µs for 512 bytes, 82 µs for 4 KiB). How random reads grow
/// with their size says how fast the platter is on average, and so how much slower it is inside;
/// what is left of a random read of 512 bytes is half a rotation and the seek, which is shorter
/// than any data sheet's of that time: either the study's program did not seek over the whole disk,
/// or the disk was better than its paper. Tracks hold whole 32 KiB, so that aligned reads of up to
/// that size never cross to the next track, as the study's growth from there on suggests.
fn seek_study() -> Preset {
    Preset {
        name: "seek-study".to_owned(),
        description: "the disk of the study of seeks: 63 MB/s, 189 random reads a second"
            .to_owned(),
        source: "fitted to the study, which does not name its disk".to_owned(),
        capacity_bytes: 73_400_000_000,
        host: Host { command_cpu_us: 7.0, max_transfer_bytes: 128 << 10 },
        disk: Spec::Rotating(Rotating {
            rpm: 10_000.0,
            heads: 4,
            zones: 16,
            track_sectors_multiple: 64,
            outer_bytes_per_second: 63.0 * MIB,
            inner_bytes_per_second: 23.0 * MIB,
            head_switch_us: 940.0,
            seek: Seek { one_track_ms: 0.4, average_ms: 2.4, full_ms: 4.6 },
            write_settle_us: 200.0,
            command_us: 53.6,
            bus_bytes_per_second: 144e6,
            depth: 32,
            order: Order::Shortest,
            read_ahead_bytes: 1 << 20,
            segments: 8,
            write_cache_bytes: 8 << 20,
            write_cache: true,
            shingled: None,
        }),
    }
}

/// Seek times of 2.5 inch disks with 10,000 rpm, as data sheets have them.
const SAS_10K_SEEK: Seek = Seek { one_track_ms: 0.4, average_ms: 3.8, full_ms: 8.0 };

/// The disks of the study of indirect blocks.
///
/// Fitted: one factor for all seek times, to one figure, the 665 reads a second with 128 KiB
/// at every 1024th block. The other three rates and both gains follow from it.
fn indirect_study() -> Preset {
    Preset {
        name: "indirect-study".to_owned(),
        description: "100 GB, 10,000 rpm SAS, as in the study of indirect blocks".to_owned(),
        source: "as sas-10k-100g, but for seeks that are 1.35 times as long: fitted to one of \
                 the study's rates"
            .to_owned(),
        capacity_bytes: 100_000_000_000,
        host: Host { command_cpu_us: 8.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 10_000.0,
            heads: 4,
            zones: 16,
            track_sectors_multiple: 1,
            outer_bytes_per_second: 120e6,
            inner_bytes_per_second: 75e6,
            head_switch_us: 600.0,
            seek: SAS_10K_SEEK.times(1.35),
            write_settle_us: 300.0,
            command_us: 50.0,
            bus_bytes_per_second: 300e6,
            depth: 64,
            order: Order::Shortest,
            read_ahead_bytes: 2 << 20,
            segments: 16,
            write_cache_bytes: 16 << 20,
            write_cache: true,
            shingled: None,
        }),
    }
}

fn x4500_sata() -> Preset {
    Preset {
        name: "x4500-sata".to_owned(),
        description: "500 GB, 7200 rpm SATA, 48 of which are in a Sun Fire X4500".to_owned(),
        source: "data sheet of the Hitachi 7K500: rotation, seek times, cache; fitted to the rate \
                 that 42 of them sustained in the study of the write throttle: 45 MB/s outside, \
                 of the 65 of the data sheet"
            .to_owned(),
        capacity_bytes: 500_107_862_016,
        host: Host { command_cpu_us: 10.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 7200.0,
            heads: 10,
            zones: 20,
            track_sectors_multiple: 1,
            outer_bytes_per_second: 45e6,
            inner_bytes_per_second: 31e6,
            head_switch_us: 1000.0,
            seek: Seek { one_track_ms: 1.1, average_ms: 8.5, full_ms: 15.0 },
            write_settle_us: 500.0,
            command_us: 60.0,
            bus_bytes_per_second: 150e6,
            depth: 32,
            order: Order::Shortest,
            read_ahead_bytes: 1 << 20,
            segments: 8,
            write_cache_bytes: 16 << 20,
            write_cache: true,
            shingled: None,
        }),
    }
}

fn sas_10k() -> Preset {
    Preset {
        name: "sas-10k-100g".to_owned(),
        description: "2.5 inch, 10,000 rpm SAS, 146 GB and more".to_owned(),
        source: "data sheets of 2.5 inch 10,000 rpm SAS disks (3.8 ms, 2.9 ms latency)".to_owned(),
        capacity_bytes: 146_000_000_000,
        host: Host { command_cpu_us: 8.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 10_000.0,
            heads: 4,
            zones: 16,
            track_sectors_multiple: 1,
            outer_bytes_per_second: 120e6,
            inner_bytes_per_second: 75e6,
            head_switch_us: 600.0,
            seek: SAS_10K_SEEK,
            write_settle_us: 300.0,
            command_us: 50.0,
            bus_bytes_per_second: 300e6,
            depth: 64,
            order: Order::Shortest,
            read_ahead_bytes: 2 << 20,
            segments: 16,
            write_cache_bytes: 16 << 20,
            write_cache: true,
            shingled: None,
        }),
    }
}

fn hdd_16t() -> Preset {
    Preset {
        name: "hdd-16t".to_owned(),
        description: "16 TB, 7200 rpm SATA, helium filled".to_owned(),
        source: "data sheets of 16 TB drives (261 MB/s outside, 8.5 ms, 256 MB of buffer)"
            .to_owned(),
        capacity_bytes: 16_000_900_661_248,
        host: Host { command_cpu_us: 3.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 7200.0,
            heads: 18,
            zones: 24,
            track_sectors_multiple: 8,
            outer_bytes_per_second: 261e6,
            inner_bytes_per_second: 125e6,
            head_switch_us: 900.0,
            seek: Seek { one_track_ms: 0.6, average_ms: 8.0, full_ms: 16.0 },
            write_settle_us: 500.0,
            command_us: 30.0,
            bus_bytes_per_second: 560e6,
            depth: 32,
            order: Order::Shortest,
            read_ahead_bytes: 4 << 20,
            segments: 32,
            write_cache_bytes: 128 << 20,
            write_cache: true,
            shingled: None,
        }),
    }
}

/// A LUN of the array of the study of the parallel simulator.
///
/// The study gives, for I/Os of 1 MiB to six units: 19.1 s in each of 8 threads at 7.54 I/Os at
/// once, which are 18.7 ms for an I/O by Little's law, and 11.51 s in each of 16 at 11.35, which
/// are 22.5 ms. So an I/O takes about 11 ms, and 1 ms more for each that is under way: a
/// controller whose cache and links all units share. That one unit does not pass 210 MB/s in blocks
/// of 128 KiB, and 350 MB/s in long transfers, gives the unit's own rate and its cost of a command.
/// The flush was chosen with the processors, so that the three runtimes come out.
fn ddn_lun() -> Preset {
    Preset {
        name: "ddn-s2a9550-lun".to_owned(),
        description: "LUN of a DDN S2A9550: 8+2 SATA disks behind shared controllers".to_owned(),
        source: "fitted to the study: 350 MB/s by dd straight to one LUN, latency by concurrency \
                 from its two profiles, 210 MB/s with one LUN"
            .to_owned(),
        capacity_bytes: 4_000_000_000_000,
        host: Host { command_cpu_us: 20.0, max_transfer_bytes: 0 },
        disk: Spec::Lun(Lun {
            lun_bytes_per_second: 350e6,
            controller_bytes_per_second: 2400.0 * MIB,
            command_us: 250.0,
            latency_us: 1500.0,
            latency_us_per_mib: 8500.0,
            crowding_us_per_mib: 1000.0,
            depth: 1024,
            flush_us: 26_000.0,
        }),
    }
}

fn sata_ssd() -> Preset {
    Preset {
        name: "sata-ssd".to_owned(),
        description: "1 TB SATA solid state disk".to_owned(),
        source: "data sheets: 550 MB/s read, 520 MB/s written, some 95,000 reads a second with 32 \
                 under way"
            .to_owned(),
        capacity_bytes: 1_000_204_886_016,
        host: Host { command_cpu_us: 3.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Ssd(Ssd {
            units: 32,
            page_bytes: 4096,
            read_us: 60.0,
            program_us: 250.0,
            command_us: 10.0,
            latency_us: 20.0,
            write_latency_us: 0.0,
            bus_bytes_per_second: 550e6,
            depth: 32,
            write_cache_bytes: 64 << 20,
            write_cache: true,
            power_safe: false,
            garbage: None,
        }),
    }
}

fn nvme() -> Preset {
    Preset {
        name: "nvme".to_owned(),
        description: "2 TB NVMe solid state disk".to_owned(),
        source: "data sheets: 7 GB/s read, 5 GB/s written, about a million reads a second, 75 us \
                 for one alone"
            .to_owned(),
        capacity_bytes: 2_000_398_934_016,
        host: Host { command_cpu_us: 2.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Ssd(Ssd {
            units: 128,
            page_bytes: 4096,
            read_us: 60.0,
            program_us: 105.0,
            command_us: 0.9,
            latency_us: 14.0,
            write_latency_us: 0.0,
            bus_bytes_per_second: 7e9,
            depth: 1024,
            write_cache_bytes: 256 << 20,
            write_cache: true,
            power_safe: false,
            garbage: None,
        }),
    }
}

/// A solid state disk that was written full, and at random for long.
fn full(name: &str, empty: Preset, spare_percent: f64, block_bytes: u64) -> Preset {
    let description = format!("{}, full and long in use", empty.description);
    let source = format!(
        "as {}; {spare_percent} % of spare flash, which consumers' disks have, blocks of {} MiB of \
         all units and 3 ms for erasing them are assumed",
        empty.name,
        block_bytes >> 20
    );
    let mut full = Preset { name: name.to_owned(), description, source, ..empty };
    if let Spec::Ssd(spec) = &mut full.disk {
        spec.garbage = Some(Garbage { block_bytes, spare_percent, erase_us: 3000.0 });
    }
    full
}

/// A shingled disk that looks like any other.
///
/// Its inside is that of published measurements from outside (FAST 2015, two such disks of 5 and 8
/// TB): 20 GiB of cache at the outer edge, bands of some tens of MiB, cleaned when it is idle.
fn shingled() -> Preset {
    Preset {
        name: "smr-5t".to_owned(),
        description: "5 TB, 5900 rpm SATA, shingled by itself".to_owned(),
        source: "data sheets of such disks (180 MB/s outside, 12 ms); cache and bands as measured \
                 from outside by others (FAST 2015)"
            .to_owned(),
        capacity_bytes: 5_000_981_078_016,
        host: Host { command_cpu_us: 3.0, max_transfer_bytes: 1 << 20 },
        disk: Spec::Rotating(Rotating {
            rpm: 5900.0,
            heads: 8,
            zones: 20,
            track_sectors_multiple: 8,
            outer_bytes_per_second: 180e6,
            inner_bytes_per_second: 90e6,
            head_switch_us: 1000.0,
            seek: Seek { one_track_ms: 1.0, average_ms: 11.0, full_ms: 22.0 },
            write_settle_us: 500.0,
            command_us: 30.0,
            bus_bytes_per_second: 560e6,
            depth: 32,
            order: Order::Shortest,
            read_ahead_bytes: 2 << 20,
            segments: 16,
            write_cache_bytes: 64 << 20,
            write_cache: true,
            shingled: Some(Shingled {
                band_bytes: 30 << 20,
                cache_bytes: 20 << 30,
                idle_ms: 1000.0,
            }),
        }),
    }
}

/// What `zinject -D 10:16` makes of a disk.
fn lanes() -> Preset {
    Preset {
        name: "lanes-10ms".to_owned(),
        description: "16 requests at once, each for 10 ms".to_owned(),
        source: "the study of artificial latency; what lies behind the lanes takes no time"
            .to_owned(),
        capacity_bytes: 64 << 30,
        host: Host { command_cpu_us: 0.0, max_transfer_bytes: 0 },
        disk: Spec::Lanes(Lanes { lanes: 16, latency_us: 10_000.0 }),
    }
}
