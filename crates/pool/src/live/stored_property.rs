//! Pool properties as they are stored.

use crate::error::{Error, Result};
use crate::refusal::PoolRefusal;
use dmu::ZapValue;

/// Longest text of a property in bytes, and longest name.
const PROPERTY_MAX: usize = 8191;
const PROPERTY_NAME_MAX: usize = 255;

/// A pool property's stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredPropertyValue {
    /// A number, or the number of a word.
    Number(u64),
    /// A text.
    Text(String),
}

impl StoredPropertyValue {
    /// Refuses a property that OpenZFS could not read: `name`, or this text, is too long.
    pub(super) fn check_length(&self, pool: &str, name: &str) -> Result<()> {
        let text = if let Self::Text(text) = self { text.len() } else { 0 };
        if text > PROPERTY_MAX || name.len() > PROPERTY_NAME_MAX {
            return Err(Error::refused(pool, PoolRefusal::PropertyTooLong(name.to_owned())));
        }
        Ok(())
    }

    /// As a table's value.
    pub(super) fn value(&self) -> ZapValue {
        match self {
            Self::Number(n) => ZapValue::from_u64(*n),
            Self::Text(text) => {
                let mut values = text.as_bytes().to_vec();
                values.push(0);
                ZapValue { int_len: 1, values }
            }
        }
    }
}
