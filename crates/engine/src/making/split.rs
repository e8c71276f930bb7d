//! One side of each mirror becomes a pool of its own.

use crate::error::Result;
use crate::properties::pool::PoolSetting;
use pool::live::LivePool;

/// Makes a pool of these sides ([`DeviceNames::sides_to_split`]), with these properties. It is
/// open; the other goes on without them. The properties are those of the new pool alone, so that
/// they are set when it is there: when one cannot be set, the pools are two all the same, and the
/// new one is exported.
///
/// [`DeviceNames::sides_to_split`]: crate::pools::DeviceNames::sides_to_split
///
/// # Errors
/// Those of [`LivePool::split`], and of [`PoolSetting::store`].
pub fn split(
    pool: &LivePool,
    name: &str,
    sides: &[u64],
    settings: impl IntoIterator<Item = PoolSetting>,
) -> Result<LivePool> {
    let new = pool.split(name, sides)?;
    match settings.into_iter().try_for_each(|setting| setting.store(&new)) {
        Ok(()) => Ok(new),
        Err(why) => {
            // It is what cannot be set that is of interest.
            let _ = new.export();
            Err(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::AnyDevices;
    use crate::pools::DeviceNames;
    use crate::properties::pool::parse;
    use crate::{NewPool, OpenOptions, Pool};

    #[test]
    fn a_side_of_a_mirror_becomes_a_pool_with_its_properties() {
        let folder = tempfile::tempdir().expect("folder");
        let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
        let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20).expect("mirror");
        let pool = pool.create().expect("create");
        let here = folder.path().to_owned();
        let names = DeviceNames { path_of: &|n| here.join(n), source: &AnyDevices::default() };
        let missing = names.sides_to_split(&pool, &["c.img".to_owned()]).expect_err("no device");
        assert_eq!(missing.operand(), Some("c.img"));
        let sides = names.sides_to_split(&pool, &["a.img".to_owned()]).expect("sides");
        let comment = parse("comment", "split off").expect("comment");
        split(&pool, "half", &sides, [comment]).expect("split").export().expect("export");
        pool.export().expect("export");

        let half = Pool::open("half", &OpenOptions::in_places([&a])).expect("open");
        let properties = half.properties(&half.space());
        let comment = properties.iter().find(|p| p.name == "comment").expect("comment");
        assert_eq!(comment.value, "split off");
        assert!(Pool::open("tank", &OpenOptions::in_places([&b])).is_ok());
    }
}
