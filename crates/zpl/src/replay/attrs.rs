//! A file's attributes taken apart and put together again, in both forms they have on disk.
//!
//! System attributes are kept as the list they are, in the order of their layout: a changed value
//! stays in its place, a new one comes last. They are put into the bonus as far as they fit, what
//! is left goes to a spill block. When no layout of the file system has just these attributes in
//! this order, one is added, and so is an attribute that was never registered: as OpenZFS would.

use super::refusal::Refusal;
use super::state::State;
use device::AlignedBuf;
use dmu::{Block, Objset, Zap, ZapValue};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::{DNODE_CORE_SIZE, FLAG_SPILL, FLAG_USED_BYTES};
use ondisk::sa::{AttrInfo, SaTables, SaValue, ZPL_ATTRS, zpl};
use ondisk::znode::{MASTER_NODE, Time, Znode, flags, mode};
use ondisk::{DmuType, Dnode, Endian};
use std::collections::HashMap;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Refusal>;

/// Largest spill block.
const SPILL_MAX: usize = 128 << 10;
const SECTOR: usize = 512;
const LAYOUT_MAX: u16 = 0x3ff;

/// The attribute tables of a file system that may grow.
pub(super) struct Tables {
    sa: SaTables,
    /// Registered length by number; 0: variable.
    lengths: HashMap<u16, u16>,
    registry_object: u64,
    layouts_object: u64,
}

impl Tables {
    /// The tables of a file system of version 5.
    pub(super) fn new(objset: &Objset, sa: &SaTables) -> crate::Result<Self> {
        let master = Zap::open(&objset.object(MASTER_NODE)?)?;
        let number = master.need_u64(ondisk::sa::MASTER_NODE_ENTRY)?;
        let table = Zap::open(&objset.object(number)?)?;
        let lengths = sa.attrs().map(|(_, info)| (info.number, info.length)).collect();
        Ok(Self {
            sa: sa.clone(),
            lengths,
            registry_object: table.need_u64(ondisk::sa::REGISTRY)?,
            layouts_object: table.get_u64(ondisk::sa::LAYOUTS)?.unwrap_or(0),
        })
    }

    /// The number of an attribute, which is registered when it was not.
    fn number(&mut self, state: &mut State, name: &str) -> Result<u16> {
        if let Some(info) = self.sa.attr(name) {
            return Ok(info.number);
        }
        let unknown = Refusal::Unsupported("an attribute of another kind than files have");
        let known = ZPL_ATTRS.iter().find(|(n, _, _)| *n == name);
        let &(_, length, class) = known.ok_or(unknown)?;
        let number = self.lengths.keys().max().map_or(0, |n| n.saturating_add(1));
        let info = AttrInfo { number, length, class };
        self.rebuild(Some((name, info)), None)?;
        self.lengths.insert(number, length);
        let value = ZapValue::from_u64(info.encode());
        state.edit(self.registry_object).zap.insert(name.as_bytes().to_vec(), Some(value));
        Ok(number)
    }

    /// The layout of just these attributes, which is added when there was none.
    fn layout(&mut self, state: &mut State, attrs: &[u16]) -> Result<u16> {
        if let Some(number) = self.sa.find_layout(attrs) {
            return Ok(number);
        }
        let used = (0..=LAYOUT_MAX).filter(|n| self.sa.layout(*n).is_some()).max().unwrap_or(1);
        let number = used + 1;
        if number > LAYOUT_MAX || self.layouts_object == 0 {
            return Err(Refusal::Unsupported("the file system has no room for another layout"));
        }
        self.rebuild(None, Some((number, attrs)))?;
        let values = attrs.iter().flat_map(|n| n.to_be_bytes()).collect();
        let value = ZapValue { int_len: 2, values };
        state.edit(self.layouts_object).zap.insert(number.to_string().into_bytes(), Some(value));
        Ok(number)
    }

    fn rebuild(
        &mut self,
        attr: Option<(&str, AttrInfo)>,
        layout: Option<(u16, &[u16])>,
    ) -> Result<()> {
        let registry = self.sa.attrs().map(|(n, info)| (n, info.encode()));
        let registry = registry.chain(attr.map(|(n, info)| (n.as_bytes(), info.encode())));
        let known = (0..=LAYOUT_MAX).filter_map(|n| Some((n, self.sa.layout(n)?)));
        let rows: Vec<(Vec<u8>, Vec<u64>)> = known
            .chain(layout)
            .map(|(n, l)| (n.to_string().into_bytes(), l.iter().map(|a| u64::from(*a)).collect()))
            .collect();
        let rows = rows.iter().map(|(n, l)| (n.as_slice(), l.iter().copied()));
        self.sa = SaTables::new(registry, rows)?;
        Ok(())
    }

