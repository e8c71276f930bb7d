//! Hourly snapshots of every dataset of a pool, and proven streams of what came last.
//!
//! Opens a pool that is in image files, takes a snapshot of each dataset, destroys those of its
//! own that are older than the newest KEEP, and writes what came between the last two into FOLDER,
//! a stream for each dataset. A stream counts when it was received into a pool that is made for
//! that, and all files there are those that were sent.
//!
//! ```console
//! $ cargo run -p engine --example rotate -- tank 24 /tmp/streams /tmp/a.img /tmp/b.img
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use engine::datasets::{self, Destroy};
use engine::files::{DirCursor, FileKind};
use engine::live::ImportOptions;
use engine::receive::{Receive, ReceiveObserver};
use engine::send::{Forms, SendStream};
use engine::{Dataset, DatasetKind, Error, ErrorKind, Filesystem, Hint, LivePool, NewPool, Node};
use engine::{OpenOptions, Place, Progress, Refusal, Result, Volume};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = "hourly-";
const CHUNK: usize = 1 << 20;
const ALL: Forms = Forms { large_blocks: true, compressed: true, embedded: true, raw: false };

/// What a round came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Snapshots that are gone.
    pub destroyed: Vec<String>,
    /// Old snapshots that stay, each with the reason.
    pub kept: Vec<(String, String)>,
    /// Snapshots that were sent, received, and found the same.
    pub proven: Vec<String>,
    /// Datasets of which that failed, each with the reason.
    pub failed: Vec<(String, String)>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pool, keep, folder, images @ ..] = &words[..] else { return usage() };
    let Ok(keep) = keep.parse() else { return usage() };
    match rotate(pool, keep, Path::new(folder), images, SystemTime::now()) {
        Ok(done) => {
            println!("{} destroyed, {} proven", done.destroyed.len(), done.proven.len());
            for (name, why) in &done.kept {
                println!("{name} stays: {why}");
            }
            for (name, why) in &done.failed {
                eprintln!("{name} failed: {why}");
            }
            ExitCode::from(u8::from(!done.failed.is_empty()))
        }
        Err(error) => {
            eprintln!("rotate: {}", worded(&error));
            // Of these a later round may be luckier.
            let may_pass = matches!(error.kind(), ErrorKind::InUse | ErrorKind::Suspended);
            ExitCode::from(if may_pass { 75 } else { 1 })
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: rotate POOL KEEP FOLDER IMAGE...");
    ExitCode::from(2)
}

/// An error with its hint, in the words of this program.
fn worded(error: &Error) -> String {
    let advice = match error.hint() {
        Some(Hint::Release(tag)) => format!("release the hold {tag}"),
        Some(Hint::DestroyClones { clones, .. }) => {
            format!("destroy or promote {}", clones.join(", "))
        }
        Some(Hint::LoadKey) => "its key is needed".to_owned(),
        Some(Hint::NamePlaces | Hint::FindDevices) => "name all files of the pool".to_owned(),
        Some(Hint::ExportThere) => "try again when the other program is done".to_owned(),
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// One round; the pool is exported again, whatever comes of it.
pub fn rotate(
    name: &str,
    keep: usize,
    folder: &Path,
    images: &[impl AsRef<Path>],
    now: SystemTime,
) -> Result<Rotated> {
    let places = images.iter().map(AsRef::as_ref);
    let pool = LivePool::open(name, &ImportOptions::new(OpenOptions::in_places(places)))?;
    let done = with_proof(&pool, keep, folder, images, now);
    let ended = pool.export();
    let done = done?;
    ended?;
    Ok(done)
}

/// What is proved is in a pool of its own, which is made anew.
fn with_proof(
    pool: &LivePool,
    keep: usize,
    folder: &Path,
    images: &[impl AsRef<Path>],
    now: SystemTime,
) -> Result<Rotated> {
    std::fs::create_dir_all(folder).map_err(|error| of_path(error, folder))?;
    let image = folder.join("proof.img");
    if image.exists() {
        std::fs::remove_file(&image).map_err(|error| of_path(error, &image))?;
    }
    let mut bytes = 0;
    for image in images.iter().map(AsRef::as_ref) {
        bytes += std::fs::metadata(image).map_err(|error| of_path(error, image))?.len();
    }
    let proof = NewPool::new(&format!("{}-proof", pool.name())).file(&image, bytes)?.create()?;
    let (done, progress) = (Rotated::default(), Progress::new());
    let mut round = Round { pool, proof: &proof, keep: keep.max(2), folder, progress, done };
    let ran = round.run(now);
    let done = round.done;
    let ended = proof.export();
    ran?;
    ended?;
    Ok(done)
}

fn of_path(error: std::io::Error, path: &Path) -> Error {
    Error::from(error).at(Place::Path(path.to_owned()))
}

struct Round<'a> {
    pool: &'a LivePool,
    proof: &'a LivePool,
    keep: usize,
    folder: &'a Path,
    progress: Progress,
    done: Rotated,
}

impl Round<'_> {
    fn run(&mut self, now: SystemTime) -> Result<()> {
        let mut heads = datasets::heads(self.pool.view(), self.pool.name())?;
        heads.retain(|head| !head.is_partly_received());
        let short = name_of(now);
        let names: Vec<_> = heads.iter().map(|head| format!("{}@{short}", head.name)).collect();
        datasets::snapshot(self.pool, &names, false, Vec::new())?;
        for head in &heads {
            match self.each(head) {
                Ok(()) => self.done.proven.push(format!("{}@{short}", head.name)),
                Err(error) if error.kind().ends_all() => return Err(error),
                Err(error) => self.done.failed.push((head.name.clone(), worded(&error))),
            }
        }
        for pool in [self.pool, self.proof] {
            show_space(pool);
        }
        Ok(())
    }

    fn each(&mut self, head: &Dataset) -> Result<()> {
        self.expire(head)?;
        let hourly = self.hourly(head)?;
        let target = format!("{}/{}", self.proof.name(), head.name);
        let last = match &hourly[..] {
            [] => return Ok(()),
            [only] => {
                self.bring_over(only, &target)?;
                only
            }
            [.., before, last] => {
                let path = self.write(before, last)?;
                self.bring_over(before, &target)?;
                let file = File::open(&path).map_err(|error| of_path(error, &path))?;
                self.receive(&target, file)?;
                last
            }
        };
        let short = datasets::split(last).map_or("", |(_, short)| short);
        let (sent, proof) = (self.pool.view(), self.proof.view());
        let copy = format!("{target}@{short}");
        let kind = sent.datasets().kind(head);
        match kind {
            DatasetKind::Volume => compare_volumes(&sent.volume(last)?, &proof.volume(&copy)?),
            DatasetKind::Filesystem => {
                compare_trees(&sent.filesystem(last)?, &proof.filesystem(&copy)?)
            }
        }
    }

    /// The full names of the snapshots of a dataset that are this program's, oldest first.
    fn hourly(&self, head: &Dataset) -> Result<Vec<String>> {
        let all = self.pool.view().datasets().snapshots(head)?;
        let is_hourly =
            |name: &str| datasets::split(name).is_some_and(|(_, short)| short.starts_with(PREFIX));
        Ok(all.into_iter().map(|one| one.name).filter(|name| is_hourly(name)).collect())
    }

    fn expire(&mut self, head: &Dataset) -> Result<()> {
        let mut old = self.hourly(head)?;
        old.truncate(old.len().saturating_sub(self.keep));
        for name in old {
            let plan = Destroy::new(&name).plan(self.pool.view());
            match plan.and_then(|plan| plan.run(self.pool, &self.progress)) {
                Ok(()) => self.done.destroyed.push(name),
                Err(error) => match error.kind() {
                    ErrorKind::Refused(
                        Refusal::Held(_) | Refusal::HasClones(_) | Refusal::Busy,
                    ) => self.done.kept.push((name, worded(&error))),
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Writes the stream of what came between two snapshots; it gets its name when it is whole.
    fn write(&self, from: &str, to: &str) -> Result<PathBuf> {
        let short = datasets::split(from).map_or(from, |(_, short)| short);
        let path = self.folder.join(format!("{}+{short}.zfs", to.replace('/', "%")));
        let partial = path.with_extension("partial");
        let mut file = File::create(&partial).map_err(|error| of_path(error, &partial))?;
        let view = self.pool.look()?;
        let send = SendStream::new(&view, to, Some(from), ALL)?.held_in(self.pool)?;
        send.run(&mut file, &self.progress)?;
        file.sync_all().map_err(|error| of_path(error, &partial))?;
        std::fs::rename(&partial, &path).map_err(|error| of_path(error, &path))?;
        Ok(path)
    }

    /// Brings a snapshot over in full, through a pipe.
    fn bring_over(&self, snapshot: &str, target: &str) -> Result<()> {
        let view = self.pool.look()?;
        let send = SendStream::new(&view, snapshot, None, ALL)?.held_in(self.pool)?;
        let (reader, writer) = std::io::pipe()?;
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| send.run(writer, &self.progress));
            let received = self.receive(target, reader);
            match sent.join() {
                // The receiver misses the end of the stream; the sender knows why.
                Ok(Err(error)) if error.kind() != &ErrorKind::External => Err(error),
                Ok(_) => received,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn receive(&self, target: &str, input: impl Read) -> Result<()> {
        let receive = Receive { target: target.to_owned(), ..Receive::default() };
        Ok(receive.run(self.proof, input, &Tell, &Progress::new())?)
    }
}

struct Tell;

impl ReceiveObserver for Tell {
    fn not_set(&self, dataset: &str, property: &str, why: &str) {
        eprintln!("{dataset}: {property} is not set: {why}");
    }
}

fn show_space(pool: &LivePool) {
    let usable = pool.view().space().usable();
    for one in datasets::spaces(pool.view(), usable) {
        println!("{:40} {:>12} used, {:>12} by snapshots", one.name, one.used, one.by_snapshots);
    }
}

/// What is different, as an error.
fn differs(what: impl std::fmt::Display) -> Error {
    Error::external(format!("the copy differs: {what}"))
}

fn compare_volumes(a: &Volume, b: &Volume) -> Result<()> {
    compare_bytes(
        "the volume",
        |at, out| Ok(a.read_at(at, out)?),
        |at, out| Ok(b.read_at(at, out)?),
    )
}

/// Compares what two readers have, which both end with fewer bytes than were asked for.
fn compare_bytes(
    what: &str,
    a: impl Fn(u64, &mut [u8]) -> Result<usize>,
    b: impl Fn(u64, &mut [u8]) -> Result<usize>,
) -> Result<()> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    loop {
        let (here, there) = (a(at, &mut left)?, b(at, &mut right)?);
        if left[..here] != right[..there] {
            return Err(differs(format_args!("{what}, from byte {at} on")));
        }
        if here < CHUNK {
            return Ok(());
        }
        at += here as u64;
    }
}

/// Compares all files of two file systems.
pub fn compare_trees(a: &Filesystem, b: &Filesystem) -> Result<()> {
    let mut open = vec![(String::new(), a.root()?, b.root()?)];
    while let Some((path, left, right)) = open.pop() {
        let (mut names, mut at) = (0, Some(DirCursor::default()));
        while let Some(from) = at {
            let page = left.read_dir(from, 1000)?;
            for entry in page.entries {
                let entry = entry?;
                names += 1;
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let other = right.lookup(&entry.name)?;
                let other = other.ok_or_else(|| differs(format_args!("{path} is missing")))?;
                let (left, right) = (a.node(entry.object)?, b.node(other.object)?);
                compare_nodes(&path, &left, &right)?;
                if left.kind() == FileKind::Dir {
                    open.push((path, left, right));
                }
            }
            at = page.next;
        }
        // Each name is there; so there are others when there are more.
        if right.entries()?.count() != names {
            return Err(differs(format_args!("{path}/ has others")));
        }
    }
    Ok(())
}

fn compare_nodes(path: &str, a: &Node, b: &Node) -> Result<()> {
    let facts = |node: &Node| {
        let owner = (node.mode, node.uid, node.gid, node.links, node.size, node.rdev);
        (owner, node.mtime, node.ctime, node.crtime, node.flags, node.project)
    };
    if facts(a) != facts(b) {
        return Err(differs(format_args!("{path}, its attributes")));
    }
    match a.kind() {
        FileKind::File => compare_bytes(
            path,
            |at, out| Ok(a.read_at(at, out)?),
            |at, out| Ok(b.read_at(at, out)?),
        ),
        FileKind::Symlink if a.read_link()? != b.read_link()? => {
            Err(differs(format_args!("{path}, where it leads")))
        }
        _ => Ok(()),
    }
}

/// The name of a snapshot that is taken now, in UTC.
fn name_of(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that not all have is the last.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{PREFIX}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
