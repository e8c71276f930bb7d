//! How far `zpool initialize` and `zpool trim` are on a device, as its table in the MOS says
//! (`docs/format/leaf-work.md`).

use crate::open::Pool;
use dmu::{Objset, Tx, Zap, zap};
use ondisk::mos::vdev_zap;
use vdev::map::LABEL_START_SIZE;

/// Work on the free space of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeafWork {
    /// It is overwritten.
    Initialize,
    /// It is given back to the device.
    Trim,
}

/// The state of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkState {
    /// It was never begun, or forgotten.
    #[default]
    None,
    /// It is running, or continues when the pool is opened.
    Active,
    /// It was called off.
    Canceled,
    /// It continues when requested.
    Suspended,
    /// All was done.
    Complete,
}

impl WorkState {
    const ALL: [Self; 5] =
        [Self::None, Self::Active, Self::Canceled, Self::Suspended, Self::Complete];

    fn of(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|n| Self::ALL.get(n)).copied().unwrap_or_default()
    }

    fn number(self) -> u64 {
        Self::ALL.iter().position(|s| *s == self).unwrap_or(0) as u64
    }
}

/// The stored progress of one work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafProgress {
    /// The state of the work.
    pub state: WorkState,
    /// Bytes of the device, labels included, in front of which all is done.
    pub offset: u64,
    /// When it was begun, or ended, in seconds since 1970.
    pub time: u64,
    /// The requested bytes a second; 0: no limit.
    pub rate: u64,
    /// Metaslabs that were never used are passed over.
    pub is_partial: bool,
}

impl LeafProgress {
    /// Percent of a device on which `size` bytes are for data.
    #[must_use]
    pub fn percent(&self, size: u64) -> u64 {
        if self.state == WorkState::Complete {
            return 100;
        }
        let done = u128::from(self.offset.saturating_sub(LABEL_START_SIZE).min(size));
        u64::try_from((done * 100).checked_div(u128::from(size)).unwrap_or(0)).unwrap_or(100)
    }
}

/// The keys of a work: state, offset, time.
fn keys(work: LeafWork) -> [&'static str; 3] {
    use vdev_zap::{
        INITIALIZE_OFFSET, INITIALIZE_STATE, INITIALIZE_TIME, TRIM_OFFSET, TRIM_STATE, TRIM_TIME,
    };
    match work {
        LeafWork::Initialize => [INITIALIZE_STATE, INITIALIZE_OFFSET, INITIALIZE_TIME],
        LeafWork::Trim => [TRIM_STATE, TRIM_OFFSET, TRIM_TIME],
    }
}

/// Reads the progress from the ZAP of a device.
pub(crate) fn read(mos: &Objset, table: u64, work: LeafWork) -> dmu::Result<LeafProgress> {
    let table = Zap::open(&mos.object(table)?)?;
    let get = |key: &str| table.get_u64(key).map(|n| n.unwrap_or(0));
    let [state, offset, time] = keys(work);
    let is_trim = work == LeafWork::Trim;
    Ok(LeafProgress {
        state: WorkState::of(get(state)?),
        offset: get(offset)?,
        time: get(time)?,
        rate: if is_trim { get(vdev_zap::TRIM_RATE)? } else { 0 },
        is_partial: is_trim && get(vdev_zap::TRIM_PARTIAL)? != 0,
    })
}

/// Writes it. Work that was never begun has no entries.
pub(crate) fn write(
    mos: &Objset,
    tx: &Tx,
    table: u64,
    work: LeafWork,
    now: &LeafProgress,
) -> dmu::Result<()> {
    let object = mos.object(table)?;
    let [state, offset, time] = keys(work);
    let mut all = vec![(state, now.state.number()), (offset, now.offset), (time, now.time)];
    if work == LeafWork::Trim {
        all.push((vdev_zap::TRIM_RATE, now.rate));
        all.push((vdev_zap::TRIM_PARTIAL, u64::from(now.is_partial)));
        all.push((vdev_zap::TRIM_SECURE, 0));
    }
    for (key, value) in all {
        if now.state != WorkState::None {
            zap::set_u64(&mos.object(table)?, tx, key, value)?;
        } else if Zap::open(&object)?.get_u64(key)?.is_some() {
            zap::remove(&mos.object(table)?, tx, key)?;
        }
    }
    Ok(())
}

impl Pool {
    /// How far a work is on a device, by guid; `None` where that cannot be known.
    #[must_use]
    pub fn leaf_progress(&self, leaf: u64, work: LeafWork) -> Option<LeafProgress> {
        let leaf = self.config().vdev_tree.walk().find(|v| v.guid == leaf && v.kind.is_leaf())?;
        read(self.mos(), leaf.vdev_zap_leaf.filter(|n| *n != 0)?, work).ok()
    }
}
