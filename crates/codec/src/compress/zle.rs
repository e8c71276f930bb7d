//! ZLE: shortens runs of zeros and nothing else.
//!
//! # Theory
//!
//! The data is a row of runs. The first byte of a run is its kind and length:
//!
//! ```text
//! 0..=63     byte + 1 literal bytes follow
//! 64..=255   byte - 63 zeros
//! ```
//!
//! The limit 64 between the two is a parameter of the algorithm that ZFS fixed when it gave the
//! algorithm its number. There is no end mark: the block is done when it is full, and a run that
//! would go past its end is an error.

use super::Fault;

/// Most literals of one run, and the first byte value that means zeros.
const LITERALS_MAX: usize = 64;
const ZEROS_MAX: usize = 256 - LITERALS_MAX;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    let mut src = src;
    let mut at = 0;
    while at < dst.len() {
        let truncated = |needed, available| Fault::Truncated { needed, available };
        let (&code, rest) = src.split_first().ok_or(truncated(1, 0))?;
        let code = usize::from(code);
        let zeros = code >= LITERALS_MAX;
        let length = if zeros { code - LITERALS_MAX + 1 } else { code + 1 };
        let target = dst.get_mut(at..at + length).ok_or(Fault::Malformed { at })?;
        if zeros {
            target.fill(0);
            src = rest;
        } else {
            let (run, rest) = rest.split_at_checked(length).ok_or(truncated(length, rest.len()))?;
            target.copy_from_slice(run);
            src = rest;
        }
        at += length;
    }
    Ok(())
}

pub(super) fn compress(src: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(limit);
    let mut rest = src;
    while let Some(&first) = rest.first() {
        let run = if first == 0 { leading_zeros(rest) } else { literals(rest) };
        let (run, tail) = rest.split_at_checked(run)?;
        if first == 0 {
            out.push((run.len() - 1 + LITERALS_MAX) as u8);
        } else {
            out.push((run.len() - 1) as u8);
            out.extend_from_slice(run);
        }
        if out.len() > limit {
            return None;
        }
        rest = tail;
    }
    Some(out)
}

fn leading_zeros(src: &[u8]) -> usize {
    src.iter().take(ZEROS_MAX).take_while(|b| **b == 0).count()
}

/// Length of the literal run that begins here: up to two zeros in a row, for a single zero costs
/// less inside the run (1 byte) than outside (1 byte and the head of the next run).
fn literals(src: &[u8]) -> usize {
    let window = &src[..src.len().min(LITERALS_MAX)];
    window.windows(2).position(|w| w == [0, 0]).unwrap_or(window.len()).max(1)
}
