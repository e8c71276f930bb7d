use super::*;
use crate::queue::QueueLimit;
use device::{MemoryDevice, read_batch, write_batch};

const SILENCE: Duration = Duration::from_secs(60);
const LOST: Duration = Duration::from_secs(300);
const MS: Duration = Duration::from_millis(1);

/// A device that keeps its requests until it is released; requests below 4096 are answered after a
/// while.
struct Hung {
    rt: Rt,
    inner: Arc<MemoryDevice>,
    kept: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    hangs: Mutex<bool>,
    gone_on: rt::Condvar,
    own_limit: Option<Duration>,
}

impl Hung {
    fn new(rt: &Rt, own_limit: Option<Duration>) -> Arc<Self> {
        let inner = Arc::new(MemoryDevice::zeros("hung", 1 << 20));
        let (kept, hangs) = (Mutex::default(), Mutex::new(true));
        Arc::new(Self { rt: rt.clone(), inner, kept, hangs, gone_on: rt.condvar(), own_limit })
    }

    fn go_on(&self) {
        *self.hangs.lock() = false;
        self.gone_on.notify_all();
        let kept = std::mem::take(&mut *self.kept.lock());
        kept.into_iter().for_each(|answer| answer());
    }

    fn take(&self, offset: u64, answer: impl FnOnce() + Send + 'static) {
        if offset < 4096 || !*self.hangs.lock() {
            return self.rt.after(MS, answer);
        }
        self.kept.lock().push(Box::new(answer));
    }
}

impl Device for Hung {
    fn name(&self) -> &str {
        "hung"
    }
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn sector_size(&self) -> u32 {
        512
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner.read(offset, buf)
    }
    fn ends_within(&self) -> Option<Duration> {
        self.own_limit
    }
    fn displaced(&self) -> Option<Displacement> {
        let mut hangs = self.hangs.lock();
        while *hangs {
            self.gone_on.wait(&mut hangs);
        }
        Some(Displacement::Moved)
    }
    fn submit(&self, batch: Vec<Read>) {
        for read in batch {
            let inner = Arc::clone(&self.inner);
            self.take(read.offset, move || inner.submit(vec![read]));
        }
    }
}

impl WriteDevice for Hung {
    fn submit_writes(&self, batch: Vec<Write>) {
        for write in batch {
            let inner = Arc::clone(&self.inner);
            self.take(write.offset, move || inner.submit_writes(vec![write]));
        }
    }
    fn flush(&self) -> Result<(), Error> {
        let mut hangs = self.hangs.lock();
        while *hangs {
            self.gone_on.wait(&mut hangs);
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.inner.write(offset, data)
    }
    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

fn guarded(rt: &Rt) -> (Arc<Hung>, Arc<Guard>) {
    guarded_with(rt, None)
}

/// The same of a device that ends its requests within a time.
fn guarded_with(rt: &Rt, own_limit: Option<Duration>) -> (Arc<Hung>, Arc<Guard>) {
    let hung = Hung::new(rt, own_limit);
    let limits = Arc::new(QueueLimits::default());
    limits.hold();
    let writer = Arc::clone(&hung) as WriteDeviceRef;
    let guard = Guard::new(rt, Arc::clone(&hung) as _, Some(writer), limits);
    (hung, guard)
}

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind)
}

#[test]
fn what_hangs_ends_after_the_silence_and_then_all_is_refused_at_once() {
    for seed in 0..10 {
        Rt::simulate(seed, |rt| {
            let (hung, guard) = guarded(rt);
            let began = rt.now();
            assert_eq!(kind(guard.read_new(8192, 512)), Some(ErrorKind::NoAnswer));
            let took = rt.now() - began;
            assert!((SILENCE..SILENCE * 2).contains(&took), "{took:?}");
            assert_eq!(guard.slow_requests(), 1);
            // Also what would be answered: it is not known what else it does.
            let began = rt.now();
            assert_eq!(kind(guard.read_new(0, 512)), Some(ErrorKind::NoAnswer));
            assert_eq!(kind(guard.write(0, &[1; 512])), Some(ErrorKind::NoAnswer));
            assert_eq!(kind(guard.flush()), Some(ErrorKind::NoAnswer));
            assert!(guard.is_silent() && rt.now() == began);
            hung.go_on();
            assert!(!guard.is_silent());
            assert_eq!(kind(guard.read_new(8192, 512)), None);
            assert_eq!(kind(guard.flush()), None);
        });
    }
}

