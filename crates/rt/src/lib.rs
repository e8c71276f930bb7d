//! The engine's surroundings: time, randomness, threads.
//!
//! Nothing above this floor calls the operating system for the time, a random number or a thread;
//! it is given an [`Rt`], or only a [`Clock`] or an [`Rng`], and starts threads here. So one place
//! decides whether a run happens in real time or is replayed from a seed. [`Progress`] is here
//! because long work on any floor reports through it, and no floor may know what is watching.
//!
//! ```
//! use rt::Rt;
//! use std::time::Duration;
//!
//! // An hour of virtual time, in no time; the same for each run of this seed.
//! let drawn = Rt::simulate(7, |rt| {
//!     let sleeper = rt.clone();
//!     let task = rt.spawn("sleeper", move || {
//!         sleeper.sleep(Duration::from_secs(3600));
//!         sleeper.random_u64()
//!     });
//!     task.expect("a thread").join().expect("no panic")
//! });
//! assert_eq!(drawn, Rt::simulate(7, |rt| rt.random_u64()));
//! ```
//!
//! **Invariant: no ZFS word, no unsafe, and no I/O except for the system's randomness.**

#![forbid(unsafe_code)]

mod affinity;
mod clock;
mod cpu;
mod lock;
mod os_random;
mod parallel;
mod progress;
mod rng;
mod runtime;
mod sim;
mod thread;
mod timer;

pub use clock::{Clock, RealClock};
pub use cpu::{CpuCost, CpuModel};
pub use lock::{Lock, LockGuard};
pub use progress::{Cancelled, Progress, ProgressSnapshot};
pub use rng::{Rng, Xoshiro256};
pub use runtime::{Condvar, Rt, Task, charge};
pub use thread::{JoinHandle, Panicked, mark, replace_mark, spawn, threads_available};
