//! Plain files and devices: `posixio` through the page cache, `directio` past it.

use super::plan::{Layout, Plan};
use super::{PiosError, Result, Target};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What direct I/O has to be a multiple of: a page, enough for every device Linux knows.
const DIRECT_UNIT: u64 = 4096;

/// How plain files are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainMethod {
    /// Buffered.
    Posix,
    /// With `O_DIRECT`.
    Direct,
}

/// Files of one run, or a file or device that was named.
pub struct PlainFiles {
    files: Vec<(PathBuf, File)>,
    /// They were made here, and can be removed.
    made: bool,
}

fn names(dir: &Path, plan: &Plan) -> Vec<PathBuf> {
    let name = |n| match plan.layout {
        Layout::Shared => dir.join(format!("pios-{}", plan.seed)),
        Layout::PerRegion => dir.join(format!("pios-{}.{n}", plan.seed)),
    };
    (0..plan.files()).map(name).collect()
}

fn failed(doing: &str, path: &Path, e: &std::io::Error) -> PiosError {
    PiosError::new(format!("cannot {doing} {}", path.display())).because(e)
}

impl PlainFiles {
    /// Makes the files of a run in the directory `path`, or opens the file or device `path` to be
    /// overwritten, which has to be forced.
    ///
    /// # Errors
    /// What there is already is not overwritten without `force`; there is no room; the sizes do
    /// not fit direct I/O.
    pub fn create(path: &Path, plan: &Plan, method: PlainMethod, force: bool) -> Result<Self> {
        check_direct(plan, method)?;
        let mut options = open_options(method);
        options.write(true);
        if path.is_dir() {
            check_space(path, plan)?;
            options.create(true).create_new(!force).truncate(force);
            return Self::open(names(path, plan), &options, true);
        }
        if plan.layout == Layout::PerRegion {
            let what = format!("{} is no directory for one file per region", path.display());
            return Err(PiosError::new(what));
        }
        match path.metadata() {
            Ok(meta) if !force => {
                let kind = if meta.file_type().is_block_device() { "device" } else { "file" };
                let what = format!("the {kind} {} exists: it would be overwritten", path.display());
                Err(PiosError::new(what).hint("--force overwrites it; a directory gets new files"))
            }
            Ok(meta) => {
                if meta.is_file() {
                    options.truncate(true);
                }
                Self::open(vec![path.to_owned()], &options, false)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                check_space(path.parent().unwrap_or(path), plan)?;
                Self::open(vec![path.to_owned()], options.create_new(true), true)
            }
            Err(e) => Err(failed("look at", path, &e)),
        }
    }

    /// Opens the files of an earlier run, named by its seed, to read them.
    ///
    /// # Errors
    /// One is not there.
    pub fn reopen(path: &Path, plan: &Plan, method: PlainMethod) -> Result<Self> {
        check_direct(plan, method)?;
        let names = if path.is_dir() { names(path, plan) } else { vec![path.to_owned()] };
        Self::open(names, &open_options(method), true)
    }

    fn open(names: Vec<PathBuf>, options: &OpenOptions, made: bool) -> Result<Self> {
        let open = |path: PathBuf| match options.open(&path) {
            Ok(file) => Ok((path, file)),
            Err(e) => Err(failed("open", &path, &e)),
        };
        let files: Result<Vec<_>> = names.into_iter().map(open).collect();
        Ok(Self { files: files?, made })
    }

    fn file(&self, number: u64) -> Result<&(PathBuf, File)> {
        let missing = || PiosError::new(format!("there is no file number {number}"));
        self.files.get(number as usize).ok_or_else(missing)
    }
}

fn open_options(method: PlainMethod) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    if method == PlainMethod::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    options
}

fn check_direct(plan: &Plan, method: PlainMethod) -> Result<()> {
    let sizes = [plan.region_size, plan.chunk_size, plan.offset, plan.chunk_noise];
    // Noise would make odd sizes, whatever it is.
    let odd = sizes.iter().any(|n| !n.is_multiple_of(DIRECT_UNIT)) || plan.chunk_noise > 0;
    if method == PlainMethod::Direct && odd {
        let what = "direct I/O needs sizes and offsets in multiples of 4096, and no chunk noise";
        return Err(PiosError::new(what));
    }
    Ok(())
}

/// As pios: a tenth more than is written has to be free.
fn check_space(dir: &Path, plan: &Plan) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let fs = rustix::fs::statvfs(dir).map_err(|e| failed("look at", dir, &e.into()))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    super::dmu::enough(free, plan, &dir.display())
}

impl Target for PlainFiles {
    fn write(&self, file: u64, at: u64, data: &[u8]) -> Result<()> {
        let (path, file) = self.file(file)?;
        file.write_all_at(data, at).map_err(|e| failed("write", path, &e))
    }

    fn read(&self, file: u64, at: u64, buf: &mut [u8]) -> Result<()> {
        let (path, file) = self.file(file)?;
        file.read_exact_at(buf, at).map_err(|e| failed("read", path, &e))
    }

    fn sync(&self) -> Result<()> {
        let sync =
            |(path, file): &(PathBuf, File)| file.sync_data().map_err(|e| failed("sync", path, &e));
        self.files.iter().try_for_each(sync)
    }

    fn remove(&self) -> Result<()> {
        if !self.made {
            return Ok(());
        }
        let remove = |(path, _): &(PathBuf, File)| {
            std::fs::remove_file(path).map_err(|e| failed("remove", path, &e))
        };
        self.files.iter().try_for_each(remove)
    }
}
