//! Every kernel against the definition, and every loss against what was there before.

use super::field::{multiply, power_of_two};
use super::*;
use proptest::prelude::*;

/// The definition: a polynomial in the columns, byte by byte.
fn textbook(data: &[Vec<u8>], nparity: usize, height: usize) -> Vec<Vec<u8>> {
    let byte = |k: usize, at: usize| {
        data.iter().enumerate().fold(0, |sum, (i, column)| {
            let factor = power_of_two(k * (data.len() - 1 - i));
            sum ^ multiply(factor, column.get(at).copied().unwrap_or(0))
        })
    };
    (0..nparity).map(|k| (0..height).map(|at| byte(k, at)).collect()).collect()
}

fn generated(kernel: Kernel, data: &[Vec<u8>], nparity: usize, height: usize) -> Vec<Vec<u8>> {
    let mut out = vec![vec![0xee; height]; nparity];
    let mut parity: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
    let columns: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    generate_with(kernel, &mut parity, &columns).unwrap();
    out
}

/// Rebuilds the columns of `lost` with the parities not in `gone`.
fn rebuilt(
    kernel: Kernel,
    data: &[Vec<u8>],
    parity: &[Vec<u8>],
    lost: &[usize],
    gone: &[usize],
) -> Result<Vec<Vec<u8>>, RaidzError> {
    let mut work = data.to_vec();
    for i in lost {
        work[*i].fill(0xdd);
    }
    let mut columns: Vec<Column<'_>> = work
        .iter_mut()
        .enumerate()
        .map(|(i, c)| if lost.contains(&i) { Column::Lost(c) } else { Column::Known(c) })
        .collect();
    let parity: Vec<Option<&[u8]>> = parity
        .iter()
        .enumerate()
        .map(|(k, p)| (!gone.contains(&k)).then_some(p.as_slice()))
        .collect();
    reconstruct_with(kernel, &parity, &mut columns)?;
    drop(columns);
    Ok(work)
}

/// Columns of 1 to 20, of any lengths up to 700 bytes.
fn columns() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..700), 1..20)
}

/// Columns as RAID-Z has them: two lengths, a sector apart, the longer first.
fn raidz_columns() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (1usize..12, 0usize..12, 1usize..4, any::<u64>()).prop_map(|(long, short, sectors, seed)| {
        let mut x = seed | 1;
        let mut byte = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        };
        (0..long + short)
            .map(|i| if i < long { sectors * 512 } else { (sectors - 1) * 512 })
            .map(|len| (0..len).map(|_| byte()).collect())
            .collect()
    })
}

fn height(data: &[Vec<u8>]) -> usize {
    data.iter().map(Vec::len).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn parity_is_the_polynomial(data in columns(), nparity in 1usize..4, more in 0usize..100) {
        let height = height(&data) + more;
        let want = textbook(&data, nparity, height);
        for kernel in Kernel::available() {
            prop_assert_eq!(&generated(kernel, &data, nparity, height), &want, "{:?}", kernel);
        }
    }

    #[test]
    fn any_loss_is_made_good(
        data in prop_oneof![columns(), raidz_columns()],
        picks in any::<[prop::sample::Index; 3]>(),
        gone in proptest::collection::vec(0usize..3, 0..3),
    ) {
        let parity = textbook(&data, 3, height(&data));
        let at_hand = (0..3).filter(|k| !gone.contains(k)).count();
        for n in 0..=at_hand {
            let lost: Vec<usize> = picks[..n].iter().map(|p| p.index(data.len())).collect();
            for kernel in Kernel::available() {
                let got = rebuilt(kernel, &data, &parity, &lost, &gone);
                prop_assert_eq!(got.as_ref(), Ok(&data), "{:?}", kernel);
            }
        }
    }

    /// Any numbers and lengths of columns are an answer or an error.
    #[test]
    fn anything_goes(
        lens in proptest::collection::vec(0usize..300, 0..6),
        parity in proptest::collection::vec((0usize..300, any::<bool>()), 0..5),
        lost in any::<u8>(),
    ) {
        let mut data: Vec<Vec<u8>> = lens.iter().map(|n| vec![1; *n]).collect();
        let stored: Vec<Vec<u8>> = parity.iter().map(|(n, _)| vec![2; *n]).collect();
        let at_hand: Vec<Option<&[u8]>> =
            stored.iter().zip(&parity).map(|(p, (_, here))| here.then_some(&p[..])).collect();
        for kernel in Kernel::available() {
            let mut columns: Vec<Column<'_>> = data
                .iter_mut()
                .enumerate()
                .map(|(i, c)| if lost >> i & 1 != 0 { Column::Lost(c) } else { Column::Known(c) })
                .collect();
            let _ = reconstruct_with(kernel, &at_hand, &mut columns);
            let mut out = stored.clone();
            let mut out: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let _ = generate_with(kernel, &mut out, &data);
        }
    }
}

/// P, Q and R by hand: columns 1 and 2 of one byte, so Q = 1·2 + 2, R = 1·4 + 2.
#[test]
fn by_hand() {
    let data = vec![vec![1], vec![2]];
    for kernel in Kernel::available() {
        assert_eq!(generated(kernel, &data, 3, 1), [vec![3], vec![0], vec![6]]);
    }
}

/// The widest row, with its last three columns lost.
#[test]
fn widest_row() {
    let data: Vec<Vec<u8>> = (0..=254u8).map(|i| vec![i; 100]).collect();
    let parity = textbook(&data, 3, 100);
    for kernel in Kernel::available() {
        assert_eq!(rebuilt(kernel, &data, &parity, &[0, 128, 254], &[]), Ok(data.clone()));
    }
}

#[test]
fn impossible_rows_are_named() {
    let data = vec![vec![1; 512]; 3];
    let parity = textbook(&data, 2, 512);
    assert_eq!(
        rebuilt(Kernel::Plain, &data, &parity, &[0, 1], &[1]),
        Err(RaidzError::TooManyLost { lost: 2, parity: 1 })
    );
    let unequal = vec![parity[0].clone(), vec![0; 511]];
    assert_eq!(
        rebuilt(Kernel::Plain, &data, &unequal, &[0], &[]),
        Err(RaidzError::Length { column: 1, len: 511, height: 512 })
    );
    let short = textbook(&data, 1, 100);
    assert_eq!(
        rebuilt(Kernel::Plain, &data, &short, &[0], &[]),
        Err(RaidzError::Length { column: 1, len: 512, height: 100 })
    );
    assert_eq!(generate(&mut [], &[]), Err(RaidzError::Shape { data: 0, parity: 0 }));
    let wide = vec![&[0u8][..]; 256];
    assert_eq!(generate(&mut [&mut [0]], &wide), Err(RaidzError::Shape { data: 256, parity: 1 }));
}
