//! Files of txg records: a line of JSON for each, appended by every verb that was given the file.

use crate::failure::Failure;
use crate::session::Session;
use engine::LivePool;
use std::io::Write as _;
use std::path::Path;
pub use views::txg_lines::Line;
use views::txg_lines::{lines, parse, text};

/// Longest file that is read, in bytes.
const TEXT_MAX: u64 = 1 << 30;

/// That such a file can be written is found out before the work that it will be about.
pub fn check(session: &Session, path: &Path) -> Result<(), Failure> {
    crate::target::append(session, path).map(drop)
}

/// Appends what the last txgs of a pool did.
pub fn append(session: &Session, path: &Path, pool: &LivePool) -> Result<(), Failure> {
    let (now, wall) = (pool.rt().now(), pool.rt().wall());
    let text = text(&lines(pool.name(), pool.txgs(), now, wall));
    crate::target::append(session, path)?.write_all(text.as_bytes()).map_err(|e| {
        Failure::new(format!("cannot write to {}", path.display())).because(e.to_string())
    })
}

/// Reads such a file, of one pool or of all.
pub fn read(path: &Path, pool: Option<&str>) -> Result<Vec<Line>, Failure> {
    let shown = path.display();
    let text = engine::devices::read_text(path, TEXT_MAX)
        .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
    parse(&text, pool).map_err(|(n, e)| {
        Failure::new(format!("{shown}, line {n}: no record of a txg"))
            .because(e.to_string())
            .hint("--txgs-log FILE writes such files")
    })
}
