//! The files of the threads, and what these do.

use super::{Question, Work};
use crate::content::{CONTENTS, contents};
use crate::stream::{HOLD_TREE, StreamError, write_record};
use engine::Filesystem;
use engine::inside::dmu::Hold;
use engine::inside::ondisk::znode::Time;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zio::Block;
use engine::inside::zpl::Volume;
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::live::LivePool;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a request costs that waits for nothing.
const REQUEST: Duration = Duration::from_micros(10);
const NOW: Time = Time { seconds: 1_767_225_600, nanos: 0 };

/// A file for each thread. The intent log has what files of a file system promise; all else is
/// done with volumes, whose bytes need not be copied.
pub(super) enum Files {
    Volumes(Vec<Volume>),
    Promised(Filesystem, Vec<u64>),
}

/// A request that was done.
pub(super) struct CompletedRequest {
    pub(super) read: bool,
    pub(super) bytes: u64,
    pub(super) time: Duration,
    /// It came at its time, when no thread was free.
    pub(super) waited: bool,
}

impl Files {
    /// Makes them, empty.
    pub(super) fn new(pool: &LivePool, q: &Question) -> Result<Self, StreamError> {
        if q.work == Work::SyncWrite {
            let fs = pool.filesystem("h")?;
            let new = NewFile::new(NewKind::File, 0o644, NOW);
            let mut files = Vec::new();
            for n in 0..q.threads {
                let name = format!("file{n}");
                files.push(fs.create(fs.root_object(), name.as_bytes(), &new)?.number());
            }
            return Ok(Self::Promised(fs, files));
        }
        let mut volumes = Vec::new();
        for n in 0..q.threads {
            let name = format!("h/file{n}");
            pool.create_volume(&name, q.file_bytes(), q.record, Vec::new())?;
            volumes.push(pool.volume(&name)?);
        }
        Ok(Self::Volumes(volumes))
    }

    /// How many records each has when it is full.
    pub(super) fn records(q: &Question) -> u64 {
        q.file_bytes() / u64::from(q.record)
    }

    /// Writes a record of one of them.
    pub(super) fn write(
        &self,
        file: usize,
        record: u64,
        block: &Arc<Block>,
    ) -> Result<(), StreamError> {
        match self {
            Self::Volumes(volumes) => write_record(&volumes[file], record, block),
            Self::Promised(fs, files) => {
                let bytes = block.bytes();
                Ok(fs.write_at(files[file], record * bytes.len() as u64, bytes, NOW)?)
            }
        }
    }
}

