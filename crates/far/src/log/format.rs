//! The objects of a log-structured disk, byte for byte; `docs/format/far.md` has their tables.
//!
//! All begin with one header of [`HEADER_BYTES`], which has the hash of itself and of what follows
//! it, the *body*; of segments the payload comes after that. Numbers are little-endian.
//!
//! What is decoded comes from a store that others may have written to: lengths are checked before
//! they are believed.

use core::fmt;
use ondisk::hex;

/// Bytes of the header of every object.
pub const HEADER_BYTES: usize = 256;
/// Bytes of an entry in a segment's table.
pub const ENTRY_BYTES: usize = 40;
/// Payloads begin at multiples of this in their object, in bytes.
pub const PAYLOAD_ALIGNMENT: usize = 4096;
/// Entries of a segment at most.
pub const ENTRIES_MAX: usize = 1 << 16;
/// Longest body of any object in bytes.
pub const BODY_MAX: usize = 256 << 20;
/// Longest entry in bytes: what is verified at once.
pub const PIECE_MAX: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"zincfar\x01";
const HASHED: usize = HEADER_BYTES - 32;
const TEXT_MAX: usize = 255;
/// Segments for which a limit has room beside a disk that is full.
const LIMIT_SEGMENTS: u64 = 16;

/// A hash by BLAKE3.
pub type Hash = [u8; 32];
/// What tells volumes, writers and pins from one another: random.
pub type Uuid = [u8; 16];

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub &'static str);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damage {}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// What the disk is; created once.
    Super = 1,
    /// That a writer begins.
    Epoch = 2,
    /// Changes of the disk.
    Data = 3,
    /// The end of all writers before: the log goes on elsewhere.
    Seal = 4,
    /// A writer has ended, and nothing of it is under way.
    Close = 5,
    /// Pages of the map.
    Pages = 6,
    /// The root of a checkpoint.
    Checkpoint = 7,
    /// A reader's word that it reads a certain state.
    Pin = 8,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        use Kind::{Checkpoint, Close, Data, Epoch, Pages, Pin, Seal, Super};
        [Super, Epoch, Data, Seal, Close, Pages, Checkpoint, Pin]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// Flag of a segment: all of it was moved by garbage collection.
pub const MOVED: u32 = 1;
/// Flag of a seal: it follows a [`Kind::Close`], so no writer before it can have anything under
/// way.
pub const CLEAN: u32 = 2;

/// What every object begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// [`MOVED`], [`CLEAN`].
    pub flags: u32,
    /// The disk that it belongs to.
    pub volume: Uuid,
    /// The writer that made it.
    pub writer: Uuid,
    /// The number of that writer; 0 in what no writer makes.
    pub epoch: u64,
    /// Place in the log; of a checkpoint, its pages and a pin the place behind what they cover; of
    /// an epoch its number.
    pub seq: u64,
    /// Hash of the header before it in the log, as its writer knew it; zero in a seal.
    pub previous: Hash,
    /// When it was made, in seconds since 1970. Nothing is decided by it.
    pub time: u64,
    /// Of a seal: where the log goes on.
    pub resume: u64,
    /// Bytes of the body.
    pub body: u32,
    /// Entries in it.
    pub count: u32,
    /// Byte in the object where its payload begins.
    pub payload: u32,
    /// Sectors of the payload.
    pub sectors: u32,
    /// Hash of the body.
    pub body_hash: Hash,
}

/// Takes fields off bytes, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Damage> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Damage("it is too short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        self.bytes(N)?.try_into().map_err(|_| Damage("it is too short"))
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, Damage> {
        let len = self.u32()? as usize;
        if len > TEXT_MAX {
            return Err(Damage("a string in it is too long"));
        }
        let text = core::str::from_utf8(self.bytes(len)?);
        text.map(str::to_owned).map_err(|_| Damage("a string in it is not UTF-8"))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend((end as u32).to_le_bytes());
    out.extend(text.as_bytes().iter().take(end));
}

