//! Numbers of the checksum and compression algorithms, as stored in block pointers, dnodes and
//! property values.

use core::fmt;

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident: $($konst:ident = $n:literal $text:literal),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u8);

        #[allow(missing_docs, reason = "the names are the documentation")]
        impl $name {
            $(pub const $konst: Self = Self($n);)*
        }

        impl $name {
            /// The property value that chooses this algorithm; `None` for an unknown number.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($n => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(n) => f.write_str(n),
                    None => write!(f, concat!(stringify!($name), "({})"), self.0),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

kinds! {
    /// Checksum algorithm.
    Checksum:
    INHERIT = 0 "inherit",
    ON = 1 "on",
    OFF = 2 "off",
    LABEL = 3 "label",
    GANG_HEADER = 4 "gang_header",
    ZILOG = 5 "zilog",
    FLETCHER_2 = 6 "fletcher2",
    FLETCHER_4 = 7 "fletcher4",
    SHA256 = 8 "sha256",
    ZILOG2 = 9 "zilog2",
    NOPARITY = 10 "noparity",
    SHA512 = 11 "sha512",
    SKEIN = 12 "skein",
    EDONR = 13 "edonr",
    BLAKE3 = 14 "blake3",
}

kinds! {
    /// Compression algorithm.
    Compression:
    INHERIT = 0 "inherit",
    ON = 1 "on",
    OFF = 2 "off",
    LZJB = 3 "lzjb",
    EMPTY = 4 "empty",
    GZIP_1 = 5 "gzip-1",
    GZIP_2 = 6 "gzip-2",
    GZIP_3 = 7 "gzip-3",
    GZIP_4 = 8 "gzip-4",
    GZIP_5 = 9 "gzip-5",
    GZIP_6 = 10 "gzip-6",
    GZIP_7 = 11 "gzip-7",
    GZIP_8 = 12 "gzip-8",
    GZIP_9 = 13 "gzip-9",
    ZLE = 14 "zle",
    LZ4 = 15 "lz4",
    ZSTD = 16 "zstd",
}
