//! The layout of a new pool, as `zpool create -n` shows it.

use engine::layout::{Layout, LayoutFault, Level, Mismatch};
use engine::live::{SpaceClass, VdevSpec};
use std::fmt::Write as _;

/// What is wrong with the words of a layout, in those of OpenZFS.
#[must_use]
pub fn fault(fault: &LayoutFault) -> String {
    match fault {
        LayoutFault::Twice(word) => format!("'{word}' can be specified only once"),
        LayoutFault::NoDevices(word) => format!("{word} requires at least 1 device"),
        LayoutFault::TooFew { kind, least } => format!("{kind} requires at least {least} devices"),
        LayoutFault::WrongClass { class, kind } => {
            format!("unsupported '{}' device: {kind}", class.name())
        }
        LayoutFault::DraidWord(word) => {
            format!("invalid dRAID syntax; expected [:<number><c|d|s>] not '{word}'")
        }
        LayoutFault::DraidChildren { wanted, given } => {
            format!("invalid number of dRAID children; {wanted} required but {given} provided")
        }
        LayoutFault::DraidNoData { parity, spares } => format!(
            "request number of distributed spares {spares} and parity level {parity} leaves \
                 no disks available for data"
        ),
        LayoutFault::DraidData { data, left } => format!(
            "requested number of dRAID data disks per group {data} is too high, at most \
                 {left} disks are available for data"
        ),
        LayoutFault::DraidSpares(spares) => {
            format!("invalid number of dRAID spares {spares}; additional disks would be required")
        }
        LayoutFault::DraidDevices(given) => format!(
            "{given} disks were provided, but dRAID only supports up to 255 \
                 disks"
        ),
        LayoutFault::SameDevice(a, b) => {
            let both = if a == b { String::new() } else { format!(" and '{b}'") };
            format!("one or more vdevs refer to the same device: '{a}'{both}")
        }
        other => other.to_string(),
    }
}

/// What of a layout is likely to be a mistake, in the words of OpenZFS, which names a vdev with
/// parity without its number.
#[must_use]
pub fn mismatch(why: Mismatch) -> String {
    const LEVEL: &str = "mismatched replication level";
    match why {
        Mismatch::FilesAndDisks(of) => {
            format!("{LEVEL}: {} contains both files and devices", of.kind())
        }
        Mismatch::Sizes(of) => format!("{} contains devices of different sizes", of.kind()),
        Mismatch::Levels(a, b) => format!("{LEVEL}: {} are present", difference(a, b)),
        Mismatch::WithPool { pool, new } => format!("{LEVEL}: {}", and_new(pool, new)),
        other => other.to_string(),
    }
}

/// Two new ones, by that in which they differ.
fn difference(one: Level, other: Level) -> String {
    if let Some((parity, mirror, n)) = one.parity_and_mirror(other) {
        let (kind, a, b) = (parity.kind(), parity.redundancy(), mirror.redundancy());
        return format!("{kind} and mirror vdevs with different redundancy, {a} vs. {b} ({n}-way)");
    }
    let (a, b) = (one.kind(), other.kind());
    match (one, other) {
        (Level::Mirror(n), Level::Mirror(m)) => format!("both {n}-way and {m}-way mirror vdevs"),
        _ if one.has_parity() && other.has_parity() => {
            let (p, q) = (one.redundancy(), other.redundancy());
            format!("{a} and {b} vdevs with different redundancy, {p} vs. {q}")
        }
        _ => format!("both {a} and {b} vdevs"),
    }
}

/// One that is there and a new one, by that in which they differ.
fn and_new(pool: Level, new: Level) -> String {
    if let Some((parity, mirror, n)) = pool.parity_and_mirror(new) {
        let (kind, a, b) = (parity.kind(), parity.redundancy(), mirror.redundancy());
        return format!(
            "pool and new vdev with different redundancy, {kind} and mirror vdevs, \
             {a} vs. {b} ({n}-way)"
        );
    }
    match (pool, new) {
        (Level::Raidz(p, _), Level::Raidz(q, _)) | (Level::Draid(p, _), Level::Draid(q, _))
            if p != q =>
        {
            format!("pool uses {p} device parity and new vdev uses {q}")
        }
        (Level::Mirror(a), Level::Mirror(b))
        | (Level::Raidz(_, a), Level::Raidz(_, b))
        | (Level::Draid(_, a), Level::Draid(_, b)) => {
            let kind = pool.kind();
            format!("pool uses {a}-way {kind} and new vdev uses {b}-way {kind}")
        }
        _ => format!("pool uses {} and new vdev is {}", pool.kind(), new.kind()),
    }
}

/// As `zpool create -n` shows it, under the name of the pool. `present` is what an `add` adds
/// to, printed before its own class; `aux` the cache devices and spares that are there.
#[must_use]
pub fn text(
    layout: &Layout,
    pool: &str,
    present: &[(SpaceClass, String)],
    aux: &[Vec<String>; 2],
) -> String {
    let mut out = format!("\t{pool}\n");
    let classes = [
        (SpaceClass::Normal, ""),
        (SpaceClass::Dedup, "dedup"),
        (SpaceClass::Special, "special"),
        (SpaceClass::Log, "logs"),
    ];
    for (class, heading) in classes {
        let mut text = String::new();
        present.iter().filter(|(c, _)| *c == class).for_each(|(_, t)| text.push_str(t));
        for top in layout.tops.iter().filter(|t| t.class == class) {
            tree(&mut text, &top.spec, 2);
        }
        if !text.is_empty() && !heading.is_empty() {
            let _ = writeln!(out, "\t{heading}");
        }
        out.push_str(&text);
    }
    let sections = [("cache", &layout.cache), ("spares", &layout.spares)];
    for ((heading, specs), there) in sections.into_iter().zip(aux) {
        if !specs.is_empty() || !there.is_empty() {
            let _ = writeln!(out, "\t{heading}");
        }
        there.iter().for_each(|path| out.push_str(&line(2, path)));
        specs.iter().for_each(|s| tree(&mut out, s, 2));
    }
    out
}