impl Header {
    /// A header of an object without payload, with the hash of its body.
    #[must_use]
    pub fn over(kind: Kind, volume: Uuid, writer: Uuid, body: &[u8]) -> Self {
        Self {
            kind,
            flags: 0,
            volume,
            writer,
            epoch: 0,
            seq: 0,
            previous: [0; 32],
            time: 0,
            resume: 0,
            body: body.len() as u32,
            count: 0,
            payload: 0,
            sectors: 0,
            body_hash: *blake3::hash(body).as_bytes(),
        }
    }

    /// The bytes; the last 32 are the hash of those before.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend((self.kind as u32).to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.volume);
        bytes.extend(self.writer);
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend(self.previous);
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.resume.to_le_bytes());
        for number in [self.body, self.count, self.payload, self.sectors] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.body_hash);
        bytes.resize(HASHED, 0);
        bytes.extend(blake3::hash(&bytes).as_bytes());
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(&bytes);
        out
    }

    /// Reads a header at the beginning of some bytes.
    ///
    /// # Errors
    /// It is not one, is damaged, or its lengths are absurd.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let bytes = bytes.get(..HEADER_BYTES).ok_or(Damage("it is too short"))?;
        let (hashed, hash) = bytes.split_at(HASHED);
        let mut fields = Fields(hashed);
        if fields.array()? != MAGIC {
            return Err(Damage("it is not an object of a log-structured disk"));
        }
        if blake3::hash(hashed).as_bytes() != hash {
            return Err(Damage("its header is damaged"));
        }
        let kind = Kind::of(fields.u32()?).ok_or(Damage("its kind is unknown"))?;
        let header = Self {
            kind,
            flags: fields.u32()?,
            volume: fields.array()?,
            writer: fields.array()?,
            epoch: fields.u64()?,
            seq: fields.u64()?,
            previous: fields.array()?,
            time: fields.u64()?,
            resume: fields.u64()?,
            body: fields.u32()?,
            count: fields.u32()?,
            payload: fields.u32()?,
            sectors: fields.u32()?,
            body_hash: fields.array()?,
        };
        if fields.0.iter().any(|byte| *byte != 0) {
            return Err(Damage("its header has unknown fields"));
        }
        if header.body as usize > BODY_MAX {
            return Err(Damage("its body is too long"));
        }
        Ok(header)
    }

    /// The hash of the encoded header.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(&self.encode()[HASHED..]);
        hash
    }

    /// The body behind this header, verified.
    ///
    /// # Errors
    /// It is not whole.
    pub fn body_of<'a>(&self, object: &'a [u8]) -> Result<&'a [u8], Damage> {
        let end = HEADER_BYTES + self.body as usize;
        let body = object.get(HEADER_BYTES..end).ok_or(Damage("it is too short"))?;
        match *blake3::hash(body).as_bytes() == self.body_hash {
            true => Ok(body),
            false => Err(Damage("its body is damaged")),
        }
    }
}

/// A header and the body behind it, as an object without payload.
#[must_use]
pub fn object(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend(header.encode());
    out.extend(body);
    out
}

/// What a disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Size of the disk in bytes.
    pub size: u64,
    /// Bytes of a sector, a power of two from 512 to 65536.
    pub sector: u32,
    /// Bytes of payload at which a segment is full.
    pub target: u32,
    /// Segments that a writer has under way at most: W.
    pub window: u32,
    /// The store keeps writers apart. Without that there may be one only, ever.
    pub is_fenced: bool,
    /// The program that made it.
    pub made_by: String,
    /// Bytes of segments that there are at most, dead ones as well; `None`: any number.
    pub limit: Option<u64>,
}

impl Superblock {
    /// The lowest limit of a disk: all of it, what is dead between it, and what is being moved.
    #[must_use]
    pub fn limit_least(size: u64, target: u32) -> u64 {
        size.saturating_add(size / 4).saturating_add(LIMIT_SEGMENTS * u64::from(target))
    }

