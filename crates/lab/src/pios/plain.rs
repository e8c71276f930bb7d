//! Plain files and devices: `posixio` through the page cache, `directio` past it, and `cowio`,
//! which copies what it is about to overwrite into a shadow file first: the price of keeping old
//! data where the file system overwrites in place. It needs something to overwrite, so new files
//! are filled with zeros before the clock starts.

use super::plan::{Layout, Plan};
use super::{PiosError, Result, Target};
use parking_lot::Mutex;
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
    /// Buffered, and what is overwritten is kept in a shadow file.
    Cow,
}

/// Bytes that are written at a time when a new file is filled.
const FILL_UNIT: usize = 1 << 20;

/// Files of one run, or a file or device that was named.
pub struct PlainFiles {
    files: Vec<(PathBuf, File)>,
    /// Where what is overwritten goes; by the number of the file, or empty.
    shadows: Vec<(PathBuf, File)>,
    /// Buffers for what is overwritten, while they are not in use.
    spare: Mutex<Vec<Vec<u8>>>,
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
    /// Whether the directory `path` has files of a run of this time stamp. A file or device that is
    /// named has no time stamp.
    #[must_use]
    pub fn is_taken(path: &Path, plan: &Plan) -> bool {
        path.is_dir() && names(path, plan).iter().any(|name| name.exists())
    }

    /// Makes the files of a run in the directory `path`, or opens the file or device `path` to be
    /// overwritten, which has to be forced.
    ///
    /// # Errors
    /// A file or device is not overwritten without `force`, those of another run never; there is no
    /// room; the sizes do not fit direct I/O.
    pub fn create(path: &Path, plan: &Plan, method: PlainMethod, force: bool) -> Result<Self> {
        check_direct(plan, method)?;
        let mut options = open_options(method);
        options.write(true);
        let is_cow = method == PlainMethod::Cow;
        if path.is_dir() {
            check_space(path, plan, method)?;
            let out = Self::open(names(path, plan), options.create_new(true), true)?;
            return out.with_shadows(plan, method);
        }
        if plan.layout == Layout::PerRegion {
            let what = format!("{} is not a directory for one file per region", path.display());
            return Err(PiosError::new(what));
        }
        match path.metadata() {
            Ok(meta) if is_cow && !meta.is_file() => {
                let what =
                    format!("{} is not a file: cowio has no place for a shadow", path.display());
                Err(PiosError::new(what).hint("cowio takes a directory or a file"))
            }
            Ok(meta) if !force => {
                let kind = if meta.file_type().is_block_device() { "device" } else { "file" };
                let what = format!("the {kind} {} exists: it would be overwritten", path.display());
                Err(PiosError::new(what).hint("--force overwrites it; a directory gets new files"))
            }
            Ok(meta) => {
                // With cowio its content is what has to be kept.
                options.truncate(meta.is_file() && !is_cow);
                if meta.file_type().is_block_device() {
                    // Refused while it is mounted, or in use otherwise.
                    options.custom_flags(flags(method) | libc::O_EXCL);
                }
                let out = Self::open(vec![path.to_owned()], &options, false)?;
                out.with_shadows(plan, method)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                check_space(path.parent().unwrap_or(path), plan, method)?;
                let out = Self::open(vec![path.to_owned()], options.create_new(true), true)?;
                out.with_shadows(plan, method)
            }
            Err(e) => Err(failed("look at", path, &e)),
        }
    }

    /// With a shadow for each file, when that is the method, and something in each new file that is
    /// overwritten.
    fn with_shadows(mut self, plan: &Plan, method: PlainMethod) -> Result<Self> {
        if method != PlainMethod::Cow {
            return Ok(self);
        }
        let mut options = open_options(method);
        options.write(true).create(true).truncate(true);
        let shadow = |(path, _): &(PathBuf, File)| {
            let mut name = path.clone().into_os_string();
            name.push(".shadow");
            let path = PathBuf::from(name);
            let file = options.open(&path).map_err(|e| failed("open", &path, &e))?;
            Ok((path, file))
        };
        self.shadows = self.files.iter().map(shadow).collect::<Result<_>>()?;
        if self.made {
            self.fill(plan)?;
        }
        Ok(self)
    }

