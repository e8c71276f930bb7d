//! The settings of an import that are remembered, apart from the pool itself, and shown as its
//! properties.

use crate::{Cachefile, Known};
use engine::config::{NvList, NvValue};
use engine::pools::{PoolProperty, PoolPropertySource};
use engine::properties::pool::PoolSetting;

/// The settings of an import that are remembered.
#[derive(Default)]
pub struct CacheEntryOptions {
    /// The folder below which mount points are shown.
    pub altroot: Option<String>,
    /// Where it is remembered.
    pub cachefile: Cachefile,
}

/// A place that cannot be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidPath {
    /// Of the file that lists pools.
    Cachefile(String),
    /// Of the folder below which mount points are shown.
    Altroot(String),
}

impl Known {
    /// Puts into the properties of the pool what is in no label of it, because it was given when
    /// the pool was imported.
    pub fn complete(&self, properties: &mut [PoolProperty]) {
        let mut set = |name: &str, value: &str, source| {
            for property in properties.iter_mut().filter(|p| p.name == name) {
                value.clone_into(&mut property.value);
                property.source = source;
            }
        };
        if self.is_readonly() {
            set("readonly", "on", PoolPropertySource::None);
        }
        match self.cachefile() {
            Cachefile::Usual => {}
            Cachefile::None => set("cachefile", "none", PoolPropertySource::Local),
            Cachefile::At(path) => {
                set("cachefile", &path.to_string_lossy(), PoolPropertySource::Local);
            }
        }
    }
}

impl CacheEntryOptions {
    /// Made from these settings, the folder that was given separately, and whether the pool's name
    /// is temporary: what only holds for now is not remembered for ever, unless that is requested.
    ///
    /// # Errors
    /// One of the places cannot be remembered.
    pub fn of(
        settings: &[PoolSetting],
        root: Option<&str>,
        is_passing: bool,
    ) -> Result<Self, InvalidPath> {
        let mut out = Self { altroot: root.map(str::to_owned), ..Self::default() };
        if let Some(root) = root.filter(|root| !root.starts_with('/')) {
            return Err(InvalidPath::Altroot(root.to_owned()));
        }
        let mut place = None;
        for setting in settings {
            match setting {
                PoolSetting::Altroot(path) => out.altroot = Some(path.clone()),
                PoolSetting::Cachefile(text) => {
                    let bad = || InvalidPath::Cachefile(text.clone());
                    place = Some(Cachefile::parse(text).ok_or_else(bad)?);
                }
                _ => {}
            }
        }
        let is_passing = is_passing || out.altroot.is_some();
        let usual = if is_passing { Cachefile::None } else { Cachefile::Usual };
        out.cachefile = place.unwrap_or(usual);
        Ok(out)
    }

    /// The entry of a pool of this configuration under this name.
    #[must_use]
    pub fn entry(&self, mut config: NvList, name: &str) -> Option<Known> {
        config.set("name", NvValue::String(name.as_bytes().to_vec()));
        let known = Known::new(config)?;
        Some(known.marked(self.altroot.as_deref(), false))
    }
}