    /// The body of its object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.size.to_le_bytes().to_vec();
        for number in [self.sector, self.target, self.window, u32::from(self.is_fenced)] {
            out.extend(number.to_le_bytes());
        }
        put_text(&mut out, &self.made_by);
        if let Some(limit) = self.limit {
            out.extend(limit.to_le_bytes());
        }
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// A number in it is absurd.
    pub fn decode(body: &[u8]) -> Result<Self, Damage> {
        let mut fields = Fields(body);
        let found = Self {
            size: fields.u64()?,
            sector: fields.u32()?,
            target: fields.u32()?,
            window: fields.u32()?,
            is_fenced: match fields.u32()? {
                0 => false,
                1 => true,
                _ => return Err(Damage("it is of a later version")),
            },
            made_by: fields.text()?,
            limit: match fields.0.len() {
                0 => None,
                8 => Some(fields.u64()?),
                _ => return Err(Damage("it is of a later version")),
            },
        };
        let sector = u64::from(found.sector);
        if !found.sector.is_power_of_two() || !(512..=65536).contains(&found.sector) {
            return Err(Damage("its sector size is out of range"));
        }
        // Sectors of a segment are counted in 32 bits, and so are those of a page of the map.
        if found.size == 0 || !found.size.is_multiple_of(sector) || found.size > 1 << 62 {
            return Err(Damage("its size is out of range"));
        }
        if u64::from(found.target) < sector || found.target > 64 << 20 {
            return Err(Damage("its segment size is out of range"));
        }
        let least = Self::limit_least(found.size, found.target);
        if found.limit.is_some_and(|limit| limit < least) {
            return Err(Damage("its limit is out of range"));
        }
        match (1..=1024).contains(&found.window) {
            true => Ok(found),
            false => Err(Damage("its window is out of range")),
        }
    }
}

/// Identifies a writer, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterId {
    /// Its machine.
    pub host: String,
    /// Its process there.
    pub pid: u32,
}

impl WriterId {
    /// The body of an epoch or a pin.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.pid.to_le_bytes().to_vec();
        put_text(&mut out, &self.host);
        out
    }

    /// Reads such a body.
    ///
    /// # Errors
    /// It is too short, or no text.
    pub fn decode(body: &[u8]) -> Result<Self, Damage> {
        let mut fields = Fields(body);
        let pid = fields.u32()?;
        Ok(Self { host: fields.text()?, pid })
    }
}

/// What an entry of a segment does to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next sectors of the payload are what is there from now on.
    Data,
    /// Nothing is there any more.
    Trim,
    /// As data, but only where what is there still stands in another segment, in this sector of its
    /// payload and the following.
    Move {
        /// The other segment.
        seq: u64,
        /// First sector in its payload.
        at: u32,
    },
}

/// A range of the disk that a segment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First sector on the disk.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
    /// What becomes of them.
    pub change: Change,
    /// The first 64 bits of the BLAKE3 of the bytes; 0 for a trim.
    pub check: u64,
}

impl Entry {
    /// Sectors of it in the payload.
    #[must_use]
    pub fn payload(&self) -> u32 {
        if self.change == Change::Trim { 0 } else { self.sectors }
    }
}

/// What stands in [`Entry::check`] for bytes in parts.
#[must_use]
pub fn check_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let mut head = [0; 8];
    head.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(head)
}

/// The table of a segment as bytes.
#[must_use]
pub fn encode_table(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        let (kind, seq, at) = match entry.change {
            Change::Data => (1u32, 0, 0),
            Change::Trim => (2, 0, 0),
            Change::Move { seq, at } => (3, seq, at),
        };
        out.extend(entry.lba.to_le_bytes());
        out.extend(seq.to_le_bytes());
        out.extend(entry.check.to_le_bytes());
        for number in [entry.sectors, at, kind, 0] {
            out.extend(number.to_le_bytes());
        }
    }
    out
}

