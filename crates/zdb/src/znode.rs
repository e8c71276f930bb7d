//! Files: attributes of both generations, with the path.

use super::context::{Context, Names};
use super::dump::Dump;
use super::show;
use engine::inside::dmu::Object;
use engine::inside::ondisk::acl;
use engine::inside::ondisk::acl::{Ace, AceWho};
use engine::inside::ondisk::sa::{SaHeader, SaSet, SaTables, zpl};
use engine::inside::ondisk::znode::{Znode, flags, mode};
use engine::inside::ondisk::{DmuType, Endian, NvList, NvValue};
use serde_json::json;

/// Prints the attributes of a file.
pub(crate) fn dump(d: &mut Dump, cx: &Context, object: &Object) {
    let dnode = object.dnode();
    if dnode.bonus_kind == DmuType::SA && dnode.bonus.iter().all(|b| *b == 0) {
        return;
    }
    d.open_one("file");
    d.indent();
    let mut names = cx.names.borrow_mut();
    if dnode.bonus_kind == DmuType::ZNODE {
        old(d, &mut names, object);
    } else {
        attributes(d, cx, &mut names, object);
    }
    d.outdent();
    d.close_flat();
}

/// The attributes every file has.
struct Common {
    ids: [u64; 2],
    /// Access, modification, change, creation: seconds and nanoseconds.
    times: [(i64, u64); 4],
    generation: u64,
    mode: u64,
    size: u64,
    parent: u64,
    links: u64,
    flags: u64,
}

fn common(d: &mut Dump, names: &mut Names, object: &Object, c: &Common) {
    let path = names.path(object.objset(), object.number());
    d.field("path", path.clone(), format_args!("path\t{path}"));
    for (name, id) in ["uid", "gid"].into_iter().zip(c.ids) {
        d.field(name, id, format_args!("{name}     {}", names.identity(id)));
    }
    for (name, (s, ns)) in ["atime", "mtime", "ctime", "crtime"].into_iter().zip(c.times) {
        d.field(name, json!({"s": s, "ns": ns}), format_args!("{name}\t{}", show::time(s)));
    }
    d.field("gen", c.generation, format_args!("gen\t{}", c.generation));
    d.field("mode", c.mode, format_args!("mode\t{:o}", c.mode));
    for (name, n) in [("size", c.size), ("parent", c.parent), ("links", c.links)] {
        d.field(name, n, format_args!("{name}\t{n}"));
    }
    d.field("pflags", c.flags, format_args!("pflags\t{:x}", c.flags));
}

/// A file of a version before 5.
fn old(d: &mut Dump, names: &mut Names, object: &Object) {
    let dnode = object.dnode();
    let Some(z) = d.keep("znode", Znode::decode(&dnode.bonus, dnode.endian)) else { return };
    let pair = |t: engine::inside::ondisk::znode::Time| (t.seconds, t.nanos);
    let c = Common {
        ids: [z.uid, z.gid],
        times: [pair(z.atime), pair(z.mtime), pair(z.ctime), pair(z.crtime)],
        generation: z.generation,
        mode: z.mode,
        size: z.size,
        parent: z.parent,
        links: z.links,
        flags: z.flags,
    };
    common(d, names, object, &c);
    d.field("xattr", z.xattr, format_args!("xattr\t{}", z.xattr));
    d.field("rdev", z.rdev, format_args!("rdev\t0x{:016x}", z.rdev));
    if let Some(target) = z.inline_symlink() {
        let target = show::text(target);
        d.field("target", target.clone(), format_args!("target\t{target}"));
    }
    if let Some(stamp) = z.scanstamp() {
        d.field("scanstamp", show::hex(stamp), format_args!("scanstamp\t{}", show::hex(stamp)));
    }
    let a = &z.acl;
    let value = json!({"object": a.external_object, "version": a.version, "count": a.count,
                       "size": a.size});
    d.field(
        "acl",
        value,
        format_args!(
            "acl\tversion {} entries {} bytes {} object {}",
            a.version, a.count, a.size, a.external_object
        ),
    );
    match a.embedded_aces(dnode.endian) {
        Ok(Some(list)) => aces(d, &list),
        Ok(None) => {}
        Err(e) => d.fail(e),
    }
}

fn attributes(d: &mut Dump, cx: &Context, names: &mut Names, object: &Object) {
    let dnode = object.dnode();
    let spill = match object.read_spill() {
        Ok(s) => s,
        Err(e) => {
            d.fail(e);
            None
        }
    };
    let Some(tables) = names.tables.take() else {
        return d.fail("the file system has no attribute tables");
    };
    let set = tables.read(&dnode.bonus, spill.as_ref().map(|b| b.bytes()));
    if let Some(set) = d.keep("attributes", set) {
        let word = |name| set.u64(name).unwrap_or(0);
        let time = |name| set.get(name).and_then(|v| v.time()).unwrap_or((0, 0));
        let c = Common {
            ids: [word(zpl::UID), word(zpl::GID)],
            times: [time(zpl::ATIME), time(zpl::MTIME), time(zpl::CTIME), time(zpl::CRTIME)],
            generation: word(zpl::GEN),
            mode: word(zpl::MODE),
            size: word(zpl::SIZE),
            parent: word(zpl::PARENT),
            links: word(zpl::LINKS),
            flags: word(zpl::FLAGS),
        };
        // The path needs the tables again.
        names.tables = Some(tables.clone());
        common(d, names, object, &c);
        rare(d, &set, c.flags);
        if c.mode & mode::TYPE == mode::SYMLINK && set.get(zpl::SYMLINK).is_none() {
            let mut target = vec![0; c.size.min(64 << 10) as usize];
            if d.keep("target", object.read_at(0, &mut target)).is_some() {
                let target = show::text(&target);
                d.field("target", target.clone(), format_args!("target\t{target}"));
            }
        }
        if cx.level >= 5 {
            unknown(d, &tables, &set);
            for (what, bytes) in
                [("bonus", Some(&dnode.bonus[..])), ("spill", spill.as_ref().map(|b| b.bytes()))]
            {
                let Some(Ok(h)) = bytes.map(SaHeader::decode) else { continue };
                let value = json!({"part": what, "layout": h.layout, "header": h.size});
                d.push("layouts", value);
                d.note(format_args!("{what}\tlayout {} header {}", h.layout, h.size));
            }
        }
    }
    names.tables = Some(tables);
}

