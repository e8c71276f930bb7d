//! A block store that turns blocks into what a machine of the other byte order would have written.

use crate::files::{turned, turned_acl};
use engine::inside::device::AlignedBuf;
use engine::inside::dmu::{Block, BlockStore, Key, Place};
use engine::inside::ondisk::acl::{EMBEDDED_ACL_SIZE, encode_aces};
use engine::inside::ondisk::dnode::DNODE_SLOT_SIZE;
use engine::inside::ondisk::sa::{SaHeader, SaTables, SaValue};
use engine::inside::ondisk::zap::{BlockKind, Leaf, MicroZap, ZapHeader, block_kind};
use engine::inside::ondisk::zil::{CHAIN_SIZE, Chain, ChainPlace, encode_records, records};
use engine::inside::ondisk::znode::Znode;
use engine::inside::ondisk::{BlkPtr, DmuType, Dnode, Endian, Layout, ObjsetPhys};
use engine::inside::zio;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The store.
pub(crate) struct Twin {
    original: Arc<dyn BlockStore>,
    /// What attributes look like depends on the tables of their object set.
    tables: Mutex<HashMap<u64, Arc<SaTables>>>,
}

impl Twin {
    /// Turns the blocks of `original`.
    pub(crate) fn new(original: Arc<dyn BlockStore>) -> Self {
        Self { original, tables: Mutex::default() }
    }

    /// Takes note of the attributes of an object set; without them its files stay as they are.
    pub(crate) fn learn(&self, objset: u64, tables: Option<SaTables>) {
        if let Some(tables) = tables {
            self.tables.lock().expect("no panic").insert(objset, Arc::new(tables));
        }
    }

    fn turn(&self, bp: &BlkPtr, place: Place, block: &Block) -> Arc<Block> {
        let (from, to) = (block.endian(), block.endian().swapped());
        let tables = self.tables.lock().expect("no panic").get(&place.objset).cloned();
        let tables = tables.as_deref();
        let bytes = match bp.dmu_type() {
            _ if bp.level() > 0 => swapped::<8>(block),
            DmuType::INTENT_LOG => log_block(bp, block, from, to),
            DmuType::SA => attributes(block, tables, to),
            kind => match kind.layout() {
                Layout::U8 | Layout::Znode => block.to_vec(),
                Layout::U16 => swapped::<2>(block),
                Layout::U32 => swapped::<4>(block),
                Layout::U64 => swapped::<8>(block),
                Layout::Zap => table(block, from, to),
                Layout::Dnode => dnodes(block, tables, from, to),
                Layout::Objset => ObjsetPhys::decode(block, from).expect("sound").encode(to),
                Layout::OldAcl => old_aces(block, from, to),
                Layout::Acl => turned_acl(block, from, to),
            },
        };
        assert_eq!(bytes.len(), block.len(), "{place}: the twin is as long");
        let mut out = AlignedBuf::zeroed(bytes.len());
        out.copy_from_slice(&bytes);
        Arc::new(Block::new(out, to))
    }
}

impl BlockStore for Twin {
    fn rt(&self) -> engine::Rt {
        self.original.rt()
    }

    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        self.original.read(bp, place, key).map(|block| self.turn(bp, place, &block))
    }

    fn read_many(
        &self,
        blocks: &[(BlkPtr, Place)],
        key: Option<&Key>,
    ) -> Vec<zio::Result<Arc<Block>>> {
        let read = self.original.read_many(blocks, key).into_iter().zip(blocks);
        read.map(|(block, (bp, place))| block.map(|b| self.turn(bp, *place, &b))).collect()
    }
}

/// Words of `N` bytes reversed; what is left behind the last whole one stays.
fn swapped<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.as_chunks_mut::<N>().0.iter_mut().for_each(|word| word.reverse());
    out
}

fn log_block(bp: &BlkPtr, block: &[u8], from: Endian, to: Endian) -> Vec<u8> {
    let place = ChainPlace::of(bp.checksum_kind()).expect("a log block");
    let chain = Chain::decode(block, place, from).expect("sound");
    let found: Result<Vec<_>, _> = records(chain.records_in(block, place), from).collect();
    let encoded = encode_records(&found.expect("sound"), to);
    let (chain_at, records_at) = match place {
        ChainPlace::Front => (0, CHAIN_SIZE),
        ChainPlace::Back => (block.len() - CHAIN_SIZE, 0),
    };
    let mut out = block.to_vec();
    out[chain_at..chain_at + CHAIN_SIZE].copy_from_slice(&chain.encode(to));
    out[records_at..records_at + encoded.len()].copy_from_slice(&encoded);
    out
}

fn table(block: &[u8], from: Endian, to: Endian) -> Vec<u8> {
    match block_kind(block, from) {
        Some(BlockKind::Micro) => MicroZap::decode(block, from).expect("sound").encode(to),
        Some(BlockKind::Header) => ZapHeader::decode(block, from).expect("sound").encode(to),
        Some(BlockKind::Leaf) => Leaf::decode(block, from).expect("sound").encode(to),
        None => swapped::<8>(block),
    }
}

fn dnodes(block: &[u8], tables: Option<&SaTables>, from: Endian, to: Endian) -> Vec<u8> {
    let mut out = block.to_vec();
    let mut at = 0;
    while at < block.len() {
        let bytes = &block[at..];
        let mut size = DNODE_SLOT_SIZE;
        if !Dnode::is_free_slot(bytes) {
            let mut dnode = Dnode::decode(bytes, from).expect("sound");
            dnode.bonus = bonus(&dnode, tables, to);
            size = dnode.size();
            out[at..at + size].copy_from_slice(&dnode.encode(to));
        }
        at += size;
    }
    out
}

fn bonus(dnode: &Dnode, tables: Option<&SaTables>, to: Endian) -> Vec<u8> {
    match dnode.bonus_kind {
        DmuType::SA => attributes(&dnode.bonus, tables, to),
        DmuType::ZNODE => {
            let mut znode = Znode::decode(&dnode.bonus, dnode.endian).expect("sound");
            let acl = &mut znode.acl;
            if let Some(aces) = acl.embedded_aces(dnode.endian).expect("sound") {
                let used = usize::try_from(acl.size).expect("embedded").min(EMBEDDED_ACL_SIZE);
                acl.embedded[..used].copy_from_slice(&encode_aces(&aces, acl.version, to));
            }
            znode.encode(to)
        }
        kind if kind.layout() == Layout::U64 => swapped::<8>(&dnode.bonus),
        _ => dnode.bonus.clone(),
    }
}

/// A bonus or spill block, as long as it was.
fn attributes(stored: &[u8], tables: Option<&SaTables>, to: Endian) -> Vec<u8> {
    let (Some(tables), Ok(header)) = (tables, SaHeader::decode(stored)) else {
        return stored.to_vec();
    };
    let values = tables.split(stored).expect("sound");
    let values: Vec<SaValue> = values.iter().map(|v| turned(v, tables, to)).collect();
    let mut out = tables.encode(header.layout.max(1), &values, to).expect("as it was");
    out.resize(stored.len(), 0);
    out
}

fn old_aces(block: &[u8], from: Endian, to: Endian) -> Vec<u8> {
    let count = block.len() as u64 / 12;
    let aces = engine::inside::ondisk::acl::decode_aces(block, 0, count, from).expect("sound");
    let mut out = encode_aces(&aces, 0, to);
    out.resize(block.len(), 0);
    out
}
