//! `zdb -C`: configurations.

use super::dump::Dump;
use super::show;
use crate::Result;
use engine::Pool;
use engine::inside::ondisk::config::LabelConfig;
use engine::inside::ondisk::{NvList, mos};

/// Prints the configuration in the MOS; from the second `-C` on also what the labels say.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8) -> Result<()> {
    d.note("MOS Configuration:");
    show::nvlist(d, "config", &pool.config().nvlist, 8);
    for (name, what) in [(mos::SPARES, "Spares"), (mos::L2CACHE, "Cache devices")] {
        let list = packed(pool, name);
        if let Some(Some(list)) = d.keep(name, list) {
            d.note(format_args!("{what}:"));
            show::nvlist(d, name, &list, 8);
        }
    }
    if level < 2 {
        return Ok(());
    }
    let mut sights: Vec<_> = pool.candidate().leaves.iter().collect();
    sights.sort_by_key(|(guid, s)| (s.path.clone(), **guid));
    for (guid, sight) in sights {
        let Some(device) = pool.device_of(*guid) else { continue };
        let views = engine::inside::pool::read_labels(&device);
        let txg = |c: &&LabelConfig| if let LabelConfig::Member(m) = c { m.txg } else { 0 };
        let best = views.iter().filter_map(|v| v.config.as_ref().ok()).max_by_key(txg);
        d.open_flat("label_configs");
        let path = sight.path.display();
        d.field("path", path.to_string(), format_args!("Configuration in the label of {path}:"));
        d.hold("guid", *guid);
        match best {
            Some(LabelConfig::Member(c)) => show::nvlist(d, "config", &c.nvlist, 8),
            Some(LabelConfig::Aux(c)) => show::nvlist(d, "config", &c.nvlist, 8),
            None => d.fail("no label can be read"),
        }
        d.close_flat();
    }
    Ok(())
}

/// Prints the configuration of a pool as it stands in a cache file.
pub fn cached(d: &mut Dump<'_>, name: &str, list: &NvList) {
    d.open_flat("cached");
    d.field("name", name, format_args!("{}:", show::text(name.as_bytes())));
    show::nvlist(d, "config", list, 4);
    d.close_flat();
}

/// A packed list named in the object directory.
fn packed(pool: &Pool, name: &str) -> Result<Option<NvList>, String> {
    let number = pool.directory().and_then(|z| z.get_u64(name)).map_err(|e| e.to_string())?;
    let number = number.unwrap_or(0);
    if number == 0 {
        return Ok(None);
    }
    let object = pool.mos().object(number).map_err(|e| e.to_string())?;
    packed_list(&object).map(Some)
}

/// The list in an object of type "packed nvlist".
pub(crate) fn packed_list(object: &engine::inside::dmu::Object) -> Result<NvList, String> {
    /// Packed lists are a few KiB.
    const LIST_MAX: u64 = 64 << 20;
    let dnode = object.dnode();
    let all = object.size_of_blocks();
    let size = dnode.bonus.first_chunk::<8>().map_or(all, |b| dnode.endian.u64(*b));
    if size > all.min(LIST_MAX) {
        return Err(format!("a packed list of {size} bytes is larger than its object"));
    }
    let mut bytes = vec![0; size as usize];
    object.read_at(0, &mut bytes).map_err(|e| e.to_string())?;
    NvList::decode(&bytes).map_err(|e| e.to_string())
}
