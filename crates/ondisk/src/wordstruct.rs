//! A way to write down the many structures that are nothing but a row of 64-bit words.
//!
//! Most of what ZFS keeps in bonus buffers is such a row. [`word_struct!`] takes the row once, in
//! disk order, and gives decode and encode in both byte orders, and the same from and to numbers,
//! because some of these structures are stored as the value of a ZAP entry instead.

use crate::blkptr::BlkPtr;
use crate::cursor::{Reader, Writer};
use crate::error::Result;

/// A field that is one or more 64-bit words.
pub(crate) trait Field: Sized {
    /// Words it takes.
    const WORDS: usize;
    /// The value whose words are all zero.
    const ZERO: Self;
    /// Reads it; `name` is for the error.
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self>;
    /// Appends it.
    fn write(&self, w: &mut Writer);
}

impl Field for u64 {
    const WORDS: usize = 1;
    const ZERO: Self = 0;

    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.u64(name)
    }

    fn write(&self, w: &mut Writer) {
        w.u64(*self);
    }
}

impl<const N: usize> Field for [u64; N] {
    const WORDS: usize = N;
    const ZERO: Self = [0; N];

    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.words(name)
    }

    fn write(&self, w: &mut Writer) {
        w.words(self);
    }
}

impl Field for BlkPtr {
    const WORDS: usize = 16;
    const ZERO: Self = Self::HOLE;

    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        r.blkptr(name)
    }

    fn write(&self, w: &mut Writer) {
        w.blkptr(self);
    }
}

/// Declares a structure of words: `word_struct! { /// doc  pub struct Name("noun") { fields } }`.
///
/// Gives `SIZE`, `WORDS`, `decode`, `encode`, `from_words`, `to_words` and `Default` (zeros).
/// Bytes or words beyond the last field are ignored: newer software may have appended some.
macro_rules! word_struct {
    ($(#[$doc:meta])* pub struct $name:ident($noun:literal) {
        $($(#[$fdoc:meta])* $fvis:vis $field:ident: $ty:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fdoc])* $fvis $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: <$ty as $crate::wordstruct::Field>::ZERO,)* }
            }
        }

        impl $crate::wordstruct::Field for $name {
            const WORDS: usize = 0 $(+ <$ty as $crate::wordstruct::Field>::WORDS)*;
            const ZERO: Self = Self { $($field: <$ty as $crate::wordstruct::Field>::ZERO,)* };

            fn read(
                r: &mut $crate::cursor::Reader<'_>,
                _name: &'static str,
            ) -> $crate::error::Result<Self> {
                Ok(Self {
                    $($field: <$ty as $crate::wordstruct::Field>::read(r, stringify!($field))?,)*
                })
            }

            fn write(&self, w: &mut $crate::cursor::Writer) {
                $(<$ty as $crate::wordstruct::Field>::write(&self.$field, w);)*
            }
        }

        impl $name {
            /// 64-bit words on disk.
            pub const WORDS: usize = <Self as $crate::wordstruct::Field>::WORDS;
            /// Bytes on disk.
            pub const SIZE: usize = Self::WORDS * 8;

            /// Decodes the first [`Self::SIZE`] bytes of `data`; fewer are an error.
            pub fn decode(
                data: &[u8],
                endian: $crate::cursor::Endian,
            ) -> $crate::error::Result<Self> {
                let mut r = $crate::cursor::Reader::new($noun, data, endian);
                <Self as $crate::wordstruct::Field>::read(&mut r, $noun)
            }

            /// Encodes into [`Self::SIZE`] bytes.
            #[must_use]
            pub fn encode(&self, endian: $crate::cursor::Endian) -> Vec<u8> {
                let mut w = $crate::cursor::Writer::new(endian);
                <Self as $crate::wordstruct::Field>::write(self, &mut w);
                w.into_bytes()
            }

            /// From the words of a ZAP value; fewer than [`Self::WORDS`] are an error.
            pub fn from_words(words: &[u64]) -> $crate::error::Result<Self> {
                let few = words.get(..Self::WORDS).unwrap_or(words);
                let mut w = $crate::cursor::Writer::new($crate::cursor::Endian::Little);
                w.words(few);
                Self::decode(&w.into_bytes(), $crate::cursor::Endian::Little)
            }

            /// The words of a ZAP value.
            #[must_use]
            pub fn to_words(&self) -> Vec<u64> {
                let bytes = self.encode($crate::cursor::Endian::Little);
                bytes
                    .chunks_exact(8)
                    .map(|c| {
                        let mut b = [0; 8];
                        b.copy_from_slice(c);
                        u64::from_le_bytes(b)
                    })
                    .collect()
            }
        }
    };
}

pub(crate) use word_struct;