/// The output of `zpool split -n`: the new pool and its devices.
#[must_use]
pub fn split(pool: &str, devices: &[String]) -> String {
    let devices: String = devices.iter().map(|path| line(2, path)).collect();
    format!("would create '{pool}' with the following layout:\n\n\t{pool}\n{devices}")
}

/// A line of the layout of a pool; a disk is shown without its directory, a file with it.
#[must_use]
pub fn line(indent: usize, text: &str) -> String {
    format!("\t{:indent$}{}\n", "", shown(text))
}

fn shown(path: &str) -> &str {
    path.strip_prefix("/dev/").unwrap_or(path)
}

fn tree(out: &mut String, spec: &VdevSpec, indent: usize) {
    match spec {
        VdevSpec::Leaf { path, .. } => out.push_str(&line(indent, path)),
        VdevSpec::Mirror(children)
        | VdevSpec::Raidz { children, .. }
        | VdevSpec::Draid { children, .. } => {
            out.push_str(&line(indent, &spec.kind_name()));
            children.iter().for_each(|c| tree(out, c, indent + 2));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use engine::live::NewTop;

    #[test]
    fn vdevs_that_do_not_go_together_are_told_apart_as_zpool_create_does() {
        let (single, disk) = (Level::Single { is_file: true }, Level::Single { is_file: false });
        let bad = [
            (
                Level::Draid(1, 3),
                Level::Draid(2, 4),
                "draid and draid vdevs with different redundancy, 1 vs. 2",
            ),
            (
                Level::Raidz(1, 3),
                Level::Draid(2, 4),
                "raidz and draid vdevs with different redundancy, 1 vs. 2",
            ),
            (
                Level::Mirror(2),
                Level::Raidz(2, 3),
                "raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way)",
            ),
            (
                Level::Draid(1, 3),
                Level::Mirror(3),
                "draid and mirror vdevs with different redundancy, 1 vs. 2 (3-way)",
            ),
            (Level::Mirror(2), Level::Mirror(3), "both 2-way and 3-way mirror vdevs"),
            (single, Level::Mirror(2), "both file and mirror vdevs"),
            (disk, Level::Raidz(1, 3), "both disk and raidz vdevs"),
            (disk, single, "both disk and file vdevs"),
        ];
        for (a, b, message) in bad {
            let expected = format!("mismatched replication level: {message} are present");
            assert_eq!(mismatch(Mismatch::Levels(a, b)), expected);
        }
    }

    #[test]
    fn new_vdevs_that_do_not_fit_the_pool_are_told_apart_as_zpool_add_does() {
        let (single, raidz) = (Level::Single { is_file: true }, Level::Raidz(1, 3));
        let bad = [
            (raidz, Level::Raidz(1, 4), "pool uses 3-way raidz and new vdev uses 4-way raidz"),
            (raidz, Level::Raidz(2, 4), "pool uses 1 device parity and new vdev uses 2"),
            (raidz, Level::Draid(1, 4), "pool uses raidz and new vdev is draid"),
            (
                raidz,
                Level::Mirror(3),
                "pool and new vdev with different redundancy, \
                 raidz and mirror vdevs, 1 vs. 2 (3-way)",
            ),
            (raidz, single, "pool uses raidz and new vdev is file"),
            (
                Level::Mirror(2),
                Level::Mirror(3),
                "pool uses 2-way mirror and new vdev uses 3-way mirror",
            ),
            (
                Level::Mirror(2),
                Level::Draid(2, 4),
                "pool and new vdev with different redundancy, \
                 draid and mirror vdevs, 2 vs. 1 (2-way)",
            ),
            (
                Level::Draid(1, 3),
                Level::Draid(2, 4),
                "pool uses 1 device parity and new vdev uses 2",
            ),
            (single, Level::Mirror(2), "pool uses file and new vdev is mirror"),
        ];
        for (pool, new, message) in bad {
            let expected = format!("mismatched replication level: {message}");
            assert_eq!(mismatch(Mismatch::WithPool { pool, new }), expected);
        }
    }

    #[test]
    fn faults_of_layouts_have_openzfs_s_words() {
        let few = LayoutFault::TooFew { kind: "mirror".to_owned(), least: 2 };
        assert_eq!(fault(&few), "mirror requires at least 2 devices");
        let twice = LayoutFault::SameDevice("a".to_owned(), "a".to_owned());
        assert_eq!(fault(&twice), "one or more vdevs refer to the same device: 'a'");
        assert_eq!(fault(&LayoutFault::NotUtf8), "paths of devices are UTF-8");
    }

    #[test]
    fn sections_stand_in_the_order_of_openzfs() {
        let leaf = |path: &str| VdevSpec::Leaf { path: path.to_owned(), is_file: true };
        let top = |path, class| NewTop { spec: leaf(path), class };
        let layout = Layout {
            tops: vec![top("/a", SpaceClass::Log), top("/dev/b", SpaceClass::Normal)],
            spares: vec![leaf("/c")],
            cache: vec![leaf("/d")],
        };
        let all = text(&layout, "tank", &[], &Default::default());
        let words: Vec<&str> = all.split_whitespace().collect();
        assert_eq!(words, ["tank", "b", "logs", "/a", "cache", "/d", "spares", "/c"]);
    }
}
