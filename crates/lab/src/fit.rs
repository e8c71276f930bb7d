//! Parameters of a disk from measurements of it: a preset of one's own.
//!
//! Only reads, so that it may be done on a disk in use (which spoils the figures but nothing else).
//! What is looked at, and what follows from it:
//!
//! - small reads of one place again and again come from the disk's buffer: by their length they say
//!   what a command takes and what the bus carries;
//! - long reads in a row at the beginning and the end say the sustained rates outside and inside;
//! - a read that comes a known distance after another costs command, seek, and anything up to a
//!   rotation. Over many of them the fastest and the slowest are a rotation apart, and the mean
//!   less half of it is the seek; the seeks over eight distances give the curve;
//! - random reads with more and more under way say how many the disk makes use of; where nothing
//!   rotates, long ones with many under way say what the bus carries.
//!
//! Where the slowest is hardly slower than the fastest nothing rotates: then the random reads give
//! the units of a solid state disk. Whether a write cache is on, and how large, cannot be seen by
//! reading, and is assumed, unless the disk may be written too ([`with_writes`]).

mod writes;

pub use writes::with_writes;

use crate::disk::{Host, LONGEST_SEEK, Order, Preset, Rotating, Seek, Spec, Ssd};
use crate::error::LabError;
use crate::raw_disk::{Fitted, StopAt, in_a_row, pace};
use engine::inside::device::ModelKind;
use engine::inside::rt::{Rng, Xoshiro256};

/// Distances, as parts of the disk's cylinders.
const DISTANCES: [f64; 8] =
    [0.002, 1.0 / 128.0, 1.0 / 32.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 3.0, 0.6, 0.9];
/// Bytes of a small read.
const SMALL: u64 = 4096;
/// Bytes of a long read.
const LONG: u64 = 1 << 20;
/// What a number of rounds may be off by the noise of two measurements.
const ROUNDS_OFF: f64 = 0.25;
/// From how many times as many units on a long read has seen other limits than small ones.
const MORE_UNITS: f64 = 1.25;
/// Requests under way that are tried.
const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The same where nothing rotates, besides.
const MORE_DEPTHS: [usize; 2] = [128, 256];

/// How much is measured: each step until one of these is reached.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seconds.
    pub seconds: f64,
    /// Requests.
    pub requests: u64,
}

