//! The later fields of a directory, which are a table in its own object, of which a part cannot be
//! read.
//!
//! ```text
//! the key                  nothing else leads to it: what is encrypted stays as it is
//! counts below             counted again, where they are kept
//! when snapshots changed   lost
//! the livelist of a clone  lost, and with it only a quicker way to destroy the clone
//! ```

use dmu::Zap;
use dsl::{Dataset, Dir, Dsl};
use ondisk::dsl::dir_field::{CRYPTO_KEY_OBJ, FILESYSTEM_COUNT, LIVELIST, SNAPSHOT_COUNT};
use pool::Pool;
use pool::UnguardedDatasets as _;

/// Properties by which things are counted in a directory.
const LIMITS: [&str; 2] = ["filesystem_limit", "snapshot_limit"];

/// The fields of a directory that are rebuilt.
pub(crate) struct Fields {
    /// Which it is, and what of it is lost.
    pub(crate) what: String,
    /// The recomputed fields.
    pub(crate) known: Vec<(String, u64)>,
}

/// A field that can be read.
fn field(dsl: &Dsl, dir: &Dir, name: &str) -> Option<u64> {
    dsl.fields(dir.object, dir.has_fields).ok()??.get_u64(name).ok()?
}

/// `None`: the key is lost, or may be. `datasets` are all of the pool.
pub(crate) fn known(
    pool: &Pool,
    number: u64,
    mut datasets: impl Iterator<Item = Dataset>,
) -> Option<Fields> {
    let dsl = pool.dsl();
    let name = dsl.dir_name(number).unwrap_or_else(|_| format!("directory {number}"));
    let dir = dsl.dir(number, name).ok()?;
    let head = datasets.find(|d| d.object == dir.phys.head_dataset)?;
    if head.phys.bp.uses_crypt() && field(dsl, &dir, CRYPTO_KEY_OBJ).is_none() {
        return None;
    }
    let mut lost = "when its snapshots changed last is lost".to_owned();
    let is_clone = dsl.origin(&dir).is_ok_and(|origin| origin.is_some());
    if is_clone && field(dsl, &dir, LIVELIST).is_none() {
        lost.push_str(", and its livelist");
    }
    let what = format!("the later fields of {} (object {number} of the MOS; {lost})", dir.name);
    let counts = counts(dsl, &dir).into_iter().flatten();
    let missing = counts.filter(|(name, _)| field(dsl, &dir, name).is_none());
    Some(Fields { what, known: missing.map(|(name, n)| (name.to_owned(), n)).collect() })
}

/// The counts of file systems and snapshots below a directory, where such are kept; `None` also if
/// not all datasets below can be read. OpenZFS recounts a directory that has no count.
fn counts(dsl: &Dsl, dir: &Dir) -> Option<[(&'static str, u64); 2]> {
    let parent = dsl.dir(dir.phys.parent, String::new()).ok();
    let is_counted = parent.is_some_and(|p| field(dsl, &p, FILESYSTEM_COUNT).is_some());
    let props = dsl.mos().object(dir.phys.props_zap).and_then(|o| Zap::open(&o)).ok();
    let has = |limit| props.as_ref().is_some_and(|p| matches!(p.get_u64(limit), Ok(Some(_))));
    if !is_counted && !LIMITS.into_iter().any(has) {
        return None;
    }
    let below = format!("{}/", dsl.dir_name(dir.object).ok()?);
    let (mut filesystems, mut snapshots) = (0, 0);
    for (_, found) in dsl.walk() {
        let found = found.ok()?;
        let is_below = found.name.starts_with(&below);
        filesystems += u64::from(is_below);
        if is_below || found.object == dir.object {
            let head = dsl.head(&found).ok()??;
            snapshots += dsl.snapshots(&head).ok()?.len() as u64;
        }
    }
    Some([(FILESYSTEM_COUNT, filesystems), (SNAPSHOT_COUNT, snapshots)])
}
