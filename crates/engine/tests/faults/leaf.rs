//! A leaf in simulated time that gets into trouble.
#![allow(unreachable_pub)]

use engine::inside::device::{
    Device, DeviceRef, Error, ErrorKind, Fault, MemoryDevice, Read, RwFaultDevice, Shared, Write,
    WriteDevice, WriteDeviceRef,
};
use engine::inside::rt::{Condvar, Rt};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use testkit::Rng;

/// How long a request takes without trouble.
const USUAL: Duration = Duration::from_micros(100);
const FLUSH: Duration = Duration::from_micros(500);
/// How long one takes that is slow.
const SLOW: Duration = Duration::from_secs(3);

/// What a leaf does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafFault {
    /// Requests fail.
    FailsReads,
    FailsWrites,
    FailsFlushes,
    /// It was pulled out.
    IsGone,
    /// Requests are answered late.
    IsSlow,
    /// They are answered when it is mended.
    Hangs,
    /// Writes succeed that are not made.
    DropsWrites,
    /// Writes go to another place.
    Misdirects,
    /// The first half of a write is made.
    Tears,
    /// A bit of what is written, or read, is another.
    FlipsWrites,
    FlipsReads,
    /// Reads give what was there before.
    IsStale,
}

impl LeafFault {
    pub const ALL: [Self; 12] = [
        Self::FailsReads,
        Self::FailsWrites,
        Self::FailsFlushes,
        Self::IsGone,
        Self::IsSlow,
        Self::Hangs,
        Self::DropsWrites,
        Self::Misdirects,
        Self::Tears,
        Self::FlipsWrites,
        Self::FlipsReads,
        Self::IsStale,
    ];

    /// Nothing is wrong with what it answers, only when.
    pub fn is_of_time(self) -> bool {
        matches!(self, Self::IsSlow | Self::Hangs)
    }

    /// Writes succeed that are not, or not only, where they should be.
    pub fn is_of_kept_writes(self) -> bool {
        use LeafFault::{DropsWrites, FlipsWrites, Misdirects, Tears};
        matches!(self, DropsWrites | FlipsWrites | Misdirects | Tears)
    }

    /// What is read may be something else than what was written.
    pub fn lies(self) -> bool {
        self.is_of_kept_writes() || matches!(self, Self::FlipsReads | Self::IsStale)
    }

    fn concerns(self, what: Kind) -> bool {
        match self {
            Self::FailsReads | Self::FlipsReads | Self::IsStale => what == Kind::Read,
            Self::FailsFlushes => what == Kind::Flush,
            Self::FailsWrites
            | Self::DropsWrites
            | Self::Misdirects
            | Self::Tears
            | Self::FlipsWrites => what == Kind::Write,
            Self::IsGone | Self::IsSlow | Self::Hangs => true,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
}

type Parked = Box<dyn FnOnce() + Send>;

struct State {
    trouble: Option<LeafFault>,
    /// One request in this many is hit.
    odds: u64,
    rng: Rng,
    hits: u64,
    /// What it held when the trouble began.
    old: Option<Arc<MemoryDevice>>,
    parked: Vec<Parked>,
}

/// See the head of the file.
pub struct Leaf {
    inner: Arc<MemoryDevice>,
    /// Takes what is not to be anywhere.
    void: MemoryDevice,
    rt: Rt,
    name: Arc<str>,
    state: Mutex<State>,
    mended: Condvar,
}

fn failing(inner: &Arc<MemoryDevice>, kind: ErrorKind) -> RwFaultDevice {
    let device = RwFaultDevice::new(Arc::clone(inner) as _);
    device.add(Fault::fail(0..u64::MAX, kind));
    device.add(Fault::fail_writes(0..u64::MAX, kind));
    device
}

impl Leaf {
    pub fn new(rt: &Rt, inner: &Arc<MemoryDevice>, seed: u64) -> Arc<Self> {
        let state = State {
            trouble: None,
            odds: 1,
            rng: Rng::new(seed),
            hits: 0,
            old: None,
            parked: Vec::new(),
        };
        Arc::new(Self {
            void: MemoryDevice::zeros("void", inner.size()),
            rt: rt.clone(),
            name: Arc::from(inner.name()),
            inner: Arc::clone(inner),
            state: Mutex::new(state),
            mended: rt.condvar(),
        })
    }

    /// From now on one request in `odds` meets it.
    pub fn get_into(&self, trouble: LeafFault, odds: u64) {
        let mut state = self.state.lock();
        (state.trouble, state.odds) = (Some(trouble), odds);
        state.old = (trouble == LeafFault::IsStale).then(|| Arc::new(self.inner.fork()));
    }

    /// Everything is as it should be again; what hung goes on. How many requests met trouble.
    pub fn mend(&self) -> u64 {
        let (parked, hits) = {
            let mut state = self.state.lock();
            state.trouble = None;
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.hits))
        };
        self.mended.notify_all();
        parked.into_iter().for_each(|go_on| self.rt.after(USUAL, go_on));
        hits
    }

    fn meets(&self, what: Kind) -> Option<LeafFault> {
        let mut state = self.state.lock();
        let trouble = state.trouble.filter(|t| t.concerns(what))?;
        let odds = state.odds;
        let is_hit = state.rng.below(odds) == 0;
        state.hits += u64::from(is_hit);
        is_hit.then_some(trouble)
    }

    /// A number from 0 on, below this.
    fn chance(&self, below: u64) -> u64 {
        self.state.lock().rng.below(below)
    }

