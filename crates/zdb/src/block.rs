//! `zdb -R` and `-E`: a block by its address, or in a pointer.

use super::dump::Dump;
use super::show;
use crate::{Error, Result};
use engine::Pool;
use engine::inside::codec::checksum::{self, Algorithm as Checksum, ByteOrder, Salted};
use engine::inside::codec::compress;
use engine::inside::codec::compress::Algorithm;
use engine::inside::device::AlignedBuf;
use engine::inside::ondisk::blkptr::BLKPTR_SIZE;
use engine::inside::ondisk::gang::GangHeader;
use engine::inside::ondisk::{BlkPtr, Dva, Endian};
use engine::inside::vdev::{BlockRead, NodeRef, Scope};
use serde_json::json;

/// Largest block in bytes.
const SIZE_MAX: u64 = 16 << 20;

/// The flags.
const FLAGS: &str = "bcdegirv";
/// Checksums that depend on nothing but the bytes.
const PLAIN: [(&str, Checksum); 4] = [
    ("fletcher2", Checksum::Fletcher2),
    ("fletcher4", Checksum::Fletcher4),
    ("sha256", Checksum::Sha256),
    ("sha512", Checksum::Sha512_256),
];

/// What to read, and what to do with it.
struct Spec {
    vdev: String,
    offset: u64,
    lsize: u64,
    psize: u64,
    /// Both sizes were given.
    has_both: bool,
    flags: String,
    /// Number of the block pointer inside the block that is wanted (`b`).
    index: Option<usize>,
}

fn parse(text: &str) -> Option<Spec> {
    let hex = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok();
    let mut parts = text.split(':');
    let vdev = parts.next()?.to_owned();
    let offset = hex(parts.next()?)?;
    let size = parts.next()?;
    // As a block pointer is printed: `20000L/1000P`.
    let hex = |s: &str| hex(s.trim_end_matches(['L', 'P']));
    let (lsize, psize) = match size.split_once('/') {
        Some((l, p)) => (hex(l)?, hex(p)?),
        None => (hex(size)?, hex(size)?),
    };
    let has_both = size.contains('/');
    let flags = parts.next().unwrap_or_default();
    let index = flags.find('b').and_then(|at| flags.get(at + 1..));
    // The letters of flags end a number, though some are digits: `b80d` is `b80` and `d`.
    let is_digit = |c: &char| c.is_ascii_hexdigit() && !FLAGS.contains(*c);
    let digits = |s: &str| s.chars().take_while(is_digit).collect::<String>();
    let index = index.map(|s| usize::from_str_radix(&digits(s), 16).unwrap_or(0) / BLKPTR_SIZE);
    let flags = flags.to_owned();
    let sound = parts.next().is_none() && psize > 0 && psize.max(lsize) <= SIZE_MAX;
    sound.then_some(Spec { vdev, offset, lsize, psize, has_both, flags, index })
}

/// Reads `VDEV:OFFSET:SIZE[/PSIZE][:FLAGS]`, all numbers but the vdev hexadecimal.
///
/// Flags: `d` decompress (every algorithm is tried), `g` gang header, `i` block pointers, `b[N]`
/// the block pointer at byte N, `c` its checksums, `r` the bytes themselves, `v` say what was
/// tried, `e` the other byte order. There is no checksum to verify.
///
/// # Errors
/// `text` is not of this form. A block that cannot be read is said in the dump.
pub fn read(d: &mut Dump, pool: &Pool, text: &str) -> Result<()> {
    let usage = || Error::Usage(format!("{text}: want VDEV:OFFSET:SIZE[/PSIZE][:FLAGS]"));
    let spec = parse(text).ok_or_else(usage)?;
    d.open_flat("blocks");
    match spec.is_raw(d) {
        true => d.hold("block", text),
        false => d.field("block", text, format_args!("\n{text}")),
    }
    match fetch(pool, &spec) {
        Ok(bytes) => print(d, &spec, &bytes),
        Err(e) => d.fail(e),
    }
    d.close_flat();
    Ok(())
}

impl Spec {
    /// The bytes go to the output, and nothing else does.
    fn is_raw(&self, d: &Dump) -> bool {
        self.flags.contains('r') && !d.is_json()
    }
}

/// Reads the bytes: from a top-level vdev, or from a device named by path, guid or `TOP.CHILD`.
fn fetch(pool: &Pool, spec: &Spec) -> Result<Vec<u8>, String> {
    let tree = pool.vdevs();
    if let Ok(top) = spec.vdev.parse::<u32>()
        && tree.top(top).is_some()
    {
        let accept = |_: &[u8]| true;
        let dva = Dva::new(top, spec.offset, spec.psize, false);
        let request = BlockRead {
            dva,
            size: spec.psize,
            birth: u64::MAX,
            verify: &accept,
            speculative: false,
        };
        let result = tree.read_batch(vec![request], Scope::Data).pop();
        let data = result.ok_or("nothing was read")?.data.map_err(|e| e.to_string())?;
        return Ok(data.to_vec());
    }
    let mut path = spec.vdev.split('.');
    let top = path.next().and_then(|t| t.parse().ok()).and_then(|t| tree.top(t));
    let child = top.map(|t| t.node()).and_then(|mut node| {
        for part in path {
            node = node.children().nth(part.parse().ok()?)?;
        }
        Some(node)
    });
    let guid = spec.vdev.parse::<u64>().ok();
    let is_it = |l: &NodeRef<'_>| Some(l.guid()) == guid || l.name() == spec.vdev;
    let leaf = child.or_else(|| tree.leaves().find(is_it));
    let leaf = leaf.ok_or_else(|| format!("no vdev is called {}", spec.vdev))?;
    let device = leaf.device().ok_or("the device is missing")?;
    // Offsets of a device count like those of a vdev: from behind the front labels.
    let at =
        spec.offset.checked_add(engine::inside::vdev::map::LABEL_START_SIZE).ok_or("offset")?;
    let block =
        engine::inside::device::read_batch(device.as_ref(), &[(at, spec.psize as usize)]).pop();
    let block = block.ok_or("nothing was read")?.map_err(|e| e.to_string())?;
    Ok(block.to_vec())
}

