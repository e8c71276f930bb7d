//! What a server acknowledged and did not make durable yet.
//!
//! A server that dies may have lost what it answered for since the last flush; the pool believes
//! that it is there, for it was read from there, and is only not promised. So the bytes are kept
//! until a flush that began after their answer has succeeded, and are sent again when the server
//! comes back. Of what was written twice the later bytes are kept, so that the order in which they
//! are sent again does not matter.
//!
//! What was flushed must still be there: a few of the last flushed ranges are remembered as
//! *samples*, and read when the server comes back. One with another disk, or that lost what it
//! had promised, is not the device any more.

use device::Shared;
use std::collections::{BTreeMap, VecDeque};

/// Samples, at most, and the bytes of one.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 4096;

/// Bytes of a write.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// The parts lie one after the other.
    Parts(Vec<Shared>),
    /// Only zeros.
    Zeros,
}

impl Data {
    /// The bytes from `from` to `to` of these.
    pub(super) fn slice(&self, from: usize, to: usize) -> Self {
        let Self::Parts(parts) = self else { return Self::Zeros };
        let (mut out, mut at) = (Vec::new(), 0);
        for part in parts {
            let (start, end) = (from.max(at), to.min(at + part.len()));
            if start < end {
                out.push(part.slice(start - at..end - at));
            }
            at += part.len();
        }
        Self::Parts(out)
    }

    /// The first bytes, as many as a sample has.
    fn sample(&self, len: usize) -> Vec<u8> {
        let n = len.min(SAMPLE_BYTES);
        match self {
            Self::Zeros => vec![0; n],
            Self::Parts(parts) => {
                let bytes = parts.iter().flat_map(|part| part.iter());
                bytes.take(n).copied().collect()
            }
        }
    }
}

/// A range that was acknowledged.
struct Piece {
    len: usize,
    data: Data,
    /// Its place in the order of acknowledgements.
    number: u64,
}

/// A range whose bytes are known to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// All that was acknowledged since it was made durable last.
#[derive(Default)]
pub(super) struct Unflushed {
    pieces: BTreeMap<u64, Piece>,
    bytes: u64,
    next: u64,
    samples: VecDeque<Sample>,
}

impl Unflushed {
    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A write was acknowledged.
    pub(super) fn add(&mut self, offset: u64, len: usize, data: Data) {
        self.cut(offset, len);
        self.bytes += len as u64;
        let number = self.next;
        self.next += 1;
        self.pieces.insert(offset, Piece { len, data, number });
    }

    /// Forgets what lies in a range.
    fn cut(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let before = self.pieces.range(..offset).next_back().map(|(at, _)| *at);
        let inside = self.pieces.range(offset..end).map(|(at, _)| *at);
        let hit: Vec<u64> = before.into_iter().chain(inside).collect();
        for at in hit {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            self.bytes -= piece.len as u64;
            let piece_end = at + piece.len as u64;
            for (from, to) in [(at, offset.min(piece_end)), (end.max(at), piece_end)] {
                if from < to {
                    let (a, b) = ((from - at) as usize, (to - at) as usize);
                    let rest = Piece { len: b - a, data: piece.data.slice(a, b), ..piece };
                    self.bytes += rest.len as u64;
                    self.pieces.insert(from, rest);
                }
            }
        }
    }

    /// A write to a range is about to be sent: what was durable there need not be afterwards.
    pub(super) fn will_change(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let is_apart = |w: &Sample| w.offset >= end || w.offset + w.bytes.len() as u64 <= offset;
        self.samples.retain(is_apart);
    }

    /// A flush that begins now makes durable what was acknowledged before this mark.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// A flush with this mark has succeeded, while these ranges (offset and length) were being
    /// written: the server may have changed them by now, without having answered. They are no
    /// samples.
    pub(super) fn flushed(&mut self, mark: u64, changing: &[(u64, usize)]) {
        let mut last: Vec<(u64, u64)> = Vec::new();
        for (at, piece) in self.pieces.iter().filter(|(_, piece)| piece.number < mark) {
            last.push((piece.number, *at));
        }
        last.sort_unstable();
        for (_, at) in last.iter().rev().take(SAMPLES).rev() {
            if let Some(piece) = self.pieces.get(at) {
                let bytes = piece.data.sample(piece.len);
                self.add_sample(Sample { offset: *at, bytes });
            }
        }
        changing.iter().for_each(|(offset, len)| self.will_change(*offset, *len));
        for (_, at) in last {
            if let Some(piece) = self.pieces.remove(&at) {
                self.bytes -= piece.len as u64;
            }
        }
    }

