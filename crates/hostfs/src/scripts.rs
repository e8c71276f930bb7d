//! Scripts that say something of each device of a pool (`zpool status -c`, `zpool iostat -c`).
//!
//! A script is a program in one of the folders of `ZPOOL_SCRIPTS_PATH`, otherwise in `~/.zpool.d`
//! or `/etc/zfs/zpool.d`, and named without a slash. It runs once for each device, with the rights
//! of the process that asked. Each line `NAME=VALUE` that it prints is a column; the first line of
//! another form is a column without a name, and the last that counts.
//!
//! A script finds in its environment `VDEV_PATH`, the device's path; `VDEV_UPATH`, the disk below
//! a partition or a device-mapper device; and `VDEV_ENC_SYSFS_PATH`, the slot of its enclosure in
//! /sys, where it has one. Of everything else only `PATH` is there.
//!
//! For root nothing runs unless `ZPOOL_SCRIPTS_AS_ROOT` is set, and for no one when
//! `ZPOOL_SCRIPTS_ENABLED` is 0.

use rustix::fs::{Access, access};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where scripts are found that all users may run.
const SYSTEM_FOLDER: &str = "/etc/zfs/zpool.d";
/// The same below a home.
const OWN_FOLDER: &str = ".zpool.d";
/// Where a script finds programs.
const PROGRAMS: &str = "/bin:/sbin:/usr/bin:/usr/sbin";
/// Scripts that run at a time.
const RUNNING_MAX: usize = 16;
/// Bytes that are read of what a script prints.
const OUTPUT_MAX: u64 = 64 << 10;

/// A column of a device: its title, which may be empty, and its value.
pub type ScriptColumn = (String, String);

/// Scripts that were found.
#[derive(Debug)]
pub struct Scripts(Vec<PathBuf>);

/// Whether a variable of the environment is set to a true value.
fn is_set(value: Option<OsString>) -> bool {
    value.is_some_and(|text| !text.is_empty() && text != "0" && !text.eq_ignore_ascii_case("no"))
}

/// Folders in which scripts are looked for: whole paths, because a name alone would be looked for
/// elsewhere when it is run.
fn folders(env: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = match env("ZPOOL_SCRIPTS_PATH").filter(|paths| !paths.is_empty()) {
        Some(paths) => std::env::split_paths(&paths).collect(),
        None => {
            let own = env("HOME").map(|home| PathBuf::from(home).join(OWN_FOLDER));
            own.into_iter().chain([PathBuf::from(SYSTEM_FOLDER)]).collect()
        }
    };
    all.retain(|folder| folder.is_absolute());
    all
}

/// Whether the environment lets this user run scripts.
///
/// # Errors
/// Why not.
fn check_allowed(env: &dyn Fn(&str) -> Option<OsString>, is_root: bool) -> Result<(), String> {
    if env("ZPOOL_SCRIPTS_ENABLED").is_some_and(|text| !is_set(Some(text))) {
        return Err("ZPOOL_SCRIPTS_ENABLED forbids scripts".to_owned());
    }
    if is_root && !is_set(env("ZPOOL_SCRIPTS_AS_ROOT")) {
        let why = "scripts run as root only if ZPOOL_SCRIPTS_AS_ROOT is set";
        return Err(why.to_owned());
    }
    Ok(())
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

impl Scripts {
    /// Finds scripts by their names, between commas. `env` is the environment.
    ///
    /// # Errors
    /// Why they are not run: they are not allowed, or one is not there.
    pub fn find(
        names: &str,
        env: &dyn Fn(&str) -> Option<OsString>,
        is_root: bool,
    ) -> Result<Self, String> {
        check_allowed(env, is_root)?;
        let folders = folders(env);
        let mut out = Vec::new();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            if name.contains('/') {
                return Err(format!("'{name}': the name of a script cannot contain a slash"));
            }
            let mut paths = folders.iter().map(|folder| folder.join(name));
            let Some(path) = paths.find(|path| is_program(path)) else {
                return Err(format!("there is no script '{name}'"));
            };
            out.push(path);
        }
        Ok(Self(out))
    }

    /// Names of the scripts there are, by folder.
    #[must_use]
    pub fn list(env: &dyn Fn(&str) -> Option<OsString>) -> String {
        let mut text = "Available 'zpool status' and 'zpool iostat -c' scripts:\n".to_owned();
        for folder in folders(env) {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries
                .filter(|entry| is_program(&entry.path()))
                .map(|entry| term::escape::line(&entry.file_name().to_string_lossy()).into_owned())
                .collect();
            names.sort();
            for name in names {
                text.push_str(&format!("  {name}\n"));
            }
        }
        text
    }

    /// The columns of the scripts for these devices, by path.
    #[must_use]
    pub fn run(&self, devices: &[&str]) -> BTreeMap<String, Vec<ScriptColumn>> {
        let mut out: BTreeMap<String, Vec<ScriptColumn>> = BTreeMap::new();
        let all: Vec<(&str, &PathBuf)> =
            devices.iter().flat_map(|d| self.0.iter().map(move |script| (*d, script))).collect();
        for some in all.chunks(RUNNING_MAX) {
            let running = some.iter().map(|(device, script)| (*device, start(script, device)));
            let running: Vec<_> = running.collect();
            for (device, child) in running {
                let answered = child.map(|child| columns(&output(child))).unwrap_or_default();
                let of = out.entry(device.to_owned()).or_default();
                for (title, value) in answered {
                    match of.iter_mut().find(|(known, _)| *known == title) {
                        Some((_, known)) => *known = value,
                        None => of.push((title, value)),
                    }
                }
            }
        }
        out
    }
}

