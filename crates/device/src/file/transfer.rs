//! One read on its way through the kernel.
//!
//! A transfer knows which system call comes next ([`Transfer::next`]) and what its result means
//! ([`Transfer::advance`]); whether a ring or a thread makes the call does not matter to it. So the
//! rules for everything that is not plain success are here once:
//!
//! - *Direct I/O at odd offsets*: the range is widened to whole alignment units, and the caller
//!   gets the window it requested. The widening may pass the end of a file; it matters that the
//!   window was filled.
//! - *Short read*: go on behind it. A direct read can only go on from a whole unit; from any other
//!   place the rest is buffered.
//! - *End of file* inside the window: the file shrank after it was opened. An error.
//! - *Interrupted, cancelled, try again*: issue it again, up to [`TRIES_MAX`] times, telling a ring
//!   not to try without blocking.
//! - *Invalid or unsupported, of a direct read*: the file system does not do it after all, or
//!   requires more alignment than it reported. This read and all later ones of the device are
//!   buffered.

use super::core::Core;
use crate::ErrorKind;
use crate::buf::{AlignedBuf, Space};

/// How often a request is issued again without getting any further.
pub(super) const TRIES_MAX: u32 = 1000;

/// A read in progress.
pub(super) struct Transfer {
    space: Space,
    /// Where in the file the space's first byte belongs.
    start: u64,
    /// Bytes at the front of the space that were only read because of the alignment.
    skip: usize,
    /// Bytes asked for, behind `skip`.
    len: usize,
    /// Bytes to ask the kernel for: the whole space.
    wide: usize,
    /// Bytes of the space that are filled.
    filled: usize,
    tries: Tries,
}

/// One system call's worth of a transfer.
pub(super) struct Call {
    /// Whether to use the descriptor for direct I/O.
    pub(super) direct: bool,
    /// Where in the file.
    pub(super) offset: u64,
    /// Where to: valid for `len` bytes until the transfer is dropped or finished.
    pub(super) to: *mut u8,
    /// How many bytes; at least one.
    pub(super) len: usize,
    /// A ring should not try it without blocking first. True for buffered reads: tried that way,
    /// one that misses the page cache is taken up again for every page that arrives (measured
    /// here, cold and sequential: a fifth of the throughput of a blocking call). True for a read
    /// that failed because it would have blocked.
    pub(super) may_block: bool,
}

/// The step after a system call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Another one.
    Again,
    /// Nothing: the range is complete.
    Complete,
    /// Nothing: it failed.
    Failed(ErrorKind),
}

/// How a request is tried, and how often it was in vain.
pub(super) struct Tries {
    /// Alignment unit of a direct request; `None` for a buffered one.
    unit: Option<usize>,
    in_vain: u32,
}

impl Tries {
    pub(super) fn new(unit: Option<usize>) -> Self {
        Self { unit, in_vain: 0 }
    }

    /// Whether to use the descriptor for direct I/O.
    pub(super) fn is_direct(&self) -> bool {
        self.unit.is_some()
    }

    /// A ring should not try it without blocking first.
    pub(super) fn may_block(&self) -> bool {
        self.unit.is_none() || self.in_vain > 0
    }

    /// The request got as far as this, and continues from there.
    pub(super) fn go_on(&mut self, core: &Core, done: usize) -> Step {
        self.in_vain = 0;
        self.unit = self.unit.filter(|unit| done.is_multiple_of(*unit));
        core.counters.resubmitted();
        Step::Again
    }

    /// The call failed with this `errno`.
    pub(super) fn failed(&mut self, core: &Core, errno: i32) -> Step {
        match errno {
            libc::EINVAL | libc::EOPNOTSUPP if self.unit.is_some() => {
                core.refuse_direct();
                self.unit = None;
            }
            libc::EINTR | libc::EAGAIN | libc::ECANCELED => {
                self.in_vain += 1;
                if self.in_vain > TRIES_MAX {
                    return Step::Failed(ErrorKind::Io { errno });
                }
            }
            _ => return Step::Failed(ErrorKind::from_errno(errno)),
        }
        core.counters.resubmitted();
        Step::Again
    }
}

