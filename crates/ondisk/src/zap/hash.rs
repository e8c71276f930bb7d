//! How ZAP keys are hashed and compared.
//!
//! The hash is CRC-64 with the reflected ECMA-182 polynomial, started with the ZAP's salt, over
//! the bytes of the (normalised) name without its NUL, or over the bytes of integer keys from the
//! least significant one on. Only the top 28 bits are kept (48 with [`FLAG_HASH64`]), because
//! directory cookies need the rest. In a ZAP with normalisation the hash is always that of the
//! fully normalised name; how a stored name is then compared is the lookup's choice ([`Match`]).

use super::normalize::{NORM_TOUPPER, normalize};

/// The hash has 48 significant bits instead of 28, the differentiator 16.
pub const FLAG_HASH64: u64 = 1 << 0;
/// Keys are arrays of 64-bit integers.
pub const FLAG_UINT64_KEY: u64 = 1 << 1;
/// The first integer of the key is its hash (keys are uniformly spread already).
pub const FLAG_PRE_HASHED_KEY: u64 = 1 << 2;

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// The effect of a byte behind each number of others: eight bytes are then looked up at a time.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut out = [[0u64; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        out[0][i] = crc;
        i += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut i = 0;
        while i < 256 {
            let crc = out[behind - 1][i];
            out[behind][i] = (crc >> 8) ^ out[0][(crc & 0xff) as usize];
            i += 1;
        }
        behind += 1;
    }
    out
}

fn crc64(start: u64, bytes: &[u8]) -> u64 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(start, |h, word| {
        let [b0, b1, b2, b3, b4, b5, b6, b7] =
            (h ^ u64::from_le_bytes(*word)).to_le_bytes().map(usize::from);
        t7[b0] ^ t6[b1] ^ t5[b2] ^ t4[b3] ^ t3[b4] ^ t2[b5] ^ t1[b6] ^ t0[b7]
    });
    rest.iter().fold(state, |h, b| (h >> 8) ^ t0[usize::from(h as u8 ^ b)])
}

/// The same of the bytes of `field` before its first NUL, which is looked for eight at a time.
fn crc64_until_nul(start: u64, field: &[u8]) -> u64 {
    let has_nul = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0
    };
    let words = field.as_chunks::<8>().0;
    let whole = 8 * words.iter().take_while(|word| !has_nul(word)).count();
    let rest = field.get(whole..).unwrap_or_default();
    let end = rest.iter().position(|b| *b == 0).map_or(field.len(), |n| whole + n);
    crc64(start, field.get(..end).unwrap_or_default())
}

/// The parameters of a ZAP's hash: three fields of its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// Start value, random for each ZAP and never zero.
    pub salt: u64,
    /// `FLAG_*`; zero in micro ZAPs.
    pub flags: u64,
    /// `NORM_*`; zero: names are plain bytes.
    pub norm_flags: u64,
}

impl KeyHash {
    /// Number of significant bits, counted from the top.
    #[must_use]
    pub fn bits(&self) -> u32 {
        if self.flags & FLAG_HASH64 == 0 { 28 } else { 48 }
    }

    /// Whether keys are integers.
    #[must_use]
    pub fn integer_keys(&self) -> bool {
        self.flags & FLAG_UINT64_KEY != 0
    }

    fn cut(&self, h: u64) -> u64 {
        h & !((1u64 << (64 - self.bits())) - 1)
    }

    /// Hash of a string key, given without its NUL.
    #[must_use]
    pub fn name(&self, name: &[u8]) -> u64 {
        if self.norm_flags == 0 {
            self.cut(crc64(self.salt, name))
        } else {
            self.cut(crc64(self.salt, &normalize(name, self.norm_flags, false)))
        }
    }

    /// Hash of the string key in a field of fixed length, which ends with it or has a NUL behind
    /// it.
    #[must_use]
    pub(super) fn name_field(&self, field: &[u8]) -> u64 {
        if self.norm_flags == 0 {
            return self.cut(crc64_until_nul(self.salt, field));
        }
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        self.name(field.get(..end).unwrap_or_default())
    }

    /// Hash of an integer key.
    #[must_use]
    pub fn words(&self, key: &[u64]) -> u64 {
        if self.flags & FLAG_PRE_HASHED_KEY != 0 {
            return self.cut(key.first().copied().unwrap_or(0));
        }
        self.cut(key.iter().fold(self.salt, |h, word| crc64(h, &word.to_le_bytes())))
    }
}

/// How a lookup compares its name with the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Byte for byte.
    Exact,
    /// Both normalised with all of the ZAP's flags: also case-insensitive if these include that.
    Normalize,
    /// Both normalised, but with case kept: the case-sensitive lookup in a directory of a
    /// file system with `casesensitivity=mixed`.
    NormalizeKeepCase,
}

/// A key prepared for lookups in one ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapKey {
    /// Its hash.
    pub hash: u64,
    wanted: KeyMatch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMatch {
    Exact(Vec<u8>),
    Normal { norm_flags: u64, form: Vec<u8> },
    Words(Vec<u64>),
}

