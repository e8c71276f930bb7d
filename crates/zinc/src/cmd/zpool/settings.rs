//! Pool properties as they are set: `-o ashift=12 -o comment=text -o feature@x=enabled`.

use crate::args::divide;
use crate::failure::Failure;
use crate::known;
use crate::session::Session;
use engine::Error;
use engine::config::{NvList, NvValue};
use engine::live::PropertyWord;
use engine::properties::pool;
pub use engine::properties::pool::PoolSetting;
use engine::properties::vdev::{self, VdevSetting};
use imported::{Cachefile, EarlierState, Known};

/// Reads all of a command line; a property is given once. `doing` begins the message when one is
/// malformed.
pub fn parse_all(doing: &str, texts: &[String]) -> Result<Vec<PoolSetting>, Failure> {
    let settings = texts.iter().map(|text| divide(text)).collect::<Result<Vec<_>, _>>()?;
    let settings = pool::parse_all(settings).map_err(|e| wrong(doing, &e))?;
    settings.iter().try_for_each(|setting| check_set(doing, setting))?;
    Ok(settings)
}

/// Refuses files of features that cannot be read.
fn check_set(doing: &str, setting: &PoolSetting) -> Result<(), Failure> {
    match setting {
        PoolSetting::Stored("compatibility", PropertyWord::Text(value)) => {
            let why = hostfs::compatibility::read(value).err();
            why.map_or(Ok(()), |why| Err(Failure::new(doing).because(why)))
        }
        _ => Ok(()),
    }
}

/// Reads one `name=value`.
pub fn parse(doing: &str, text: &str) -> Result<PoolSetting, Failure> {
    let (name, value) = divide(text)?;
    let setting = pool::parse(name, value).map_err(|e| wrong(doing, &e))?;
    check_set(doing, &setting)?;
    Ok(setting)
}

/// Reads the sector size of new devices, the only property that these texts may be.
pub fn ashift(doing: &str, texts: &[String]) -> Result<Option<u32>, Failure> {
    let mut out = None;
    for text in texts {
        match parse(doing, text)? {
            PoolSetting::Ashift(n) => out = (n != 0).then_some(n),
            _ => return Err(Failure::new(format!("{doing}: only 'ashift' can be given"))),
        }
    }
    Ok(out)
}

/// Reads one `name=value` of a vdev.
pub fn parse_of_vdev(doing: &str, text: &str) -> Result<VdevSetting, Failure> {
    let (name, value) = divide(text)?;
    vdev::parse(name, value).map_err(|e| wrong(doing, &e))
}

/// Why a property is not set so, and what to do.
fn wrong(doing: &str, error: &Error) -> Failure {
    let (what, hint) = views::pool_settings::wrong(error);
    let failure = Failure::new(format!("{doing}: {what}"));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Where the pool is remembered, by the value of `cachefile`.
pub fn cachefile(doing: &str, value: &str) -> Result<Cachefile, Failure> {
    Cachefile::parse(value).ok_or_else(|| {
        Failure::new(format!("{doing}: cachefile property '{value}' is invalid"))
            .hint("it is an absolute path, or 'none', or nothing for the usual file")
    })
}

/// Reads the folder below which mount points are shown.
pub fn altroot(doing: &str, path: &str) -> Result<String, Failure> {
    match path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => Err(no_altroot(doing, path)),
    }
}

fn no_altroot(doing: &str, path: &str) -> Failure {
    Failure::new(format!("{doing}: bad alternate root '{path}'")).hint("it is an absolute path")
}

/// What is remembered of an import, apart from the pool itself.
#[derive(Default)]
pub struct Remembered {
    pub altroot: Option<String>,
    pub cachefile: Cachefile,
    pub readonly: bool,
    /// What is read of a pool that is only read.
    pub state: Option<EarlierState>,
}

impl Remembered {
    /// As these settings say, `-R ROOT`, and whether the pool's name is for this time only: what
    /// only holds for now is not remembered for ever, unless that is asked for.
    pub fn of(
        doing: &str,
        settings: &[PoolSetting],
        root: Option<&str>,
        is_passing: bool,
    ) -> Result<Self, Failure> {
        let mut out = Self::default();
        let mut place = None;
        out.altroot = root.map(|root| altroot(doing, root)).transpose()?;
        for setting in settings {
            match setting {
                PoolSetting::Altroot(path) => out.altroot = Some(path.clone()),
                PoolSetting::Cachefile(text) => place = Some(cachefile(doing, text)?),
                PoolSetting::ReadOnly(readonly) => out.readonly = *readonly,
                _ => {}
            }
        }
        let is_passing = is_passing || out.altroot.is_some();
        let usual = if is_passing { Cachefile::None } else { Cachefile::Usual };
        out.cachefile = place.unwrap_or(usual);
        Ok(out)
    }

    /// Remembers a pool of this configuration under this name; `doing` begins the message when that
    /// fails.
    pub fn remember(
        &self,
        session: &Session,
        doing: &str,
        mut config: NvList,
        name: &str,
    ) -> Result<(), Failure> {
        config.set("name", NvValue::String(name.as_bytes().to_vec()));
        // A configuration that was just made can be read.
        let Some(known) = Known::new(config) else { return Ok(()) };
        let known = known.marked(self.altroot.as_deref(), self.readonly).with_state(self.state);
        let fail = |why: imported::Error| known::not_remembered(doing, &self.cachefile, &why);
        known::pools(session).remember(&known, &self.cachefile).map_err(fail)
    }
}
