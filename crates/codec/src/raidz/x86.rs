//! Vector kernels for x86-64.
//!
//! One generic sweep over two kinds of register. The difference is how bytes are multiplied by a
//! constant: AVX2 looks up the products of both halves of each byte in tables held in registers;
//! with GFNI a multiplication by a constant, being linear over GF(2), is one instruction that
//! applies an 8 by 8 matrix of bits (the instruction's own field has another modulus, the affine
//! form does not care).
//!
//! The sweep takes several vectors of each column at a time, so that the chains of Horner's rule
//! overlap; the parities to compute are known to the compiler, so sums that are not needed cost
//! nothing.

use super::field::{REDUCE, multiply};
use super::job::{Job, Solve};
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn has_gfni512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

/// Computes whole vectors from the front of the stretch; gives the bytes done.
pub(super) fn avx2(job: &Job<'_>, out: &mut [&mut [u8]]) -> usize {
    let len = out.first().map_or(0, |o| o.len());
    if !has_avx2() || !job.fits(len, out.len()) || out.iter().any(|o| o.len() != len) {
        return 0;
    }
    macro_rules! pick {
        ($($rows:literal)*) => {
            match (rows_mask(job), &job.solve) {
                // SAFETY: AVX2 is there and every slice is `len` long, both checked above.
                $(($rows, None) => unsafe { avx2_rows::<$rows, false>(job, out, len) },)*
                // SAFETY: the same.
                $(($rows, Some(_)) => unsafe { avx2_rows::<$rows, true>(job, out, len) },)*
                _ => 0,
            }
        };
    }
    pick!(1 2 3 4 5 6 7)
}

/// Computes whole vectors from the front of the stretch; gives the bytes done.
pub(super) fn gfni512(job: &Job<'_>, out: &mut [&mut [u8]]) -> usize {
    let len = out.first().map_or(0, |o| o.len());
    if !has_gfni512() || !job.fits(len, out.len()) || out.iter().any(|o| o.len() != len) {
        return 0;
    }
    macro_rules! pick {
        ($($rows:literal)*) => {
            match (rows_mask(job), &job.solve) {
                // SAFETY: the features are there and every slice is `len` long, checked above.
                $(($rows, None) => unsafe { gfni512_rows::<$rows, false>(job, out, len) },)*
                // SAFETY: the same.
                $(($rows, Some(_)) => unsafe { gfni512_rows::<$rows, true>(job, out, len) },)*
                _ => 0,
            }
        };
    }
    pick!(1 2 3 4 5 6 7)
}

/// The wanted parities as bits.
fn rows_mask(job: &Job<'_>) -> u8 {
    job.rows.iter().fold(0, |m, k| m | (1 << k))
}

/// # Safety
/// The processor has AVX2, the job [fits](Job::fits) `len`, and all results are `len` long.
#[target_feature(enable = "avx2")]
unsafe fn avx2_rows<const ROWS: u8, const SOLVE: bool>(
    job: &Job<'_>,
    out: &mut [&mut [u8]],
    len: usize,
) -> usize {
    // SAFETY: as promised by the caller.
    unsafe {
        let done = sweep::<Wide256, ROWS, SOLVE, 2>(job, out, 0, len);
        sweep::<Wide256, ROWS, SOLVE, 1>(job, out, done, len)
    }
}

/// # Safety
/// The processor has AVX-512F, AVX-512BW and GFNI, the job [fits](Job::fits) `len`, and all
/// results are `len` long.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni512_rows<const ROWS: u8, const SOLVE: bool>(
    job: &Job<'_>,
    out: &mut [&mut [u8]],
    len: usize,
) -> usize {
    // SAFETY: as promised by the caller.
    unsafe {
        let done = sweep::<Wide512, ROWS, SOLVE, 4>(job, out, 0, len);
        sweep::<Wide512, ROWS, SOLVE, 1>(job, out, done, len)
    }
}

