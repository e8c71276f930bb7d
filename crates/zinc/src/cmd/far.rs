//! `zinc far`: disks in stores of objects, beside the pools that lie on them.

use crate::args::bytes;
use crate::cmd::verb::Verb;
use crate::cmd::zpool::claim;
use crate::failure::{FAILED, Failure, ISSUES};
use crate::prices::prices;
use crate::progress;
use crate::session::Session;
use crate::ui;
use engine::Progress;
use engine::devices::disk::{self, Collected, DiskError, LogDevice};
use engine::devices::price::Workload;
use engine::devices::{FarName, WriteDeviceRef};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The verbs of `zinc far`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a disk in an empty store
    Create(Create),
    /// Show what a disk is, how much of it is used, its writers and its pins
    Ls(Ls),
    /// Verify everything that a disk has in its store
    Check(Check),
    /// Copy a disk out of a store into a file, or a file into a disk
    Copy(ImageCopy),
    /// Delete objects that are no longer needed
    Gc(Gc),
    /// Show what a month of use costs
    Cost(Cost),
    /// Protect the present state of a disk from deletion, or remove that protection
    Pin(Pin),
}

/// Arguments of `zinc far create`.
#[derive(clap::Args)]
#[command(after_help = "\
What is not written takes no room: a disk may be much larger than what will be on it. The store is
tried first: if it does not keep two writers apart, it is refused.
With a limit, garbage is collected sooner where there is no room, and writes wait for that. It is at
least a quarter more than the size, and 256 MiB.")]
pub struct Create {
    /// Accept a store that cannot keep two writers apart: there must never be more than one at a
    /// time
    #[arg(long)]
    single_writer: bool,
    /// Let its objects take this many bytes at most, such as 15T, whatever is overwritten: fewer
    /// than the quota of the bucket
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    limit: Option<u64>,
    /// The store: dir:///PATH, or a bucket as s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: String,
    /// The size of the disk in bytes, such as 10T
    #[arg(value_parser = bytes)]
    size: u64,
}

/// Arguments of `zinc far ls`.
#[derive(clap::Args)]
#[command(after_help = "\
Of a bucket without a prefix (s3://BUCKET/) it lists the disks, with a request for each folder.")]
pub struct Ls {
    /// The store: dir:///PATH, or a bucket as s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: String,
}

/// Arguments of `zinc far check`.
#[derive(clap::Args)]
#[command(after_help = "\
Errors found here are those of the store; errors that only `zinc check` finds are in the pool.
Exit code 3 when something is wrong.")]
pub struct Check {
    /// The store: dir:///PATH, or a bucket as s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: String,
}

/// Arguments of `zinc far copy`.
#[derive(clap::Args)]
#[command(after_help = "\
Either FROM or TO is a store (dir:///PATH, s3://BUCKET/PREFIX, gs://…, az://…).
A file is created, with holes where the disk has nothing.
A file, or a disk of this machine, is copied into a disk of a store that is there already and at
least as large.")]
pub struct ImageCopy {
    /// Also into a disk that holds something, such as an exported pool, or that another writer has
    /// open, which loses it
    #[arg(short = 'f')]
    force: bool,
    /// The source
    from: String,
    /// The destination
    to: String,
}

/// Arguments of `zinc far gc`.
#[derive(clap::Args)]
#[command(after_help = "\
While the disk is in use by a pool, its writer does all this by itself. Readers on other machines
that have no pin lose what they read, and must open it again.")]
pub struct Gc {
    /// Also when another writer has the disk open, which loses it
    #[arg(short = 'f')]
    force: bool,
    /// Compact segments of which less than this percentage is in use
    #[arg(long, value_name = "PERCENT", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(0..=90))]
    below: u32,
    /// The store: dir:///PATH, or a bucket as s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: String,
}

/// Arguments of `zinc far cost`.
#[derive(clap::Args)]
#[command(after_help = "\
Prices are Amazon's, or those of a FILE of lines NAME = DOLLARS: create, get, list and delete for a
million requests, keep for a GiB and month, out for a GiB that leaves; and source and date.")]
pub struct Cost {
    /// Bytes that are stored, when no STORE is given
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    kept: u64,
    /// Bytes that are written in a month
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    written: u64,
    /// Bytes that are read in a month
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    read: u64,
    /// Bytes that one request reads: a record, or more when many are read in order
    #[arg(long, value_name = "BYTES", default_value = "128K", value_parser = bytes)]
    record: u64,
    /// Seconds between two transaction groups (zfs_txg_timeout)
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..))]
    txg: u64,
    /// Percentage of the time in which something is written
    #[arg(long, value_name = "PERCENT", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    busy: u64,
    /// Times a second that programs wait for a write, when there is no log device
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    syncs: u64,
    /// File of prices instead of Amazon's [default: the file that ZINC_PRICES names]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The disk: dir:///PATH, s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: Option<String>,
}

