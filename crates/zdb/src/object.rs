//! `zdb -d`, one object: the dnode, what its bonus and its data mean, its blocks.
//!
//! | level | what is said of an object |
//! | --- | --- |
//! | 1 to 3 | one line: levels, block sizes, space, how full, type |
//! | 4 | flags, the bonus decoded, the data decoded when it is a structure |
//! | 5 | every block pointer, the stored ranges, entries of lists and space maps |
//! | 6 | all copies in block pointers, algorithms of the dnode, arrays of words |

use super::context::Context;
use super::dump::Dump;
use super::{bonus, data, show, tree};
use engine::inside::dmu::Object;
use engine::inside::ondisk::dnode::{
    FLAG_SPILL, FLAG_USED_BYTES, FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED,
};
use engine::inside::ondisk::{Checksum, Compression, DmuType};

/// Prints the headings of the columns.
pub(crate) fn heading(d: &mut Dump) {
    d.blank();
    d.note("    Object  lvl   iblk   dblk  dsize  dnsize  lsize   %full  type");
}

/// Prints an object.
pub(crate) fn dump(d: &mut Dump, cx: &Context, object: &Object) {
    d.open_flat("objects");
    line(d, cx, object);
    if cx.level >= 4 {
        details(d, cx, object);
    }
    d.close_flat();
}

/// Share of the blocks that are filled, in percent.
fn full(object: &Object) -> f64 {
    let dnode = object.dnode();
    let fill = dnode
        .blkptrs
        .iter()
        .fold(0u64, |sum, bp| sum.saturating_add(if bp.is_hole() { 0 } else { bp.fill() }));
    let all = object.size_of_blocks();
    if all == 0 {
        return 0.0;
    }
    // Of the array of dnodes the fill counts dnodes.
    let per_block = if object.number() == 0 { dnode.block_size() as f64 / 512.0 } else { 1.0 };
    100.0 * fill as f64 * dnode.block_size() as f64 / per_block.max(1.0) / all as f64
}

fn line(d: &mut Dump, cx: &Context, object: &Object) {
    let dnode = object.dnode();
    let number = object.number().cast_signed();
    let indirect = 1u64 << dnode.indirect_shift;
    let (used, size) = (dnode.used_bytes(), object.size_of_blocks());
    let used = used.saturating_add(256) & !511;
    for (name, value) in [
        ("indirect_size", indirect),
        ("block_size", dnode.block_size()),
        ("used", dnode.used_bytes()),
        ("dnode_size", dnode.size() as u64),
        ("size", size),
        ("levels", dnode.levels.into()),
        ("bonus_size", dnode.bonus.len() as u64),
    ] {
        d.hold(name, value);
    }
    d.hold("object", number);
    d.hold("full", full(object));
    d.hold("type", dnode.kind.to_string());
    d.hold("type_number", dnode.kind.0);
    d.hold("bonus_type", dnode.bonus_kind.to_string());
    d.hold("checksum", dnode.checksum.to_string());
    d.hold("compression", show::compression(dnode.compression));
    d.note(format_args!(
        "{number:10}  {:3}  {:>5}  {:>5}  {:>5}  {:>6}  {:>5}  {:>6.2}  {}{}",
        dnode.levels,
        d_nice(d, indirect),
        d_nice(d, dnode.block_size()),
        d_nice(d, used),
        d_nice(d, dnode.size() as u64),
        d_nice(d, size),
        full(object),
        dnode.kind,
        algorithms(cx, object),
    ));
    if !dnode.bonus.is_empty() && cx.level > 3 {
        let (n, kind) = (d.nice(dnode.bonus.len() as u64), dnode.bonus_kind);
        d.note(format_args!("{:45}{n:>5}   bonus  {kind}", ""));
    }
}

fn d_nice(d: &Dump, n: u64) -> String {
    d.nice(n)
}

/// Algorithms for new blocks, where they are not inherited or everything is wanted.
fn algorithms(cx: &Context, object: &Object) -> String {
    let (sum, comp) = (object.dnode().checksum, object.dnode().compression);
    let mut out = String::new();
    if sum != Checksum::INHERIT || cx.level >= 6 {
        out.push_str(&format!(" (K={sum})"));
    }
    match (comp, &cx.compression) {
        (Compression::INHERIT, _) if cx.level < 6 => {}
        (Compression::INHERIT, Some(c)) => out.push_str(&format!(" (Z=inherit={c})")),
        _ => out.push_str(&format!(" (Z={})", show::compression(comp))),
    }
    out
}

