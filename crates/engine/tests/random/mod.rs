//! Random operations on a pool beside a plain model of what it must hold.
//!
//! [`testkit::posix`] and `sets` are the model, `files`, `volumes` and `datasets` the operations,
//! `compare` what makes sure that both are the same, `bench` the devices.
//! Everything is decided by one seed, or by the steps of a scenario.
#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]
#![allow(clippy::needless_pass_by_value, clippy::type_complexity, reason = "plain test helpers")]
#![allow(clippy::print_stderr, reason = "a failure says which seed and operation it was")]

pub mod bench;
pub mod clones;
mod compare;
mod datasets;
mod files;
mod sets;
mod volumes;

pub use bench::Bench;
pub use engine::inside::ondisk::znode::Time;
pub use sets::{Model, Set, State};

use engine::files::{NewFile, NewKind};
use engine::inside::dmu::ErrorKind;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zpl::Error;
use engine::{Create, Filesystem, LivePool, Volume};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use testkit::posix::Kind;
use testkit::{RandomSteps, Rng};

/// What an operation can answer, so that the model and the engine can be compared.
pub mod class {
    pub use testkit::posix::class::*;
    pub const NO_SPACE: &str = "no space";
    pub const UNEXPECTED: &str = "unexpected";
}

/// Files as the model has them.
pub type Tree = testkit::posix::Tree<NewKind, Time>;
/// One of them.
pub type Inode = testkit::posix::Inode<NewKind, Time>;

/// The kind of a new file in the model.
pub fn kind_of(kind: &NewKind) -> Kind<NewKind> {
    match kind {
        NewKind::File => Kind::file(),
        NewKind::Dir => Kind::dir(),
        other => Kind::Other(other.clone()),
    }
}

/// The class of an error.
pub fn class_of(e: &Error) -> &'static str {
    match e {
        Error::Exists(_) => class::EXISTS,
        Error::NotFound(_) => class::NOT_FOUND,
        Error::NotDirectory(_) => class::NOT_DIR,
        Error::IsDirectory(_) => class::IS_DIR,
        Error::NotEmpty(_) => class::NOT_EMPTY,
        Error::Loop => class::LOOP,
        Error::NoXattr(_) => class::NO_XATTR,
        Error::Dmu(e) if matches!(e.kind, ErrorKind::NoSpace | ErrorKind::Quota) => class::NO_SPACE,
        _ => class::UNEXPECTED,
    }
}

/// Operations whose names are printed when something is wrong.
const TRACED: usize = 40;

/// The last operations, printed when a thread panics.
struct Trace {
    seed: u64,
    op: u64,
    last: VecDeque<String>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, operation {}; the last were:", self.seed, self.op);
            self.last.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// A pool, its model, and what decides what happens next.
pub struct Run {
    trace: Trace,
    pub bench: Bench,
    /// What decides an operation; of its own where there are `steps`.
    pub rng: Rng,
    steps: Option<RandomSteps>,
    pool: Option<LivePool>,
    pub model: Model,
    /// The model after the last change of each txg that may not be durable.
    by_txg: BTreeMap<u64, Model>,
    /// Txg of the last change.
    last_txg: u64,
    /// What each dataset was promised last, and the txg of the last change then.
    promised: BTreeMap<String, (u64, Arc<State>)>,
    filesystems: HashMap<String, Filesystem>,
    volumes: HashMap<String, Volume>,
    clock: i64,
    counter: u64,
    /// Bytes that the files of a dataset have together, about; then less is added.
    pub weight_max: u64,
    /// Where sparse files end, at most.
    pub offset_max: u64,
    /// No dataset gets `checksum=off`.
    pub has_checksums: bool,
    /// Steps have something promised, which writes intent logs.
    pub has_promises: bool,
    /// Calls that were refused because there was no space.
    pub refused: u64,
}

impl Run {
    pub fn new(seed: u64, bench: Bench) -> Self {
        let pool = bench.create();
        let root = pool.filesystem(&bench.pool).unwrap();
        let mtime = root.root().unwrap().mtime;
        let model = Model::new(&bench.pool, root.root_object(), mtime);
        drop(root);
        Self { counter: 0, ..Self::go_on(seed, bench, model, pool) }
    }