fn print(d: &mut Dump, spec: &Spec, stored: &[u8]) {
    let has = |c: char| spec.flags.contains(c);
    let mut bytes = stored.to_vec();
    if has('d') {
        match decompress(d, stored, spec) {
            Some(b) => bytes = b,
            None => return d.fail("no algorithm decompresses this"),
        }
    }
    if has('e') {
        for word in bytes.as_chunks_mut::<8>().0 {
            word.reverse();
        }
    }
    if has('c') {
        for (name, algorithm) in PLAIN {
            let order = ByteOrder::Little;
            let digest = checksum::compute(algorithm, order, &Salted::default(), stored);
            let sum = show::words(digest.0);
            d.field(name, sum.clone(), format_args!("{name:>12}\tcksum={sum}"));
        }
        return;
    }
    if spec.is_raw(d) {
        return d.raw(&bytes);
    }
    let shown = spec.index;
    if has('g') {
        return gang(d, &bytes);
    }
    if has('i') {
        return pointers(d, &bytes, None);
    }
    if has('b') {
        return pointers(d, &bytes, Some(shown.unwrap_or(0)));
    }
    d.hold("bytes", show::hex(&bytes));
    show::hexdump(d, &bytes);
}

/// A block whose sizes are the same was not compressed. Otherwise tries all algorithms, the sizes
/// from the logical one asked for up. The result that uses the stored bytes most exactly is not
/// knowable without the pointer, so the first that fits wins.
fn decompress(d: &mut Dump, stored: &[u8], spec: &Spec) -> Option<Vec<u8>> {
    if spec.has_both && spec.lsize == spec.psize {
        return Some(stored.to_vec());
    }
    let sizes: Vec<u64> = if spec.lsize > spec.psize {
        vec![spec.lsize]
    } else {
        (1..=SIZE_MAX / 512).map(|n| n * 512).filter(|n| *n > spec.psize).take(512).collect()
    };
    let order = [15u8, 3, 16, 9, 14];
    for size in sizes {
        for algorithm in order.into_iter().filter_map(compress::from_number) {
            let mut out = AlignedBuf::zeroed(size as usize);
            if compress::decompress(algorithm, stored, &mut out).is_ok()
                && plausible(algorithm, stored, &out)
            {
                let name = algorithm.name();
                match spec.is_raw(d) {
                    true => d.hold("compression", name),
                    false => d.field("compression", name, format_args!("{name} {size:x}L")),
                }
                return Some(out.to_vec());
            }
        }
    }
    None
}

/// Run-length codes decompress anything to something: they count only when compressing again
/// gives the bytes back.
fn plausible(algorithm: Algorithm, stored: &[u8], out: &[u8]) -> bool {
    if !matches!(algorithm.number(), 3 | 14) {
        return true;
    }
    let again = compress::compress(algorithm, out);
    again.is_some_and(|a| stored.starts_with(&a))
}

fn pointers(d: &mut Dump, bytes: &[u8], only: Option<usize>) {
    for (i, c) in bytes.chunks_exact(BLKPTR_SIZE).enumerate() {
        if only.is_some_and(|n| n != i) {
            continue;
        }
        match BlkPtr::decode(c, Endian::Little) {
            Ok(bp) if bp == BlkPtr::HOLE && only.is_none() => {}
            Ok(bp) => {
                d.push("pointers", json!({"index": i, "bp": show::bp_json(&bp)}));
                d.note(format_args!("{:x}: {}", i * BLKPTR_SIZE, show::bp(&bp)));
            }
            Err(e) => d.fail(e),
        }
    }
}

fn gang(d: &mut Dump, bytes: &[u8]) {
    match GangHeader::decode(bytes, Endian::Little) {
        Ok(h) => {
            for bp in h.parts {
                d.push("pointers", show::bp_json(&bp));
                d.note(show::bp(&bp));
            }
        }
        Err(e) => d.fail(e),
    }
}

/// Decodes the payload of an embedded block pointer, given as sixteen words with colons between.
///
/// # Errors
/// `text` is not of this form, or no pointer with a payload.
pub fn embedded(d: &mut Dump, text: &str) -> Result<()> {
    let usage =
        || Error::Usage("-E requires sixteen hexadecimal words separated by colons".to_owned());
    let mut words = [0u64; 16];
    let mut parts = text.split(':');
    for w in &mut words {
        let part = parts.next().ok_or_else(usage)?.trim_start_matches("0x");
        *w = u64::from_str_radix(part, 16).map_err(|_| usage())?;
    }
    if parts.next().is_some() {
        return Err(usage());
    }
    let bp = BlkPtr::from_words(words);
    d.field("bp", show::bp_json(&bp), show::bp(&bp));
    if !bp.is_embedded() {
        return Err(Error::Usage("-E: the block pointer carries no data".to_owned()));
    }
    let payload = bp.embedded_payload();
    let algorithm = compress::from_number(bp.compression().0);
    let mut out = AlignedBuf::zeroed(bp.lsize() as usize);
    match algorithm.map(|a| compress::decompress(a, &payload, &mut out)) {
        Some(Ok(())) => {
            d.hold("bytes", show::hex(&out));
            show::hexdump(d, &out);
        }
        _ => {
            d.fail("the payload cannot be decompressed; as it stands:");
            show::hexdump(d, &payload);
        }
    }
    Ok(())
}