    fn is_variable(&self, number: u16) -> bool {
        self.lengths.get(&number).is_none_or(|l| *l == 0)
    }

    /// Bytes of a block of these attributes.
    fn size(&self, values: &[SaValue]) -> usize {
        let variable = values.iter().filter(|v| self.is_variable(v.number)).count();
        let header = (6 + 2 * variable.max(1)).next_multiple_of(8);
        header + values.iter().map(|v| v.bytes.len().next_multiple_of(8)).sum::<usize>()
    }
}

enum Form {
    Sa {
        values: Vec<(String, Vec<u8>)>,
        /// Attributes without a name this code knows, by number.
        others: Vec<SaValue>,
        endian: Endian,
    },
    Old(Box<Znode>),
}

/// A file whose attributes are being changed. Nothing is changed before [`File::save`].
pub(super) struct File {
    pub(super) number: u64,
    dnode: Dnode,
    form: Form,
}

impl File {
    /// Loads a file; an object that is none is an error.
    pub(super) fn load(state: &State, tables: Option<&Tables>, number: u64) -> Result<Self> {
        let object = state.object(number)?;
        let dnode = object.dnode().clone();
        let form = match (dnode.bonus_kind, tables) {
            (DmuType::ZNODE, _) => Form::Old(Box::new(Znode::decode(&dnode.bonus, dnode.endian)?)),
            (DmuType::SA, Some(tables)) => {
                let spill = object.read_spill()?;
                let spill = spill.as_ref().map(|b| b.bytes());
                sa_form(tables, &tables.sa.read(&dnode.bonus, spill)?.values)?
            }
            _ => return Err(Refusal::Damaged("an object it names is no file")),
        };
        Ok(Self { number, dnode, form })
    }

    /// A new file without attributes; `old`: in the form of versions before 5.
    pub(super) fn new(number: u64, slots: u16, directory: bool, old: bool) -> Result<Self> {
        let dnode = new_dnode(slots, directory, old)?;
        let form = if old {
            let znode = Znode::decode(&[0; ondisk::znode::ZNODE_SIZE], Endian::Little)?;
            Form::Old(Box::new(znode))
        } else {
            Form::Sa { values: Vec::new(), others: Vec::new(), endian: Endian::Little }
        };
        Ok(Self { number, dnode, form })
    }

    /// The old form, where there is one.
    pub(super) fn old(&mut self) -> Option<&mut Znode> {
        match &mut self.form {
            Form::Old(z) => Some(z),
            Form::Sa { .. } => None,
        }
    }

    pub(super) fn endian(&self) -> Endian {
        match &self.form {
            Form::Sa { endian, .. } => *endian,
            Form::Old(_) => self.dnode.endian,
        }
    }

    /// Block size of its data in bytes.
    pub(super) fn block_size(&self) -> u64 {
        self.dnode.block_size()
    }