    /// These bytes are known to be durable.
    pub(super) fn add_sample(&mut self, sample: Sample) {
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// What must be on the device, whatever happened to its server.
    pub(super) fn samples(&self) -> Vec<Sample> {
        self.samples.iter().cloned().collect()
    }

    /// All that is kept, to be sent again.
    pub(super) fn all(&self) -> Vec<(u64, usize, Data)> {
        self.pieces.iter().map(|(at, piece)| (*at, piece.len, piece.data.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: &[u8]) -> Data {
        Data::Parts(bytes.chunks(3).map(Shared::copy_of).collect())
    }

    /// What a disk of zeros would hold.
    fn disk(kept: &Unflushed, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        for (at, len, data) in kept.all() {
            let at = at as usize;
            let mut bytes = data.sample(len);
            bytes.resize(len, 0);
            out[at..at + len].copy_from_slice(&bytes);
        }
        out
    }

    #[test]
    fn later_bytes_cover_earlier_ones() {
        let mut kept = Unflushed::default();
        kept.add(10, 10, parts(b"aaaaaaaaaa"));
        kept.add(0, 5, parts(b"bbbbb"));
        kept.add(12, 4, parts(b"cdef"));
        kept.add(18, 6, parts(b"gggggg"));
        kept.add(3, 3, Data::Zeros);
        let want = b"bbb\0\0\0\0\0\0\0aacdefaagggggg";
        assert_eq!(disk(&kept, 24), want);
        assert_eq!(kept.bytes(), 3 + 3 + 2 + 4 + 2 + 6);
        kept.add(0, 24, parts(&[b'z'; 24]));
        assert_eq!((disk(&kept, 24), kept.bytes(), kept.all().len()), (vec![b'z'; 24], 24, 1));
    }

    #[test]
    fn a_flush_is_for_what_was_answered_before_it() {
        let mut kept = Unflushed::default();
        kept.add(0, 4, parts(b"aaaa"));
        let mark = kept.mark();
        kept.add(8, 4, parts(b"bbbb"));
        kept.add(2, 2, parts(b"cc"));
        kept.flushed(mark, &[]);
        assert_eq!(disk(&kept, 12), b"\0\0cc\0\0\0\0bbbb");
        assert_eq!(kept.bytes(), 6);
        assert_eq!(kept.samples(), [Sample { offset: 0, bytes: b"aa".to_vec() }]);
        kept.will_change(2, 10);
        assert_eq!(kept.samples().len(), 1);
        kept.will_change(1, 1);
        assert!(kept.samples().is_empty());
    }

    #[test]
    fn what_is_being_written_is_no_sample() {
        let mut kept = Unflushed::default();
        kept.add(0, 4, parts(b"aaaa"));
        kept.add(8, 4, parts(b"bbbb"));
        let mark = kept.mark();
        kept.will_change(10, 1);
        kept.flushed(mark, &[(10, 1)]);
        assert_eq!(kept.samples(), [Sample { offset: 0, bytes: b"aaaa".to_vec() }]);
        assert_eq!(kept.bytes(), 0);
    }

    #[test]
    fn random_writes_and_flushes_agree_with_a_disk() {
        let rt = rt::Rt::simulated(7);
        for _ in 0..200 {
            let (mut kept, mut whole, mut durable) = (Unflushed::default(), [0u8; 64], [0u8; 64]);
            for step in 0..40u8 {
                let draw = |n: u64| rt.random_u64() % n;
                if draw(8) == 0 {
                    kept.flushed(kept.mark(), &[]);
                    durable = whole;
                    continue;
                }
                let at = draw(60) as usize;
                let len = 1 + draw(64 - at as u64) as usize;
                kept.will_change(at as u64, len);
                whole[at..at + len].fill(step + 1);
                kept.add(at as u64, len, parts(&vec![step + 1; len]));
                // The server dies, and has only what was durable; everything kept is sent again.
                let mut after = durable;
                for (at, len, data) in kept.all() {
                    after[at as usize..at as usize + len].copy_from_slice(&data.sample(len));
                }
                assert_eq!(after, whole);
                for w in kept.samples() {
                    let at = w.offset as usize;
                    assert_eq!(durable[at..at + w.bytes.len()], w.bytes);
                }
            }
        }
        rt::Rt::leave();
    }
}
