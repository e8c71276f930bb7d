//! The plain kernel: what every machine can run, what finishes the odd bytes of the vector
//! kernels, and what those are tested against.
//!
//! Eight bytes are worked on in one 64-bit word. Doubling each byte is a shift within the bytes,
//! and the reduction wherever a top bit fell out; products with other constants go through two
//! tables of sixteen, one for each half of a byte.

use super::field::{REDUCE, multiply};
use super::job::{Job, Solve};

/// A byte of all ones repeated, and so on.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Computes the stretch from byte `start` on.
pub(super) fn run(job: &Job<'_>, out: &mut [&mut [u8]], start: usize) {
    let len = out.first().map_or(0, |o| o.len());
    let tables = job.solve.as_ref().map(|s| (s, factors(s)));
    // A single P is its own solution.
    let multiply = job.rows != [0];
    for at in (start..len).step_by(8) {
        let mut sums = horner(job, at);
        if let Some((solve, tables)) = &tables {
            for (sum, stored) in sums.iter_mut().zip(solve.stored) {
                *sum ^= word(stored, at);
            }
            if multiply {
                let m = job.rows.len();
                let syndromes = sums;
                for (sum, row) in sums.iter_mut().zip(tables).take(m) {
                    let products = row.iter().zip(syndromes).take(m).map(|(f, s)| f.times(s));
                    *sum = products.fold(0, |a, b| a ^ b);
                }
            }
        }
        for (o, sum) in out.iter_mut().zip(sums) {
            for (byte, s) in o.iter_mut().skip(at).zip(sum.to_le_bytes()) {
                *byte = s;
            }
        }
    }
}

/// The parities of eight bytes of the columns, one for each row of the job.
fn horner(job: &Job<'_>, at: usize) -> [u64; 3] {
    let mut sums = [0; 3];
    for column in job.columns {
        let data = column.map_or(0, |c| word(c, at));
        for (sum, row) in sums.iter_mut().zip(job.rows) {
            for _ in 0..*row {
                *sum = double(*sum);
            }
            *sum ^= data;
        }
    }
    sums
}

/// Eight bytes from `at` on, zeros behind the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut out = [0; 8];
    for (o, r) in out.iter_mut().zip(rest) {
        *o = *r;
    }
    u64::from_le_bytes(out)
}

/// Each byte times 2.
fn double(x: u64) -> u64 {
    let overflow = (x >> 7) & ONES;
    ((x << 1) & (ONES * 0xfe)) ^ (overflow * u64::from(REDUCE))
}

/// Products of one constant with every low and every high half of a byte.
#[derive(Clone, Copy)]
struct Factor([[u8; 16]; 2]);

impl Factor {
    fn new(constant: u8) -> Self {
        let mut out = [[0; 16]; 2];
        for half in 0..16u8 {
            out[0][usize::from(half)] = multiply(constant, half);
            out[1][usize::from(half)] = multiply(constant, half << 4);
        }
        Self(out)
    }

    fn times(&self, x: u64) -> u64 {
        let [low, high] = &self.0;
        let product = |b: u8| low[usize::from(b & 15)] ^ high[usize::from(b >> 4)];
        u64::from_le_bytes(x.to_le_bytes().map(product))
    }
}

fn factors(solve: &Solve<'_>) -> [[Factor; 3]; 3] {
    solve.matrix.cell.map(|row| row.map(Factor::new))
}