/// Reads the table of a segment on a disk of `disk` sectors.
///
/// # Errors
/// It is not what the header says, or a range is not on the disk.
pub fn decode_table(header: &Header, body: &[u8], disk: u64) -> Result<Vec<Entry>, Damage> {
    let count = header.count as usize;
    if count > ENTRIES_MAX || body.len() != count * ENTRY_BYTES {
        return Err(Damage("the size of its table is wrong"));
    }
    let mut entries = Vec::with_capacity(count);
    let (mut fields, mut payload) = (Fields(body), 0u64);
    for _ in 0..count {
        let (lba, seq, check) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (sectors, at, kind) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (1.., 0) = (sectors, fields.u32()?) else {
            return Err(Damage("an entry of its table is empty"));
        };
        let change = match kind {
            1 if (seq, at) == (0, 0) => Change::Data,
            2 if (seq, at) == (0, 0) => Change::Trim,
            3 if seq < header.seq && at.checked_add(sectors).is_some() => Change::Move { seq, at },
            _ => return Err(Damage("an entry of its table is of an unknown kind")),
        };
        if lba.checked_add(u64::from(sectors)).is_none_or(|end| end > disk) {
            return Err(Damage("an entry of its table is beyond the disk"));
        }
        let entry = Entry { lba, sectors, change, check };
        payload += u64::from(entry.payload());
        entries.push(entry);
    }
    match payload == u64::from(header.sectors) {
        true => Ok(entries),
        false => Err(Damage("its payload does not match its table")),
    }
}

/// Where the payload of a segment with this number of entries begins, in bytes.
#[must_use]
pub fn payload_start(entries: usize) -> usize {
    (HEADER_BYTES + entries * ENTRY_BYTES).next_multiple_of(PAYLOAD_ALIGNMENT)
}

/// Where bytes of the disk are: from this sector of a segment's payload on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The segment.
    pub seq: u64,
    /// Sector of its payload.
    pub at: u32,
}

/// A run of sectors that stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First sector on the disk.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
    /// Where they are.
    pub to: Location,
}

/// A page of the map as bytes; its extents begin at sector `base` or behind.
#[must_use]
pub fn encode_page(base: u64, extents: &[Extent]) -> Vec<u8> {
    let mut out = Vec::with_capacity(extents.len() * 20);
    for extent in extents {
        out.extend(((extent.lba - base) as u32).to_le_bytes());
        out.extend(extent.sectors.to_le_bytes());
        out.extend(extent.to.seq.to_le_bytes());
        out.extend(extent.to.at.to_le_bytes());
    }
    out
}

/// Reads a page of the map: extents in order, apart from one another, below sector `end`.
///
/// # Errors
/// It is not one.
pub fn decode_page(base: u64, end: u64, bytes: &[u8]) -> Result<Vec<Extent>, Damage> {
    if !bytes.len().is_multiple_of(20) {
        return Err(Damage("a page of the map has the wrong size"));
    }
    let (mut fields, mut from) = (Fields(bytes), base);
    let mut out = Vec::with_capacity(bytes.len() / 20);
    for _ in 0..bytes.len() / 20 {
        let lba = base.saturating_add(u64::from(fields.u32()?));
        let (sectors, seq, at) = (fields.u32()?, fields.u64()?, fields.u32()?);
        let to = Location { seq, at };
        let stop = lba.saturating_add(u64::from(sectors));
        if lba < from || sectors == 0 || stop > end || at.checked_add(sectors).is_none() {
            return Err(Damage("an extent of the map is out of order"));
        }
        from = stop;
        out.push(Extent { lba, sectors, to });
    }
    Ok(out)
}

/// Where a page of the map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// Which page.
    pub page: u64,
    /// The object of pages: the place of the checkpoint that wrote it, and its part.
    pub object: (u64, u32),
    /// First byte in the object.
    pub from: u32,
    /// Bytes.
    pub len: u32,
    /// The first half of their hash.
    pub hash: [u8; 16],
}

/// A segment that a checkpoint knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Its place in the log.
    pub seq: u64,
    /// Byte in the object where its payload begins.
    pub payload: u32,
    /// Sectors of its payload.
    pub sectors: u32,
    /// The segment that made its last sector dead; 0: it has living ones.
    pub death: u64,
}

/// The body of a checkpoint's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The pages of the map that have anything in them, in order.
    pub pages: Vec<PageRef>,
    /// The segments that are not deleted, in order.
    pub segments: Vec<SegmentRef>,
}