/// One whose user gives it more time than disks get does not hang before that is over; one that
/// gets less is not judged earlier.
#[test]
fn a_device_with_a_limit_of_its_own_has_that_much_time() {
    for own in [SILENCE / 2, LOST * 2] {
        Rt::simulate(1, |rt| {
            let (hung, guard) = guarded_with(rt, Some(own));
            let least = own.max(SILENCE);
            let clock = rt.clone();
            let late = rt.spawn("store", move || {
                clock.sleep(least - SILENCE / 10);
                hung.go_on();
            });
            assert_eq!(kind(guard.write(8192, &[1; 512])), None, "{own:?}");
            assert!(rt.now() >= least - SILENCE / 10 && !guard.is_silent());
            late.unwrap().join().unwrap();
        });
        Rt::simulate(1, |rt| {
            let (_hung, guard) = guarded_with(rt, Some(own));
            assert_eq!(kind(guard.read_new(8192, 512)), Some(ErrorKind::NoAnswer));
            let least = own.max(SILENCE);
            assert!((least..least + SILENCE).contains(&rt.now()), "{own:?}: {:?}", rt.now());
        });
    }
}

#[test]
fn a_late_write_lands_before_anything_is_written_after_it() {
    Rt::simulate(1, |rt| {
        let (hung, guard) = guarded(rt);
        assert_eq!(kind(guard.write(8192, &[1; 512])), Some(ErrorKind::NoAnswer));
        assert_eq!(kind(guard.write(8192, &[2; 512])), Some(ErrorKind::NoAnswer));
        hung.go_on();
        assert_eq!(kind(guard.write(8192, &[3; 512])), None);
        assert_eq!(guard.read_new(8192, 512).unwrap()[..], [3; 512]);
    });
}

#[test]
fn who_answers_others_is_slow_and_may_have_lost_one() {
    Rt::simulate(1, |rt| {
        let (_hung, guard) = guarded(rt);
        let (outcome, began) = (Arc::new(Mutex::new(None)), rt.now());
        let (answer, clock) = (Arc::clone(&outcome), rt.clone());
        let done: Done = Box::new(move |result| *answer.lock() = Some((clock.now(), kind(result))));
        guard.submit(vec![Read { offset: 8192, len: 512, done }]);
        while rt.now() - began < LOST {
            assert!(outcome.lock().is_none());
            assert!(guard.read_new(0, 512).is_ok());
            rt.sleep(SILENCE / 2);
        }
        rt.sleep(SILENCE);
        let (at, kind) = outcome.lock().take().expect("it was given up");
        assert_eq!(kind, Some(ErrorKind::NoAnswer));
        assert!(at - began >= LOST && at - began < LOST + SILENCE, "{at:?}");
    });
}

#[test]
fn a_long_line_of_requests_is_no_silence() {
    Rt::simulate(1, |rt| {
        let (hung, guard) = guarded(rt);
        // One answer in 20 seconds, for 200 seconds.
        let clock = rt.clone();
        let worker = rt.spawn("disk", move || {
            for _ in 0..10 {
                clock.sleep(SILENCE / 3);
                let next = hung.kept.lock().pop();
                next.into_iter().for_each(|answer| answer());
            }
        });
        let ranges: Vec<_> = (1..=10).map(|n| (n * 8192, 512)).collect();
        assert!(read_batch(&*guard, &ranges).iter().all(Result::is_ok));
        let slow = guard.slow_requests();
        assert_eq!(slow, 9, "all but the first took more than 30 seconds");
        worker.unwrap().join().unwrap();
    });
}

#[test]
fn answers_in_time_are_what_the_device_says() {
    Rt::simulate(1, |rt| {
        let (hung, guard) = guarded(rt);
        hung.go_on();
        let data = vec![(0, vec![Shared::copy_of(&[7; 512])]), (1 << 20, vec![])];
        let results = write_batch(&*guard, data);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(guard.read_new(0, 4).unwrap()[..], [7; 4]);
        let beyond = guard.read_new(1 << 20, 1).unwrap_err();
        assert_eq!((beyond.kind, beyond.offset), (ErrorKind::BeyondEnd { size: 1 << 20 }, 1 << 20));
        assert_eq!(kind(guard.trim(0, 512)), Some(ErrorKind::Unsupported));
        guard.watch.limits.set(QueueLimit::Silence, 1);
        rt.sleep(SILENCE * 2);
        assert!(guard.read_new(0, 4).is_ok(), "with nothing out nothing is late");
    });
}

#[test]
fn asking_what_became_of_it_does_not_hang() {
    Rt::simulate(1, |rt| {
        let (hung, guard) = guarded(rt);
        let began = rt.now();
        assert_eq!(guard.displaced(), None);
        assert_eq!(rt.now() - began, ASKING);
        // The first request is still pending.
        assert_eq!((guard.displaced(), rt.now() - began), (None, ASKING));
        hung.go_on();
        rt.sleep(MS);
        assert_eq!(guard.displaced(), Some(Displacement::Moved));
    });
}
