//! Damage to disk images, chosen by a seed, so that a failing test names what repeats it.
//!
//! The kinds are those that disks and cables do: a flipped bit, a block of zeros where a write was
//! lost, a block of noise, a block that was written in the wrong place, two blocks swapped, an
//! image cut short. Damage aims at what is not zero: in a mostly empty image a random offset would
//! hit nothing and test nothing.

use crate::{Rng, SparseImage};
use std::ops::Range;

/// One act of damage. Offsets and lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Bit `bit` (0 to 7) of the byte at `offset` inverted.
    FlipBit {
        /// Where.
        offset: u64,
        /// Which bit.
        bit: u8,
    },
    /// A range overwritten with zeros.
    Zero {
        /// Where.
        offset: u64,
        /// How much.
        len: usize,
    },
    /// A range overwritten with random bytes.
    Noise {
        /// Where.
        offset: u64,
        /// How much.
        len: usize,
    },
    /// The content of `from` written over `to` (a misdirected write).
    Copy {
        /// Source.
        from: u64,
        /// Target.
        to: u64,
        /// How much.
        len: usize,
    },
    /// Two ranges exchanged.
    Swap {
        /// The one.
        first: u64,
        /// The other.
        second: u64,
        /// How much.
        len: usize,
    },
    /// The image cut to `len` bytes.
    Truncate {
        /// What is left.
        len: u64,
    },
}

/// A kind of [`Damage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// [`Damage::FlipBit`].
    FlipBit,
    /// [`Damage::Zero`].
    Zero,
    /// [`Damage::Noise`].
    Noise,
    /// [`Damage::Copy`].
    Copy,
    /// [`Damage::Swap`].
    Swap,
    /// [`Damage::Truncate`].
    Truncate,
}

impl DamageKind {
    /// All, in the order in which a number chooses them.
    pub const ALL: [DamageKind; 6] =
        [Self::FlipBit, Self::Zero, Self::Noise, Self::Copy, Self::Swap, Self::Truncate];
}

/// Chooses and does damage; the same seed does the same to the same image.
#[derive(Debug, Clone)]
pub struct Corruptor {
    rng: Rng,
    spared: Vec<Range<u64>>,
    kinds: Vec<DamageKind>,
}

impl Corruptor {
    /// A source of damage for that seed. It spares nothing and never truncates.
    pub fn new(seed: u64) -> Corruptor {
        let kinds = DamageKind::ALL.into_iter().filter(|k| *k != DamageKind::Truncate);
        Corruptor { rng: Rng::new(seed), spared: Vec::new(), kinds: kinds.collect() }
    }

    /// Never damages a block that touches `range`.
    #[must_use]
    pub fn spare(mut self, range: Range<u64>) -> Corruptor {
        self.spared.push(range);
        self
    }

    /// Never damages the four labels (and the boot area) of an image of `len` bytes.
    #[must_use]
    pub fn spare_labels(self, len: u64) -> Corruptor {
        const FRONT: u64 = 4 << 20;
        const BACK: u64 = 512 << 10;
        self.spare(0..FRONT).spare(len.saturating_sub(BACK)..len)
    }

    /// May also cut the image short.
    #[must_use]
    pub fn truncates(mut self) -> Corruptor {
        self.kinds.push(DamageKind::Truncate);
        self
    }

    /// Does nothing but this.
    #[must_use]
    pub fn only(mut self, kind: DamageKind) -> Corruptor {
        self.kinds = vec![kind];
        self
    }

    /// Damages `image` in `count` places and says what it did, in order.
    pub fn damage(&mut self, image: &mut SparseImage, count: usize) -> Vec<Damage> {
        let all: Vec<u64> = (0..count as u64).collect();
        self.damage_some(image, count, &all)
    }

    /// The same, but of the `count` damages only those of the numbers in `kept` are done.
    pub fn damage_some(
        &mut self,
        image: &mut SparseImage,
        count: usize,
        kept: &[u64],
    ) -> Vec<Damage> {
        let targets: Vec<u64> = image.populated().filter(|&offset| self.allowed(offset)).collect();
        if targets.is_empty() {
            return Vec::new();
        }
        let mut done = Vec::new();
        let mut kept = kept.iter().peekable();
        for number in 0..count as u64 {
            let damage = self.choose(image, &targets);
            if kept.next_if_eq(&&number).is_some() {
                self.apply(image, &damage);
                done.push(damage);
            }
        }
        done
    }

    fn allowed(&self, offset: u64) -> bool {
        !self.spared.iter().any(|range| offset < range.end && offset + 4096 > range.start)
    }

    fn choose(&mut self, image: &SparseImage, targets: &[u64]) -> Damage {
        let offset = *self.rng.pick(targets);
        let other = *self.rng.pick(targets);
        let len = *self.rng.pick(&[512usize, 1024, 4096]);
        match *self.rng.pick(&self.kinds) {
            DamageKind::FlipBit => {
                Damage::FlipBit { offset: offset + self.rng.below(4096), bit: self.bit() }
            }
            DamageKind::Zero => Damage::Zero { offset, len },
            DamageKind::Noise => Damage::Noise { offset, len },
            DamageKind::Copy => Damage::Copy { from: offset, to: other, len },
            DamageKind::Swap => Damage::Swap { first: offset, second: other, len },
            DamageKind::Truncate => Damage::Truncate { len: self.rng.below(image.len()) },
        }
    }

    fn bit(&mut self) -> u8 {
        self.rng.below(8) as u8
    }

    /// Does one act of damage. What lies past the end of the image (after a truncation) stays
    /// undone: the damage cannot be worse there.
    fn apply(&mut self, image: &mut SparseImage, damage: &Damage) {
        let read = |image: &SparseImage, offset, len| {
            let mut bytes = vec![0; len];
            image.read_at(offset, &mut bytes).ok().map(|()| bytes)
        };
        match *damage {
            Damage::FlipBit { offset, bit } => {
                if let Some(byte) = read(image, offset, 1) {
                    let _ = image.write_at(offset, &[byte[0] ^ (1 << bit)]);
                }
            }
            Damage::Zero { offset, len } => {
                let _ = image.write_at(offset, &vec![0; len]);
            }
            Damage::Noise { offset, len } => {
                let mut bytes = vec![0; len];
                self.rng.fill(&mut bytes);
                let _ = image.write_at(offset, &bytes);
            }
            Damage::Copy { from, to, len } => {
                if let Some(bytes) = read(image, from, len) {
                    let _ = image.write_at(to, &bytes);
                }
            }
            Damage::Swap { first, second, len } => {
                if let (Some(one), Some(two)) = (read(image, first, len), read(image, second, len))
                {
                    let _ = image.write_at(second, &one);
                    let _ = image.write_at(first, &two);
                }
            }
            Damage::Truncate { len } => image.truncate(len),
        }
    }
}
