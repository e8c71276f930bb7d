//! Appending to the pool's history. What a record is: `docs/format/history.md`.

use super::config::Builder;
use dmu::{NewObject, Objset, Tx};
use ondisk::history::{HISTORY_PHYS_SIZE, HistoryPhys};
use ondisk::nvlist::{NvList, Packing};
use ondisk::{DmuType, Endian};

/// Block size of the object.
const BLOCK: u32 = 128 << 10;

/// What a command is recorded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The command as the user gave it, `zpool create tank /dev/sda`.
    pub command: String,
    /// User id.
    pub who: u64,
    /// Name of the host.
    pub host: String,
}

/// Makes the object of a new pool of `size` bytes: the ring gets a thousandth of the pool, at least
/// 128 KiB and at most 32 MiB.
pub(super) fn create(mos: &Objset, tx: &Tx, size: u64) -> dmu::Result<u64> {
    let max_off = (size / 1000).clamp(128 << 10, 32 << 20);
    let phys = HistoryPhys { create_len: 0, max_off, bof: 0, eof: 0, records_lost: 0 };
    let spec = NewObject {
        block_size: BLOCK,
        bonus_kind: DmuType::SPA_HISTORY_OFFSETS,
        bonus: phys.encode(Endian::Little),
        ..NewObject::new(DmuType::SPA_HISTORY)
    };
    Ok(mos.create(tx, &spec)?.number())
}

/// The record of a command.
pub(super) fn command(what: &Invocation, now_secs: u64) -> NvList {
    Builder::new()
        .u64("history time", now_secs)
        .text("history command", &what.command)
        .u64("history who", what.who)
        .text("history zone", "linux")
        .text("history hostname", &what.host)
        .done()
}

/// The record of something the engine did to `dataset` (name and object).
pub(super) fn event(
    name: &str,
    text: &str,
    dataset: Option<(&str, u64)>,
    txg: u64,
    now_secs: u64,
    host: &str,
) -> NvList {
    let mut list = Builder::new();
    if let Some((dsname, dsid)) = dataset {
        list = list.text("dsname", dsname).u64("dsid", dsid);
    }
    list.text("internal_name", name)
        .text("history internal str", text)
        .u64("history txg", txg)
        .u64("history time", now_secs)
        .text("history hostname", host)
        .done()
}

/// Appends records; old ones are overwritten when the ring is full. With `creation`, what is there
/// afterwards is kept for ever.
pub(super) fn append(
    mos: &Objset,
    tx: &Tx,
    number: u64,
    records: &[NvList],
    creation: bool,
) -> dmu::Result<()> {
    let object = mos.object(number)?;
    let bonus = &object.dnode().bonus;
    let mut phys =
        HistoryPhys::decode(bonus, object.dnode().endian).map_err(|e| object.format_error(0, e))?;
    for record in records {
        let packed = record.encode(Packing::NATIVE).map_err(|e| object.format_error(0, e))?;
        let mut bytes = (packed.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&packed);
        let ring = phys.max_off - phys.create_len;
        if bytes.len() as u64 > ring {
            continue;
        }
        while phys.eof - phys.bof + bytes.len() as u64 > ring {
            let mut len = Vec::new();
            for (offset, n) in phys.extents(phys.bof, 8) {
                let mut part = vec![0; n as usize];
                mos.object(number)?.read_at(offset, &mut part)?;
                len.extend_from_slice(&part);
            }
            let len = len.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
            // A length that cannot be right would leave the ring behind its end: start it anew.
            let next = phys.bof.saturating_add(8).saturating_add(len);
            phys.bof = if next <= phys.eof { next } else { phys.eof };
            phys.records_lost += 1;
        }
        let mut rest = bytes.as_slice();
        for (offset, n) in phys.extents(phys.eof, bytes.len() as u64) {
            let (part, behind) = rest.split_at(rest.len().min(n as usize));
            mos.object(number)?.write_at(tx, offset, part)?;
            rest = behind;
        }
        phys.eof += bytes.len() as u64;
    }
    if creation {
        phys.create_len = phys.eof;
        phys.bof = phys.eof;
    }
    let mut bonus = phys.encode(Endian::Little);
    bonus.truncate(HISTORY_PHYS_SIZE);
    object.set_bonus(tx, DmuType::SPA_HISTORY_OFFSETS, &bonus)
}