impl Transfer {
    /// A read of a range that lies within the device.
    pub(super) fn new(core: &Core, offset: u64, len: usize) -> Result<Self, ErrorKind> {
        // An empty range is complete as it is; widened it would be read.
        let unit = core.read_unit(offset, len).filter(|_| len > 0);
        let (start, wide) = match unit {
            Some(unit) => widen(offset, len, unit).ok_or(ErrorKind::TooLong)?,
            None => (offset, len),
        };
        let space = Space::new(wide).ok_or(ErrorKind::OutOfMemory)?;
        // Less than a unit, so it fits.
        let skip = (offset - start) as usize;
        Ok(Self { space, start, skip, len, wide, filled: 0, tries: Tries::new(unit) })
    }

    /// The next system call; `None` when the range is complete.
    pub(super) fn next(&mut self) -> Option<Call> {
        if self.complete() {
            return None;
        }
        Some(Call {
            direct: self.tries.is_direct(),
            offset: self.start + self.filled as u64,
            to: self.space.at(self.filled),
            len: self.wide - self.filled,
            may_block: self.tries.may_block(),
        })
    }

    /// Takes the result of the last call: bytes read, or the `errno`.
    ///
    /// # Safety
    /// The kernel has written that many bytes at the call's `to`, and writes no more.
    pub(super) unsafe fn advance(&mut self, core: &Core, result: Result<usize, i32>) -> Step {
        match result {
            Ok(0) => {
                let got = self.filled.saturating_sub(self.skip).min(self.len);
                Step::Failed(ErrorKind::ShortRead { got })
            }
            Ok(got) => {
                self.filled = self.filled.saturating_add(got).min(self.wide);
                if self.complete() { Step::Complete } else { self.tries.go_on(core, self.filled) }
            }
            Err(errno) => self.tries.failed(core, errno),
        }
    }

    fn complete(&self) -> bool {
        self.filled >= self.skip + self.len
    }

    /// The bytes asked for.
    ///
    /// # Panics
    /// When the range is not complete.
    pub(super) fn finish(self) -> AlignedBuf {
        assert!(self.complete());
        // SAFETY: `advance` has checked that the kernel has filled the space up to `filled`, which
        // is not less than the window's end.
        unsafe { self.space.filled(self.skip..self.skip + self.len) }
    }
}

