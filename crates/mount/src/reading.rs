//! The mounts of a pool that is only read, as other processes reach them: requests on the control
//! socket of the process that mounted them.
//!
//! Readers of a pool do not exclude each other. So commands that look at such a pool open it by
//! themselves, and this process answers for what it alone has:
//!
//! | `do` | parameters | answer |
//! | --- | --- | --- |
//! | `ping`, `status` | | pool, guid, process, and that it only reads |
//! | `mounts` | | the directories |
//! | `mount` | `name`, `dir`, `overlay`, `options`; without `name` all that the properties say |
//! what was mounted |
//! | `unmount` | `dirs`, `force` | nothing; the mounts are gone, or all are still there |
//! | `export` | `force` | nothing; all mounts are gone, and the process ends |

use crate::datasets::{DatasetError, MountRequest, all_wanted, mount, shown};
use crate::{Mounted, Mounts, UnmountMode};
use control::protocol::word_to_json;
use control::{Handler, Peer, Refusal, Request};
use engine::OpenPool;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The member of the answer to `ping` that tells a reader from a server.
const READS: &str = "read_only";

/// A file system that was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRecord {
    /// Its name.
    pub name: String,
    /// Where.
    pub dir: PathBuf,
    /// The last writes are only in its intent log, and not visible.
    pub is_behind: bool,
}

impl MountRecord {
    /// A file system of that pool that was mounted there.
    #[must_use]
    pub fn of(pool: &OpenPool, name: &str, dir: PathBuf) -> Self {
        let is_behind = pool.is_behind(name).unwrap_or(false);
        Self { name: name.to_owned(), dir, is_behind }
    }
}

/// Why the process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingEnd {
    /// A client had the pool exported.
    Exported,
    /// Nothing is mounted any more.
    Idle,
}

/// Converts an error into a refusal for the client.
pub type ErrorMapper = Box<dyn Fn(DatasetError) -> Refusal + Send + Sync>;

/// Answers for the mounts of a pool.
pub struct Reader {
    pool: OpenPool,
    mounts: Arc<Mounts>,
    about: Value,
    socket: PathBuf,
    explain: ErrorMapper,
    ended: Box<dyn Fn(ReadingEnd) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    /// Nothing more is mounted.
    Ending,
    /// The same, and the client that requested it has no answer yet.
    Exported,
}

/// Whether the process that answered a `ping` with this only reads its pool.
#[must_use]
pub fn is_reader(about: &Value) -> bool {
    about[READS] == true
}

/// The parameters of `mount`.
///
/// # Errors
/// The directory of this process is not known.
pub fn parameters(wanted: &MountRequest) -> std::io::Result<Value> {
    let MountRequest { name, dir, overlay, options } = wanted;
    let dir = dir.as_deref().map(std::path::absolute).transpose()?;
    let dir = dir.map(|dir| word_to_json(dir.as_os_str()));
    Ok(json!({ "name": name, "dir": dir, "overlay": overlay, "options": options }))
}

/// The mounts made, from the answer to `mount`.
#[must_use]
pub fn made(answer: &Value) -> Vec<MountRecord> {
    let all = answer.as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |value: &Value| MountRecord {
        name: text(&value["name"]),
        dir: text(&value["dir"]).into(),
        is_behind: value["behind"] == true,
    };
    all.iter().map(one).collect()
}

impl Reader {
    /// Answers for the mounts of the pool in `mounts`; `about` identifies pool and process, and
    /// `ended` is called after a client was answered when that may be the end.
    pub fn new(
        (pool, mounts): (OpenPool, Arc<Mounts>),
        mut about: Map<String, Value>,
        socket: PathBuf,
        explain: ErrorMapper,
        ended: impl Fn(ReadingEnd) + Send + Sync + 'static,
    ) -> Self {
        about.insert(READS.to_owned(), Value::from(true));
        let (about, ended) = (Value::Object(about), Box::new(ended));
        let state = Mutex::new(State::Serving);
        Self { pool, mounts, about, socket, explain, ended, state }
    }

