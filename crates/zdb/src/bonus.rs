//! What the bonus of a dnode says, by its type and by what the object is for.

use super::context::Context;
use super::dump::Dump;
use super::roles::{Form, Role};
use super::{show, znode};
use engine::inside::dmu::Object;
use engine::inside::ondisk::bpobj::BpobjHeader;
use engine::inside::ondisk::bpobj::bptree::BptreeHeader;
use engine::inside::ondisk::brt::BrtVdev;
use engine::inside::ondisk::ddt::log::LogHeader;
use engine::inside::ondisk::deadlist::DeadlistHeader;
use engine::inside::ondisk::history::HistoryPhys;
use engine::inside::ondisk::indirect::{BirthsHeader, MappingHeader};
use engine::inside::ondisk::redaction::RedactionHeader;
use engine::inside::ondisk::spacemap::SpaceMapHeader;
use engine::inside::ondisk::{DmuType, DslDataset, DslDir};

/// Prints the bonus.
pub(crate) fn dump(d: &mut Dump, cx: &Context, object: &Object, role: Option<&Role>) {
    let dnode = object.dnode();
    let (bytes, endian) = (&dnode.bonus, dnode.endian);
    if bytes.is_empty() {
        return;
    }
    match dnode.bonus_kind {
        DmuType::ZNODE | DmuType::SA => return znode::dump(d, cx, object),
        _ => {}
    }
    d.open_one("bonus");
    d.indent();
    d.indent();
    match dnode.bonus_kind {
        DmuType::DSL_DIR => dsl_dir(d, object),
        DmuType::DSL_DATASET => dsl_dataset(d, object),
        DmuType::BPOBJ_HDR => bpobj(d, object),
        DmuType::SPACE_MAP_HEADER => space_map(d, object, role),
        DmuType::SPA_HISTORY_OFFSETS => history(d, object),
        DmuType::DEADLIST_HDR => {
            if let Some(h) = d.keep("deadlist header", DeadlistHeader::decode(bytes, endian)) {
                space(d, h.used, h.compressed, h.uncompressed);
            }
        }
        DmuType::PACKED_NVLIST_SIZE | DmuType::FUID_SIZE => {
            if let Some(b) = bytes.first_chunk::<8>() {
                d.fact("packed_size", endian.u64(*b));
            }
        }
        _ => by_role(d, object, role),
    }
    d.outdent();
    d.outdent();
    d.close_flat();
}

fn space(d: &mut Dump, used: u64, compressed: u64, uncompressed: u64) {
    d.size("used", used);
    d.size("comp", compressed);
    d.size("uncomp", uncompressed);
}

fn dsl_dir(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let dir = DslDir::decode(&dnode.bonus, dnode.endian);
    let Some(dir) = d.keep("DSL directory", dir) else { return };
    let date = show::time(dir.creation_time.cast_signed());
    d.field("creation_time", dir.creation_time, format_args!("creation_time = {date}"));
    for (name, n) in [
        ("head_dataset_obj", dir.head_dataset),
        ("parent_dir_obj", dir.parent),
        ("origin_obj", dir.origin),
        ("child_dir_zapobj", dir.child_zap),
    ] {
        d.fact(name, n);
    }
    for (name, n) in [
        ("used_bytes", dir.used),
        ("compressed_bytes", dir.compressed),
        ("uncompressed_bytes", dir.uncompressed),
        ("quota", dir.quota),
        ("reserved", dir.reserved),
    ] {
        d.size(name, n);
    }
    d.fact("props_zapobj", dir.props_zap);
    d.fact("deleg_zapobj", dir.deleg_zap);
    d.field("flags", dir.flags, format_args!("flags = {:x}", dir.flags));
    let parts = ["HEAD", "SNAP", "CHILD", "CHILD_RSRV", "REFRSRV"];
    for (part, n) in parts.iter().zip(dir.used_breakdown) {
        d.size(&format!("used_breakdown[{part}]"), n);
    }
    d.fact("clones", dir.clones);
}

fn dsl_dataset(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let ds = DslDataset::decode(&dnode.bonus, dnode.endian);
    let Some(ds) = d.keep("DSL dataset", ds) else { return };
    for (name, n) in [
        ("dir_obj", ds.dir),
        ("prev_snap_obj", ds.prev_snap),
        ("prev_snap_txg", ds.prev_snap_txg),
        ("next_snap_obj", ds.next_snap),
        ("snapnames_zapobj", ds.snapnames_zap),
        ("num_children", ds.num_children),
        ("userrefs_obj", ds.userrefs),
    ] {
        d.fact(name, n);
    }
    let date = show::time(ds.creation_time.cast_signed());
    d.field("creation_time", ds.creation_time, format_args!("creation_time = {date}"));
    d.fact("creation_txg", ds.creation_txg);
    d.fact("deadlist_obj", ds.deadlist);
    for (name, n) in [
        ("used_bytes", ds.referenced),
        ("compressed_bytes", ds.compressed),
        ("uncompressed_bytes", ds.uncompressed),
        ("unique", ds.unique),
    ] {
        d.size(name, n);
    }
    d.fact("fsid_guid", ds.fsid_guid);
    d.fact("guid", ds.guid);
    d.field("flags", ds.flags, format_args!("flags = {:x}", ds.flags));
    d.fact("next_clones_obj", ds.next_clones);
    d.fact("props_obj", ds.props);
    d.field("bp", show::bp_json(&ds.bp), format_args!("bp = {}", show::bp(&ds.bp)));
}