/// The smallest range of whole units around (offset, len), as (offset, len).
fn widen(offset: u64, len: usize, unit: usize) -> Option<(u64, usize)> {
    let start = offset - offset % unit as u64;
    let end = offset.checked_add(len as u64)?.checked_next_multiple_of(unit as u64)?;
    Some((start, usize::try_from(end - start).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: ErrorKind = ErrorKind::Io { errno: libc::EIO };

    /// A core without direct I/O, or with units of 512.
    fn core(direct: bool) -> Core {
        let file = || tempfile::tempfile().expect("file");
        Core::for_test(file(), direct.then(|| (file(), 512)))
    }

    /// Plays the kernel: `results` one after the other, writing counting bytes.
    fn play(core: &Core, offset: u64, len: usize, results: &[Result<usize, i32>]) -> Vec<String> {
        let mut transfer = Transfer::new(core, offset, len).expect("transfer");
        let mut log = Vec::new();
        for result in results {
            let Some(call) = transfer.next() else {
                log.push("nothing".to_owned());
                break;
            };
            let kind = if call.direct { "direct" } else { "buffered" };
            log.push(format!("{kind} {}+{}", call.offset, call.len));
            for i in 0..result.unwrap_or(0) {
                // SAFETY: the tests' results are not longer than the calls.
                unsafe { call.to.add(i).write((call.offset + i as u64) as u8) };
            }
            // SAFETY: the loop above wrote these bytes.
            match unsafe { transfer.advance(core, *result) } {
                Step::Again => {}
                Step::Complete => {
                    let buf = transfer.finish();
                    let want: Vec<u8> = (0..len).map(|i| (offset + i as u64) as u8).collect();
                    assert_eq!(&buf[..], want);
                    log.push("complete".to_owned());
                    return log;
                }
                Step::Failed(kind) => {
                    log.push(format!("{kind:?}"));
                    return log;
                }
            }
        }
        log
    }

    #[test]
    fn buffered_reads_go_on_behind_a_short_one() {
        let log = play(&core(false), 1000, 100, &[Ok(30), Err(libc::EINTR), Ok(70)]);
        assert_eq!(log, ["buffered 1000+100", "buffered 1030+70", "buffered 1030+70", "complete"]);
    }

    #[test]
    fn direct_reads_are_widened_and_need_only_the_window() {
        let log = play(&core(true), 1000, 100, &[Ok(1024)]);
        assert_eq!(log, ["direct 512+1024", "complete"]);
        // The file ends at 1100, inside the last unit.
        let log = play(&core(true), 1000, 100, &[Ok(588)]);
        assert_eq!(log, ["direct 512+1024", "complete"]);
    }

    #[test]
    fn direct_reads_go_on_directly_only_from_a_whole_unit() {
        let log = play(&core(true), 0, 2048, &[Ok(512), Ok(100), Ok(1436)]);
        assert_eq!(log, ["direct 0+2048", "direct 512+1536", "buffered 612+1436", "complete"]);
    }

    #[test]
    fn refused_direct_reads_are_buffered_from_then_on() {
        let core = core(true);
        let log = play(&core, 5, 10, &[Err(libc::EINVAL), Ok(15)]);
        assert_eq!(log, ["direct 0+512", "buffered 0+512", "complete"]);
        assert_eq!(play(&core, 5, 10, &[Ok(10)]), ["buffered 5+10", "complete"]);
        let stats = core.counters.snapshot();
        assert_eq!((stats.direct_refused, stats.resubmitted), (1, 1));
        // Without direct I/O the same number is an error like any other.
        let invalid = format!("{:?}", ErrorKind::Io { errno: libc::EINVAL });
        assert_eq!(play(&core, 5, 10, &[Err(libc::EINVAL)]), ["buffered 5+10", &invalid]);
    }

    #[test]
    fn the_end_inside_the_window_is_a_short_read() {
        let log = play(&core(true), 600, 1000, &[Ok(512), Ok(0)]);
        let short = format!("{:?}", ErrorKind::ShortRead { got: 424 });
        assert_eq!(log, ["direct 512+1536", "direct 1024+1024", &short]);
        let short = format!("{:?}", ErrorKind::ShortRead { got: 0 });
        assert_eq!(play(&core(false), 600, 1000, &[Ok(0)]), ["buffered 600+1000", &short]);
    }

    #[test]
    fn errors_end_it_and_patience_is_bounded() {
        let log = play(&core(true), 0, 512, &[Err(libc::EIO)]);
        assert_eq!(log, ["direct 0+512", &format!("{EIO:?}")]);
        let log = play(&core(false), 0, 512, &vec![Err(libc::EAGAIN); 5000]);
        assert_eq!(log.len(), TRIES_MAX as usize + 2);
    }

    #[test]
    fn an_empty_range_needs_no_call() {
        for direct in [false, true] {
            let mut transfer = Transfer::new(&core(direct), 7, 0).expect("transfer");
            assert!(transfer.next().is_none());
            assert!(transfer.finish().is_empty());
        }
    }

    #[test]
    fn widening_does_not_overflow() {
        assert_eq!(widen(1000, 100, 512), Some((512, 1024)));
        assert_eq!(widen(1024, 512, 512), Some((1024, 512)));
        assert_eq!(widen(u64::MAX - 10, 5, 512), None);
        assert_eq!(widen(u64::MAX, 5, 512), None);
    }
}
