//! Properties that zinc keeps for others and does not act on itself.
//!
//! A user that sets `dedup=on` expects that data is deduplicated from now on. If zinc does not
//! implement a value, it stores it, for OpenZFS acts on it, and prints a note.

use engine::props;

/// A property that zinc does not act on.
struct StoredOnly {
    name: &'static str,
    /// Values that ask for nothing that zinc does not do.
    fulfilled: &'static [&'static str],
    /// The behaviour of zinc, whatever the value.
    instead: &'static str,
}

const fn kept(
    name: &'static str,
    fulfilled: &'static [&'static str],
    instead: &'static str,
) -> StoredOnly {
    StoredOnly { name, fulfilled, instead }
}

const SNAPSHOTS: &str = "`zinc zfs list` shows snapshots with -t snapshot or -t all";
const NO_SELINUX: &str = "zinc mounts without contexts of SELinux";
const NAMED_VOLUMES: &str = "zinc exports the volumes and snapshots that are named";

#[rustfmt::skip]
const DATASETS: [StoredOnly; 21] = [
    kept("aclinherit", &["discard", "restricted", "secure"],
        "zinc sets the access list of a new file from its mode"),
    kept("aclmode", &["discard"], "zinc discards an access list when the mode is changed"),
    kept("acltype", &["off", "disabled", "noacl", "posix", "posixacl"],
        "zinc has POSIX access lists alone"),
    kept("context", &["none"], NO_SELINUX),
    kept("dedup", &["off"], "zinc deduplicates nothing that it writes"),
    kept("defcontext", &["none"], NO_SELINUX),
    kept("direct", &["standard"], "zinc does no direct I/O of files"),
    kept("fscontext", &["none"], NO_SELINUX),
    kept("mlslabel", &["none"], "zinc compares no sensitivity labels"),
    kept("nbmand", &["off"], "zinc has no mandatory locks"),
    kept("prefetch", &["all"], "zinc reads ahead of all datasets alike"),
    kept("primarycache", &["all"], "zinc caches all datasets alike"),
    kept("rootcontext", &["none"], NO_SELINUX),
    kept("secondarycache", &["all"], "zinc does not use cache devices"),
    kept("sharenfs", &["off"], "zinc shares nothing over NFS"),
    kept("sharesmb", &["off"], "zinc shares nothing over SMB"),
    kept("snapdev", &["hidden"], NAMED_VOLUMES),
    kept("volmode", &["default"], NAMED_VOLUMES),
    kept("volthreading", &["on"], "zinc carries out requests to a volume side by side"),
    kept("vscan", &["off"], "zinc does not have files scanned for viruses"),
    kept("zoned", &["off"], "zinc gives no dataset to a zone or container"),
];

#[rustfmt::skip]
const POOLS: [StoredOnly; 1] = [
    kept("listsnapshots", &["off"], SNAPSHOTS),
];

const RETIRES_NONE: &str = "zinc has its own rules for taking a device out of use";
const VDEVS: [StoredOnly; 1] = [kept("failfast", &["on"], RETIRES_NONE)];

/// The note for a setting that is only stored; `None` for one that zinc acts on.
#[must_use]
pub fn note(name: &str, value: &str) -> Option<String> {
    // A column's heading is a name of a pool's property too, unless a dataset's has that name.
    let found = match props::find(&props::DATASET, name) {
        Some(property) => DATASETS.iter().find(|k| k.name == property.name),
        None => match props::find_pool(name) {
            Some(property) => POOLS.iter().find(|k| k.name == property.name),
            None => VDEVS.iter().find(|k| k.name == name),
        },
    };
    let kept = found.filter(|k| !k.fulfilled.contains(&value))?;
    Some(format!("'{name}={value}' is kept for other systems: {}", kept.instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use props::Access;

    /// Properties that can be changed and that zinc acts on, or refuses, or that are facts for
    /// their reader.
    const ACTED_ON: &str = "quota reservation volsize volblocksize recordsize mountpoint checksum \
        compression atime devices exec setuid readonly snapdir canmount xattr copies version \
        utf8only normalization casesensitivity refquota refreservation logbias sync dnodesize \
        filesystem_limit snapshot_limit relatime redundant_metadata overlay encryption \
        keylocation keyformat pbkdf2iters special_small_blocks longname";
    const ACTED_ON_OF_POOLS: &str = "altroot autoexpand autoreplace bootfs cachefile \
        delegation failmode readonly ashift comment multihost autotrim compatibility version \
        dedup_table_quota";

    const ACTED_ON_OF_VDEVS: &str =
        "comment path allocating io_n io_t checksum_n checksum_t slow_io_n slow_io_t";

    /// Every property that a user can set is on exactly one of the lists.
    fn every_one_is_known(properties: &[props::PropertyDesc], kept: &[StoredOnly], acted_on: &str) {
        let acted_on: Vec<&str> = acted_on.split_whitespace().collect();
        for property in properties {
            let listed = acted_on.iter().filter(|n| **n == property.name).count()
                + kept.iter().filter(|k| k.name == property.name).count();
            let can_be_set = !matches!(property.access, Access::ReadOnly)
                && !matches!(property.shown, props::ListAlignment::Hidden);
            assert_eq!(listed, usize::from(can_be_set), "{}", property.name);
        }
        for name in acted_on.into_iter().chain(kept.iter().map(|k| k.name)) {
            assert!(properties.iter().any(|p| p.name == name), "{name} is not a property");
        }
    }

    #[test]
    fn every_property_is_acted_on_or_said_to_be_kept() {
        every_one_is_known(&props::DATASET, &DATASETS, ACTED_ON);
        every_one_is_known(&props::POOL, &POOLS, ACTED_ON_OF_POOLS);
        every_one_is_known(&props::VDEV, &VDEVS, ACTED_ON_OF_VDEVS);
    }

    #[test]
    fn a_value_that_asks_for_nothing_more_is_no_news() {
        for kept in DATASETS.iter().chain(&POOLS).chain(&VDEVS) {
            for value in kept.fulfilled {
                assert_eq!(note(kept.name, value), None);
            }
        }
        assert_eq!(note("compression", "lz4"), None);
        assert_eq!(note("org:mine", "dedup"), None);
        let message = note("sharenfs", "rw=host").unwrap();
        assert_eq!(
            message,
            "'sharenfs=rw=host' is kept for other systems: zinc shares nothing over NFS"
        );
        // A heading of `zpool list` names the property too.
        assert!(note("listsnaps", "on").unwrap().ends_with(SNAPSHOTS));
    }
}
