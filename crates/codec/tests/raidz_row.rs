//! RAID-Z arithmetic against a row that OpenZFS 2.3.2 wrote: a 2 KiB block on a six-wide raidz3
//! with sectors of 512 bytes, so three parity columns and the first data column have two sectors,
//! and the other data columns have one. `data/raidz/raidz3-row.bin` is P, Q, R and the data.

use codec::raidz::{Column, generate, reconstruct};

static ROW: &[u8] = include_bytes!("data/raidz/raidz3-row.bin");

/// The six columns.
fn columns() -> [&'static [u8]; 6] {
    let mut rest = ROW;
    [1024, 1024, 1024, 1024, 512, 512].map(|len| {
        let (column, r) = rest.split_at(len);
        rest = r;
        column
    })
}

#[test]
fn parity_as_written() {
    let [p, q, r, data @ ..] = columns();
    let mut out = [[0; 1024]; 3];
    let [op, oq, or] = &mut out;
    generate(&mut [&mut op[..], &mut oq[..], &mut or[..]], &data).unwrap();
    assert!(out == [p, q, r]);
}

/// Every set of columns that may be lost, with every parity that is then still there.
#[test]
fn every_loss() {
    let columns = columns();
    for lost in 0u8..64 {
        if lost.count_ones() > 3 {
            continue;
        }
        let is_lost = |i: usize| lost >> i & 1 != 0;
        let parity: Vec<Option<&[u8]>> =
            (0..3).map(|k| (!is_lost(k)).then_some(columns[k])).collect();
        let mut work: Vec<Vec<u8>> = columns[3..].iter().map(|c| vec![0; c.len()]).collect();
        let mut data: Vec<Column<'_>> = work
            .iter_mut()
            .enumerate()
            .map(|(i, w)| match is_lost(3 + i) {
                true => Column::Lost(w),
                false => Column::Known(columns[3 + i]),
            })
            .collect();
        reconstruct(&parity, &mut data).unwrap();
        for (i, w) in work.iter().enumerate().filter(|(i, _)| is_lost(3 + i)) {
            assert!(w == columns[3 + i], "column {i} of {lost:06b}");
        }
    }
}