/// A vector register of bytes.
///
/// # Safety
/// Every function needs the processor features of the register. [`load`](Self::load) and
/// [`store`](Self::store) need `BYTES` valid bytes at the address, of any alignment.
trait Wide: Copy {
    /// Bytes of the register.
    const BYTES: usize;
    /// A constant to multiply by.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn add(self, other: Self) -> Self;
    /// Each byte times 2.
    unsafe fn double(self) -> Self;
    /// Each byte times 4.
    unsafe fn quadruple(self) -> Self;
    unsafe fn factor(constant: u8) -> Self::Factor;
    unsafe fn times(self, factor: Self::Factor) -> Self;
}

/// Computes the results from byte `start` on in steps of `N` vectors; gives where it stopped.
///
/// # Safety
/// The processor has the features of `V`, the job [fits](Job::fits) `len`, all results are `len`
/// long, and `ROWS` and `SOLVE` describe the job.
#[inline(always)]
unsafe fn sweep<V: Wide, const ROWS: u8, const SOLVE: bool, const N: usize>(
    job: &Job<'_>,
    out: &mut [&mut [u8]],
    start: usize,
    len: usize,
) -> usize {
    let step = V::BYTES * N;
    let mut at = start;
    // SAFETY: the features are there, as promised by the caller. Every load and store is of
    // V::BYTES from at + V::BYTES * v, v < N, in a slice of `len` bytes, and at + step <= len.
    unsafe {
        let factors = match (&job.solve, ROWS) {
            // A single P is its own solution.
            (None, _) | (_, 1) => [[V::factor(1); 3]; 3],
            (Some(Solve { matrix, .. }), _) => matrix.cell.map(|row| row.map(|c| V::factor(c))),
        };
        while len - at >= step {
            let mut sums = [[V::zero(); N]; 3];
            for column in job.columns {
                if ROWS & 2 != 0 {
                    sums[1] = each(sums[1], |s| s.double());
                }
                if ROWS & 4 != 0 {
                    sums[2] = each(sums[2], |s| s.quadruple());
                }
                let Some(column) = column else { continue };
                for v in 0..N {
                    let data = V::load(column.as_ptr().add(at + V::BYTES * v));
                    for (k, sum) in sums.iter_mut().enumerate() {
                        if ROWS & (1 << k) != 0 {
                            sum[v] = sum[v].add(data);
                        }
                    }
                }
            }
            // From here on the sums are at the number of their result.
            let mut results = pack::<V, ROWS, N>(sums);
            let m = ROWS.count_ones() as usize;
            if let (true, Some(solve)) = (SOLVE, &job.solve) {
                for (sum, stored) in results.iter_mut().zip(solve.stored) {
                    for (v, s) in sum.iter_mut().enumerate() {
                        *s = s.add(V::load(stored.as_ptr().add(at + V::BYTES * v)));
                    }
                }
                if ROWS != 1 {
                    results = apply::<V, N>(&factors, results, m);
                }
            }
            for (o, sum) in out.iter_mut().zip(results) {
                for (v, s) in sum.into_iter().enumerate() {
                    s.store(o.as_mut_ptr().add(at + V::BYTES * v));
                }
            }
            at += step;
        }
    }
    at
}

/// Applies `f` to every vector.
#[inline(always)]
fn each<V: Wide, const N: usize>(mut vectors: [V; N], f: impl Fn(V) -> V) -> [V; N] {
    for v in &mut vectors {
        *v = f(*v);
    }
    vectors
}

/// Moves the wanted ones of three sums to the front.
#[inline(always)]
fn pack<V: Wide, const ROWS: u8, const N: usize>(sums: [[V; N]; 3]) -> [[V; N]; 3] {
    let [p, q, r] = sums;
    match ROWS {
        2 => [q, q, r],
        4 => [r, q, r],
        5 => [p, r, r],
        6 => [q, r, r],
        _ => [p, q, r],
    }
}

