//! A live meta object set in memory: nothing is ever synced, so nothing is ever read or written.

use dmu::{Block, BlockStore, Key, LiveSpec, Objset, Place, SetPolicy};
use ondisk::BlkPtr;
use ondisk::objset::{OBJSET_SIZE_V3, ObjsetKind};
use std::sync::Arc;

struct Nothing;

impl BlockStore for Nothing {
    fn rt(&self) -> rt::Rt {
        rt::Rt::current()
    }

    fn read(&self, bp: &BlkPtr, place: Place, _: Option<&Key>) -> zio::Result<Arc<Block>> {
        unreachable!("{place} is read: {bp:?}")
    }
}

/// An empty MOS, to be changed with [`dmu::Tx::syncing`].
pub(crate) fn memory_mos() -> Objset {
    let spec = LiveSpec {
        store: Arc::new(Nothing),
        id: 0,
        root: None,
        kind: ObjsetKind::Meta,
        header_size: OBJSET_SIZE_V3,
        transactions: None,
        policy: SetPolicy::mos(),
        accounting: None,
        key: dmu::SetKey::None,
    };
    Objset::live(spec).unwrap()
}
