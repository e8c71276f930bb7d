//! Pool properties as they are set: `-o ashift=12 -o comment=text -o feature@x=enabled`.

use crate::args::divide;
use crate::failure::Failure;
use engine::Error;
use engine::live::StoredPropertyValue;
use engine::properties::pool;
pub use engine::properties::pool::PoolSetting;
use engine::properties::vdev::{self, VdevSetting};
pub use imported::CacheEntryOptions;
use imported::{Cachefile, InvalidPath};

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
        PoolSetting::Stored("compatibility", StoredPropertyValue::Text(value)) => {
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
            _ => return Err(Failure::refused(doing, "only 'ashift' can be given")),
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
    let failure = Failure::refused(doing, what);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Where the pool is remembered, by the value of `cachefile`.
pub fn cachefile(doing: &str, value: &str) -> Result<Cachefile, Failure> {
    Cachefile::parse(value).ok_or_else(|| bad(doing, InvalidPath::Cachefile(value.to_owned())))
}

fn bad(doing: &str, place: InvalidPath) -> Failure {
    match place {
        InvalidPath::Cachefile(value) => {
            Failure::new(format!("{doing}: cachefile property '{value}' is invalid"))
                .hint("it is an absolute path, 'none', or empty for the default file")
        }
        InvalidPath::Altroot(path) => Failure::new(format!("{doing}: bad alternate root '{path}'"))
            .hint("it is an absolute path"),
    }
}

/// [`CacheEntryOptions::of`]; `doing` begins the message when a place is none.
pub fn remembered(
    doing: &str,
    settings: &[PoolSetting],
    root: Option<&str>,
    is_passing: bool,
) -> Result<CacheEntryOptions, Failure> {
    CacheEntryOptions::of(settings, root, is_passing).map_err(|place| bad(doing, place))
}
