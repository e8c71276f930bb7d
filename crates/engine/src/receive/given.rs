//! The given properties that a receive cannot take.

use super::Run;
use super::start::Start;
use crate::error::{Error, Place, Result, Rule};
use crate::keys::{check_location, is_of_key};
use crate::properties::check_keylocation;
use dsl::Refusal;
use ondisk::props::{find_dataset, is_user_property};
use ondisk::stream::begin_flag;
use std::io::Read;

impl<R: Read> Run<'_, R> {
    /// Refuses properties that are not part of a dataset, or come with its content.
    pub(super) fn check_properties(&self) -> Result<()> {
        let with_content = ["volsize", "version"];
        let can_be_given = |name: &str| match find_dataset(name) {
            Some(p) => (!p.is_fixed() || is_of_key(p.name)) && !with_content.contains(&p.name),
            // Quotas of owners have names of their own, and are not values that are received.
            None => is_user_property(name) || name.contains('@'),
        };
        let names = self.how.set.iter().map(|(name, _)| name).chain(&self.how.except);
        match names.into_iter().find(|name| !can_be_given(name)) {
            None => Ok(()),
            Some(name) => {
                let why = Refusal::NoProperty(name.clone());
                Err(dsl::Error::refused(&self.how.target, why).into())
            }
        }
    }

    /// Refuses encryption properties for a dataset that is received encrypted, or exists.
    pub(super) fn check_no_encryption(&self, begin: &Start) -> Result<()> {
        let is_of_cipher = |name: &&String| {
            find_dataset(name).is_some_and(|p| is_of_key(p.name) && p.name != "keylocation")
        };
        let mut set = self.how.set.iter().map(|(name, _)| name);
        let is_clone = begin.flags & begin_flag::CLONE != 0 || self.how.origin.is_some();
        let why = match (&begin.sealed, begin.from_guid != 0 && !is_clone) {
            (Some(_), _) => {
                set.chain(&self.how.except).find(is_of_cipher).cloned().map(Refusal::OfRawStream)
            }
            (None, true) => set.find(is_of_cipher).cloned().map(Refusal::OfIncrement),
            (None, false) => None,
        };
        match why {
            None => Ok(()),
            Some(why) => Err(dsl::Error::refused(&self.how.target, why).into()),
        }
    }

    /// Refuses a place of a key where a dataset cannot have it; a new one has a key of its own.
    pub(super) fn check_location(&self, dataset: &str, value: &str, is_new: bool) -> Result<()> {
        check_location(value)?;
        let property = || Place::Property("keylocation".to_owned());
        match (is_new, value) {
            (true, "none") => Err(Error::against(Rule::KeylocationOfEncrypted).at(property())),
            (true, _) => Ok(()),
            (false, _) => {
                let view = self.view;
                let dsl = view.datasets();
                check_keylocation(&dsl, &dsl.by_name(dataset)?, value)
            }
        }
    }
}
