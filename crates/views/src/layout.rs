//! The layout of a new pool, as `zpool create -n` shows it.

use engine::layout::Layout;
use engine::live::{SpaceClass, VdevSpec};
use std::fmt::Write as _;

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
