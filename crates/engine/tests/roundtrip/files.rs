//! Files: system attributes, old znodes, access control lists, packed attribute lists.

use crate::objects::content;
use crate::tally::Tally;
use engine::inside::dmu::{Object, Objset, Zap};
use engine::inside::ondisk::acl::{
    ACL_PHYS_SIZE, AclPhys, decode_aces, decode_posix, encode_aces, encode_posix,
};
use engine::inside::ondisk::fuid::FuidTable;
use engine::inside::ondisk::sa::{AttrClass, AttrInfo, SaHeader, SaTables, SaValue, zpl};
use engine::inside::ondisk::znode::{MASTER_NODE, Znode};
use engine::inside::ondisk::{DmuType, Endian, NvList, NvValue, ObjsetKind, Writer};

/// Bytes of the old znode before its ACL.
const ZNODE_ACL_AT: usize = 264 - ACL_PHYS_SIZE;

/// What is only in file systems.
pub(crate) fn filesystem(objset: &Objset, tally: &mut Tally) {
    if objset.phys().kind != ObjsetKind::Zfs {
        return;
    }
    let tables = sa_tables(objset, tally);
    for object in objset.objects() {
        let object = object.expect("a sound pool");
        let dnode = object.dnode();
        match dnode.bonus_kind {
            DmuType::SA => {
                let tables = tables.as_ref().expect("a file system with attributes has tables");
                attributes("attributes in a bonus", &dnode.bonus, tables, tally);
                if let Some(spill) = object.read_spill().expect("a sound pool") {
                    attributes("attributes in a spill block", &spill, tables, tally);
                }
            }
            DmuType::ZNODE => {
                let order = dnode.endian;
                tally.round("znode", &dnode.bonus, order, Znode::decode, Znode::encode);
                let acl = &dnode.bonus[ZNODE_ACL_AT..ZNODE_ACL_AT + ACL_PHYS_SIZE];
                let acl = tally.round("znode acl", acl, order, AclPhys::decode, AclPhys::encode);
                if let Some(acl) = acl.filter(|a| a.external_object == 0) {
                    let used = usize::try_from(acl.size).expect("embedded");
                    let version = acl.version;
                    entries(&acl.embedded[..used], version, acl.count, order, tally);
                }
            }
            _ => {}
        }
        if dnode.kind == DmuType::FUID {
            fuids(&object, tally);
        }
    }
}

/// The registry and the layouts, and that the values of the registry are reproduced.
pub(crate) fn sa_tables(objset: &Objset, tally: &mut Tally) -> Option<SaTables> {
    let table = |n| Zap::open(&objset.object(n).expect("a sound pool")).expect("a sound pool");
    let number = table(MASTER_NODE).get_u64("SA_ATTRS").expect("a sound pool")?;
    let master = table(number);
    let entries = |name| match master.get_u64(name).expect("a sound pool") {
        Some(n) => table(n).to_vec().expect("a sound pool"),
        None => Vec::new(),
    };
    let (registry, layouts) = (entries("REGISTRY"), entries("LAYOUTS"));
    for entry in &registry {
        let value = entry.u64().expect("a number");
        let again = AttrInfo::decode(value).map(|info| info.encode());
        tally.equal("attribute of the registry", &Ok(value), &again);
    }
    let names = registry.iter().filter_map(|e| Some((e.name.bytes()?, e.u64()?)));
    let lists = layouts.iter().filter_map(|e| Some((e.name.bytes()?, e.ints())));
    Some(SaTables::new(names, lists).expect("a sound pool"))
}

/// A bonus or spill block. Behind the last attribute the bytes mean nothing: the bonus keeps what
/// a longer set of attributes left there, and a spill block has whole sectors.
fn attributes(what: &'static str, stored: &[u8], tables: &SaTables, tally: &mut Tally) {
    let header = SaHeader::decode(stored).expect("a sound pool");
    let order = header.endian;
    let values = tables.split(stored).expect("a sound pool");
    let encoded = tables.encode(header.layout.max(1), &values, order).expect("as it was");
    let end = encoded.len().min(stored.len());
    tally.same(what, &stored[..end], &encoded[..end]);
    let foreign: Vec<SaValue> = values.iter().map(|v| turned(v, tables, order.swapped())).collect();
    let packed = tables.encode(header.layout.max(1), &foreign, order.swapped());
    let again = packed
        .and_then(|p| tables.split(&p))
        .map(|all| -> Vec<SaValue> { all.iter().map(|v| turned(v, tables, order)).collect() });
    tally.equal(what, &Ok(values.clone()), &again);
    single_attributes(&values, tables, order, tally);
}

