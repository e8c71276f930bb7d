//! Bytes per second from blocks in memory to devices in memory: what the writer itself costs.
//!
//! `cargo run --profile bench -p zio --example writeblocks [-- MIB [THREADS]]`. Blocks of 128 KiB,
//! fletcher4, no compression, over one disk, a mirror of two and a raidz1 of five. Beside each, a
//! copy and a checksum of the same bytes by as many threads: what no writer can be faster than
//! where the device is memory.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement may print, and stop where it likes"
)]

use device::{
    AlignedBuf, Device, DeviceRef, Error, MemoryDevice, Read, Write, WriteDevice, WriteDeviceRef,
};
use ondisk::config::VdevConfig;
use ondisk::nvlist::{NvList, NvValue};
use ondisk::{BlkPtr, DmuType, Dva, Endian};
use rt::Rt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vdev::{LeafOpen, VdevTree};
use zio::{AllocError, AllocRequest, Allocate, Block, Place, Reader, WriteSpec, Writer};

const BLOCK: usize = 128 << 10;
/// The allocator begins anew after this many bytes, so that memory devices stay small.
const WINDOW: u64 = 64 << 20;

/// Takes bytes and forgets them: what is left is the writer.
struct Sink(MemoryDevice);

impl Device for Sink {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn sector_size(&self) -> u32 {
        512
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.0.read(offset, buf)
    }
    fn submit(&self, batch: Vec<Read>) {
        self.0.submit(batch);
    }
}

impl WriteDevice for Sink {
    fn submit_writes(&self, batch: Vec<Write>) {
        for write in batch {
            (write.done)(Ok(()));
        }
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// Space in a ring.
struct Ring {
    asize: u64,
    next: AtomicU64,
}

impl Allocate for Ring {
    fn allocate(&self, want: &AllocRequest) -> Result<[Dva; 3], AllocError> {
        let at =
            self.next.fetch_add(self.asize, Ordering::Relaxed) % (WINDOW / self.asize * self.asize);
        Ok([Dva::new(0, at, self.asize, want.gang), Dva::default(), Dva::default()])
    }
    fn discard(&self, _: &BlkPtr, _: u64) {}
    fn free(&self, _: &BlkPtr, _: u64) {}
}

fn list(kind: &str, id: u64) -> NvList {
    let mut l = NvList::new();
    l.set("type", NvValue::String(kind.into()));
    l.set("id", NvValue::U64(id)).set("guid", NvValue::U64(id + 1));
    l.set("ashift", NvValue::U64(12)).set("nparity", NvValue::U64(1));
    l.set("path", NvValue::String(format!("disk{id}").into()));
    l
}

fn writer(kind: &str, disks: u64, sink: bool) -> Writer {
    let mut top = list(kind, 0);
    if disks > 1 {
        let children = (0..disks).map(|i| list("file", i)).collect();
        top.set("children", NvValue::NvListArray(children));
    }
    let mut root = list("root", 0);
    root.set("children", NvValue::NvListArray(vec![top]));
    let config = VdevConfig::decode(&root).unwrap();
    let tree = VdevTree::build(&rt::Rt::current(), &config, &mut |_| {
        let memory = MemoryDevice::zeros("memory", 1 << 30);
        LeafOpen::Writable(match sink {
            true => Arc::new(Sink(memory)) as WriteDeviceRef,
            false => Arc::new(memory),
        })
    });
    let reader = Arc::new(Reader::new(tree.unwrap(), &[0; 32]));
    let asize = reader.vdevs().psize_to_asize(0, BLOCK as u64, 1).unwrap();
    let ring = Ring { asize, next: AtomicU64::new(0) };
    Writer::new(&Rt::real(), reader, Arc::new(ring))
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let blocks = arguments.next().unwrap_or(4096) << 20 >> BLOCK.trailing_zeros();
    let most = arguments.next().map_or_else(rt::threads_available, |n| n as usize);
    // Many blocks, so that they are not in the processor's caches as a real one's are not.
    let sources: Vec<Arc<Block>> = (0..512u64)
        .map(|i| {
            let mut buf = AlignedBuf::zeroed(BLOCK);
            for (n, chunk) in buf.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *chunk = (i * 7919 + n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            }
            Arc::new(Block::new(buf, Endian::Little))
        })
        .collect();
    let run = |name: &str, threads: usize, work: &(dyn Fn(&Arc<Block>) + Sync)| {
        let start = Instant::now();
        let each = |i: u64| {
            work(&sources[i as usize % sources.len()]);
            Ok::<(), ()>(())
        };
        Rt::real().for_each_parallel(threads, 0..blocks, each).unwrap();
        let rate = (blocks * BLOCK as u64) as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("{name:<24} {threads:2} threads {rate:8.2} GB/s");
    };
    let spec = WriteSpec::new(DmuType(19), 0, 1);
    for threads in 1..=most {
        run("copy and checksum", threads, &|b| {
            let copy = AlignedBuf::copy_of(b);
            let salted = codec::checksum::Salted::default();
            let (algorithm, order) =
                (codec::checksum::Algorithm::Fletcher4, codec::checksum::ByteOrder::Little);
            black_box(codec::checksum::compute(algorithm, order, &salted, &copy));
        });
        run("checksum", threads, &|b| {
            let mut f = codec::checksum::Fletcher4::new();
            f.update(codec::checksum::ByteOrder::Little, b);
            black_box(f.digest());
        });
        for (kind, disks) in [("file", 1), ("mirror", 2), ("raidz", 5)] {
            for sink in [true, false] {
                let writer = writer(kind, disks, sink);
                let name = format!("{kind} {disks} {}", if sink { "sink" } else { "memory" });
                run(&name, threads, &|b| {
                    black_box(writer.write(b, &spec, Place::default()).unwrap());
                });
                writer.wait().unwrap();
            }
        }
    }
}
