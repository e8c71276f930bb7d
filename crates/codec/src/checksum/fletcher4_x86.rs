//! Lanes of Fletcher-4 in vector registers of x86-64.
//!
//! Each lane is 64 bits wide; 32-bit words are widened on load. The four additions of one step
//! form a chain, but step k+1's first addition needs only step k's first, so the steps overlap and
//! one step retires per cycle: 16 bytes with AVX2, 32 with AVX-512.

use super::ByteOrder;
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_set_epi8, _mm_shuffle_epi8, _mm256_add_epi64,
    _mm256_broadcastsi128_si256, _mm256_cvtepu32_epi64, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm512_add_epi64, _mm512_cvtepu32_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512,
};

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn has_avx512() -> bool {
    has_avx2() && is_x86_feature_detected!("avx512f")
}

/// The sums of four lanes over the whole multiples of 16 bytes; zeros without AVX2.
pub(super) fn lanes4(order: ByteOrder, data: &[u8]) -> [[u64; 4]; 4] {
    if !has_avx2() {
        return [[0; 4]; 4];
    }
    // SAFETY: the processor has AVX2, checked above.
    unsafe {
        match order {
            ByteOrder::Little => avx2::<false>(data),
            ByteOrder::Big => avx2::<true>(data),
        }
    }
}

/// The sums of eight lanes over the whole multiples of 32 bytes; zeros without AVX-512.
pub(super) fn lanes8(order: ByteOrder, data: &[u8]) -> [[u64; 8]; 4] {
    if !has_avx512() {
        return [[0; 8]; 4];
    }
    // SAFETY: the processor has AVX2 and AVX-512F, checked above.
    unsafe {
        match order {
            ByteOrder::Little => avx512::<false>(data),
            ByteOrder::Big => avx512::<true>(data),
        }
    }
}

/// The shuffle that reverses the bytes of each 32-bit word.
#[target_feature(enable = "avx2")]
fn reversal() -> __m128i {
    _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
}

#[target_feature(enable = "avx2")]
fn avx2<const SWAP: bool>(data: &[u8]) -> [[u64; 4]; 4] {
    let swap = reversal();
    let mut sums = [_mm256_setzero_si256(); 4];
    let [mut a, mut b, mut c, mut d] = sums;
    for chunk in data.as_chunks::<16>().0 {
        // SAFETY: `chunk` is 16 readable bytes, and the load needs no alignment.
        let mut w = unsafe { _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>()) };
        if SWAP {
            w = _mm_shuffle_epi8(w, swap);
        }
        a = _mm256_add_epi64(a, _mm256_cvtepu32_epi64(w));
        b = _mm256_add_epi64(b, a);
        c = _mm256_add_epi64(c, b);
        d = _mm256_add_epi64(d, c);
    }
    sums.copy_from_slice(&[a, b, c, d]);
    sums.map(|v| {
        let mut out = [0u64; 4];
        // SAFETY: `out` is 32 writable bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast::<__m256i>(), v) };
        out
    })
}

#[target_feature(enable = "avx2,avx512f")]
fn avx512<const SWAP: bool>(data: &[u8]) -> [[u64; 8]; 4] {
    let swap = _mm256_broadcastsi128_si256(reversal());
    let mut sums = [_mm512_setzero_si512(); 4];
    let [mut a, mut b, mut c, mut d] = sums;
    for chunk in data.as_chunks::<32>().0 {
        // SAFETY: `chunk` is 32 readable bytes, and the load needs no alignment.
        let mut w = unsafe { _mm256_loadu_si256(chunk.as_ptr().cast::<__m256i>()) };
        if SWAP {
            w = _mm256_shuffle_epi8(w, swap);
        }
        a = _mm512_add_epi64(a, _mm512_cvtepu32_epi64(w));
        b = _mm512_add_epi64(b, a);
        c = _mm512_add_epi64(c, b);
        d = _mm512_add_epi64(d, c);
    }
    sums.copy_from_slice(&[a, b, c, d]);
    sums.map(|v| {
        let mut out = [0u64; 8];
        // SAFETY: `out` is 64 writable bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast::<__m512i>(), v) };
        out
    })
}