fn bpobj(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let header = BpobjHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("bpobj header", header) else { return };
    d.fact("num_blkptrs", h.num_blkptrs);
    d.size("bytes", h.bytes);
    if let Some([comp, uncomp]) = h.accounting {
        d.size("comp", comp);
        d.size("uncomp", uncomp);
    }
    if let Some(s) = h.subobjs {
        d.fact("subobjs", s.object);
        d.fact("num_subobjs", s.count);
    }
    // Lists of the first and second form have no count of frees, nor any frees.
    if h.subobjs.is_some() {
        d.fact("num_freed", h.num_freed.unwrap_or(0));
    }
}

/// The header of a space map and what it says of free segments.
fn space_map(d: &mut Dump, object: &Object, role: Option<&Role>) {
    let dnode = object.dnode();
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("space map header", header) else { return };
    d.hex("smp_length", h.length);
    d.hex("smp_alloc", h.allocated.cast_unsigned());
    let shift = match role.map(|r| r.form) {
        Some(Form::SpaceMap { shift, .. }) => usize::from(shift),
        _ => 0,
    };
    if let Some(buckets) = &h.histogram {
        show::histogram(d, "histogram", buckets, shift);
    }
}

fn history(d: &mut Dump, object: &Object) {
    let dnode = object.dnode();
    let header = HistoryPhys::decode(&dnode.bonus, dnode.endian);
    let Some(h) = d.keep("history offsets", header) else { return };
    d.fact("pool_create_len", h.create_len);
    d.fact("phys_max_off", h.max_off);
    d.fact("bof", h.bof);
    d.fact("eof", h.eof);
    d.fact("records_lost", h.records_lost);
}

fn by_role(d: &mut Dump, object: &Object, role: Option<&Role>) {
    let dnode = object.dnode();
    let (bytes, endian) = (&dnode.bonus, dnode.endian);
    match role.map_or(Form::ByType, |r| r.form) {
        Form::Brt => {
            let Some(h) = d.keep("BRT", BrtVdev::decode(bytes, endian)) else { return };
            d.fact("entries_zapobj", h.entries);
            d.fact("counts", h.size);
            d.fact("total_count", h.total_count);
            d.size("range_size", h.range_size);
            d.size("used_space", h.used_space);
            d.size("saved_space", h.saved_space);
        }
        Form::Bptree => {
            let Some(h) = d.keep("bptree", BptreeHeader::decode(bytes, endian)) else { return };
            d.fact("begin", h.begin);
            d.fact("end", h.end);
            space(d, h.bytes, h.compressed, h.uncompressed);
        }
        Form::Mapping => {
            let Some(h) = d.keep("mapping", MappingHeader::decode(bytes, endian)) else { return };
            d.hex("max_offset", h.max_offset);
            d.size("bytes_mapped", h.bytes_mapped);
            d.fact("num_entries", h.num_entries);
            if let Some(n) = h.counts_object {
                d.fact("counts_obj", n);
            }
        }
        Form::DdtLog { .. } => {
            let Some(h) = d.keep("DDT log", LogHeader::decode(bytes, endian)) else { return };
            d.fact("version", h.version());
            d.hex("log_flags", h.flags().into());
            d.fact("length", h.length);
            d.fact("first_txg", h.first_txg);
            if let Some(key) = h.valid_checkpoint() {
                let sum = show::words(key.checksum);
                d.field("checkpoint", sum.clone(), format_args!("checkpoint = {sum}"));
            }
        }
        Form::Redaction => {
            let Some(h) = d.keep("redaction list", RedactionHeader::decode(bytes, endian)) else {
                return;
            };
            redaction(d, &h);
        }
        Form::Births => {
            let Some(h) = d.keep("births", BirthsHeader::decode(bytes, endian)) else { return };
            d.fact("num_entries", h.count);
        }
        _ => words(d, object),
    }
}

/// The header of a redaction list.
pub(crate) fn redaction(d: &mut Dump, h: &RedactionHeader) {
    d.fact("last_object", h.last_object);
    d.fact("last_blkid", h.last_blkid);
    d.fact("num_entries", h.num_entries);
    let guids: Vec<String> = h.snapshots.iter().map(u64::to_string).collect();
    d.field("snapshots", h.snapshots.clone(), format_args!("snapshots = [{}]", guids.join(", ")));
}

/// A bonus of a type this program has no better form for.
fn words(d: &mut Dump, object: &Object) {
    let (bytes, endian) = (&object.dnode().bonus, object.dnode().endian);
    d.hold("bytes", show::hex(bytes));
    let line: Vec<String> =
        bytes.as_chunks::<8>().0.iter().map(|w| format!("{:x}", endian.u64(*w))).collect();
    if line.is_empty() {
        d.note(format_args!("bonus = {}", show::hex(bytes)));
    } else {
        d.note(format_args!("bonus = [{}]", line.join(", ")));
    }
}