    /// A run over a pool that is open and holds what a model has.
    pub fn go_on(seed: u64, bench: Bench, model: Model, pool: LivePool) -> Self {
        let last_txg = pool.last_synced();
        let by_txg = BTreeMap::from([(last_txg, model.clone())]);
        Self {
            trace: Trace { seed, op: 0, last: VecDeque::new() },
            bench,
            rng: Rng::new(seed),
            steps: None,
            pool: Some(pool),
            model,
            by_txg,
            last_txg,
            promised: BTreeMap::new(),
            filesystems: HashMap::new(),
            volumes: HashMap::new(),
            clock: 1_600_000_000,
            // No name of the model's history comes again.
            counter: 1 << 20,
            weight_max: 12 << 20,
            offset_max: 1 << 44,
            has_checksums: false,
            has_promises: true,
            refused: 0,
        }
    }

    /// From now on each operation is the next of these, and is decided by that alone, so that the
    /// run can be made shorter. Without them one stream of random numbers decides all.
    #[must_use]
    pub fn following(self, steps: &RandomSteps) -> Self {
        Self { steps: Some(steps.clone()), ..self }
    }

    pub fn pool(&self) -> &LivePool {
        self.pool.as_ref().unwrap()
    }

    pub fn ops(&self) -> u64 {
        self.trace.op
    }

    fn note(&mut self, what: String) {
        if self.trace.last.len() == TRACED {
            self.trace.last.pop_front();
        }
        self.trace.last.push_back(format!("{} {what}", self.trace.op));
    }

    fn tick(&mut self) -> Time {
        self.clock += 1;
        Time { seconds: self.clock, nanos: self.clock as u64 % 1000 }
    }

    fn unique(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}{}", self.counter)
    }

    /// A change is about to be made in `txg`.
    fn in_txg(&mut self, txg: u64) {
        if txg != self.last_txg {
            self.by_txg.insert(self.last_txg, self.model.clone());
            self.last_txg = txg;
        }
    }

    /// All that was done is durable, if a txg was written for what was done last: an operation that
    /// turned out not to be one writes nothing.
    fn note_durable(&mut self) {
        if self.pool().last_synced() >= self.last_txg {
            self.all_durable();
        }
    }

    /// All that was done is durable.
    fn all_durable(&mut self) {
        self.last_txg = self.pool().last_synced();
        self.by_txg.clear();
        self.by_txg.insert(self.last_txg, self.model.clone());
    }

    /// The model must answer as the engine did.
    fn agree<T>(
        &mut self,
        got: &Result<T, Error>,
        want: Result<(), &'static str>,
    ) -> Result<(), String> {
        match (got, want) {
            (Ok(_), Ok(())) => Ok(()),
            (Err(e), Err(class)) if class_of(e) == class => Ok(()),
            (Ok(_), Err(class)) => Err(format!("succeeded, but should say: {class}")),
            (Err(e), Ok(())) => Err(format!("failed: {e}")),
            (Err(e), Err(class)) => Err(format!("says {e}, but should say: {class}")),
        }
    }

    fn filesystem(&mut self, name: &str) -> Filesystem {
        if let Some(fs) = self.filesystems.get(name) {
            return fs.clone();
        }
        let fs = self.pool().filesystem(name).unwrap_or_else(|e| panic!("opening {name}: {e}"));
        self.filesystems.insert(name.to_owned(), fs.clone());
        fs
    }

    fn close_handles(&mut self) {
        self.filesystems.clear();
        self.volumes.clear();
    }

    /// Whether the next operation is made at all; what decides it is ready then.
    fn is_next_made(&mut self) -> bool {
        match self.steps.as_ref().map(RandomSteps::draw) {
            Some(Some(number)) => self.rng = Rng::new(number),
            Some(None) => return false,
            None => {}
        }
        true
    }

    /// One random operation.
    pub fn step(&mut self) {
        if self.is_next_made() {
            self.operation();
        }
    }

    fn operation(&mut self) {
        self.trace.op += 1;
        let done = match self.rng.below(1000) {
            0..=39 => self.dataset_op(),
            40..=79 => self.volume_op(),
            80..=89 => self.sync_op(),
            90..=119 if self.has_promises => self.promise_op(),
            _ => self.file_op(),
        };
        done.unwrap_or_else(|e| panic!("{e}"));
    }