    /// Bytes of a variable attribute; `None` in the old form.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match &self.form {
            Form::Sa { values, .. } => {
                values.iter().find(|(n, _)| n == name).map(|(_, b)| b.as_slice())
            }
            Form::Old(_) => None,
        }
    }

    pub(super) fn set_bytes(&mut self, name: &str, bytes: Vec<u8>) {
        if let Form::Sa { values, .. } = &mut self.form {
            match values.iter_mut().find(|(n, _)| n == name) {
                Some((_, b)) => *b = bytes,
                None => values.push((name.to_owned(), bytes)),
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Form::Sa { values, .. } = &mut self.form {
            values.retain(|(n, _)| n != name);
        }
    }

    /// A one-word attribute; 0 where the file has none.
    pub(super) fn get(&self, name: &str) -> u64 {
        match &self.form {
            Form::Sa { values, endian, .. } => {
                let found = values.iter().find(|(n, _)| n == name);
                let word = found.and_then(|(_, b)| b.first_chunk::<8>());
                word.map_or(0, |w| endian.u64(*w))
            }
            Form::Old(z) => old_word(z, name),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: u64) {
        if let Form::Old(z) = &mut self.form {
            if let Some(slot) = old_slot(z, name) {
                *slot = value;
            }
            return;
        }
        self.set_words(name, &[value]);
    }

    pub(super) fn time(&self, name: &str) -> Time {
        match &self.form {
            Form::Old(z) => old_time(z, name),
            Form::Sa { values, endian, .. } => {
                let bytes = values.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, b)| b);
                let mut words = bytes.as_chunks::<8>().0.iter().map(|w| endian.u64(*w));
                let seconds = words.next().unwrap_or(0).cast_signed();
                Time { seconds, nanos: words.next().unwrap_or(0) }
            }
        }
    }

    pub(super) fn set_time(&mut self, name: &str, time: Time) {
        if let Form::Old(z) = &mut self.form {
            if let Some(slot) = old_time_slot(z, name) {
                *slot = time;
            }
            return;
        }
        self.set_words(name, &time.words());
    }

    fn set_words(&mut self, name: &str, words: &[u64]) {
        let endian = self.endian();
        let bytes = words.iter().flat_map(|w| match endian {
            Endian::Little => w.to_le_bytes(),
            Endian::Big => w.to_be_bytes(),
        });
        self.set_bytes(name, bytes.collect());
    }

    pub(super) fn is_dir(&self) -> bool {
        self.get(zpl::MODE) & mode::TYPE == mode::DIR
    }

    pub(super) fn has_flag(&self, flag: u64) -> bool {
        self.get(zpl::FLAGS) & flag != 0
    }

    pub(super) fn set_flag(&mut self, flag: u64, on: bool) {
        let before = self.get(zpl::FLAGS);
        self.set(zpl::FLAGS, if on { before | flag } else { before & !flag });
    }

    /// The content changed at `now`. `marks`: the file system keeps DOS attributes.
    pub(super) fn content_changed(&mut self, now: Option<Time>, marks: bool) {
        self.state_changed(now, marks);
        let ctime = self.time(zpl::CTIME);
        self.set_time(zpl::MTIME, ctime);
        if marks {
            self.set_flag(flags::AV_MODIFIED, true);
        }
    }

    /// The attributes changed at `now`, but no time goes back.
    pub(super) fn state_changed(&mut self, now: Option<Time>, marks: bool) {
        if let Some(now) = now {
            let ctime = self.time(zpl::CTIME).max(now);
            self.set_time(zpl::CTIME, ctime);
        }
        if marks {
            self.set_flag(flags::ARCHIVE, true);
        }
    }

    /// Puts the attributes into dnode and spill block, and those into the overlay.
    pub(super) fn save(self, state: &mut State, tables: Option<&mut Tables>) -> Result<()> {
        let Self { number, mut dnode, form } = self;
        let mut spill = None;
        match (form, tables) {
            (Form::Old(z), _) => dnode.bonus = z.encode(dnode.endian),
            (Form::Sa { values, others, endian }, Some(tables)) => {
                let mut list = Vec::with_capacity(values.len() + others.len());
                for (name, bytes) in values {
                    list.push(SaValue { number: tables.number(state, &name)?, bytes, endian });
                }
                list.extend(others);
                let (bonus, rest) = pack(state, tables, &list, endian, &dnode)?;
                dnode.bonus = bonus;
                spill = rest;
            }
            (Form::Sa { .. }, None) => {
                return Err(Refusal::Unsupported("the file system has no attribute tables"));
            }
        }
        if dnode.bonus_kind == DmuType::SA {
            dnode.spill = None;
            dnode.flags &= !FLAG_SPILL;
        }
        let entry = state.edit(number);
        if dnode.bonus_kind == DmuType::SA {
            entry.spill = Some(spill);
        }
        entry.dnode = Some(Arc::new(dnode));
        Ok(())
    }
}

fn sa_form(tables: &Tables, values: &[SaValue]) -> Result<Form> {
    let endian = values.first().map_or(Endian::Little, |v| v.endian);
    if values.iter().any(|v| v.endian != endian) {
        return Err(Refusal::Unsupported("a file with attributes in both byte orders"));
    }
    let names: HashMap<u16, &[u8]> = tables.sa.attrs().map(|(n, i)| (i.number, n)).collect();
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for v in values {
        let name = names.get(&v.number).and_then(|n| std::str::from_utf8(n).ok());
        match name {
            Some(name) => known.push((name.to_owned(), v.bytes.clone())),
            None => others.push(v.clone()),
        }
    }
    Ok(Form::Sa { values: known, others, endian })
}

type Packed = (Vec<u8>, Option<Arc<Block>>);

