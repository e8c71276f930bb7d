//! RAID-Z arithmetic: parity of a row of columns, and lost columns from what is left.
//!
//! Specified in `docs/format/raidz.md`; where the columns of a block are on which disk is the vdev
//! layer's business (`docs/format/vdev-raidz.md`). A block is cut into n data columns; parity
//! column k (P, Q, R for k = 0, 1, 2) holds, byte by byte, in the [field](field) of 256 elements
//!
//! ```text
//! parity_k = sum over i of data_i * (2^k)^(n-1-i)
//! ```
//!
//! so P is the exclusive or, and all three are polynomials in the columns, evaluated by Horner's
//! rule from the first column on. Columns may have different lengths; a shorter one counts as if it
//! continued with zeros.
//!
//! **Reconstruction.** Every intact parity column is one linear equation per byte in the lost data
//! columns. As many equations as there are lost columns are taken, the part of the known columns
//! is moved to the other side (the *syndrome*: the parity of what is known, plus the parity that
//! was stored), and the syndromes are multiplied by the inverse of the matrix of coefficients. For
//! up to 255 columns every such matrix has an inverse. Parity columns that are lost are generated
//! again afterwards.
//!
//! Both are one pass over memory: for each stretch of 64 to 256 bytes all columns are read once
//! and all results written once. Columns are cut at every place where one of them ends, so within
//! a stretch a column is either there or zero.

mod field;
mod job;
mod kernel;
mod plain;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "SIMD intrinsics")]
mod x86;

use field::{Matrix, power_of_two};
use job::{Job, Solve};
use kernel::Kernel;

/// Most parity columns.
pub const PARITY_MAX: usize = 3;
/// Most data columns: the powers of 2 repeat after 255.
pub const DATA_MAX: usize = 255;

/// A data column of a row to be reconstructed.
#[derive(Debug)]
pub enum Column<'a> {
    /// Its bytes are known.
    Known(&'a [u8]),
    /// Its bytes are to be found, and written here.
    Lost(&'a mut [u8]),
}

impl Column<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Known(c) => c.len(),
            Self::Lost(c) => c.len(),
        }
    }
}

/// Why a row of columns cannot be computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RaidzError {
    /// There are no or more than three parity columns, or more than 255 data columns.
    #[error("a row of {data} data and {parity} parity columns is impossible")]
    Shape {
        /// Data columns.
        data: usize,
        /// Parity columns.
        parity: usize,
    },
    /// Parity columns differ in length, or a data column is longer than they are.
    #[error("column {column} has {len} bytes in a row of {height}")]
    Length {
        /// Number of the column: parity first, then data.
        column: usize,
        /// Its length in bytes.
        len: usize,
        /// Length in bytes of the first parity column at hand.
        height: usize,
    },
    /// More columns are lost than parity columns are at hand.
    #[error("{lost} columns are lost and {parity} parity columns are at hand")]
    TooManyLost {
        /// Lost data columns.
        lost: usize,
        /// Parity columns at hand.
        parity: usize,
    },
}

/// Computes parity columns P, Q and R (as many as there are) of data columns.
///
/// All parity columns must have the same length, that of the longest data column or more; where no
/// data column reaches, they become zero.
///
/// # Errors
/// The numbers or lengths of columns are impossible; nothing has been written then.
pub fn generate(parity: &mut [&mut [u8]], data: &[&[u8]]) -> Result<(), RaidzError> {
    generate_with(Kernel::best(), parity, data)
}

fn generate_with(
    kernel: Kernel,
    parity: &mut [&mut [u8]],
    data: &[&[u8]],
) -> Result<(), RaidzError> {
    let lens = parity.iter().map(|p| Some(p.len()));
    let height = check_shape(lens, data.iter().map(|d| d.len()))?;
    let rows: &[usize] = [0, 1, 2].get(..parity.len()).unwrap_or_default();
    let mut start = 0;
    for end in cuts(data.iter().map(|d| d.len()).chain([height])) {
        let columns: Vec<_> = data.iter().map(|d| d.get(start..end)).collect();
        let mut out: Vec<_> = parity.iter_mut().filter_map(|p| p.get_mut(start..end)).collect();
        kernel.run(&Job { rows, columns: &columns, solve: None }, &mut out);
        start = end;
    }
    Ok(())
}

