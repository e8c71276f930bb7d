//! What objects of the MOS are for.
//!
//! The type of an object often says no more than "words": mappings of removed vdevs, reference
//! tables, logs and redaction lists are known only by what names them. This file follows the names
//! from the object directory, the configuration and the bookmarks.

use engine::Pool;
use engine::inside::dmu::{Object, Objset, Zap};
use engine::inside::ondisk::config::VdevConfig;
use engine::inside::ondisk::mos;
use engine::inside::ondisk::mos::vdev_zap;
use engine::inside::ondisk::{brt, ddt};
use engine::inside::pool::UnguardedDatasets as _;
use std::collections::HashMap;
use std::fmt;

/// How the content of an object is to be read, where its type does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its type.
    ByType,
    /// Block references of a vdev.
    Brt,
    /// Queue of destroyed datasets.
    Bptree,
    /// Mapping of a removed vdev.
    Mapping,
    /// When parts of the mapping were made.
    Births,
    /// Bytes of each part of the mapping that are obsolete.
    ObsoleteCounts,
    /// List of redacted blocks.
    Redaction,
    /// Log of a deduplication table; flat: of the newer kind of entries.
    DdtLog {
        /// Entries are flat.
        flat: bool,
    },
    /// Space map.
    SpaceMap {
        /// Origin of offsets.
        start: u64,
        /// log2 of the unit.
        shift: u8,
    },
}

/// What an object is for.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    /// How it is read.
    pub(crate) form: Form,
    text: String,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Roles by object number.
#[derive(Default)]
pub(crate) struct Roles(HashMap<u64, Role>);

impl Roles {
    /// Finds out all that can be found; what cannot be read is simply not known.
    pub(crate) fn find(pool: &Pool) -> Self {
        let mut roles = Self::default();
        roles.directory(pool);
        for top in &pool.config().vdev_tree.children {
            roles.top(pool, top);
        }
        roles.redactions(pool);
        roles
    }

    /// What an object is for.
    pub(crate) fn of(&self, object: u64) -> Option<Role> {
        self.0.get(&object).cloned()
    }

    fn add(&mut self, object: u64, form: Form, text: String) {
        if object != 0 {
            self.0.insert(object, Role { form, text });
        }
    }

    fn directory(&mut self, pool: &Pool) {
        let Ok(directory) = pool.directory() else { return };
        for entry in directory.entries().flatten() {
            let Some(name) = entry.name.bytes().map(String::from_utf8_lossy) else { continue };
            let Some(object) = entry.u64() else { continue };
            let numbers = [mos::DEFLATE, mos::CREATION_VERSION, mos::LAST_SCRUBBED_TXG];
            if numbers.contains(&&*name) {
                continue;
            }
            let form = match &*name {
                mos::BPTREE_OBJ => Form::Bptree,
                n if brt::parse_object_name(n).is_some() => Form::Brt,
                n if n.starts_with("DDT-log-") => Form::DdtLog { flat: false },
                _ => Form::ByType,
            };
            self.add(object, form, format!("{name} of the object directory"));
            match &*name {
                mos::LOG_SPACEMAP_ZAP => self.log_space_maps(pool.mos(), object),
                n if form == Form::Brt => self.brt_entries(pool.mos(), object, n),
                n if n.starts_with("DDT-") && !n.contains("-zap-") && n != ddt::STATISTICS => {
                    self.ddt_directory(pool.mos(), object, n);
                }
                _ => {}
            }
        }
    }

    fn log_space_maps(&mut self, mos: &Objset, zap: u64) {
        for (txg, object) in number_table(mos, zap) {
            let form = Form::SpaceMap { start: 0, shift: 9 };
            self.add(object, form, format!("log space map of txg {txg}"));
        }
    }

    fn brt_entries(&mut self, mos: &Objset, object: u64, name: &str) {
        let Ok(o) = mos.object(object) else { return };
        let Ok(head) = brt::BrtVdev::decode(&o.dnode().bonus, o.dnode().endian) else { return };
        self.add(head.entries, Form::ByType, format!("entries of {name}"));
    }

    fn ddt_directory(&mut self, mos: &Objset, object: u64, table: &str) {
        let Ok(zap) = mos.object(object).and_then(|o| Zap::open(&o)) else { return };
        let flags = zap.get_u64(ddt::DIR_FLAGS).ok().flatten().unwrap_or(0);
        for e in zap.entries().flatten() {
            let (Some(name), Some(n)) = (e.name.bytes(), e.u64()) else { continue };
            let name = String::from_utf8_lossy(name);
            let flat = flags & ddt::FLAG_FLAT != 0;
            let form = match name.starts_with("DDT-log-") {
                true => Form::DdtLog { flat },
                false => Form::ByType,
            };
            if name.starts_with("DDT-") {
                self.add(n, form, format!("{name} of {table}"));
            }
        }
    }

