//! Space maps as the allocator needs them: read whole into free space, written in deltas.
//!
//! Two seams, [`ReadMaps`] and [`WriteMaps`], keep the objects of the MOS out of everything above,
//! so that all of it is tested in memory with the very bytes that go to disk.

use super::ranges::{Free, Index, Ranges};
use ondisk::Endian;
use ondisk::spacemap::{
    self, Action, Encoder, Entry, HISTOGRAM_BUCKETS, RUN_MAX_ONE_WORD, Range, SpaceMapHeader,
};

/// Buckets of the histograms in memory: bucket `i` has ranges of `2^i` bytes and more.
pub(super) const BUCKETS: usize = 64;

/// Receives a map's entries, as bytes of whole blocks in their byte order.
pub(crate) type BlockVisitor<'a> = dyn FnMut(&[u8], Endian) -> Result<(), String> + 'a;

/// Reads space maps.
pub(crate) trait ReadMaps: Send + Sync {
    /// Calls `each` with the entries of map `object`, piece by piece, in order: whole blocks of the
    /// object in their byte order. Stops at its first error.
    fn read(&self, object: u64, each: &mut BlockVisitor<'_>) -> Result<(), String>;
}

/// Writes space maps, in syncing context.
pub(crate) trait WriteMaps {
    /// Makes the map of metaslab `index` and puts its number into the `array`; its object.
    fn create(&mut self, array: u64, index: u64) -> dmu::Result<u64>;

    /// Makes a map and enters its number in a ZAP under this name; returns its object.
    fn create_named(&mut self, table: u64, name: &str) -> dmu::Result<u64>;

    /// Header and block size in bytes of a map.
    fn open(&self, object: u64) -> dmu::Result<(SpaceMapHeader, usize)>;

    /// Writes `bytes` at byte `at`, drops all behind, and replaces the header.
    fn write(
        &mut self,
        object: u64,
        at: u64,
        bytes: &[u8],
        header: &SpaceMapHeader,
    ) -> dmu::Result<()>;
}

/// The properties of a metaslab's map that decide how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes in use.
    pub(super) length: u64,
    /// Bytes of a block.
    pub(super) block_size: usize,
    /// log2 of the unit of offsets and lengths.
    pub(super) shift: u8,
    /// Two-word entries may be written.
    pub(super) two_words: bool,
    /// The map may be condensed when it is much longer than it need be.
    pub(super) condense: bool,
    /// The frees of this txg are needed by themselves ([`Change::given_up`]).
    pub(super) tells_frees: bool,
}

/// The changes of a metaslab.
#[derive(Default)]
pub(super) struct Change {
    pub(super) allocs: Ranges,
    pub(super) frees: Ranges,
    /// Frees of blocks, without those from logs, if they are needed.
    pub(super) given_up: Vec<(u64, u64)>,
    /// Allocated bytes after it, when they are known exactly.
    pub(super) allocated: Option<u64>,
    /// All free ranges after it, when they are known.
    pub(super) histogram: Option<[u64; BUCKETS]>,
    /// All allocated ranges after it, when the map is to be condensed.
    pub(super) condensed: Option<Vec<(u64, u64)>>,
}

/// Bytes that a map of as many ranges as there are free ones takes at least.
pub(super) fn optimal_length(histogram: &[u64; BUCKETS], shape: &Shape) -> u64 {
    let mut words = 1u64;
    for (log2, n) in histogram.iter().enumerate() {
        let run = 1u64.checked_shl((log2 as u32).saturating_sub(shape.shift.into()));
        let each = match run.unwrap_or(u64::MAX) {
            run if run <= RUN_MAX_ONE_WORD => 1,
            _ if shape.two_words => 2,
            run => run / RUN_MAX_ONE_WORD,
        };
        words = words.saturating_add(n.saturating_mul(each));
    }
    words.saturating_mul(8)
}

/// The histogram of a header, from one in memory.
fn header_histogram(histogram: &[u64; BUCKETS], shift: u8) -> [u64; HISTOGRAM_BUCKETS] {
    let mut out = [0u64; HISTOGRAM_BUCKETS];
    for (log2, n) in histogram.iter().enumerate().skip(shift.into()) {
        let i = log2 - usize::from(shift);
        // The last bucket counts larger ranges as often as they hold its size.
        let over = i.saturating_sub(HISTOGRAM_BUCKETS - 1);
        let slot = &mut out[i - over];
        *slot = slot.saturating_add(n.checked_shl(over as u32).unwrap_or(u64::MAX));
    }
    out
}