/// Arguments of `zinc far pin`.
#[derive(clap::Args)]
pub struct Pin {
    /// Remove the pin of this name
    #[arg(long, value_name = "PIN")]
    remove: Option<String>,
    /// The store: dir:///PATH, or a bucket as s3://BUCKET/PREFIX (or gs://, az://)
    #[arg(value_name = "STORE")]
    name: String,
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Create(a) => Box::new(a),
            Self::Ls(a) => Box::new(a),
            Self::Check(a) => Box::new(a),
            Self::Copy(a) => Box::new(a),
            Self::Gc(a) => Box::new(a),
            Self::Cost(a) => Box::new(a),
            Self::Pin(a) => Box::new(a),
        }
    }
}

/// A store by the name that was typed; `None` for a word that names no store.
fn store(text: &str) -> Result<Option<FarName>, Failure> {
    match FarName::parse(Path::new(text)) {
        Some(Ok(name)) if name.is_store() => Ok(Some(name)),
        Some(Err(why)) => {
            Err(Failure::new(format!("{text} is not a name of a store")).because(why.to_string()))
        }
        Some(Ok(_)) | None => Ok(None),
    }
}

fn named(text: &str) -> Result<FarName, Failure> {
    let none = || {
        Failure::new(format!("{text} is not a name of a store"))
            .hint("a store is dir:///PATH, or s3://, gs:// or az://BUCKET/PREFIX")
    };
    store(text)?.ok_or_else(none)
}

fn cannot(doing: &str, name: &FarName, trouble: &DiskError) -> Failure {
    let failure = Failure::new(format!("cannot {doing} the disk in {}", name.as_str()));
    hinted(failure, name, trouble)
}

/// Says what a store, or the disk in it, did, and what helps.
fn hinted(failure: Failure, name: &FarName, trouble: &DiskError) -> Failure {
    let failure = failure.because(trouble.to_string());
    let hint = match trouble {
        DiskError::NoDisk => disk::any_object(name).ok().map(views::far::no_disk),
        _ => views::far::hint(name, trouble),
    };
    hint.into_iter().fold(failure, Failure::hint)
}

/// Refuses what another writer would lose, unless that is forced.
fn refuse_held(session: &Session, doing: &str, name: &FarName, force: bool) -> Result<(), Failure> {
    if force {
        return Ok(());
    }
    match disk::holder(name).map_err(|trouble| cannot(doing, name, &trouble))? {
        None => Ok(()),
        Some(writer) => Err(Failure::new(format!("cannot {doing} the disk in {}", name.as_str()))
            .because(format!("{} has it open", views::far::writer(session, &writer)))
            .hint(
                "end what uses it there (`zinc zpool export`); if that machine is gone, -f takes \
                 the disk over",
            )),
    }
}

/// Refuses what holds something, such as a pool, unless that is forced; what a pool uses here even
/// then.
fn refuse_content(
    session: &Session,
    name: &FarName,
    device: &Arc<LogDevice>,
    force: bool,
) -> Result<(), Failure> {
    let what = format!("cannot write to the disk in {}", name.as_str());
    let own: WriteDeviceRef = Arc::<LogDevice>::clone(device);
    claim::content(session, &what, (Path::new(name.as_str()), &own), &|_| force).map(drop)
}

fn claimed(
    doing: &str,
    name: &FarName,
    device: Result<Arc<LogDevice>, Option<DiskError>>,
) -> Result<Arc<LogDevice>, Failure> {
    device.map_err(|trouble| match trouble {
        Some(trouble) => cannot(doing, name, &trouble),
        None => Failure::new(format!("cannot {doing} the disk in {}", name.as_str()))
            .because("another program of this machine has it"),
    })
}