/// Multiplies `m` syndromes by the matrix.
///
/// # Safety
/// The processor has the features of `V`.
#[inline(always)]
unsafe fn apply<V: Wide, const N: usize>(
    factors: &[[V::Factor; 3]; 3],
    syndromes: [[V; N]; 3],
    m: usize,
) -> [[V; N]; 3] {
    let mut out = syndromes;
    for (result, row) in out.iter_mut().zip(factors).take(m) {
        for v in 0..N {
            // SAFETY: the features are there, as promised by the caller.
            unsafe {
                let mut sum = syndromes[0][v].times(row[0]);
                for k in 1..m {
                    sum = sum.add(syndromes[k][v].times(row[k]));
                }
                result[v] = sum;
            }
        }
    }
    out
}

/// 32 bytes, AVX2.
#[derive(Clone, Copy)]
struct Wide256(__m256i);

impl Wide for Wide256 {
    const BYTES: usize = 32;
    /// Products of the constant with low and with high half bytes.
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX2 is there, as promised by the caller.
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes and AVX2, as promised by the caller.
        unsafe { Self(_mm256_loadu_si256(from.cast::<__m256i>())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes and AVX2, as promised by the caller.
        unsafe { _mm256_storeu_si256(to.cast::<__m256i>(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: AVX2 is there, as promised by the caller.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: AVX2 is there, as promised by the caller.
        unsafe {
            let overflow = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduce = _mm256_and_si256(overflow, _mm256_set1_epi8(REDUCE as i8));
            Self(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn quadruple(self) -> Self {
        // SAFETY: AVX2 is there, as promised by the caller.
        unsafe { self.double().double() }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> Self::Factor {
        let mut tables = [[0u8; 16]; 2];
        for half in 0..16u8 {
            tables[0][usize::from(half)] = multiply(constant, half);
            tables[1][usize::from(half)] = multiply(constant, half << 4);
        }
        // SAFETY: each table is 16 readable bytes, and AVX2 is there, as promised by the caller.
        tables.map(|t| unsafe {
            _mm256_broadcastsi128_si256(_mm_loadu_si128(t.as_ptr().cast::<__m128i>()))
        })
    }

    #[inline(always)]
    unsafe fn times(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: AVX2 is there, as promised by the caller.
        unsafe {
            let half = _mm256_set1_epi8(15);
            let l = _mm256_and_si256(self.0, half);
            let h = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), half);
            Self(_mm256_xor_si256(_mm256_shuffle_epi8(low, l), _mm256_shuffle_epi8(high, h)))
        }
    }
}

/// The matrix of the multiplication by a constant in the form the affine instruction wants: byte
/// 7 - i holds the bits of the factor that are added up to bit i of the product.
const fn bit_matrix(constant: u8) -> i64 {
    let mut out = 0u64;
    let mut bit = 0;
    while bit < 8 {
        let product = multiply(constant, 1 << bit);
        let mut i = 0;
        while i < 8 {
            if product >> i & 1 != 0 {
                out |= 1 << ((7 - i) * 8 + bit);
            }
            i += 1;
        }
        bit += 1;
    }
    out as i64
}

/// 64 bytes, AVX-512 with GFNI.
#[derive(Clone, Copy)]
struct Wide512(__m512i);

impl Wide for Wide512 {
    const BYTES: usize = 64;
    /// The constant's [`bit_matrix`], repeated.
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX-512F is there, as promised by the caller.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 readable bytes and AVX-512F, as promised by the caller.
        unsafe { Self(_mm512_loadu_si512(from.cast::<__m512i>())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 writable bytes and AVX-512F, as promised by the caller.
        unsafe { _mm512_storeu_si512(to.cast::<__m512i>(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: AVX-512F is there, as promised by the caller.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: the features are there, as promised by the caller.
        unsafe { self.times(_mm512_set1_epi64(const { bit_matrix(2) })) }
    }

    #[inline(always)]
    unsafe fn quadruple(self) -> Self {
        // SAFETY: the features are there, as promised by the caller.
        unsafe { self.times(_mm512_set1_epi64(const { bit_matrix(4) })) }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> Self::Factor {
        // SAFETY: AVX-512F is there, as promised by the caller.
        unsafe { _mm512_set1_epi64(bit_matrix(constant)) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // SAFETY: AVX-512F and GFNI are there, as promised by the caller.
        unsafe { Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor)) }
    }
}