/// Measures a disk and says what it is like.
///
/// # Errors
/// When it cannot be read, or is too small to see anything (less than 64 MiB).
pub fn fit(
    disk: &mut dyn Fitted,
    name: &str,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Preset, LabError> {
    let size = disk.size();
    if size < 64 << 20 {
        return Err(LabError::new("too small for a fit", format_args!("{size} bytes"))
            .hint("64 MiB are the least; a disk's own size is best"));
    }
    measure(disk, name, effort, progress)
        .map_err(|e| LabError::new("a read failed", e).hint("the disk may want larger reads"))
}

/// What reads say of a disk.
struct Traits {
    size: u64,
    /// Seconds of a command, and of each byte on the bus.
    command: f64,
    per_byte: f64,
    outer: f64,
    inner: f64,
    /// Mean seconds of a read over each of [`DISTANCES`], and how far these reads are apart.
    seeks: Vec<f64>,
    rotation: f64,
    /// Small random reads in a second, by how many are under way.
    depths: Vec<(usize, f64)>,
}

impl Traits {
    /// A platter turns at least every 14 ms and at most every 3; the mean wait is half of that.
    fn rotates(&self) -> bool {
        let fastest = self.seeks.iter().copied().fold(f64::INFINITY, f64::min);
        (3e-3..14e-3).contains(&self.rotation) && fastest > 1e-3
    }

    /// The most small random reads in a second.
    fn best(&self) -> f64 {
        self.depths.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// The same of one at a time.
    fn alone(&self) -> f64 {
        self.depths.first().map_or(self.best(), |(_, rate)| *rate)
    }

    /// From how many on more bring nothing.
    fn depth(&self) -> usize {
        let best = self.best();
        self.depths.iter().find(|(_, rate)| *rate >= 0.95 * best).map_or(1, |(depth, _)| *depth)
    }

    fn platter(&self) -> Rotating {
        let over = self.rotation / 2.0 + self.command + SMALL as f64 / self.outer;
        let waits: Vec<f64> = self.seeks.iter().map(|mean| mean - over).collect();
        Rotating {
            rpm: 60.0 / self.rotation,
            heads: 4,
            zones: 16,
            track_sectors_multiple: 1,
            outer_bytes_per_second: self.outer,
            inner_bytes_per_second: self.inner,
            head_switch_us: 800.0,
            seek: curve(&waits),
            write_settle_us: 300.0,
            command_us: self.command * 1e6,
            bus_bytes_per_second: 1.0 / self.per_byte,
            depth: self.depth(),
            order: if self.best() > 1.3 * self.alone() { Order::Shortest } else { Order::Fifo },
            read_ahead_bytes: 1 << 20,
            segments: 8,
            write_cache_bytes: 16 << 20,
            write_cache: true,
            shingled: None,
        }
    }

    /// Where long reads with many under way come at this rate.
    fn flash(&self, carried: f64) -> Ssd {
        let page = 1.0 / self.alone().max(1.0);
        let (read, latency) = (page * 0.8, page * 0.2);
        // Many small reads, of which some wait for the same unit; and a long one alone, which takes
        // its pages from all units, a round after the other, and knows of no more commands.
        let by_small = (self.best() * page).round().max(1.0);
        let rounds = ((LONG as f64 / self.outer.max(1.0) - latency) / read + ROUNDS_OFF).floor();
        let by_long = (LONG / SMALL) as f64 / rounds.max(1.0);
        // Then it is not units that hold small reads back, but what takes their commands.
        let each = 1.0 / self.best().max(1.0);
        let command = if by_long > MORE_UNITS * by_small { each } else { 0.1 * each };
        Ssd {
            units: by_small.max(by_long).round() as usize,
            page_bytes: SMALL,
            read_us: read * 1e6,
            program_us: read * 1e6,
            command_us: command * 1e6,
            latency_us: (latency + 0.1 * each - command).max(0.0) * 1e6,
            write_latency_us: 0.0,
            // One long read at a time does not fill the bus of a fast disk.
            bus_bytes_per_second: carried.max(self.outer),
            depth: self.depth().max(1) * 2,
            write_cache_bytes: 64 << 20,
            write_cache: true,
            power_safe: false,
            garbage: None,
        }
    }
}

/// Reads the disk in all ways that are looked at.
fn looks(
    disk: &mut dyn Fitted,
    effort: Effort,
    rng: &mut Xoshiro256,
    progress: &dyn Fn(&str),
) -> std::io::Result<Traits> {
    let size = disk.size();
    progress("commands");
    let small = same_place(disk, effort, SMALL)?;
    let large = same_place(disk, effort, 16 * SMALL)?;
    let per_byte = ((large - small) / (15 * SMALL) as f64).max(1e-12);
    let command = (small - per_byte * SMALL as f64).max(0.0);
    progress("rates");
    let outer = rate(disk, effort, 0)?;
    let inner = rate(disk, effort, size - (size / 100).max(8 << 20))?.min(outer);
    progress("seeks");
    let mut spans = Vec::new();
    let mut seeks = Vec::new();
    for part in DISTANCES {
        let times = after_a_distance(disk, effort, part, outer / inner, rng)?;
        spans.push(span(&times));
        seeks.push(times.iter().sum::<f64>() / times.len().max(1) as f64);
    }
    spans.sort_by(f64::total_cmp);
    let rotation = spans[spans.len() / 2];
    progress("queue");
    let depths = rates_by_depth(disk, effort, &DEPTHS, rng)?;
    let mut looks = Traits { size, command, per_byte, outer, inner, seeks, rotation, depths };
    if !looks.rotates() {
        looks.depths.extend(rates_by_depth(disk, effort, &MORE_DEPTHS, rng)?);
    }
    Ok(looks)
}

fn measure(
    disk: &mut dyn Fitted,
    name: &str,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> std::io::Result<Preset> {
    let mut rng = Xoshiro256::seeded(1);
    let looks = looks(disk, effort, &mut rng, progress)?;
    let spec = match looks.rotates() {
        true => Spec::Rotating(looks.platter()),
        false => Spec::Ssd(looks.flash(carried(disk, effort, &mut rng)?)),
    };
    let size = looks.size;
    let cpu = pace(disk, ModelKind::Read, SMALL, until(effort), in_a_row(size, SMALL))?;
    let command_cpu = cpu.cpu_seconds.unwrap_or(0.0) / cpu.count.max(1) as f64;
    Ok(Preset {
        name: "fitted".to_owned(),
        description: format!("fitted to {name}"),
        source: "zinc lab fit: reads only; write cache and track switches are assumed".to_owned(),
        capacity_bytes: size,
        host: Host { command_cpu_us: command_cpu * 1e6, max_transfer_bytes: 1 << 20 },
        disk: spec,
    })
}

fn until(effort: Effort) -> StopAt {
    StopAt { seconds: effort.seconds, count: effort.requests }
}

/// Seconds of a read whose place was read just before.
fn same_place(disk: &mut dyn Fitted, effort: Effort, len: u64) -> std::io::Result<f64> {
    disk.read(0, len)?;
    let pace = pace(disk, ModelKind::Read, len, until(effort), || 0)?;
    Ok(pace.seconds / pace.count.max(1) as f64)
}

/// Bytes in a second of long reads from a place on.
fn rate(disk: &mut dyn Fitted, effort: Effort, from: u64) -> std::io::Result<f64> {
    let from = from / LONG * LONG;
    disk.read(from, LONG)?;
    let mut row = in_a_row(disk.size() - from - LONG, LONG);
    let long = StopAt { seconds: effort.seconds * 2.0, count: effort.requests };
    let pace = pace(disk, ModelKind::Read, LONG, long, || from + LONG + row())?;
    Ok(pace.mib_per_second() * LONG as f64)
}

/// Bytes in a second of long reads, many of them under way.
fn carried(disk: &mut dyn Fitted, effort: Effort, rng: &mut Xoshiro256) -> std::io::Result<f64> {
    const UNDER_WAY: usize = 16;
    let places = (disk.size() / LONG).max(1);
    let (mut read, mut seconds) = (0, 0.0);
    while read == 0 || (read < effort.requests && seconds < effort.seconds) {
        let offsets: Vec<u64> = (0..64).map(|_| rng.below(places) * LONG).collect();
        seconds += disk.read_many(UNDER_WAY, LONG, &offsets)?;
        read += offsets.len() as u64;
    }
    Ok((read * LONG) as f64 / seconds.max(1e-9))
}

/// Times of reads that come so far after another, in parts of the cylinders.
fn after_a_distance(
    disk: &mut dyn Fitted,
    effort: Effort,
    part: f64,
    ratio: f64,
    rng: &mut Xoshiro256,
) -> std::io::Result<Vec<f64>> {
    // Cylinders hold less and less: those from 0 to c hold (r·c - (r-1)·c²/2) / ((r+1)/2) of the
    // bytes, with r the ratio of the rates.
    let size = disk.size() as f64;
    let byte = |c: f64| {
        let bytes = (ratio * c - (ratio - 1.0) * c * c / 2.0) / ((ratio + 1.0) / 2.0);
        ((bytes * size) as u64 / SMALL * SMALL).min(disk_end(size))
    };
    let begin = disk.now();
    let mut times = Vec::new();
    while times.len() < 20
        || ((times.len() as u64) < effort.requests
            && (disk.now() - begin).as_secs_f64() < effort.seconds)
    {
        let from = rng.below(1 << 30) as f64 / f64::from(1 << 30) * (1.0 - part);
        let (low, high) = (byte(from), byte(from + part));
        let (first, second) = if rng.below(2) == 0 { (low, high) } else { (high, low) };
        disk.read(first, SMALL)?;
        let sent = disk.now();
        disk.read(second, SMALL)?;
        times.push((disk.now() - sent).as_secs_f64());
    }
    Ok(times)
}

fn disk_end(size: f64) -> u64 {
    (size as u64 / SMALL * SMALL).saturating_sub(SMALL)
}

/// From the fastest to the slowest, were they spread evenly: without the outermost twentieths,
/// which on a real disk are chance.
fn span(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[(part * (times.len() - 1) as f64).round() as usize];
    (at(0.95) - at(0.05)) / 0.9
}

/// Requests in a second by the number under way, each measured for as long as the effort says: one
/// at a time says what a flash disk's page takes, and a few of them would say it badly.
fn rates_by_depth(
    disk: &mut dyn Fitted,
    effort: Effort,
    depths: &[usize],
    rng: &mut Xoshiro256,
) -> std::io::Result<Vec<(usize, f64)>> {
    let places = disk.size() / SMALL;
    let mut found = Vec::new();
    for depth in depths.iter().copied() {
        // Many at once, or their beginning and end would be measured.
        let mut round = (16 * depth).max(64);
        let (mut read, mut seconds) = (0, 0.0);
        while read == 0 || (read < effort.requests && seconds < effort.seconds) {
            let offsets: Vec<u64> = (0..round).map(|_| rng.below(places) * SMALL).collect();
            seconds += disk.read_many(depth, SMALL, &offsets)?;
            read += offsets.len() as u64;
            round = (round * 2).min(1 << 17);
        }
        found.push((depth, read as f64 / seconds.max(1e-9)));
    }
    Ok(found)
}

/// The curve through the seeks over [`DISTANCES`], by least squares.
fn curve(seconds: &[f64]) -> Seek {
    let mut matrix = [[0.0; 4]; 3];
    for (x, time) in DISTANCES.iter().zip(seconds) {
        let features = [1.0, x.sqrt(), *x];
        for row in 0..3 {
            for column in 0..3 {
                matrix[row][column] += features[row] * features[column];
            }
            matrix[row][3] += features[row] * time;
        }
    }
    // Gauss; the matrix is that of eight different distances, so it has an inverse.
    for pivot in 0..3 {
        let by = matrix[pivot];
        for (row, values) in matrix.iter_mut().enumerate() {
            if row != pivot {
                let part = values[pivot] / by[pivot];
                values.iter_mut().zip(by).for_each(|(value, by)| *value -= part * by);
            }
        }
    }
    let of = |row: usize| matrix[row][3] / matrix[row][row];
    let (one, root, linear) = (of(0).max(0.0), of(1), of(2));
    // What noise gave the curve is not to make a disk of it that there is none of.
    let average = (root * 8.0 / 15.0 + linear / 3.0).max(0.0);
    let full = (root + linear).clamp(average, LONGEST_SEEK * average);
    let ms = |seconds: f64| seconds * 1e3;
    Seek { one_track_ms: ms(one), average_ms: ms(one + average), full_ms: ms(one + full) }
}
