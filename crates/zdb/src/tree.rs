//! The tree of blocks of an object: every pointer, and the ranges that are stored.

use super::dump::Dump;
use super::show;
use engine::inside::codec::compress::ZstdHeader;
use engine::inside::dmu::{Error, Object, Place, Step, Visitor};
use engine::inside::ondisk::{BlkPtr, Compression, DmuType};
use engine::inside::vdev::Scope;
use engine::inside::zio::{Reader, Request};
use serde_json::json;
use std::sync::Arc;

/// How pointers are printed.
#[derive(Clone)]
pub(crate) struct Pointers {
    /// How much of each.
    pub(crate) detail: PointerDetail,
    /// Reads the headers of blocks that are compressed with zstd, which are then printed too.
    pub(crate) headers: Option<Arc<Reader>>,
}

impl Pointers {
    fn of(&self, bp: &BlkPtr, place: Place) -> String {
        let mut text = self.detail.of(bp);
        let is_zstd = bp.compression() == Compression::ZSTD && !bp.is_hole() && !bp.is_embedded();
        if let (Some(reader), true) = (&self.headers, is_zstd) {
            let request = Request { bp, place, key: None, scope: Scope::Data, raw: true };
            let block = reader.read(request).block.ok();
            let header = block.as_ref().and_then(|block| ZstdHeader::decode(block.bytes()));
            match header {
                Some(ZstdHeader { length, version, level }) => text.push_str(&format!(
                    " ZSTD:size={length}:version={version}:level={level}:NORMAL"
                )),
                None => text.push_str(" ZSTD:unreadable"),
            }
        }
        text
    }
}

/// How much of a pointer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerDetail {
    /// Its first copy, and what is not known from its place.
    Short,
    /// All copies.
    Copies,
    /// Everything, as the pointer of an object set is printed.
    All,
}

impl PointerDetail {
    fn of(self, bp: &BlkPtr) -> String {
        match self {
            Self::All => show::bp(bp),
            detail => show::bp_short(bp, detail == Self::Copies),
        }
    }
}

/// Prints all pointers of an object.
pub(crate) fn dump(d: &mut Dump, object: &Object, pointers: &Pointers) {
    d.note("Indirect blocks:");
    // It ends early only when its output is not wanted.
    let _ = object.traverse(0, &mut Lines { d, object, pointers });
    if let Some(bp) = &object.dnode().spill {
        d.hold("spill", show::bp_json(bp));
        let place = object.place(0, Place::BLKID_SPILL);
        d.note(format_args!("\tSpill block: {}", pointers.of(bp, place)));
    }
    d.blank();
    segments(d, object);
}

/// Prints each pointer of a walk.
struct Lines<'a, 'o> {
    d: &'a mut Dump<'o>,
    object: &'a Object,
    pointers: &'a Pointers,
}

impl Visitor for Lines<'_, '_> {
    fn enter(&mut self, bp: &BlkPtr, place: Place) -> Step {
        // The spill block has a line of its own.
        if let (false, Ok(level)) = (place.blkid == Place::BLKID_SPILL, place.level.try_into()) {
            line(self.d, self.object, bp, level, place, self.pointers);
        }
        if self.d.is_wanted() { Step::Descend } else { Step::Stop }
    }

    fn lost(&mut self, _: Place, error: Error) {
        self.d.fail(error);
    }
}

fn line(d: &mut Dump, object: &Object, bp: &BlkPtr, level: u8, place: Place, pointers: &Pointers) {
    let blkid = place.blkid;
    let shift = u32::from(object.dnode().indirect_shift - 7) * u32::from(level);
    let first = if shift >= 64 { 0 } else { blkid.wrapping_shl(shift) };
    let offset = first.wrapping_mul(object.dnode().block_size());
    if d.is_json() {
        let mut value = show::bp_json(bp);
        if let Some(m) = value.as_object_mut() {
            m.insert("blkid".into(), blkid.into());
            m.insert("offset".into(), offset.into());
        }
        return d.push("blocks", value);
    }
    let top = object.dnode().levels - 1;
    let (left, right) = ((top - level.min(top)) as usize, level as usize + 1);
    d.note(format_args!(
        "{offset:16x} {:left$}L{level}{:right$}{}",
        "",
        "",
        pointers.of(bp, place)
    ));
}

/// The ranges that are stored: of the array of dnodes those of dnodes in use, else whole blocks.
fn segments(d: &mut Dump, object: &Object) {
    let mut emit = |start: u64, end: u64| {
        let size = d.nice(end - start);
        d.push("segments", json!({"start": start, "end": end}));
        d.note(format_args!("\t\tsegment [{start:016x}, {end:016x}) size {size:>5}"));
    };
    if object.dnode().kind == DmuType::DNODE {
        let mut run: Option<(u64, u64)> = None;
        for o in object.objset().objects().flatten() {
            let start = o.number().saturating_mul(512);
            let end = start.saturating_add(o.dnode().size() as u64);
            run = match run {
                Some((s, e)) if e == start => Some((s, end)),
                Some((s, e)) => {
                    emit(s, e);
                    Some((start, end))
                }
                None => Some((start, end)),
            };
        }
        if let Some((s, e)) = run {
            emit(s, e);
        }
        return;
    }
    match object.segments(object.size_of_blocks()) {
        Ok(list) => {
            for s in list {
                emit(s.offset, s.offset.saturating_add(s.length));
            }
        }
        Err(e) => d.fail(e),
    }
}