impl Verb for Create {
    fn run(self: Box<Self>, _: &Session) -> Result<ExitCode, Failure> {
        let name = named(&self.name)?;
        let mut is = disk::new_disk(self.size, self.limit).map_err(Failure::usage)?;
        is.is_fenced = !self.single_writer;
        disk::create(&name, &is).map_err(|trouble| cannot("make", &name, &trouble))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Ls {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if let Some(Ok(bucket)) = FarName::parse_bucket(&self.name) {
            let found = disk::all_in(&bucket).map_err(|trouble| {
                let failure = Failure::new(format!("cannot list the disks of {}", bucket.as_str()));
                hinted(failure, &bucket, &trouble)
            })?;
            let size = |name: &FarName| disk::superblock(name).ok().map(|is| is.size);
            let all: Vec<_> = found.iter().map(|name| (name, size(name))).collect();
            ui::out(session, &views::far::disks(&all));
            return Ok(ExitCode::SUCCESS);
        }
        let name = named(&self.name)?;
        let found = disk::overview(&name).map_err(|trouble| cannot("look at", &name, &trouble))?;
        ui::out(session, &views::far::overview(session, &found, &name));
        match found.log {
            Ok(_) => Ok(ExitCode::SUCCESS),
            // What there is to see of it was shown.
            Err(trouble) => Err(cannot("open", &name, &trouble)),
        }
    }
}

impl Verb for Check {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = named(&self.name)?;
        let progress = Progress::new();
        let found = progress::while_showing(session, &progress, || {
            disk::check(&name, |bytes| progress.add(1, bytes))
        });
        let found = found.map_err(|trouble| cannot("check", &name, &trouble))?;
        ui::out(session, &views::far::report(&found));
        Ok(if found.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(ISSUES) })
    }
}

impl Verb for ImageCopy {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let progress = Progress::new();
        progress.begin("copied", 0);
        if [&self.from, &self.to].into_iter().any(|name| name == "-") {
            return Err(Failure::usage("a disk is copied from and to files, not through a pipe"));
        }
        match (store(&self.from)?, store(&self.to)?) {
            (Some(name), None) => {
                let file = session.path(Path::new(&self.to));
                let copied = progress::while_showing(session, &progress, || {
                    disk::copy_out(&name, &file, |bytes| progress.add(bytes, bytes))
                });
                copied.map_err(|trouble| cannot("copy", &name, &trouble))
            }
            (None, Some(name)) => {
                let file = session.path(Path::new(&self.from));
                refuse_held(session, "write to", &name, self.force)?;
                let device = claimed("write to", &name, disk::claim(&name))?;
                refuse_content(session, &name, &device, self.force)?;
                let copied = progress::while_showing(session, &progress, || {
                    disk::copy_in(&file, &device, |bytes| progress.add(bytes, bytes))
                });
                copied.map_err(|trouble| cannot("write to", &name, &trouble))
            }
            (Some(_), Some(_)) => {
                Err(Failure::usage("one of both is a file").hint("copy it out, and in again"))
            }
            (None, None) => Err(Failure::usage("neither of the two is a store")
                .hint("one is dir:///PATH, or s3://, gs:// or az://BUCKET/PREFIX")),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Gc {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = named(&self.name)?;
        refuse_held(session, "clean up", &name, self.force)?;
        let device = claimed("clean up", &name, disk::claim_to_clean(&name))?;
        let run = || -> Result<(Collected, u64), DiskError> {
            let moved = device.clean(self.below, u64::MAX)?;
            device.age()?;
            let mut done = device.collect()?;
            done.others += device.sweep()?;
            Ok((done, moved))
        };
        let (done, moved) = run().map_err(|trouble| cannot("clean up", &name, &trouble))?;
        ui::out(session, &views::far::collected(&done, moved));
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Cost {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let prices = prices(session, self.prices.as_deref())?;
        let Self { mut kept, written, read, record: read_size, txg, busy, syncs, .. } = *self;
        if read_size == 0 {
            return Err(Failure::usage("--record: a request reads at least one byte"));
        }
        if let Some(name) = &self.name {
            let name = named(name)?;
            let found = disk::overview(&name).map_err(|why| cannot("look at", &name, &why))?;
            let log = found.log.map_err(|why| cannot("open", &name, &why))?;
            kept = kept.max(log.kept);
        }
        let workload = Workload { kept, written, read, read_size, txg, busy, syncs };
        ui::out(session, &views::far::cost(&workload, &prices));
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Pin {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = named(&self.name)?;
        let Some(pin) = &self.remove else {
            let pin = disk::pin(&name).map_err(|trouble| cannot("pin", &name, &trouble))?;
            ui::out(session, &format!("{}\n", pin.name));
            return Ok(ExitCode::SUCCESS);
        };
        match disk::unpin(&name, pin).map_err(|trouble| cannot("unpin", &name, &trouble))? {
            true => Ok(ExitCode::SUCCESS),
            false => {
                Failure::new(format!("{} has no pin {pin}", name.as_str())).report(session);
                Ok(ExitCode::from(FAILED))
            }
        }
    }
}