    fn later(&self, trouble: Option<LeafFault>, go_on: impl FnOnce() + Send + 'static) {
        match trouble {
            Some(LeafFault::Hangs) => self.state.lock().parked.push(Box::new(go_on)),
            Some(LeafFault::IsSlow) => self.rt.after(SLOW, go_on),
            _ => {
                let more = Duration::from_micros(self.chance(100));
                self.rt.after(USUAL + more, go_on);
            }
        }
    }

    /// The same for a caller that waits.
    fn wait(&self, trouble: Option<LeafFault>, usual: Duration) {
        match trouble {
            Some(LeafFault::Hangs) => {
                let mut state = self.state.lock();
                while state.trouble == Some(LeafFault::Hangs) {
                    self.mended.wait(&mut state);
                }
            }
            Some(LeafFault::IsSlow) => self.rt.sleep(SLOW),
            _ => self.rt.sleep(usual),
        }
    }

    fn reads_from(&self, trouble: Option<LeafFault>) -> DeviceRef {
        match trouble {
            Some(LeafFault::FailsReads) => self.failing(ErrorKind::Io { errno: 5 }),
            Some(LeafFault::IsGone) => self.failing(ErrorKind::Gone),
            Some(LeafFault::IsStale) => {
                let old = self.state.lock().old.clone();
                old.unwrap_or_else(|| Arc::clone(&self.inner)) as _
            }
            _ => Arc::clone(&self.inner) as _,
        }
    }

    fn failing(&self, kind: ErrorKind) -> DeviceRef {
        Arc::new(failing(&self.inner, kind))
    }

    /// What is written instead.
    fn changed(&self, trouble: LeafFault, write: Write) -> Write {
        let Write { offset, parts, done } = write;
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut offset = offset;
        match trouble {
            LeafFault::Misdirects => {
                let room = (self.inner.size() - bytes.len() as u64) / 4096;
                offset = self.chance(room) * 4096;
            }
            LeafFault::Tears => bytes.truncate((bytes.len() / 2).next_multiple_of(512)),
            LeafFault::FlipsWrites => {
                let at = self.chance(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.chance(8);
            }
            _ => {}
        }
        Write { offset, parts: vec![Shared::copy_of(&bytes)], done }
    }
}

impl Device for Leaf {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let trouble = self.meets(Kind::Read);
        self.wait(trouble, USUAL);
        self.reads_from(trouble).read(offset, buf)?;
        if trouble == Some(LeafFault::FlipsReads) {
            let at = self.chance(buf.len() as u64) as usize;
            buf[at] ^= 1 << self.chance(8);
        }
        Ok(())
    }

    fn submit(&self, batch: Vec<Read>) {
        for mut read in batch {
            let trouble = self.meets(Kind::Read);
            if trouble == Some(LeafFault::FlipsReads) {
                let (at, bit) = (self.chance(read.len as u64) as usize, self.chance(8));
                let done = read.done;
                read.done = Box::new(move |mut result| {
                    if let Ok(bytes) = &mut result {
                        bytes[at] ^= 1 << bit;
                    }
                    done(result);
                });
            }
            let from = self.reads_from(trouble);
            self.later(trouble, move || from.submit(vec![read]));
        }
    }
}

impl WriteDevice for Leaf {
    fn submit_writes(&self, batch: Vec<Write>) {
        for write in batch {
            let trouble = self.meets(Kind::Write);
            let (to, write): (WriteDeviceRef, Write) = match trouble {
                Some(LeafFault::FailsWrites) => {
                    (Arc::new(failing(&self.inner, ErrorKind::Io { errno: 5 })), write)
                }
                Some(LeafFault::IsGone) => (Arc::new(failing(&self.inner, ErrorKind::Gone)), write),
                Some(LeafFault::DropsWrites) => (Arc::new(self.void.fork()), write),
                Some(other) if !other.is_of_time() => {
                    (Arc::clone(&self.inner) as _, self.changed(other, write))
                }
                _ => (Arc::clone(&self.inner) as _, write),
            };
            self.later(trouble, move || to.submit_writes(vec![write]));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let trouble = self.meets(Kind::Flush);
        self.wait(trouble, FLUSH);
        match trouble {
            Some(LeafFault::FailsFlushes) => {
                Err(Error::flush(ErrorKind::Io { errno: 5 }, &self.name))
            }
            Some(LeafFault::IsGone) => Err(Error::flush(ErrorKind::Gone, &self.name)),
            _ => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let writes = vec![(offset, vec![Shared::copy_of(data)])];
        let mut done = engine::inside::device::write_batch(self, writes);
        done.pop()
            .unwrap_or_else(|| Err(Error::write(ErrorKind::Gone, &self.name, offset, data.len())))
    }

    /// A trim fails as a write does; what it takes away has no content that could be wrong.
    fn trim(&self, offset: u64, len: u64) -> Result<(), Error> {
        let trouble = self.meets(Kind::Write);
        self.wait(trouble, USUAL);
        let failed = |kind| Err(Error::trim(kind, &self.name, offset, len));
        match trouble {
            Some(LeafFault::FailsWrites) => failed(ErrorKind::Io { errno: 5 }),
            Some(LeafFault::IsGone) => failed(ErrorKind::Gone),
            Some(LeafFault::DropsWrites) => Ok(()),
            _ => self.inner.trim(offset, len),
        }
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}
