//! The contents of a stream.

use crate::error::{Error, ErrorKind, Place, Result, Unsendable};
use dsl::Dataset;
use dsl::names::is_within;

/// What is sent beside one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// All snapshots between the earlier one and the last.
    pub intermediates: bool,
    /// All datasets below, with properties. In full: all their snapshots up to the last.
    pub replicate: bool,
    /// With `replicate`: datasets that lack the snapshot are passed over.
    pub skip_missing: bool,
    /// With `replicate`: these datasets, and what is below them, are left out.
    pub without: Vec<String>,
    /// Properties.
    pub properties: bool,
    /// Properties: of each that was received the value that came, and no other properties.
    pub received_properties: bool,
    /// Holds.
    pub holds: bool,
    /// Nothing is decrypted: encrypted datasets are sent as they are encrypted.
    pub raw: bool,
}

impl Scope {
    /// The dataset is left out: but the list has it, as OpenZFS's, so that a receiver does not take
    /// it for destroyed.
    pub(super) fn excludes(&self, dataset: &str) -> bool {
        self.without.iter().any(|top| is_within(dataset, top))
    }

    /// Several snapshots of each dataset are in it.
    pub(super) fn is_line(&self) -> bool {
        self.intermediates || self.replicate
    }

    pub(super) fn has_properties(&self) -> bool {
        self.replicate || self.properties || self.received_properties
    }

    /// Refuses an encrypted dataset where it can be sent only as it is encrypted: its properties go
    /// with what is encrypted.
    pub(super) fn check_encryption(&self, dataset: &Dataset) -> Result<()> {
        if !dataset.phys.bp.uses_crypt() || self.raw || !self.has_properties() {
            return Ok(());
        }
        let why = Unsendable::EncryptedProperties;
        Err(Error::new(ErrorKind::NotSent(why)).at(Place::Dataset(dataset.name.clone())))
    }

    pub(super) fn has_list(&self) -> bool {
        self.has_properties() || self.holds
    }
}

/// The name of a snapshot without its dataset's.
pub(super) fn short(name: &str) -> &str {
    name.split_once('@').map_or(name, |(_, short)| short)
}