impl ZapKey {
    /// A string key, without NUL. In a ZAP without normalisation every [`Match`] is exact.
    #[must_use]
    pub fn name(of: &KeyHash, name: &[u8], how: Match) -> Self {
        let norm_flags = match how {
            Match::Exact => 0,
            Match::Normalize => of.norm_flags,
            Match::NormalizeKeepCase => of.norm_flags & !NORM_TOUPPER,
        };
        // With case kept and no normal form asked for, what is left is comparing bytes.
        let wanted = if norm_flags == 0 {
            KeyMatch::Exact(name.to_vec())
        } else {
            KeyMatch::Normal { norm_flags, form: normalize(name, norm_flags, false) }
        };
        Self { hash: of.name(name), wanted }
    }

    /// An integer key.
    #[must_use]
    pub fn words(of: &KeyHash, key: &[u64]) -> Self {
        Self { hash: of.words(key), wanted: KeyMatch::Words(key.to_vec()) }
    }

    /// The name that a stored one must equal byte for byte, where that is what is compared.
    pub(super) fn exact(&self) -> Option<&[u8]> {
        match &self.wanted {
            KeyMatch::Exact(name) => Some(name),
            KeyMatch::Normal { .. } | KeyMatch::Words(_) => None,
        }
    }

    /// Whether keys of the kind looked for are integers.
    #[must_use]
    pub fn is_integers(&self) -> bool {
        matches!(self.wanted, KeyMatch::Words(_))
    }

    /// Whether the stored name is the one looked for.
    #[must_use]
    pub fn matches_name(&self, stored: &[u8]) -> bool {
        match &self.wanted {
            KeyMatch::Exact(name) => name == stored,
            KeyMatch::Normal { norm_flags, form } => *form == normalize(stored, *norm_flags, false),
            KeyMatch::Words(_) => false,
        }
    }

    /// Whether the stored key is the one looked for.
    #[must_use]
    pub fn matches(&self, stored: &super::ZapName) -> bool {
        match stored {
            super::ZapName::Bytes(b) => self.matches_name(b),
            super::ZapName::U64s(w) => matches!(&self.wanted, KeyMatch::Words(key) if key == w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_reflected_ecma_crc() {
        // CRC-64/XZ of "123456789" is 0x995dc9bbdf1939fa: the same polynomial and bit order,
        // started with all ones and complemented at the end.
        let h = !crc64(u64::MAX, b"123456789");
        assert_eq!(h, 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn eight_bytes_at_a_time_are_hashed_as_one_by_one() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 37 + 11) as u8).collect();
        for end in 0..=bytes.len() {
            let all = &bytes[..end];
            let slow = all.iter().fold(3, |h, b| crc64(h, &[*b]));
            assert_eq!(crc64(3, all), slow, "{end}");
        }
    }

    #[test]
    fn a_name_in_a_field_is_hashed_as_the_name() {
        let exact = KeyHash { salt: 7, flags: 0, norm_flags: 0 };
        let upper = KeyHash { norm_flags: NORM_TOUPPER, ..exact };
        for len in 0..=50 {
            let name: Vec<u8> = (0..len).map(|n| b'a' + n % 26).collect();
            // The bytes behind the NUL are left of an earlier, longer name.
            let mut field = [b'z'; 50];
            field[..name.len()].copy_from_slice(&name);
            if let Some(end) = field.get_mut(name.len()) {
                *end = 0;
            }
            for of in [exact, upper] {
                assert_eq!(of.name_field(&field), of.name(&name), "{len}");
            }
        }
    }

    #[test]
    fn hash_keeps_only_its_bits() {
        let short = KeyHash { salt: 7, flags: 0, norm_flags: 0 };
        let long = KeyHash { flags: FLAG_HASH64, ..short };
        assert_eq!(short.name(b"x") & ((1 << 36) - 1), 0);
        assert_eq!(long.name(b"x") & 0xffff, 0);
        assert_eq!(long.name(b"x") >> 36, short.name(b"x") >> 36);
        let pre = KeyHash { flags: FLAG_UINT64_KEY | FLAG_PRE_HASHED_KEY, ..short };
        assert_eq!(pre.words(&[0x1234_5678_9abc_def0, 5]), 0x1234_5670_0000_0000);
    }

    #[test]
    fn lookup_modes_differ_in_case_only() {
        let of = KeyHash { salt: 99, flags: 0, norm_flags: NORM_TOUPPER };
        let any = ZapKey::name(&of, b"ReadMe", Match::Normalize);
        let exact = ZapKey::name(&of, b"ReadMe", Match::NormalizeKeepCase);
        assert_eq!(any.hash, exact.hash);
        assert!(any.matches_name(b"README") && any.matches_name(b"ReadMe"));
        assert!(!exact.matches_name(b"README") && exact.matches_name(b"ReadMe"));
    }
}
