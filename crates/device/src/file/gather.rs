//! One write on its way through the kernel: the twin of [`super::transfer`].
//!
//! - *Parts*: handed to the kernel as they lie in memory, as many as it takes at once.
//! - *Direct I/O*: needs offset, memory and length of every part in whole units. Whole units in
//!   memory that lies otherwise are copied first; a range that is not made of whole units does not
//!   come here directly ([`super::rw`] sees to that).
//! - *Short write*: go on behind it. A direct write can only go on from a whole unit; from any
//!   other place the rest is buffered.
//! - *Interrupted, cancelled, try again*; *invalid or unsupported*: as for reads.

use super::core::Core;
use super::transfer::{Step, Tries};
use crate::buf::AlignedBuf;
use crate::{ErrorKind, Shared};

/// Most parts one system call takes (the kernel's `UIO_MAXIOV`).
pub(super) const PARTS_MAX: usize = 1024;

/// A write in progress.
pub(super) struct Gather {
    parts: Vec<Shared>,
    /// The parts for the kernel: addresses and lengths of those that are not written yet.
    vectors: Vec<libc::iovec>,
    /// Where on the device the first part belongs.
    offset: u64,
    /// Bytes of all parts.
    len: usize,
    /// Bytes that are written.
    written: usize,
    tries: Tries,
}

/// One system call's worth of a write.
pub(super) struct GatherCall {
    /// Whether to use the descriptor for direct I/O.
    pub(super) direct: bool,
    /// Where on the device.
    pub(super) offset: u64,
    /// Address and number of the vectors; they and what they point to are valid until the write is
    /// dropped or asked for its next call.
    pub(super) vectors: *const libc::iovec,
    pub(super) count: usize,
    /// As for reads: a ring should not try it without blocking first.
    pub(super) may_block: bool,
}

impl Gather {
    /// A write of a range that lies within the device.
    pub(super) fn new(core: &Core, offset: u64, parts: Vec<Shared>) -> Result<Self, ErrorKind> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let whole = |unit: usize| offset.is_multiple_of(unit as u64) && len.is_multiple_of(unit);
        let unit = core.direct_unit().filter(|unit| len > 0 && whole(*unit));
        let lies_well = |unit: usize| {
            let fits = |part: &Shared| {
                part.as_ptr().addr().is_multiple_of(unit) && part.len().is_multiple_of(unit)
            };
            parts.iter().all(fits)
        };
        let parts = match unit {
            Some(unit) if !lies_well(unit) => vec![joined(&parts, len)?],
            _ => parts,
        };
        Ok(Self { parts, vectors: Vec::new(), offset, len, written: 0, tries: Tries::new(unit) })
    }

    /// The next system call; `None` when all is written.
    pub(super) fn next(&mut self) -> Option<GatherCall> {
        if self.written >= self.len {
            return None;
        }
        self.vectors.clear();
        let mut skip = self.written;
        for part in &self.parts {
            let rest = part.get(skip..).unwrap_or(&[]);
            skip = skip.saturating_sub(part.len());
            if !rest.is_empty() && self.vectors.len() < PARTS_MAX {
                let iov_base = rest.as_ptr().cast_mut().cast();
                self.vectors.push(libc::iovec { iov_base, iov_len: rest.len() });
            }
        }
        Some(GatherCall {
            direct: self.tries.is_direct(),
            offset: self.offset + self.written as u64,
            vectors: self.vectors.as_ptr(),
            count: self.vectors.len(),
            may_block: self.tries.may_block(),
        })
    }

    /// Takes the result of the last call: bytes written, or the `errno`.
    pub(super) fn advance(&mut self, core: &Core, result: Result<usize, i32>) -> Step {
        match result {
            // No error and no progress: nothing suggests that another try would be different.
            Ok(0) => Step::Failed(ErrorKind::Io { errno: libc::EIO }),
            Ok(count) => {
                self.written = self.written.saturating_add(count).min(self.len);
                if self.written == self.len {
                    return Step::Complete;
                }
                self.tries.go_on(core, self.written)
            }
            Err(errno) => self.tries.failed(core, errno),
        }
    }
}

/// All parts in one piece of memory that lies well.
fn joined(parts: &[Shared], len: usize) -> Result<Shared, ErrorKind> {
    let mut buf = AlignedBuf::try_zeroed(len).ok_or(ErrorKind::OutOfMemory)?;
    let mut rest = &mut buf[..];
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
    Ok(Shared::from(buf))
}

#[cfg(test)]
mod tests {
    use super::super::transfer::TRIES_MAX;
    use super::*;

    fn core(direct: bool) -> Core {
        let file = || tempfile::tempfile().expect("file");
        Core::for_test(file(), direct.then(|| (file(), 512)))
    }