fn start(script: &Path, device: &str) -> Option<Child> {
    let disk = underlying(Path::new(device));
    let mut command = Command::new(script);
    command.env_clear().env("PATH", PROGRAMS).env("VDEV_PATH", device).env("VDEV_UPATH", &disk);
    if let Some(slot) = enclosure(&disk) {
        command.env("VDEV_ENC_SYSFS_PATH", slot);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()
}

/// The output of a script.
fn output(mut child: Child) -> String {
    let mut bytes = Vec::new();
    if let Some(out) = child.stdout.take() {
        // The bytes read before it failed count.
        let _ = out.take(OUTPUT_MAX).read_to_end(&mut bytes);
    }
    let _ = child.wait();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn columns(text: &str) -> Vec<ScriptColumn> {
    let mut out = Vec::new();
    for line in text.lines() {
        let clean = |part: &str| term::escape::line(part.trim()).into_owned();
        match line.split_once('=') {
            Some((title, value)) => out.push((clean(title), clean(value))),
            None => {
                out.push((String::new(), clean(line)));
                break;
            }
        }
    }
    out
}

/// The last part of what a link leads to.
fn last(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The disk below a partition or a device-mapper device; the path itself for anything else.
fn underlying(device: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let disk = || {
        let sys = std::fs::canonicalize(Path::new("/sys/class/block").join(last(&whole)?)).ok()?;
        if sys.join("partition").exists() {
            return last(sys.parent()?);
        }
        let slave = std::fs::read_dir(sys.join("slaves")).ok()?.flatten().next()?;
        slave.file_name().to_str().map(str::to_owned)
    };
    match whole.starts_with("/dev") {
        true => disk().map_or(whole, |name| Path::new("/dev").join(name)),
        false => whole,
    }
}

/// The slot of an enclosure that a disk is in.
fn enclosure(disk: &Path) -> Option<PathBuf> {
    let device = Path::new("/sys/class/block").join(last(disk)?).join("device");
    let mut entries = std::fs::read_dir(device).ok()?.flatten();
    let is_slot =
        |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("enclosure_device"));
    let slot = entries.find(|entry| is_slot(&entry.file_name()))?;
    std::fs::canonicalize(slot.path()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_no_column_ends_the_columns() {
        let column = |title: &str, value: &str| (title.to_owned(), value.to_owned());
        assert_eq!(
            columns("a=1\nb=\nc = x=y\nfailed: no disk\nd=2\n"),
            [column("a", "1"), column("b", ""), column("c", "x=y"), column("", "failed: no disk")]
        );
        assert_eq!(columns(""), []);
    }

    #[test]
    fn scripts_run_where_the_environment_says() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("one");
        std::fs::write(&script, "#!/bin/sh\necho PATH_=$VDEV_PATH HOME=$HOME\n").unwrap();
        let path = folder.path().as_os_str().to_owned();
        let env = |name: &str| (name == "ZPOOL_SCRIPTS_PATH").then(|| path.clone());
        // It is there, and no program.
        assert!(Scripts::find("one", &env, false).unwrap_err().contains("no script 'one'"));
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let scripts = Scripts::find("one", &env, false).unwrap();
        let filled = scripts.run(&["/a", "/b"]);
        let column = |value: &str| vec![("PATH_".to_owned(), format!("{value} HOME="))];
        assert_eq!(
            filled,
            [("/a".to_owned(), column("/a")), ("/b".to_owned(), column("/b"))].into()
        );
        assert!(Scripts::list(&env).ends_with("  one\n"));
        for (names, is_root) in [("one,two", false), ("a/one", false), ("one", true)] {
            assert!(Scripts::find(names, &env, is_root).is_err(), "{names}");
        }
        let with = |name: &'static str, text: &'static str| {
            let path = path.clone();
            move |variable: &str| match variable {
                "ZPOOL_SCRIPTS_PATH" => Some(path.clone()),
                _ => (variable == name).then(|| text.into()),
            }
        };
        assert!(Scripts::find("one", &with("ZPOOL_SCRIPTS_AS_ROOT", "1"), true).is_ok());
        assert!(Scripts::find("one", &with("ZPOOL_SCRIPTS_ENABLED", "0"), false).is_err());
        assert!(Scripts::find("one", &with("ZPOOL_SCRIPTS_ENABLED", "1"), false).is_ok());
    }
}