fn details(d: &mut Dump, cx: &Context, object: &Object) {
    let dnode = object.dnode();
    let names = [
        (FLAG_USED_BYTES, "USED_BYTES"),
        (FLAG_USERUSED_ACCOUNTED, "USERUSED_ACCOUNTED"),
        (FLAG_USEROBJUSED_ACCOUNTED, "USEROBJUSED_ACCOUNTED"),
        (FLAG_SPILL, "SPILL_BLKPTR"),
    ];
    let flags = names.iter().filter(|(bit, _)| dnode.flags & bit != 0);
    let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
    d.field("flags", flags.clone(), format_args!("\tdnode flags: {} ", flags.join(" ")));
    let max = dnode.max_block;
    d.field("max_block", max, format_args!("\tdnode maxblkid: {max}"));
    let role = (object.objset().id() == 0).then(|| cx.roles.of(object.number())).flatten();
    if let Some(role) = &role {
        d.field("role", role.to_string(), format_args!("\trole: {role}"));
    }
    let locked = object.objset().root().uses_crypt() && object.objset().key().is_none();
    // Of a locked dataset only what is authenticated, not encrypted, can be shown.
    if locked && dnode.bonus_kind.is_encrypted() {
        d.note("\t\t(bonus encrypted)");
    } else {
        bonus::dump(d, cx, object, role.as_ref());
    }
    if locked && dnode.kind.is_encrypted() {
        d.note("\t\t(object encrypted)");
    } else {
        data::dump(d, cx, object, role.as_ref());
    }
    if cx.level >= 5 {
        tree::dump(d, object, &cx.pointers);
    }
}

/// Objects that are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// First, as a number of either sign: accounting objects are negative.
    pub(crate) first: i64,
    /// Last, inclusive.
    pub(crate) last: i64,
    /// Kinds: `A` all, `d` directories, `f` files, `m` space maps, `z` other ZAPs; each wanted or
    /// not.
    flags: Vec<(char, bool)>,
}

impl Range {
    /// Reads `N` or `FIRST:LAST[:FLAGS]`, where LAST -1 is the end.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let number = |s: &str| match s.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => s.parse().ok(),
        };
        let first = number(parts.next()?)?;
        let Some(last) = parts.next() else {
            return Some(Self { first, last: first, flags: Vec::new() });
        };
        let last = number(last)?;
        let last = if last == -1 { i64::MAX } else { last };
        if last < first {
            return None;
        }
        let mut flags = Vec::new();
        let mut wanted = true;
        let text = parts.next();
        if text.is_some_and(|t| t.is_empty() || t.ends_with(['-', '+'])) {
            return None;
        }
        for c in text.unwrap_or_default().chars() {
            match c {
                '-' => wanted = false,
                'A' | 'd' | 'f' | 'm' | 'z' => {
                    flags.push((c, wanted));
                    wanted = true;
                }
                '+' => wanted = true,
                _ => return None,
            }
        }
        parts.next().is_none().then_some(Self { first, last, flags })
    }

    /// The object of this number.
    pub(crate) fn one(number: u64) -> Self {
        let number = number.cast_signed();
        Self { first: number, last: number, flags: Vec::new() }
    }

    /// A single object is wanted, so that its absence is an error.
    pub(crate) fn single(&self) -> bool {
        self.first == self.last
    }

    /// The object is one of them.
    pub(crate) fn has(&self, object: &Object) -> bool {
        let number = object.number().cast_signed();
        if number < self.first || number > self.last {
            return false;
        }
        let kind = object.dnode().kind;
        let is = |c: char| match c {
            'd' => kind == DmuType::DIRECTORY_CONTENTS,
            'f' => kind == DmuType::PLAIN_FILE_CONTENTS,
            'm' => kind == DmuType::SPACE_MAP,
            // As in zdb, those alone that have no other name.
            'z' => kind.to_string() == "zap",
            _ => true,
        };
        let named = self.flags.iter().rev().find(|(c, _)| is(*c));
        // Without a flag that fits, the object is wanted unless only some kinds were asked for.
        named.map_or(!self.flags.iter().any(|(_, wanted)| *wanted), |(_, wanted)| *wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn ranges_are_numbers_pairs_and_flags() {
        let one = Range::parse("7").unwrap();
        assert_eq!((one.first, one.last, one.single()), (7, 7, true));
        let open = Range::parse("3:-1:d-f").unwrap();
        assert_eq!((open.first, open.last), (3, i64::MAX));
        assert_eq!(open.flags, [('d', true), ('f', false)]);
        assert_eq!(Range::parse("-2").unwrap().first, -2);
        assert_eq!(Range::parse("0x10").unwrap().first, 16);
        for bad in ["", "x", "1:2:q", "1:2:A:3"] {
            assert!(Range::parse(bad).is_none(), "{bad}");
        }
    }
}