    fn top(&mut self, pool: &Pool, top: &VdevConfig) {
        let (id, mos) = (top.id, pool.mos());
        self.add(
            top.indirect_object.unwrap_or(0),
            Form::Mapping,
            format!("mapping of removed vdev {id}"),
        );
        self.add(
            top.indirect_births.unwrap_or(0),
            Form::Births,
            format!("births of the mapping of removed vdev {id}"),
        );
        let mapping = top.indirect_object.and_then(|n| mos.object(n).ok());
        let header = mapping.and_then(|o| {
            let dnode = o.dnode();
            engine::inside::ondisk::indirect::MappingHeader::decode(&dnode.bonus, dnode.endian).ok()
        });
        let counts = header.and_then(|h| h.counts_object).unwrap_or(0);
        self.add(counts, Form::ObsoleteCounts, format!("obsolete counts of removed vdev {id}"));
        let shift = top.ashift.unwrap_or(9) as u8;
        for leaf in top.walk() {
            let form = Form::SpaceMap { start: 0, shift: 0 };
            self.add(leaf.dtl.unwrap_or(0), form, format!("missed txgs of device {}", leaf.guid));
            for (zap, what) in [
                (leaf.vdev_zap_top, "top-level vdev"),
                (leaf.vdev_zap_leaf, "device"),
                (leaf.vdev_zap_root, "root vdev"),
            ] {
                self.add(zap.unwrap_or(0), Form::ByType, format!("ZAP of {what} {}", leaf.guid));
            }
        }
        self.maps_of(mos, top, shift);
        let array = top.metaslab_array.unwrap_or(0);
        self.add(array, Form::ByType, format!("space maps of the metaslabs of vdev {id}"));
        let Ok(array) = mos.object(array) else { return };
        let metaslab_shift = top.metaslab_shift.unwrap_or(0) as u32;
        for (i, object) in (0u64..).zip(words(&array)) {
            let start = i.checked_shl(metaslab_shift).unwrap_or(0);
            let form = Form::SpaceMap { start, shift };
            self.add(object, form, format!("metaslab {i} of vdev {id}"));
        }
    }

    /// What the ZAP of a top-level vdev names.
    fn maps_of(&mut self, mos: &Objset, top: &VdevConfig, shift: u8) {
        let zap = top.vdev_zap_top.and_then(|n| mos.object(n).ok());
        let Some(zap) = zap.and_then(|o| Zap::open(&o).ok()) else { return };
        let map = Form::SpaceMap { start: 0, shift };
        for (key, form, what) in [
            (vdev_zap::CHECKPOINT_SPACE_MAP, map, "freed since the checkpoint on"),
            (vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP, map, "obsolete on removed"),
            (vdev_zap::METASLAB_UNFLUSHED_TXGS, Form::ByType, "txgs not flushed yet of"),
        ] {
            if let Ok(Some(object)) = zap.get_u64(key) {
                self.add(object, form, format!("{what} vdev {}", top.id));
            }
        }
    }

    fn redactions(&mut self, pool: &Pool) {
        for (_, dir) in pool.dsl().walk() {
            let Ok(Some(head)) = dir.and_then(|d| pool.dsl().head(&d)) else { continue };
            for b in pool.dsl().bookmarks(&head).unwrap_or_default() {
                if let Some(x) = &b.phys.extra {
                    let text = format!("redaction list of {}", b.name);
                    self.add(x.redaction_obj, Form::Redaction, text);
                }
            }
        }
    }
}

/// A ZAP whose keys are numbers, in order.
pub(crate) fn number_table(mos: &Objset, zap: u64) -> Vec<(u64, u64)> {
    let Ok(zap) = mos.object(zap).and_then(|o| Zap::open(&o)) else { return Vec::new() };
    let key = |b: &[u8]| engine::inside::ondisk::zap::parse_int_key(std::str::from_utf8(b).ok()?);
    let pair = |e: engine::inside::dmu::ZapEntry| Some((key(e.name.bytes()?)?, e.u64()?));
    let mut out: Vec<_> = zap.entries().flatten().filter_map(pair).collect();
    out.sort_unstable();
    out
}

/// The words of an object, block by block; blocks that cannot be read count as zeros.
pub(crate) fn words(object: &Object) -> impl Iterator<Item = u64> + '_ {
    let per_block = (object.dnode().block_size() / 8) as usize;
    let blocks = 0..=object.dnode().max_block;
    blocks.flat_map(move |b| match object.read_block(b) {
        Ok(Some(block)) => {
            let word = |c: &[u8; 8]| block.endian().u64(*c);
            block.as_chunks::<8>().0.iter().map(word).collect::<Vec<_>>()
        }
        _ => vec![0; per_block],
    })
}
