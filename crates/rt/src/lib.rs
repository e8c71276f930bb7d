//! What the engine takes from its surroundings: time, randomness, threads.
//!
//! Nothing above this floor calls the operating system for the time, a random number or a thread;
//! it is given an [`Rt`], or only a [`Clock`] or an [`Rng`], and starts threads here. So one place
//! decides whether a run happens in real time or is replayed from a seed. [`Progress`] is here because long work on
//! any floor reports through it, and no floor may know who is watching.
//!
//! **Invariant: no ZFS word, no I/O, no unsafe.**

#![forbid(unsafe_code)]

mod clock;
mod os_random;
mod parallel;
mod progress;
mod rng;
mod runtime;
mod sim;
mod thread;
mod timer;

pub use clock::{Clock, RealClock};
pub use parallel::for_each_parallel;
pub use progress::{Cancelled, Progress, ProgressSnapshot};
pub use rng::{Rng, Xoshiro256};
pub use runtime::{Condvar, Panicked, Rt, Task};
pub use thread::{JoinHandle, spawn, threads_available};