    /// The operation that a number stands for, which decides all that it chooses; now and then
    /// the pool is compared with the model before, or closed and opened again.
    pub fn step_of(&mut self, number: u64) {
        self.rng = Rng::new(number);
        if self.rng.below(250) == 0 {
            self.look();
        }
        if self.rng.below(900) == 0 {
            let how = self.rng.below(3);
            self.reopen(how);
        }
        self.operation();
    }

    fn sync_op(&mut self) -> Result<(), String> {
        self.note("sync".to_owned());
        self.pool().sync().map_err(|e| e.to_string())?;
        self.all_durable();
        Ok(())
    }

    /// Has all that some dataset holds promised.
    pub fn promise(&mut self) {
        if self.is_next_made() {
            self.trace.op += 1;
            self.promise_op().unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// Has all that a dataset holds promised: by its intent log, mostly.
    fn promise_op(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.model.sets.keys().cloned().collect();
        let name = self.rng.pick(&names).clone();
        self.note(format!("{name}: promise"));
        match self.model.sets[&name].is_files() {
            true => self.filesystem(&name).sync_all().map_err(|e| e.to_string())?,
            false => self.volume(&name).flush().map_err(|e| e.to_string())?,
        }
        self.note_promised(&name);
        if self.is_always(&name) {
            for _ in 0..1 + self.rng.below(3) {
                self.write_promised(&name)?;
                self.note_promised(&name);
            }
        }
        Ok(())
    }

    /// All that a dataset holds is promised.
    fn note_promised(&mut self, name: &str) {
        let state = Arc::clone(&self.model.sets[name].state);
        self.promised.insert(name.to_owned(), (self.last_txg, state));
    }

    /// Whether each change of a dataset is promised by itself (`sync=always`), where it is not made
    /// in a transaction of a caller.
    fn is_always(&self, name: &str) -> bool {
        let dsl = self.pool().view().dsl();
        let stored = dsl.by_name(name).and_then(|dataset| dsl.stored(&dataset));
        stored.unwrap().number("sync") == Some(1)
    }

    /// Writes as a program does, which is promised when it returns.
    fn write_promised(&mut self, name: &str) -> Result<(), String> {
        let len = 1 + self.rng.below(3000);
        let data = self.any_bytes(len);
        if self.model.sets[name].is_files() {
            return self.write_file_promised(name, &data);
        }
        self.write_volume_promised(name, &data)
    }

    /// After a crash: what was promised after the last durable txg is there again.
    fn replayed(&mut self, durable: u64) {
        for (name, (txg, state)) in std::mem::take(&mut self.promised) {
            if txg <= durable || !self.model.sets.contains_key(&name) {
                continue;
            }
            self.model.sets.get_mut(&name).unwrap().state = Arc::clone(&state);
            match &*state {
                State::Volume(content) => {
                    let volume = self.volume(&name);
                    compare::volume(&volume, content)
                }
                State::Files(_) => {
                    let fs = self.filesystem(&name);
                    let tree = self.model.sets.get_mut(&name).unwrap().tree_mut();
                    // When a change was repeated is not when it was made.
                    tree.take_times(&|number| {
                        fs.node(number).map(|node| (node.mtime, node.ctime)).ok()
                    });
                    compare::tree(&fs, tree)
                }
            }
            .unwrap_or_else(|e| panic!("{name}, promised in {txg}, after {durable}: {e}"));
        }
    }

    /// Closes the pool in one of three ways, and opens it again; compares all, and checks.
    pub fn reopen(&mut self, how: u64) {
        self.close_handles();
        let pool = self.pool.take().unwrap();
        match how % 3 {
            0 => {
                self.note("export, import".to_owned());
                pool.export().unwrap();
            }
            1 => {
                self.note("close, import".to_owned());
                pool.close().unwrap();
            }
            _ => {
                // As kill -9 would leave it: what the devices hold now is what there is.
                self.note("crash, import".to_owned());
                self.bench.fork();
                drop(pool);
            }
        }
        self.open_again(how % 3 == 2, Bench::check);
    }

    /// The process is killed, and the pool imported by another; `judge` sees it before.
    pub fn crash(&mut self, judge: fn(&Bench, &engine::Pool) -> Result<(), String>) {
        self.close_handles();
        self.note("crash, import".to_owned());
        let pool = self.pool.take().unwrap();
        self.bench.fork();
        drop(pool);
        self.open_again(true, judge);
    }

    fn open_again(
        &mut self,
        was_killed: bool,
        judge: fn(&Bench, &engine::Pool) -> Result<(), String>,
    ) {
        let view = self.bench.open();
        let txg = view.uberblock().txg;
        if was_killed {
            let (_, then) = self.by_txg.range(..=txg).next_back().unwrap_or_else(|| {
                panic!("txg {txg} is older than what was promised: {:?}", self.by_txg.keys())
            });
            // The open txg's state is not in the map, and cannot be on disk: nothing was pushed
            // but what the map's txgs are.
            let then = if txg >= self.last_txg { &self.model } else { then };
            self.model = then.clone();
        }
        judge(&self.bench, &view).unwrap_or_else(|e| panic!("after reopening: {e}"));
        compare::pool(&view, &self.model).unwrap_or_else(|e| panic!("after reopening: {e}"));
        drop(view);
        self.pool = Some(self.bench.import());
        if was_killed {
            self.replayed(txg);
            self.pool().sync().unwrap();
        }
        self.promised.clear();
        self.all_durable();
    }

    /// Compares one dataset as it is in memory, and now and then all, as they are on disk.
    pub fn look(&mut self) {
        self.note("compare".to_owned());
        let names: Vec<String> = self.model.sets.keys().cloned().collect();
        let name = self.rng.pick(&names).clone();
        let set = &self.model.sets[&name];
        compare::set(self.pool().view(), &name, set).unwrap_or_else(|e| panic!("in memory: {e}"));
        if let State::Files(tree) = &*set.state {
            let tree = tree.clone();
            let fs = self.filesystem(&name);
            compare::tree(&fs, &tree).unwrap_or_else(|e| panic!("in memory: {name}: {e}"));
        }
    }

    /// Exports the pool, and opens it again with these devices away.
    pub fn without(&mut self, away: Vec<usize>) {
        self.close_handles();
        self.note(format!("export, import without {away:?}"));
        self.pool.take().unwrap().export().unwrap();
        self.bench.away = away;
        self.pool = Some(self.bench.import());
        self.all_durable();
    }

    /// The pool that the bench's devices hold has all that `model` has.
    pub fn compare(bench: &Bench, model: &Model) -> Result<(), String> {
        compare::pool(&bench.open(), model)
    }

    /// Drops a pool that has stopped.
    pub fn abandon(mut self) -> Bench {
        self.close_handles();
        drop(self.pool.take());
        self.bench
    }

    /// The devices as kill -9 would leave them.
    pub fn cut(mut self) -> Bench {
        self.close_handles();
        self.bench.fork();
        self.bench
    }

    /// Exports the pool; it is in the bench's devices.
    pub fn finish(mut self) -> (Bench, Model) {
        self.close_handles();
        let pool = self.pool.take().unwrap();
        pool.export().unwrap();
        (self.bench, self.model)
    }
}

/// Makes a file of `bytes` bytes, which do not compress, in a file system of its own that no model
/// knows.
pub fn add_large(pool: &LivePool, bytes: u64) {
    let now = Time { seconds: 1_600_000_000, nanos: 0 };
    let name = format!("{}/large", pool.name());
    Create::filesystem(&name).unwrap().run(pool).unwrap();
    let fs = pool.filesystem(&name).unwrap();
    let new = NewFile::new(NewKind::File, 0o644, now);
    let file = fs.create(fs.root_object(), b"file", &new).unwrap();
    let mut piece = vec![0; 1 << 20];
    for at in (0..bytes).step_by(piece.len()) {
        Rng::new(at).fill(&mut piece);
        fs.write_at(file.number(), at, &piece, now).unwrap();
    }
}

/// What each piece of 1 MiB of that file begins with.
pub fn large_starts(bytes: u64) -> HashSet<[u8; 16]> {
    let start = |at| {
        let mut piece = [0; 16];
        Rng::new(at).fill(&mut piece);
        piece
    };
    (0..bytes).step_by(1 << 20).map(start).collect()
}