/// Fills the lost data columns of a row from the known ones and the parity columns.
///
/// `parity` has one element per parity column of the layout, P first; `None` where it is missing
/// or not trusted. Parity columns must have the same length, that of the longest data column or
/// more. Without lost columns there is nothing to do.
///
/// The result is as good as what it was computed from: only a checksum over the whole block tells
/// whether one of the columns at hand was silently wrong.
///
/// # Errors
/// The numbers or lengths of columns are impossible, or there is too little parity; nothing has
/// been written then.
pub fn reconstruct(parity: &[Option<&[u8]>], data: &mut [Column<'_>]) -> Result<(), RaidzError> {
    reconstruct_with(Kernel::best(), parity, data)
}

fn reconstruct_with(
    kernel: Kernel,
    parity: &[Option<&[u8]>],
    data: &mut [Column<'_>],
) -> Result<(), RaidzError> {
    let lens = parity.iter().map(|p| p.map(<[u8]>::len));
    check_shape(lens, data.iter().map(Column::len))?;
    let at_hand: Vec<usize> = (0..parity.len()).filter(|k| parity[*k].is_some()).collect();
    let is_lost = |c: &Column<'_>| matches!(c, Column::Lost(_)) && c.len() > 0;
    let lost = data.iter().filter(|c| is_lost(c)).count();
    let too_many = RaidzError::TooManyLost { lost, parity: at_hand.len() };
    if lost > at_hand.len() {
        return Err(too_many);
    }
    let mut start = 0;
    for end in cuts(data.iter().map(Column::len)) {
        let places: Vec<usize> =
            (0..data.len()).filter(|i| is_lost(&data[*i]) && data[*i].len() >= end).collect();
        let rows = at_hand.get(..places.len()).ok_or(too_many)?;
        if rows.is_empty() {
            // The columns that go on are all known.
            break;
        }
        let matrix = coefficients(rows, &places, data.len()).inverse().ok_or(too_many)?;
        let stored: Vec<_> =
            rows.iter().filter_map(|k| parity[*k].and_then(|p| p.get(start..end))).collect();
        let mut columns = Vec::with_capacity(data.len());
        let mut out = Vec::with_capacity(places.len());
        for column in data.iter_mut() {
            columns.push(match column {
                Column::Known(c) => c.get(start..end),
                Column::Lost(c) => {
                    out.extend(c.get_mut(start..end));
                    None
                }
            });
        }
        let solve = Some(Solve { stored: &stored, matrix });
        kernel.run(&Job { rows, columns: &columns, solve }, &mut out);
        start = end;
    }
    Ok(())
}

/// Checks numbers and lengths; gives the length of the parity columns at hand.
fn check_shape(
    parity: impl ExactSizeIterator<Item = Option<usize>>,
    data: impl ExactSizeIterator<Item = usize>,
) -> Result<usize, RaidzError> {
    let (parities, datas) = (parity.len(), data.len());
    if !(1..=PARITY_MAX).contains(&parities) || datas > DATA_MAX {
        return Err(RaidzError::Shape { data: datas, parity: parities });
    }
    let mut height = None;
    for (column, len) in parity.enumerate().filter_map(|(i, len)| Some((i, len?))) {
        let height = *height.get_or_insert(len);
        if len != height {
            return Err(RaidzError::Length { column, len, height });
        }
    }
    // Without any parity nothing can be computed, so lengths do not matter.
    let Some(height) = height else { return Ok(0) };
    match data.enumerate().find(|(_, len)| *len > height) {
        Some((i, len)) => Err(RaidzError::Length { column: parities + i, len, height }),
        None => Ok(height),
    }
}

/// The places where stretches end: every length once, in order, without zero.
fn cuts(lens: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut out: Vec<usize> = lens.filter(|n| *n > 0).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Coefficients of the data columns at `places` (of `n`) in the parity columns `rows`.
fn coefficients(rows: &[usize], places: &[usize], n: usize) -> Matrix {
    let mut out = Matrix { size: rows.len(), ..Matrix::default() };
    for (cells, k) in out.cell.iter_mut().zip(rows) {
        for (cell, i) in cells.iter_mut().zip(places) {
            *cell = power_of_two(k * (n - 1 - i));
        }
    }
    out
}

/// The kernels one by one, for measurements.
#[doc(hidden)]
pub mod kernels {
    use super::{Column, Kernel, RaidzError};

    /// The kernels this machine has, the plain one first.
    #[must_use]
    pub fn names() -> Vec<String> {
        Kernel::available().iter().map(|k| format!("{k:?}").to_lowercase()).collect()
    }

    /// [`super::generate`] by the kernel of that number.
    ///
    /// # Errors
    /// As there.
    pub fn generate(
        kernel: usize,
        parity: &mut [&mut [u8]],
        data: &[&[u8]],
    ) -> Result<(), RaidzError> {
        super::generate_with(pick(kernel), parity, data)
    }

    /// [`super::reconstruct`] by the kernel of that number.
    ///
    /// # Errors
    /// As there.
    pub fn reconstruct(
        kernel: usize,
        parity: &[Option<&[u8]>],
        data: &mut [Column<'_>],
    ) -> Result<(), RaidzError> {
        super::reconstruct_with(pick(kernel), parity, data)
    }

    fn pick(kernel: usize) -> Kernel {
        Kernel::available().get(kernel).copied().unwrap_or(Kernel::Plain)
    }
}

#[cfg(test)]
mod tests;