/// Bytes to write at which place of the map, and the header after that.
pub(super) struct Written {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) header: SpaceMapHeader,
}

/// Puts a change into the form of the disk. `start`: first byte of the metaslab.
///
/// Allocations go before frees: the only space that is in both was allocated first. Space that was
/// freed and allocated again has cancelled out before.
pub(super) fn encode(
    change: &Change,
    start: u64,
    shape: &Shape,
    old: &SpaceMapHeader,
    txg: u64,
    pass: u32,
) -> ondisk::Result<Written> {
    let at = if change.condensed.is_some() { 0 } else { old.length };
    let mut out = Encoder::new(start, shape.shift, shape.two_words, shape.block_size, at);
    let pass = u16::try_from(pass).unwrap_or(u16::MAX);
    let mut put = |action, ranges: &mut dyn Iterator<Item = (u64, u64)>| {
        let mut first = true;
        for (s, e) in ranges {
            if std::mem::take(&mut first) {
                out.debug(action, pass, txg);
            }
            out.range(Range { action, vdev: None, offset: s, size: e - s })?;
        }
        Ok(())
    };
    match &change.condensed {
        Some(all) => put(Action::Alloc, &mut all.iter().copied())?,
        None => {
            put(Action::Alloc, &mut change.allocs.iter())?;
            put(Action::Free, &mut change.frees.iter())?;
        }
    }
    let bytes = out.finish(Endian::Little);
    let mut header = old.clone();
    header.length = at + bytes.len() as u64;
    let delta = change.allocs.bytes().cast_signed() - change.frees.bytes().cast_signed();
    header.allocated = match change.allocated {
        Some(n) => n.cast_signed(),
        None => old.allocated.saturating_add(delta),
    };
    if let Some(counts) = &mut header.histogram {
        match &change.histogram {
            Some(all) => *counts = header_histogram(all, shape.shift),
            None => {
                // Ranges are not merged with their neighbours, which are not known without the map.
                let mut more = [0; BUCKETS];
                change.frees.count_into(&mut more);
                let more = header_histogram(&more, shape.shift);
                for (c, m) in counts.iter_mut().zip(more) {
                    *c = c.saturating_add(m);
                }
            }
        }
    }
    Ok(Written { at, bytes, header })
}

/// Reads the free space of a metaslab from its map.
pub(super) fn free_of(
    maps: &dyn ReadMaps,
    object: u64,
    start: u64,
    end: u64,
    shift: u8,
) -> Result<Free, String> {
    let mut free = Free::whole(start, end);
    if object != 0 {
        maps.read(object, &mut |bytes, endian| replay(&mut free, bytes, endian, start, shift))?;
    }
    Ok(free)
}

fn replay<I: Index>(
    free: &mut Ranges<I>,
    bytes: &[u8],
    endian: Endian,
    start: u64,
    shift: u8,
) -> Result<(), String> {
    for entry in spacemap::entries(bytes, endian, start, shift) {
        let Entry::Range(r) = entry.map_err(|e| e.to_string())? else { continue };
        let end = r.offset.saturating_add(r.size);
        let done = match r.action {
            Action::Alloc => free.remove(r.offset, end),
            Action::Free => free.insert(r.offset, end),
        };
        if !done {
            let what = if r.action == Action::Alloc { "taken" } else { "free" };
            let size = r.size;
            return Err(format!("{size} bytes at {:#x} are {what} twice", r.offset));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_headers_fold_what_is_too_long() {
        let mut h = [0; BUCKETS];
        h[9] = 3;
        h[40] = 1;
        h[42] = 1;
        let out = header_histogram(&h, 9);
        assert_eq!((out[0], out[31]), (3, 1 + 4));
    }

    #[test]
    fn the_shortest_map_is_counted_in_words() {
        let shape = Shape {
            length: 0,
            block_size: 4096,
            shift: 9,
            two_words: true,
            condense: true,
            tells_frees: false,
        };
        let mut h = [0; BUCKETS];
        h[12] = 10;
        h[30] = 2;
        assert_eq!(optimal_length(&h, &shape), 8 * (1 + 10 + 4));
        let old = Shape { two_words: false, ..shape };
        assert_eq!(optimal_length(&h, &old), 8 * (1 + 10 + 2 * 64));
    }
}