    /// Writes zeros to all regions.
    fn fill(&self, plan: &Plan) -> Result<()> {
        let zeros = vec![0; FILL_UNIT];
        for region in 0..plan.regions {
            let (path, file) = self.file(plan.file(region))?;
            for at in (0..plan.region_size).step_by(FILL_UNIT) {
                let len = (plan.region_size - at).min(FILL_UNIT as u64) as usize;
                let written = file.write_all_at(&zeros[..len], plan.place(region, at));
                written.map_err(|e| failed("fill", path, &e))?;
            }
        }
        self.sync()
    }

    /// Copies what is about to be overwritten into the shadow.
    fn keep(&self, file: u64, at: u64, len: usize) -> Result<()> {
        let Some((shadow_path, shadow)) = self.shadows.get(file as usize) else { return Ok(()) };
        let (path, file) = self.file(file)?;
        let mut old = self.spare.lock().pop().unwrap_or_default();
        if old.len() < len {
            old.resize(len, 0);
        }
        let mut done = 0;
        while done < len {
            match file.read_at(&mut old[done..len], at + done as u64) {
                // There is nothing behind the end that could be lost.
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed("read", path, &e)),
            }
        }
        let kept = shadow.write_all_at(&old[..done], at);
        self.spare.lock().push(old);
        kept.map_err(|e| failed("write", shadow_path, &e))
    }

    /// Opens the files of an earlier run, named by its seed, to read them.
    ///
    /// # Errors
    /// One is not there.
    pub fn reopen(path: &Path, plan: &Plan, method: PlainMethod) -> Result<Self> {
        check_direct(plan, method)?;
        let is_dir = path.is_dir();
        let names = if is_dir { names(path, plan) } else { vec![path.to_owned()] };
        // A file that was named may have been there before.
        Self::open(names, &open_options(method), is_dir)
    }

    fn open(names: Vec<PathBuf>, options: &OpenOptions, made: bool) -> Result<Self> {
        let open = |path: PathBuf| match options.open(&path) {
            Ok(file) => Ok((path, file)),
            Err(e) => Err(failed("open", &path, &e)),
        };
        let files: Result<Vec<_>> = names.into_iter().map(open).collect();
        Ok(Self { files: files?, shadows: Vec::new(), spare: Mutex::default(), made })
    }

    fn file(&self, number: u64) -> Result<&(PathBuf, File)> {
        let missing = || PiosError::new(format!("there is no file number {number}"));
        self.files.get(number as usize).ok_or_else(missing)
    }
}

fn open_options(method: PlainMethod) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(method));
    options
}

fn flags(method: PlainMethod) -> libc::c_int {
    if method == PlainMethod::Direct { libc::O_DIRECT } else { 0 }
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
fn check_space(dir: &Path, plan: &Plan, method: PlainMethod) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let fs = rustix::fs::statvfs(dir).map_err(|e| failed("look at", dir, &e.into()))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let copies = if method == PlainMethod::Cow { 2 } else { 1 };
    super::dmu::enough(free / copies, plan, &dir.display())
}

impl Target for PlainFiles {
    fn write(&self, file: u64, at: u64, data: &[u8]) -> Result<()> {
        self.keep(file, at, data.len())?;
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
        self.files.iter().chain(&self.shadows).try_for_each(sync)
    }

    fn remove(&self) -> Result<()> {
        let remove = |(path, _): &(PathBuf, File)| {
            std::fs::remove_file(path).map_err(|e| failed("remove", path, &e))
        };
        // What was there before stays.
        let made = self.files.iter().filter(|_| self.made);
        made.chain(&self.shadows).try_for_each(remove)
    }
}