/// What all threads do until the time is over.
pub(super) fn run(
    rt: &Rt,
    q: &Question,
    files: &Files,
) -> Result<Vec<CompletedRequest>, StreamError> {
    let took = Mutex::new(Vec::new());
    let (begin, next) = (rt.now(), AtomicUsize::new(0));
    rt.for_each_parallel(q.threads, 0..q.threads, |thread| {
        let mine = match q.work {
            Work::Recorded => recorded(rt, q, files, thread, (begin, &next))?,
            _ => requests(rt, q, files, thread)?,
        };
        took.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
        Ok::<(), StreamError>(())
    })?;
    Ok(took.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What one thread does.
fn requests(
    rt: &Rt,
    q: &Question,
    files: &Files,
    thread: usize,
) -> Result<Vec<CompletedRequest>, StreamError> {
    let mut rng = Xoshiro256::seeded(q.seed.wrapping_add((thread as u64) << 32));
    let blocks =
        contents(u64::from(q.record), q.compression, CONTENTS, &mut Xoshiro256::seeded(q.seed));
    let end = rt.now() + Duration::from_secs_f64(q.seconds);
    let places = (q.file_bytes() / q.chunk).max(1);
    let mut buffer = vec![0; q.chunk as usize];
    let mut took = Vec::new();
    for next in 0_u64.. {
        let began = rt.now();
        if began >= end {
            break;
        }
        let place = match q.work {
            Work::Write | Work::Read | Work::SyncWrite => next % places,
            Work::Overwrite | Work::RandomRead | Work::Mixed(_) | Work::Recorded => {
                rng.below(places)
            }
        };
        let read = match q.work {
            Work::Read | Work::RandomRead => true,
            Work::Write | Work::Overwrite | Work::SyncWrite | Work::Recorded => false,
            Work::Mixed(reads) => rng.below(100) < u64::from(reads),
        };
        let offset = place * q.chunk;
        match (files, read) {
            (Files::Volumes(volumes), true) => {
                volumes[thread].object().touch(offset, q.chunk)?;
            }
            (Files::Volumes(volumes), false) => {
                write(&volumes[thread], q, (offset, q.chunk), &blocks)?;
            }
            (Files::Promised(fs, numbers), _) => {
                fill(&mut buffer, &blocks, next);
                fs.write_at(numbers[thread], offset, &buffer, NOW)?;
                fs.sync(numbers[thread])?;
            }
        }
        let time = rt.now() - began;
        took.push(CompletedRequest { read, bytes: q.chunk, time, waited: false });
        // A request that memory answers takes some time too, or none would ever end.
        if time.is_zero() {
            rt.sleep(REQUEST);
        }
    }
    Ok(took)
}

/// What one thread does of a load that was recorded: the next request that no other has taken, at
/// its time, somewhere in its own file.
fn recorded(
    rt: &Rt,
    q: &Question,
    files: &Files,
    thread: usize,
    (begin, next): (Duration, &AtomicUsize),
) -> Result<Vec<CompletedRequest>, StreamError> {
    let mut rng = Xoshiro256::seeded(q.seed.wrapping_add((thread as u64) << 32));
    let blocks =
        contents(u64::from(q.record), q.compression, CONTENTS, &mut Xoshiro256::seeded(q.seed));
    let mut took = Vec::new();
    while let Some(request) = q.recorded.get(next.fetch_add(1, Ordering::Relaxed)) {
        if request.due.as_secs_f64() >= q.seconds {
            break;
        }
        let due = begin + request.due;
        let waited = rt.now() > due;
        rt.sleep(due.saturating_sub(rt.now()));
        let bytes = request.bytes.min(q.file_bytes());
        let offset = rng.below((q.file_bytes() / bytes).max(1)) * bytes;
        if let Files::Volumes(volumes) = files {
            match request.reads {
                true => volumes[thread].object().touch(offset, bytes)?,
                false => write(&volumes[thread], q, (offset, bytes), &blocks)?,
            }
        }
        took.push(CompletedRequest { read: request.reads, bytes, time: rt.now() - due, waited });
    }
    Ok(took)
}

/// Writes whole records by reference, and parts of one as bytes.
fn write(
    volume: &Volume,
    q: &Question,
    (offset, bytes): (u64, u64),
    blocks: &[Arc<Block>],
) -> Result<(), StreamError> {
    let record = u64::from(q.record);
    let content = |n: u64| &blocks[(n % blocks.len() as u64) as usize];
    if bytes.is_multiple_of(record) {
        return (offset / record..(offset + bytes) / record)
            .try_for_each(|n| write_record(volume, n, content(n)));
    }
    let mut buffer = vec![0; bytes as usize];
    fill(&mut buffer, blocks, offset / record);
    let object = volume.object();
    let tx = object.objset().begin(Hold::write(bytes + record + HOLD_TREE))?;
    Ok(object.write_at(&tx, offset, &buffer)?)
}

/// Bytes of these blocks, from one of them on.
fn fill(buffer: &mut [u8], blocks: &[Arc<Block>], first: u64) {
    let all = blocks.iter().cycle().skip((first % blocks.len() as u64) as usize);
    for (part, block) in buffer.chunks_mut(blocks[0].bytes().len()).zip(all) {
        part.copy_from_slice(&block.bytes()[..part.len()]);
    }
}