    /// Mounts nothing more, and is not found any more, if nothing is mounted; whether that is so.
    pub fn end_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        let is_idle = self.mounts.is_idle();
        if is_idle {
            self.end(&mut state, State::Ending);
        }
        is_idle
    }

    /// The socket goes first, so that the next command does not meet a process that is ending.
    fn end(&self, state: &mut State, how: State) {
        if *state == State::Serving {
            let _ = std::fs::remove_file(&self.socket);
        }
        *state = how;
    }

    fn mount_one(&self, wanted: &MountRequest) -> Result<Value, DatasetError> {
        let dir = mount(&self.pool, &self.mounts, wanted)?;
        let MountRecord { name, dir, is_behind } = MountRecord::of(&self.pool, &wanted.name, dir);
        Ok(json!({ "name": name, "dir": dir.to_string_lossy(), "behind": is_behind }))
    }

    fn mount(&self, request: &Request) -> Result<Value, Refusal> {
        let state = self.state.lock();
        if *state != State::Serving {
            return Err(Refusal::new("the process that reads the pool is ending: try again"));
        }
        let Some(name) = request.text("name")? else { return self.mount_all() };
        let is_there = |name: &str| !matches!(request.params.get(name), None | Some(Value::Null));
        let dir = is_there("dir").then(|| request.word("dir")).transpose()?.map(PathBuf::from);
        let options = match is_there("options") {
            true => request.words("options")?,
            false => Vec::new(),
        };
        let options: Vec<String> =
            options.iter().map(|option| option.to_string_lossy().into_owned()).collect();
        let overlay = request.params.get("overlay") == Some(&Value::Bool(true));
        let wanted = MountRequest::new(name, &options).map_err(&self.explain)?;
        let made = self.mount_one(&MountRequest { dir, overlay, ..wanted });
        Ok(Value::Array(vec![made.map_err(&self.explain)?]))
    }

    /// Mounts what the properties say and is not mounted. One that fails keeps none of the others.
    fn mount_all(&self) -> Result<Value, Refusal> {
        let there = self.mounts.all();
        let wanted = all_wanted(self.pool.view()).map_err(&self.explain)?;
        let is_new = |wanted: &&MountRequest| !there.iter().any(|one| one.name == wanted.name);
        let (mut made, mut refusal) = (Vec::new(), None);
        for one in wanted.iter().filter(is_new) {
            match self.mount_one(one) {
                Ok(one) => made.push(one),
                Err(e) => {
                    let why = (self.explain)(e);
                    refusal = Some(match refusal.take() {
                        None => why,
                        Some(first) => Refusal::because(first, why.what),
                    });
                }
            }
        }
        refusal.map_or(Ok(Value::Array(made)), Err)
    }

    fn unmount(&self, request: &Request) -> Result<Value, Refusal> {
        let dirs = request.words("dirs")?.into_iter().map(PathBuf::from).collect::<Vec<_>>();
        let meant = self.mounts.seen_at(&dirs);
        match dirs.first().filter(|_| meant.is_empty()) {
            Some(dir) => Err(self.unmount_refusal(dir, crate::Error::NotMounted(dir.clone()))),
            None => self.take_away(meant, |_| false, mode(request)).map(|()| Value::Null),
        }
    }

    /// Unmounts these, the last first. When one stays, or lingers that `must_end`, all come back.
    fn take_away(
        &self,
        meant: Vec<Mounted>,
        must_end: impl Fn(&str) -> bool,
        how: UnmountMode,
    ) -> Result<(), Refusal> {
        let mut taken = Vec::new();
        let done = meant.into_iter().rev().try_for_each(|one| {
            let done = self.mounts.unmount(&one.dir, how).map_err(|e| (one.dir.clone(), e));
            done.map(|()| taken.push(one))
        });
        let done = done.and_then(|()| self.mounts.end_lingering(must_end, how));
        done.map_err(|(dir, e)| {
            self.put_back(taken);
            self.unmount_refusal(&dir, e)
        })
    }

    fn unmount_refusal(&self, dir: &Path, e: crate::Error) -> Refusal {
        (self.explain)(DatasetError::unmount(dir, e))
    }

    /// Unmounts everything. When something stays, all does.
    fn export(&self, request: &Request) -> Result<Value, Refusal> {
        let mut state = self.state.lock();
        self.take_away(self.mounts.all(), |_| true, mode(request))?;
        self.end(&mut state, State::Exported);
        Ok(Value::Null)
    }

    fn put_back(&self, taken: Vec<Mounted>) {
        for Mounted { name, dir, options } in taken.into_iter().rev() {
            let (overlay, options) = (options.overlay, shown(&options));
            // A mount that is not restored is noticed as gone.
            let wanted = MountRequest { name, dir: Some(dir), overlay, options };
            let _ = mount(&self.pool, &self.mounts, &wanted);
        }
    }
}

fn mode(request: &Request) -> UnmountMode {
    match request.params.get("force") == Some(&Value::Bool(true)) {
        true => UnmountMode::Forcibly,
        false => UnmountMode::Politely,
    }
}

impl Handler for Reader {
    fn handle(&self, request: &Request, peer: Peer, _: Vec<OwnedFd>) -> Result<Value, Refusal> {
        let verb = request.verb.as_str();
        if peer.is_other && verb != "ping" {
            return Err(Refusal::new("permission denied: the mounts are another user's"));
        }
        match verb {
            "ping" | "status" => Ok(self.about.clone()),
            "mounts" => Ok(self.mounts.all().iter().map(|one| one.dir.to_string_lossy()).collect()),
            "mount" => self.mount(request),
            "unmount" => self.unmount(request),
            "export" => self.export(request),
            other => {
                let what = format!("no request is named '{other}' where a pool is only read");
                Err(Refusal::new(what)
                    .hint("there are ping, status, mounts, mount, unmount and export"))
            }
        }
    }

    fn answered(&self, _: &Request) {
        let is_exported = *self.state.lock() == State::Exported;
        match is_exported {
            true => (self.ended)(ReadingEnd::Exported),
            false if self.mounts.is_idle() => (self.ended)(ReadingEnd::Idle),
            false => {}
        }
    }
}