    /// Plays the kernel, which takes as many bytes as `results` say; returns the calls, and checks
    /// that what it was given is what was to be written.
    fn play(
        core: &Core,
        offset: u64,
        parts: Vec<Shared>,
        results: &[Result<usize, i32>],
    ) -> Vec<String> {
        let want: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        let mut gather = Gather::new(core, offset, parts).expect("write");
        let (mut log, mut got) = (Vec::new(), Vec::new());
        for result in results {
            let Some(call) = gather.next() else {
                log.push("nothing".to_owned());
                break;
            };
            let kind = if call.direct { "direct" } else { "buffered" };
            let mut given = Vec::new();
            for vector in &gather.vectors {
                // SAFETY: the vectors point into the parts, which the write still holds.
                given.extend_from_slice(unsafe {
                    core::slice::from_raw_parts(vector.iov_base.cast::<u8>(), vector.iov_len)
                });
            }
            log.push(format!("{kind} {}+{} in {}", call.offset, given.len(), call.count));
            got.extend_from_slice(&given[..result.unwrap_or(0)]);
            match gather.advance(core, *result) {
                Step::Again => {}
                Step::Complete => {
                    assert_eq!(got, want);
                    log.push("complete".to_owned());
                    break;
                }
                Step::Failed(kind) => {
                    log.push(format!("{kind:?}"));
                    break;
                }
            }
        }
        log
    }

    fn parts(lens: &[usize]) -> Vec<Shared> {
        let part =
            |(index, len): (usize, &usize)| Shared::copy_of(&vec![(index % 255) as u8 + 1; *len]);
        lens.iter().enumerate().map(part).collect()
    }

    #[test]
    fn short_writes_go_on_in_the_right_part() {
        let log = play(&core(false), 7, parts(&[10, 20, 5]), &[Ok(15), Err(libc::EINTR), Ok(20)]);
        let want = ["buffered 7+35 in 3", "buffered 22+20 in 2", "buffered 22+20 in 2", "complete"];
        assert_eq!(log, want);
        let log = play(&core(false), 0, parts(&[10, 20]), &[Ok(10), Ok(20)]);
        assert_eq!(log, ["buffered 0+30 in 2", "buffered 10+20 in 1", "complete"]);
    }

    #[test]
    fn direct_writes_need_whole_units_in_memory_that_lies_well() {
        let log = play(&core(true), 512, parts(&[512, 1024]), &[Ok(512), Ok(1024)]);
        assert_eq!(log, ["direct 512+1536 in 2", "direct 1024+1024 in 1", "complete"]);
        // Odd parts of a whole range are copied together.
        let log = play(&core(true), 0, parts(&[100, 412]), &[Ok(512)]);
        assert_eq!(log, ["direct 0+512 in 1", "complete"]);
        let odd = Shared::copy_of(&[3; 1000]).slice(8..520);
        assert_eq!(play(&core(true), 0, vec![odd], &[Ok(512)])[0], "direct 0+512 in 1");
        // Odd ranges are buffered, and so is what a short direct write leaves of a unit.
        assert_eq!(play(&core(true), 5, parts(&[512]), &[Ok(512)])[0], "buffered 5+512 in 1");
        let log = play(&core(true), 0, parts(&[1024]), &[Ok(100), Ok(924)]);
        assert_eq!(log, ["direct 0+1024 in 1", "buffered 100+924 in 1", "complete"]);
    }

    #[test]
    fn refusals_errors_and_no_progress() {
        let core = core(true);
        let log = play(&core, 0, parts(&[512]), &[Err(libc::EINVAL), Ok(512)]);
        assert_eq!(log, ["direct 0+512 in 1", "buffered 0+512 in 1", "complete"]);
        assert_eq!(core.counters.snapshot().direct_refused, 1);
        for (result, kind) in [
            (Ok(0), ErrorKind::Io { errno: libc::EIO }),
            (Err(libc::ENOSPC), ErrorKind::Io { errno: libc::ENOSPC }),
            (Err(libc::EINVAL), ErrorKind::Io { errno: libc::EINVAL }),
            (Err(libc::ENODEV), ErrorKind::Gone),
        ] {
            let log = play(&core, 0, parts(&[512]), &[result]);
            assert_eq!(log, ["buffered 0+512 in 1", &format!("{kind:?}")]);
        }
        let log = play(&core, 0, parts(&[512]), &vec![Err(libc::EAGAIN); 5000]);
        assert_eq!(log.len(), TRIES_MAX as usize + 2);
        assert_eq!(play(&core, 0, parts(&[0, 0]), &[Ok(1)]), ["nothing"]);
    }

    #[test]
    fn more_parts_than_the_kernel_takes_at_once() {
        let log = play(&core(false), 0, parts(&[1; 1500]), &[Ok(1024), Ok(476)]);
        assert_eq!(log, ["buffered 0+1024 in 1024", "buffered 1024+476 in 476", "complete"]);
    }
}
