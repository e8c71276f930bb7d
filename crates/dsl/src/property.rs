//! A property of a dataset or bookmark: its value, and where that comes from.

use ondisk::props;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: it is computed.
    None,
    /// It was not set.
    Default,
    /// Set on the dataset itself.
    Local,
    /// Set on the dataset of that name above.
    Inherited(String),
    /// Came with a stream.
    Received,
    /// Holds while mounted.
    Temporary,
}

/// A property with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value, exactly as `zfs get -p` prints it.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
    /// The value that came with a stream, also where another covers it.
    pub received: Option<String>,
    /// Its description; `None` for a user property.
    pub native: Option<&'static props::PropertyDesc>,
}

impl Property {
    /// A native property; `None` when there is none of that name.
    #[must_use]
    pub fn native(name: &str, value: String, source: Source) -> Option<Self> {
        let native = props::find(&props::DATASET, name)?;
        let name = native.name.to_owned();
        Some(Self { name, value, source, received: None, native: Some(native) })
    }

    /// The value as a number, when it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.value.parse().ok()
    }
}
