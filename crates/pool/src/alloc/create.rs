//! New top-level vdevs.

use dmu::{NewObject, Objset, Tx};
use ondisk::DmuType;

/// Metaslabs a vdev of ordinary size has.
const COUNT: u64 = 200;
/// Fewer are not wanted.
const COUNT_MIN: u64 = 16;
/// More are not wanted.
const COUNT_MAX: u64 = 1 << 17;
/// log2 of the size of a metaslab in bytes, of a vdev of ordinary size.
const SHIFT: u32 = 29;
/// A metaslab holds the largest block.
const SHIFT_MIN: u32 = 24;
/// Larger ones take too long to read.
const SHIFT_MAX: u32 = 34;

/// log2 of the size of the metaslabs that OpenZFS gives a vdev of `asize` bytes: about 200 of at
/// least 512 MiB, smaller vdevs about 16, very large ones as many as there are of 16 GiB.
#[must_use]
pub fn metaslab_shift(asize: u64) -> u32 {
    // The power of two above.
    let above = |n: u64| u64::BITS - n.leading_zeros();
    let count = asize >> SHIFT;
    let shift = match count {
        n if n < COUNT_MIN => above(asize / COUNT_MIN),
        n if n > COUNT => above(asize / COUNT),
        _ => SHIFT,
    };
    match shift {
        s if s < SHIFT_MIN => SHIFT_MIN,
        s if s > SHIFT_MAX && asize >> SHIFT_MAX > COUNT_MAX => above(asize / COUNT_MAX),
        s => s.min(SHIFT_MAX),
    }
}

/// The metaslab fields of a new vdev's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaslabArray {
    /// Object with the numbers of the space maps: `metaslab_array`.
    pub ms_array: u64,
    /// `metaslab_shift`.
    pub ms_shift: u32,
}

/// Makes what a new top-level vdev of `asize` bytes needs in the MOS: an array of the space maps
/// of its metaslabs, all of which are unused. [`super::TopSpec::of`] its configuration is then
/// given to [`super::Allocator::add_top`].
///
/// # Errors
/// When the MOS cannot be changed.
pub fn init_top(mos: &Objset, tx: &Tx, asize: u64) -> dmu::Result<MetaslabArray> {
    let ms_shift = metaslab_shift(asize);
    let bytes = (asize >> ms_shift).saturating_mul(8).clamp(512, 128 << 10);
    let block = bytes.next_power_of_two() as u32;
    let spec = NewObject::new(DmuType::OBJECT_ARRAY).block_size(block);
    Ok(MetaslabArray { ms_array: mos.create(tx, &spec)?.number(), ms_shift })
}

#[cfg(test)]
mod tests {
    use super::metaslab_shift;

    #[test]
    fn sizes_are_those_of_openzfs() {
        let cases = [
            (60 << 20, 24),
            (1 << 30, 27),
            (8 << 30, 29),
            (100 << 30, 29),
            (101 << 30, 30),
            (1 << 40, 33),
            (3 << 40, 34),
            (1 << 50, 34),
            (4 << 50, 36),
        ];
        for (asize, shift) in cases {
            assert_eq!(metaslab_shift(asize), shift, "{asize}");
        }
    }
}
