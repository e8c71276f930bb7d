//! The allocator's description of a top-level vdev.

use super::metaslab::Summary;
use ondisk::config::{VdevConfig, VdevKind};
use std::sync::Arc;
use zio::{Reader, SpaceClass};

/// Bytes that a block of this many bytes takes on a vdev, when it is born in this txg
/// (`u64::MAX`: now; 0: in the vdev's first shape).
pub type AsizeFn = Arc<dyn Fn(u64, u64) -> u64 + Send + Sync>;

/// OpenZFS makes at most 131,072 metaslabs.
const METASLABS_MAX: u64 = 1 << 20;

/// A top-level vdev to allocate from.
#[derive(Clone)]
pub struct TopSpec {
    /// Its number, as in addresses.
    pub id: u32,
    /// log2 of its sector size in bytes.
    pub ashift: u8,
    /// log2 of the size of a metaslab in bytes.
    pub ms_shift: u32,
    /// Number of metaslabs.
    pub ms_count: u64,
    /// Metaslabs begin and end at multiples of this: the row of a dRAID group, else one sector.
    pub row: u64,
    /// Its allocation class.
    pub class: SpaceClass,
    /// New blocks may be put there.
    pub allocating: bool,
    /// Object with the numbers of the metaslabs' space maps.
    pub ms_array: u64,
    /// Its ZAP; 0: none.
    pub zap: u64,
    /// Sizes with parity.
    pub asize: AsizeFn,
}

impl TopSpec {
    /// Of a vdev of an open pool; `None` for those that have no metaslabs (removed ones, holes) and
    /// for those whose numbers cannot be.
    #[must_use]
    pub fn of(config: &VdevConfig, reader: &Arc<Reader>) -> Option<Self> {
        if matches!(config.kind, VdevKind::Indirect | VdevKind::Hole | VdevKind::Missing) {
            return None;
        }
        let id = u32::try_from(config.id).ok()?;
        let ashift = u8::try_from(config.ashift?).ok().filter(|s| (9..=16).contains(s))?;
        let ms_shift = u32::try_from(config.metaslab_shift?).ok();
        let ms_shift = ms_shift.filter(|s| (u32::from(ashift)..63).contains(s))?;
        let row = match config.kind {
            VdevKind::Draid { nparity, ndata, .. } => u64::from(nparity) + u64::from(ndata),
            _ => 1,
        };
        let reader = Arc::clone(reader);
        let asize = move |psize: u64, birth: u64| {
            reader.vdevs().psize_to_asize(id, psize, birth).unwrap_or(psize)
        };
        Some(Self {
            id,
            ashift,
            ms_shift,
            ms_count: (config.asize? >> ms_shift).min(METASLABS_MAX),
            row: row.max(1) << ashift,
            class: crate::class_of(config),
            allocating: !config.non_allocating && !config.removing,
            ms_array: config.metaslab_array.unwrap_or(0),
            zap: config.vdev_zap_top.unwrap_or(0),
            asize: Arc::new(asize),
        })
    }

    /// First byte of metaslab `index`, and the one behind its last.
    #[must_use]
    pub fn bounds(&self, index: u64) -> (u64, u64) {
        let row = self.row.max(1);
        let start = index << self.ms_shift;
        let first = start.checked_next_multiple_of(row).unwrap_or(start);
        let size = ((1u64 << self.ms_shift) - (first - start)) / row * row;
        (first, first + size)
    }
}

/// The state of the metaslabs of a vdev when the pool is opened.
#[derive(Default)]
pub(super) struct Summaries(pub(super) Vec<Summary>);

impl Summaries {
    pub(super) fn of(&self, index: u64, size: u64) -> Summary {
        let known = usize::try_from(index).ok().and_then(|i| self.0.get(i)).copied();
        known.filter(|s| s.object != 0).unwrap_or(Summary { longest: size, ..Summary::default() })
    }
}
