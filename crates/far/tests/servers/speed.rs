//! How fast the client is beside fio's engine for NBD: both ask one nbdkit, in turns. What both do
//! in a second says little on a busy machine, how many times more one does than the other says it.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use super::*;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SIZE_MIB: usize = 256;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

/// A way to ask: what fio calls it, bytes of a request, and how many are under way.
struct Way {
    rw: &'static str,
    bytes: usize,
    depth: usize,
}

const WAYS: [Way; 6] = [
    Way { rw: "randread", bytes: 4096, depth: 1 },
    Way { rw: "randread", bytes: 4096, depth: 32 },
    Way { rw: "randwrite", bytes: 4096, depth: 32 },
    Way { rw: "randread", bytes: 128 << 10, depth: 16 },
    Way { rw: "read", bytes: 1 << 20, depth: 4 },
    Way { rw: "write", bytes: 1 << 20, depth: 4 },
];

struct Load {
    device: WriteDeviceRef,
    way: &'static Way,
    bytes: Shared,
    rng: std::sync::Mutex<Rng>,
    place: AtomicU64,
    until: Instant,
    done: AtomicU64,
    ended: mpsc::Sender<()>,
}

impl Load {
    fn offset(&self) -> u64 {
        let units = ((SIZE_MIB * MIB) / self.way.bytes) as u64;
        let unit = match self.way.rw.starts_with("rand") {
            true => self.rng.lock().unwrap().below(units),
            false => self.place.fetch_add(1, Ordering::Relaxed) % units,
        };
        unit * self.way.bytes as u64
    }

    /// Asks once, and again when there is an answer.
    fn ask(self: Arc<Self>) {
        if Instant::now() >= self.until {
            return self.ended.send(()).unwrap();
        }
        let (offset, load) = (self.offset(), Arc::clone(&self));
        let answered = move |is_right: bool| {
            assert!(is_right);
            load.done.fetch_add(1, Ordering::Relaxed);
            load.ask();
        };
        if self.way.rw.ends_with("read") {
            let done = Box::new(move |bytes: Result<_, _>| answered(bytes.is_ok()));
            reader(&self.device).submit(vec![Read { offset, len: self.way.bytes, done }]);
        } else {
            let done = Box::new(move |result: Result<(), _>| answered(result.is_ok()));
            let parts = vec![self.bytes.clone()];
            self.device.submit_writes(vec![Write { offset, parts, done }]);
        }
    }
}

/// Requests in a second by the client.
fn ours(name: &Path, way: &'static Way) -> f64 {
    let (send, ended) = mpsc::channel();
    let began = Instant::now();
    let load = Arc::new(Load {
        device: claim(name),
        way,
        bytes: Shared::copy_of(&vec![7; way.bytes]),
        rng: std::sync::Mutex::new(Rng::new(7)),
        place: AtomicU64::new(0),
        until: began + ROUND,
        done: AtomicU64::new(0),
        ended: send,
    });
    (0..way.depth).for_each(|_| Arc::clone(&load).ask());
    (0..way.depth).for_each(|_| ended.recv().unwrap());
    load.done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// The same by fio.
fn of_fio(name: &Path, way: &Way) -> f64 {
    let name = name.to_str().unwrap();
    let mut fio = Command::new("fio");
    fio.args(["--name=a", "--ioengine=nbd", "--output-format=terse", "--time_based"]);
    fio.arg(format!("--uri={name}")).arg(format!("--rw={}", way.rw));
    fio.arg(format!("--bs={}", way.bytes)).arg(format!("--iodepth={}", way.depth));
    fio.arg(format!("--size={SIZE_MIB}M")).arg(format!("--runtime={}", ROUND.as_secs()));
    let output = fio.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<&str> = text.trim().split(';').collect();
    // Requests a second, in the third version of that form.
    let at = if way.rw.ends_with("read") { 7 } else { 48 };
    fields.get(at).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("fio: {text}"))
}

#[testkit::needs("nbdkit")]
#[test]
#[ignore = "long form: a minute and a half, and needs fio"]
fn as_fast_as_fio() {
    let place = Place::new(1);
    let size = format!("{SIZE_MIB}M");
    let _server = NbdServer::nbdkit(&place.socket(), &["memory", &size]);
    let name = place.name("");
    println!("| | zinc, a second | fio, a second | of fio's |\n| --- | --- | --- | --- |");
    for way in &WAYS {
        let mut rounds: Vec<(f64, f64)> =
            (0..ROUNDS).map(|_| (ours(&name, way), of_fio(&name, way))).collect();
        rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (zinc, fio) = rounds[ROUNDS / 2];
        let Way { rw, bytes, depth } = way;
        println!("| {rw} {bytes}, depth {depth} | {zinc:.0} | {fio:.0} | {:.2} |", zinc / fio);
    }
}