/// The same attribute as a machine of the other order has it.
pub(crate) fn turned(value: &SaValue, tables: &SaTables, to: Endian) -> SaValue {
    let mut attrs = tables.attrs().map(|(_, info)| info);
    let info = attrs.find(|info| info.number == value.number).expect("registered");
    let bytes = match info.class {
        AttrClass::U8 => value.bytes.clone(),
        AttrClass::U16 => value.bytes.chunks(2).flat_map(|c| c.iter().rev()).copied().collect(),
        AttrClass::U32 => value.bytes.chunks(4).flat_map(|c| c.iter().rev()).copied().collect(),
        AttrClass::U64 => value.bytes.chunks(8).flat_map(|c| c.iter().rev()).copied().collect(),
        AttrClass::Acl => turned_acl(&value.bytes, value.endian, to),
    };
    SaValue { number: value.number, bytes, endian: to }
}

/// Entries of version 1 in the other order. How many there are is only told by walking.
pub(crate) fn turned_acl(bytes: &[u8], from: Endian, to: Endian) -> Vec<u8> {
    let most = bytes.len() as u64 / 8;
    let count = (0..=most).rev().find_map(|n| decode_aces(bytes, 1, n, from).ok());
    let mut out = encode_aces(&count.unwrap_or_default(), 1, to);
    out.resize(bytes.len(), 0);
    out
}

fn single_attributes(values: &[SaValue], tables: &SaTables, order: Endian, tally: &mut Tally) {
    let get = |name| {
        let number = tables.attr(name).map(|info| info.number);
        values.iter().find(|v| Some(v.number) == number)
    };
    if let (Some(aces), Some(count)) = (get(zpl::DACL_ACES), get(zpl::DACL_COUNT)) {
        let count = count.u64().expect("a word");
        entries(&aces.bytes, 1, count, order, tally);
    }
    if let Some(list) = get(zpl::DXATTR) {
        let (xattrs, packing, used) = NvList::decode_packed(&list.bytes).expect("a sound pool");
        let packed = xattrs.encode(packing).expect("as it was");
        tally.same("packed extended attributes", &list.bytes, &packed);
        assert_eq!(used, list.bytes.len(), "the attribute is the list");
        for pair in &xattrs.pairs {
            if let NvValue::ByteArray(value) = &pair.value
                && pair.name.starts_with(b"system.posix_acl")
            {
                let again = decode_posix(value).map(|a| encode_posix(&a));
                tally.equal("posix acl", &Ok(value.clone()), &again);
            }
        }
    }
}

/// The entries of a list, without filler.
fn entries(stored: &[u8], version: u16, count: u64, order: Endian, tally: &mut Tally) {
    let what = "acl entries of a file";
    let decode = |bytes: &[u8], order| decode_aces(bytes, version, count, order);
    tally.round(what, stored, order, decode, |aces, order| encode_aces(aces, version, order));
}

/// An access control list in an object of its own. Its file knows how many entries there are;
/// here they are walked until nothing but zeros is left.
pub(crate) fn external_acl(object: &Object, version: u16, tally: &mut Tally) {
    let stored = content(object, object.size_of_blocks());
    let order = object.dnode().endian;
    let smallest = if version == 0 { 12 } else { 8 };
    let used = stored.len() - stored.iter().rev().take_while(|b| **b == 0).count();
    let most = stored.len() / smallest;
    // An entry may end with zeros: take the fewest entries that reach the last byte in use.
    let found = (1..=most).find_map(|n| {
        let end = (used..(used + 48).min(stored.len()))
            .find_map(|end| decode_aces(&stored[..end], version, n as u64, order).ok());
        end.filter(|aces| encode_aces(aces, version, order).len() >= used)
    });
    let Some(aces) = found else {
        tally.wrong("acl in an object of its own", "no number of entries fits");
        return;
    };
    let encoded = encode_aces(&aces, version, order);
    tally.same("acl in an object of its own", &stored[..encoded.len()], &encoded);
    let foreign = encode_aces(&aces, version, order.swapped());
    let again = decode_aces(&foreign, version, aces.len() as u64, order.swapped());
    tally.equal("acl in an object of its own", &Ok(aces), &again);
}

fn fuids(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let size = FuidTable::packed_size(&dnode.bonus, dnode.endian).expect("a sound pool");
    let stored = content(object, size);
    let packed = FuidTable::decode(&stored).and_then(|table| table.encode());
    tally.same("fuid table", &stored, &packed.expect("a sound pool"));
    let mut w = Writer::new(dnode.endian);
    tally.same("fuid table", &dnode.bonus, &w.u64(size).clone().into_bytes());
}