/// Attributes only some files have.
fn rare(d: &mut Dump, set: &SaSet<'_>, bits: u64) {
    if bits & flags::PROJID != 0 {
        let n = set.u64(zpl::PROJID).unwrap_or(0);
        d.field("projid", n, format_args!("projid\t{n}"));
    }
    if let Some(n) = set.u64(zpl::XATTR) {
        d.field("xattr", n, format_args!("xattr\t{n}"));
    }
    if let Some(n) = set.u64(zpl::RDEV) {
        d.field("rdev", n, format_args!("rdev\t0x{n:016x}"));
    }
    if let Some(v) = set.get(zpl::DXATTR).filter(|v| !v.bytes.is_empty()) {
        xattrs(d, &v.bytes);
    }
    if let Some(v) = set.get(zpl::SYMLINK) {
        let target = show::text(&v.bytes);
        d.field("target", target.clone(), format_args!("target\t{target}"));
    }
    if let Some(v) = set.get(zpl::SCANSTAMP) {
        d.field(
            "scanstamp",
            show::hex(&v.bytes),
            format_args!("scanstamp\t{}", show::hex(&v.bytes)),
        );
    }
    if let (Some(count), Some(v)) = (set.u64(zpl::DACL_COUNT), set.get(zpl::DACL_ACES)) {
        d.field("acl_count", count, format_args!("acl\tentries {count} bytes {}", v.bytes.len()));
        match acl::decode_aces(&v.bytes, 1, count, v.endian) {
            Ok(list) => aces(d, &list),
            Err(e) => d.fail(e),
        }
    }
}

fn principal_name(who: AceWho) -> &'static str {
    match who {
        AceWho::Owner => "owner@",
        AceWho::OwningGroup => "group@",
        AceWho::Everyone => "everyone@",
        AceWho::User(_) => "user",
        AceWho::Group(_) => "group",
    }
}

fn aces(d: &mut Dump, list: &[Ace]) {
    for a in list {
        let value = json!({"type": a.kind, "flags": a.flags, "mask": a.mask, "id": a.id});
        d.push("aces", value);
        d.note(format_args!(
            "\ttype {} flags {:#06x} mask {:#010x} {} id {}",
            a.kind,
            a.flags,
            a.mask,
            principal_name(a.who()),
            a.id
        ));
    }
}

fn xattrs(d: &mut Dump, packed: &[u8]) {
    let Some(list) = d.keep("SA xattrs", NvList::decode(packed)) else { return };
    let (bytes, n) = (packed.len(), list.pairs.len());
    d.note(format_args!("SA xattrs: {bytes} bytes, {n} entries"));
    d.blank();
    for pair in &list.pairs {
        let name = show::text(&pair.name);
        let value = match &pair.value {
            NvValue::ByteArray(v) | NvValue::U8Array(v) => v.clone(),
            other => show::nvvalue_json(other).to_string().into_bytes(),
        };
        d.push("sa_xattrs", json!({"name": name, "value": show::hex(&value)}));
        d.note(format_args!("\t{name} = {}", show::text(&value)));
    }
}

/// Attributes the POSIX layer does not know.
fn unknown(d: &mut Dump, tables: &SaTables, set: &SaSet<'_>) {
    for (name, info) in tables.attrs().filter(|(n, _)| !n.starts_with(b"ZPL_")) {
        let Some(v) = set.values.iter().find(|v| v.number == info.number) else { continue };
        let (name, value) = (show::text(name), show::hex(&v.bytes));
        d.push("other_attributes", json!({"name": name, "value": value}));
        d.note(format_args!("{name}\t{value}"));
    }
}

/// An ACL that is an object of its own (file systems before version 5).
pub(crate) fn acl_object(d: &mut Dump, object: &Object) {
    let mut bytes = vec![0; object.size_of_blocks().min(1 << 20) as usize];
    if d.keep("ACL", object.read_at(0, &mut bytes)).is_none() {
        return;
    }
    let (version, size) = if object.dnode().kind == DmuType::OLDACL { (0, 12) } else { (1, 0) };
    let endian: Endian = object.dnode().endian;
    let count = bytes.len().checked_div(size).unwrap_or(0);
    match acl::decode_aces(&bytes, version, count as u64, endian) {
        Ok(list) => aces(d, &list),
        Err(e) => d.fail(e),
    }
}
