//! `zdb -u`: uberblocks, the roots of the pool.

use super::dump::Dump;
use super::show;
use crate::Result;
use engine::Pool;
use engine::inside::ondisk::uberblock::{MMP_MAGIC, ReflowScratch, UBERBLOCK_MAGIC};
use engine::inside::ondisk::{Endian, Uberblock, checkpoint, mos};
use engine::inside::pool;

/// Prints the uberblock the pool was opened with; from the second `-u` on all that were found.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8) -> Result<()> {
    d.note("Uberblock:");
    d.open_one("uberblock");
    d.indent();
    fields(d, pool.uberblock());
    d.outdent();
    d.close_flat();
    d.blank();
    if let Some(ub) = checkpointed(d, pool) {
        d.note("Checkpointed uberblock found:");
        d.open_one("checkpoint");
        d.indent();
        fields(d, &ub);
        d.outdent();
        d.close_flat();
        d.blank();
    }
    if level < 2 {
        return Ok(());
    }
    d.note("Uberblocks found on the devices, newest first:");
    for c in pool::by_txg(&pool.candidate().uberblocks) {
        let ub = &c.uberblock;
        let opened = ub.txg == pool.uberblock().txg;
        let mark = if opened { ", opened" } else { "" };
        d.open(
            "uberblocks",
            format_args!("Uberblock of txg {} ({} copies{mark})", ub.txg, c.copies),
        );
        d.hold("copies", c.copies);
        d.hold("opened", opened);
        fields(d, ub);
        if level > 2 {
            let same = |f: &&pool::FoundUberblock| f.uberblock.txg == ub.txg;
            for f in pool.candidate().uberblocks.iter().filter(same) {
                let (leaf, label, slot) = (f.leaf, f.label, f.slot);
                d.push("found", serde_json::json!({"leaf": leaf, "label": label, "slot": slot}));
                let older = if f.uberblock == *ub { "" } else { ", another than the best" };
                d.note(format_args!("device {leaf} label {label} slot {slot}{older}"));
            }
        }
        d.close();
    }
    Ok(())
}

/// The uberblock that the pool's checkpoint keeps.
pub(crate) fn checkpointed(d: &mut Dump, pool: &Pool) -> Option<Uberblock> {
    let directory = d.keep("object directory", pool.directory())?;
    let entry = d.keep("checkpoint", directory.get(mos::ZPOOL_CHECKPOINT.as_bytes()))??;
    let words: Vec<u64> = entry.ints().collect();
    let bytes = d.keep("checkpoint", checkpoint::uberblock_bytes(&words, Endian::Little))?;
    d.keep("checkpoint", Uberblock::decode(&bytes)).map(|(ub, _)| ub)
}

/// All fields of an uberblock.
pub(crate) fn fields(d: &mut Dump, ub: &Uberblock) {
    d.field("magic", UBERBLOCK_MAGIC, format_args!("magic = {UBERBLOCK_MAGIC:016x}"));
    d.fact("version", ub.version);
    d.fact("txg", ub.txg);
    d.fact("guid_sum", ub.guid_sum);
    let date = show::time(ub.timestamp.cast_signed());
    d.field("timestamp", ub.timestamp, format_args!("timestamp = {} UTC = {date}", ub.timestamp));
    d.field("bp", show::bp_json(&ub.rootbp), format_args!("bp = {}", show::bp(&ub.rootbp)));
    d.fact("software_version", ub.software_version);
    d.field("mmp_magic", ub.mmp_magic, format_args!("mmp_magic = {:016x}", ub.mmp_magic));
    if ub.mmp_magic == MMP_MAGIC {
        d.fact("mmp_delay", ub.mmp_delay);
        d.field(
            "mmp_valid",
            ub.mmp_config & 0xff,
            format_args!("mmp_valid = {:x}", ub.mmp_config & 0xff),
        );
    }
    if let Some(mmp) = ub.mmp() {
        if let Some(v) = mmp.interval {
            d.fact("mmp_write_interval", v);
        }
        if let Some(v) = mmp.sequence {
            d.fact("mmp_seq", v);
        }
        if let Some(v) = mmp.fail_intervals {
            d.fact("mmp_fail", v);
        }
    }
    d.fact("checkpoint_txg", ub.checkpoint_txg);
    let (state, offset) = ub.raidz_reflow();
    let number = match state {
        ReflowScratch::NotInUse => 0,
        ReflowScratch::Valid => 1,
        ReflowScratch::InvalidSynced => 2,
        ReflowScratch::InvalidSyncedOnImport => 3,
        ReflowScratch::InvalidSyncedReflow => 4,
        ReflowScratch::Unknown(n) => n,
    };
    let value = serde_json::json!({"state": number, "offset": offset});
    d.field("raidz_reflow", value, format_args!("raidz_reflow state={number} off={offset}"));
}
