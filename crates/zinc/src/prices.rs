//! What requests and bytes of stores cost a user.

use crate::failure::Failure;
use crate::session::Session;
use engine::devices::price::Prices;
use engine::devices::read_text;
use std::path::{Path, PathBuf};

/// Bytes of a file of prices at most.
const PRICES_MAX: u64 = 1 << 20;

/// The prices of a file, of that of the environment, or Amazon's.
pub fn prices(session: &Session, file: Option<&Path>) -> Result<Prices, Failure> {
    // A server opens no file that another user names.
    let usual = (!session.is_for_another_user()).then(|| session.variable("ZINC_PRICES")).flatten();
    let usual = || usual.filter(|v| !v.is_empty()).map(PathBuf::from);
    let Some(file) = file.map(Path::to_owned).or_else(usual) else { return Ok(Prices::default()) };
    let file = session.path(&file);
    let fail = |why| Failure::new(format!("no prices in {}", file.display())).because(why);
    let text = read_text(&file, PRICES_MAX).map_err(|e| fail(e.to_string()))?;
    Prices::parse(&text).map_err(fail)
}

/// The usual prices, where they are shown.
pub fn prices_if(session: &Session, are_shown: bool) -> Result<Prices, Failure> {
    if are_shown { prices(session, None) } else { Ok(Prices::default()) }
}
