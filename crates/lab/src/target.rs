//! Where an experiment runs.

use crate::disk::{self, Preset};
use crate::error::LabError;
use crate::raw_disk::{Access, FileDisk};
use engine::live::LivePool;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where an experiment runs.
#[derive(Clone, Debug)]
pub enum Target {
    /// On simulated disks in virtual time: of this kind, or of the experiment's own.
    Sim(Option<Box<Preset>>),
    /// On a disk or file, whose data it may destroy only with this option.
    Device {
        /// The disk or file.
        path: PathBuf,
        /// What is on it may be destroyed.
        destroy: bool,
    },
    /// In a pool.
    Pool(PoolTarget),
}

/// Opens a pool, lets a function work in it, and leaves it as it was.
pub type WithPool =
    dyn Fn(&mut dyn FnMut(&LivePool) -> Result<(), LabError>) -> Result<(), LabError> + Send + Sync;

/// A pool to run in.
#[derive(Clone)]
pub struct PoolTarget {
    /// The pool's name, or that of a dataset in it: what is made is made below.
    pub dataset: String,
    /// Opens it.
    pub open: Arc<WithPool>,
}

impl PoolTarget {
    /// Lets `act` work in the pool.
    ///
    /// # Errors
    /// When the pool cannot be opened or closed, or as `act`.
    pub fn with(
        &self,
        act: &mut dyn FnMut(&LivePool) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        (self.open)(act)
    }
}

impl fmt::Debug for PoolTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolTarget").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

impl Target {
    /// Simulated disks: what `--sim` says, nothing, the name of a preset, or a file that holds one.
    ///
    /// # Errors
    /// When there is no such preset, or the file cannot be read as one.
    pub fn sim(preset: &str) -> Result<Self, LabError> {
        if preset.is_empty() {
            return Ok(Self::Sim(None));
        }
        if let Some(preset) = disk::preset(preset) {
            return Ok(Self::Sim(Some(Box::new(preset))));
        }
        let path = Path::new(preset);
        if !path.exists() {
            return Err(LabError::new(format!("no simulated disk {preset:?}"), "no such preset")
                .hint("`zinc lab presets` lists them; a file that `zinc lab fit` wrote does too"));
        }
        let text = engine::devices::open_input(path).and_then(std::io::read_to_string);
        let text = text.map_err(|e| LabError::new(format!("cannot read {preset}"), e))?;
        let preset: Preset = serde_json::from_str(&text)
            .map_err(|e| LabError::new(format!("{preset} holds no preset"), e))?;
        preset.check()?;
        Ok(Self::Sim(Some(Box::new(preset))))
    }

    /// What to know of a device before its figures are believed, as a text of an outcome.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn caveats(&self) -> Result<Vec<(String, String)>, LabError> {
        let Self::Device { path, .. } = self else { return Ok(Vec::new()) };
        let caveats = FileDisk::open(path, Access::Read)?.caveats();
        let text = |caveats: Vec<&str>| ("Take care".to_owned(), caveats.join("\n") + "\n");
        Ok((!caveats.is_empty()).then(|| text(caveats)).into_iter().collect())
    }
}