const PAGE_REF_BYTES: usize = 44;
const SEGMENT_REF_BYTES: usize = 24;

impl Root {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = (self.pages.len() as u32).to_le_bytes().to_vec();
        out.extend((self.segments.len() as u32).to_le_bytes());
        for page in &self.pages {
            out.extend(page.page.to_le_bytes());
            out.extend(page.object.0.to_le_bytes());
            for number in [page.object.1, page.from, page.len] {
                out.extend(number.to_le_bytes());
            }
            out.extend(page.hash);
        }
        for segment in &self.segments {
            out.extend(segment.seq.to_le_bytes());
            out.extend(segment.payload.to_le_bytes());
            out.extend(segment.sectors.to_le_bytes());
            out.extend(segment.death.to_le_bytes());
        }
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// Its lists are not in order, or not as long as it says.
    pub fn decode(body: &[u8]) -> Result<Self, Damage> {
        let mut fields = Fields(body);
        let (pages, segments) = (fields.u32()? as usize, fields.u32()? as usize);
        let bytes = pages as u64 * PAGE_REF_BYTES as u64;
        if fields.0.len() as u64 != bytes + segments as u64 * SEGMENT_REF_BYTES as u64 {
            return Err(Damage("a checkpoint has the wrong size"));
        }
        let mut root = Self::default();
        for _ in 0..pages {
            root.pages.push(PageRef {
                page: fields.u64()?,
                object: (fields.u64()?, fields.u32()?),
                from: fields.u32()?,
                len: fields.u32()?,
                hash: fields.array()?,
            });
        }
        for _ in 0..segments {
            let (seq, payload) = (fields.u64()?, fields.u32()?);
            let (sectors, death) = (fields.u32()?, fields.u64()?);
            root.segments.push(SegmentRef { seq, payload, sectors, death });
        }
        let in_order = root.pages.is_sorted_by(|a, b| a.page < b.page)
            && root.segments.is_sorted_by(|a, b| a.seq < b.seq);
        if in_order { Ok(root) } else { Err(Damage("a checkpoint is not in order")) }
    }
}

/// The name of what is at a place in the log.
#[must_use]
pub fn segment_name(seq: u64) -> String {
    format!("{}{seq:016x}", segment_shard(seq))
}

/// What the names of every 256th place of the log begin with.
#[must_use]
pub fn segment_shard(seq: u64) -> String {
    format!("log/{:02x}/", seq & 0xff)
}

/// The name of a writer's object.
#[must_use]
pub fn epoch_name(epoch: u64) -> String {
    format!("epoch/{epoch:016x}")
}

/// The name of a checkpoint's root.
#[must_use]
pub fn checkpoint_name(seq: u64) -> String {
    format!("ckpt/{seq:016x}")
}

/// The name of an object with pages.
#[must_use]
pub fn pages_name((seq, part): (u64, u32)) -> String {
    format!("map/{seq:016x}-{part:04x}")
}

/// The name of a pin.
#[must_use]
pub fn pin_name(pin: &Uuid) -> String {
    format!("pin/{}", hex::encode(pin))
}

/// The name of the object that says what the disk is.
pub const SUPER_NAME: &str = "super";