/// Divides the attributes between bonus and spill block: as many from the start as fit stay.
fn pack(
    state: &mut State,
    tables: &mut Tables,
    list: &[SaValue],
    endian: Endian,
    dnode: &Dnode,
) -> Result<Packed> {
    let room = dnode.size().saturating_sub(DNODE_CORE_SIZE + dnode.blkptrs.len() * BLKPTR_SIZE);
    let split = if tables.size(list) <= room {
        list.len()
    } else {
        let room = room.saturating_sub(BLKPTR_SIZE);
        let fits = |n: &usize| tables.size(list.get(..*n).unwrap_or_default()) <= room;
        (0..list.len()).rev().find(fits).unwrap_or(0)
    };
    let (bonus, rest) = list.split_at(split);
    let bonus = encode(state, tables, bonus, endian)?;
    if rest.is_empty() {
        return Ok((bonus, None));
    }
    let rest = encode(state, tables, rest, endian)?;
    if rest.len() > SPILL_MAX {
        return Err(Refusal::Unsupported("attributes larger than a spill block"));
    }
    let mut buf = AlignedBuf::zeroed(rest.len().next_multiple_of(SECTOR));
    if let Some(start) = buf.get_mut(..rest.len()) {
        start.copy_from_slice(&rest);
    }
    state.hold(buf.len() as u64)?;
    Ok((bonus, Some(Arc::new(Block::new(buf, endian)))))
}

fn encode(
    state: &mut State,
    tables: &mut Tables,
    values: &[SaValue],
    endian: Endian,
) -> Result<Vec<u8>> {
    let attrs: Vec<u16> = values.iter().map(|v| v.number).collect();
    let layout = tables.layout(state, &attrs)?;
    Ok(tables.sa.encode(layout, values, endian)?)
}

/// The dnode of an object that has nothing yet.
fn new_dnode(slots: u16, directory: bool, old: bool) -> Result<Dnode> {
    /// log2 of the size of indirect blocks that OpenZFS gives new objects.
    const INDIRECT_SHIFT: u8 = 17;
    if !(1..=32).contains(&slots) {
        return Err(Refusal::Damaged("a dnode of more slots than any has"));
    }
    let kind = if directory { DmuType::DIRECTORY_CONTENTS } else { DmuType::PLAIN_FILE_CONTENTS };
    let bonus_kind = if old { DmuType::ZNODE } else { DmuType::SA };
    let mut core = vec![0; usize::from(slots) * SECTOR];
    let (levels, pointers) = (1, 1);
    let head = [kind.0, INDIRECT_SHIFT, levels, pointers, bonus_kind.0, 0, 0, FLAG_USED_BYTES];
    let data_sectors = 1;
    let rest = [data_sectors, 0, 0, 0, (slots - 1) as u8];
    for (to, from) in core.iter_mut().zip(head.into_iter().chain(rest)) {
        *to = from;
    }
    Ok(Dnode::decode(&core, Endian::Little)?)
}

fn old_word(z: &Znode, name: &str) -> u64 {
    match name {
        zpl::GEN => z.generation,
        zpl::MODE => z.mode,
        zpl::SIZE => z.size,
        zpl::PARENT => z.parent,
        zpl::LINKS => z.links,
        zpl::XATTR => z.xattr,
        zpl::RDEV => z.rdev,
        zpl::FLAGS => z.flags,
        zpl::UID => z.uid,
        zpl::GID => z.gid,
        _ => 0,
    }
}

fn old_slot<'z>(z: &'z mut Znode, name: &str) -> Option<&'z mut u64> {
    Some(match name {
        zpl::GEN => &mut z.generation,
        zpl::MODE => &mut z.mode,
        zpl::SIZE => &mut z.size,
        zpl::PARENT => &mut z.parent,
        zpl::LINKS => &mut z.links,
        zpl::XATTR => &mut z.xattr,
        zpl::RDEV => &mut z.rdev,
        zpl::FLAGS => &mut z.flags,
        zpl::UID => &mut z.uid,
        zpl::GID => &mut z.gid,
        _ => return None,
    })
}

fn old_time(z: &Znode, name: &str) -> Time {
    match name {
        zpl::ATIME => z.atime,
        zpl::MTIME => z.mtime,
        zpl::CTIME => z.ctime,
        zpl::CRTIME => z.crtime,
        _ => Time::default(),
    }
}

fn old_time_slot<'z>(z: &'z mut Znode, name: &str) -> Option<&'z mut Time> {
    Some(match name {
        zpl::ATIME => &mut z.atime,
        zpl::MTIME => &mut z.mtime,
        zpl::CTIME => &mut z.ctime,
        zpl::CRTIME => &mut z.crtime,
        _ => return None,
    })
}
