//! Why a new pool cannot have a name.

use std::fmt;

/// Why a new pool cannot have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolNameFault {
    /// It does not begin with a letter.
    FirstCharacter,
    /// It is a word for vdevs, or begins with one.
    Reserved,
    /// It is too long.
    TooLong,
    /// It has a character that names of pools do not have.
    Character,
}

impl fmt::Display for PoolNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstCharacter => "the name of a pool begins with a letter",
            Self::Reserved => "the name is a word for vdevs",
            Self::TooLong => "the name is too long",
            Self::Character => "the name has a character that names of pools do not have",
        })
    }
}

impl std::error::Error for PoolNameFault {}