/// The number at the end of a name: of a segment, an epoch or a checkpoint.
#[must_use]
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.rsplit('/').next().filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// The number and part of an object with pages.
#[must_use]
pub fn pages_of(name: &str) -> Option<(u64, u32)> {
    let (seq, part) = name.strip_prefix("map/")?.split_once('-')?;
    Some((u64::from_str_radix(seq, 16).ok()?, u32::from_str_radix(part, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(body: &[u8]) -> Header {
        Header {
            flags: MOVED,
            epoch: 3,
            seq: 77,
            previous: [9; 32],
            time: 1_700_000_000,
            resume: 5,
            count: 3,
            payload: 4096,
            sectors: 12,
            ..Header::over(Kind::Data, [1; 16], [2; 16], body)
        }
    }

    #[test]
    fn segments_come_back_as_they_were_and_no_bit_may_change() {
        let entries = [
            Entry { lba: 5, sectors: 8, change: Change::Data, check: 1 },
            Entry { lba: 0, sectors: 99, change: Change::Trim, check: 0 },
            Entry { lba: 96, sectors: 4, change: Change::Move { seq: 76, at: 11 }, check: 2 },
        ];
        let table = encode_table(&entries);
        let header = header(&table);
        let bytes = object(&header, &table);
        let again = Header::decode(&bytes).unwrap();
        assert_eq!(again, header);
        assert_eq!(again.hash(), header.hash());
        assert_eq!(decode_table(&again, again.body_of(&bytes).unwrap(), 100).unwrap(), entries);
        assert!(decode_table(&again, &table, 99).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = Header::decode(&bytes).and_then(|h| h.body_of(&bytes).map(|_| ()));
            assert!(found.is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            let short = &bytes[..len];
            assert!(Header::decode(short).and_then(|h| h.body_of(short).map(|_| ())).is_err());
        }
    }

    #[test]
    fn a_move_comes_from_before() {
        let change = Change::Move { seq: 77, at: 0 };
        let table = encode_table(&[Entry { lba: 0, sectors: 12, change, check: 0 }]);
        let header = Header { count: 1, ..header(&table) };
        assert!(decode_table(&header, &table, 100).is_err());
        assert!(decode_table(&Header { seq: 78, ..header }, &table, 100).is_ok());
    }

    #[test]
    fn the_other_objects_come_back_too() {
        let made_by = "zinc".to_owned();
        let is = Superblock {
            size: 1 << 40,
            sector: 4096,
            target: 16 << 20,
            window: 64,
            is_fenced: true,
            made_by,
            limit: None,
        };
        assert_eq!(Superblock::decode(&is.encode()), Ok(is.clone()));
        let least = Superblock::limit_least(is.size, is.target);
        let limited = |limit| Superblock { limit: Some(limit), ..is.clone() };
        let longer = limited(least).encode();
        assert_eq!(Superblock::decode(&longer), Ok(limited(least)));
        // One without a limit is as it always was.
        assert_eq!(longer[..longer.len() - 8], is.encode());
        assert!(Superblock::decode(&[longer, vec![0]].concat()).is_err());
        for wrong in [
            limited(least - 1),
            Superblock { size: 0, ..is.clone() },
            Superblock { size: 5000, ..is.clone() },
            Superblock { sector: 4095, ..is.clone() },
            Superblock { window: 0, ..is.clone() },
            Superblock { target: 512, ..is.clone() },
        ] {
            assert!(Superblock::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
        let who = WriterId { host: "ä".repeat(300), pid: 7 };
        assert_eq!(WriterId::decode(&who.encode()).unwrap().host, "ä".repeat(127));
        let extents = [
            Extent { lba: 100, sectors: 5, to: Location { seq: 3, at: 1 } },
            Extent { lba: 105, sectors: 1, to: Location { seq: 1, at: 0 } },
        ];
        let page = encode_page(100, &extents);
        assert_eq!(decode_page(100, 106, &page).unwrap(), extents);
        assert!(decode_page(100, 105, &page).is_err());
        let swapped = encode_page(100, &[extents[1], extents[0]]);
        assert!(decode_page(100, 106, &swapped).is_err());
        let root = Root {
            pages: vec![PageRef { page: 4, object: (9, 1), from: 0, len: 20, hash: [7; 16] }],
            segments: vec![SegmentRef { seq: 3, payload: 4096, sectors: 7, death: 0 }],
        };
        assert_eq!(Root::decode(&root.encode()), Ok(root.clone()));
        assert!(Root::decode(&root.encode()[..40]).is_err());
    }

    #[test]
    fn names_have_their_numbers() {
        assert_eq!(segment_name(0x1ff), "log/ff/00000000000001ff");
        for name in [segment_name(511), epoch_name(511), checkpoint_name(511)] {
            assert_eq!(number_of(&name), Some(511));
        }
        assert_eq!(pages_of(&pages_name((17, 2))), Some((17, 2)));
        assert_eq!(number_of("super"), None);
    }
}
