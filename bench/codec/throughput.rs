//! One table: what each kernel does per second on one core.
//!
//! `cargo run --release -p codec --example throughput [filter]`: only rows with the filter in
//! their name. Each figure is the best of several runs over blocks that stay in the second-level
//! cache, in MB/s of block data (1 MB = 10^6 bytes): what the code can do, not what memory can.

#![allow(clippy::print_stdout, reason = "a program that prints a table")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement may stop")]

use codec::checksum::{self, Algorithm, ByteOrder, Salted};
use codec::compress;
use codec::raidz::{self, Column};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The usual record size.
const BLOCK: usize = 128 << 10;
/// Time spent on each row.
const ROW: Duration = Duration::from_millis(250);
/// Shortest run that is timed: long for the clock, short for a scheduler that shares the core.
const RUN: Duration = Duration::from_millis(1);

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut table = Table { filter };
    println!("{:<34}{:>12}", "kernel", "MB/s");
    checksums(&mut table);
    raidz_rows(&mut table);
    compression(&mut table);
}

struct Table {
    filter: String,
}

impl Table {
    /// Times `work`, which goes over `bytes` of block data at each call.
    fn row(&mut self, name: &str, bytes: usize, mut work: impl FnMut()) {
        if !name.contains(&self.filter) {
            return;
        }
        work();
        let begin = Instant::now();
        let mut calls = 1u32;
        let mut best = f64::INFINITY;
        while begin.elapsed() < ROW {
            let start = Instant::now();
            for _ in 0..calls {
                work();
            }
            let took = start.elapsed();
            if took < RUN {
                calls *= 2;
                continue;
            }
            best = best.min(took.as_secs_f64() / f64::from(calls));
        }
        println!("{name:<34}{:>12.0}", bytes as f64 / best / 1e6);
    }
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    })
    .take(len)
    .collect()
}

/// Bytes that compress about threefold, as text does.
fn text(len: usize) -> Vec<u8> {
    let words = ["pool", "vdev", "block", "of the", "a", "checksum", "zinc", "and", "reads", "\n"];
    let pick = noise(len);
    let mut out = Vec::with_capacity(len + 16);
    for b in pick {
        out.extend_from_slice(words[usize::from(b) % words.len()].as_bytes());
        out.push(if b > 250 { b } else { b' ' });
        if out.len() >= len {
            break;
        }
    }
    out.truncate(len);
    out
}

fn checksums(table: &mut Table) {
    let data = noise(BLOCK);
    let salted = Salted::new(&[7; 32]);
    for (kernel, name) in checksum::kernels::names().iter().enumerate() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let name = format!("fletcher4 {name} {order:?}").to_lowercase();
            table.row(&name, BLOCK, || {
                black_box(checksum::kernels::run(kernel, order, black_box(&data)));
            });
        }
    }
    for algorithm in Algorithm::ALL {
        if matches!(algorithm, Algorithm::Off | Algorithm::NoParity | Algorithm::Fletcher4) {
            continue;
        }
        table.row(&format!("{algorithm:?}").to_lowercase(), BLOCK, || {
            black_box(checksum::compute(algorithm, ByteOrder::Little, &salted, black_box(&data)));
        });
    }
}

/// A row of eight data columns of 16 KiB: a 128 KiB block.
fn raidz_rows(table: &mut Table) {
    const COLUMNS: usize = 8;
    let data: Vec<Vec<u8>> = (0..COLUMNS).map(|i| noise(BLOCK / COLUMNS + i)).collect();
    let data: Vec<&[u8]> = data.iter().map(|c| &c[..BLOCK / COLUMNS]).collect();
    for (kernel, name) in raidz::kernels::names().iter().enumerate() {
        for nparity in 1..=3 {
            let mut parity = vec![vec![0; BLOCK / COLUMNS]; nparity];
            let mut out: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
            table.row(&format!("raidz{nparity} generate {name}"), BLOCK, || {
                raidz::kernels::generate(kernel, &mut out, black_box(&data)).unwrap();
            });
            for lost in 1..=nparity {
                let stored: Vec<Option<&[u8]>> = parity.iter().map(|p| Some(&p[..])).collect();
                let mut found = vec![vec![0; BLOCK / COLUMNS]; lost];
                let mut columns: Vec<Column<'_>> = Vec::new();
                let (front, rest) = data.split_at(1);
                columns.push(Column::Known(front[0]));
                columns.extend(found.iter_mut().map(|f| Column::Lost(f)));
                columns.extend(rest[lost..].iter().map(|c| Column::Known(c)));
                table.row(&format!("raidz{nparity} lost {lost} {name}"), BLOCK, || {
                    raidz::kernels::reconstruct(kernel, black_box(&stored), &mut columns).unwrap();
                });
            }
        }
    }
}

fn compression(table: &mut Table) {
    let data = text(BLOCK);
    use compress::Algorithm::{Gzip, Lz4, Lzjb, Zle, Zstd};
    let all = [Lzjb, Zle, Lz4, Gzip(1), Gzip(6), Gzip(9), Zstd(-10), Zstd(1), Zstd(3), Zstd(19)];
    for algorithm in all {
        let Some(packed) = compress::compress(algorithm, &data) else { continue };
        let name = format!("{algorithm:?}").to_lowercase();
        let ratio = BLOCK as f64 / packed.len() as f64;
        table.row(&format!("{name} compress ({ratio:.2}x)"), BLOCK, || {
            black_box(compress::compress(algorithm, black_box(&data)));
        });
        let mut back = vec![0; BLOCK];
        table.row(&format!("{name} decompress"), BLOCK, || {
            compress::decompress(algorithm, black_box(&packed), &mut back).unwrap();
        });
    }
}
