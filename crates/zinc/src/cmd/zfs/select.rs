//! Which datasets a command line means, in pools that this process opens and in those of servers.

use crate::failure::Failure;
use crate::opening::Pools;
use crate::served::Server;
use crate::session::Session;
use crate::ui;
use ::mount::datasets::in_effect;
use ::mount::system;
use engine::files::SpaceKind;
use engine::select::{Missed, Select, SelectFilter, Selected};
use engine::{ErrorKind, Pool, Source};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use views::datasets::owners::id_of;
use views::exit_codes::Stage;
use views::names;

/// Collects what is selected; what cannot be read is a failure beside it.
#[derive(Default, Serialize, Deserialize)]
pub struct Selection {
    pub found: Vec<Selected>,
    pub failures: Vec<Failure>,
    #[serde(skip)]
    names: HashSet<String>,
}

/// Everything `names` mean; without names, all of all pools. Each pool is looked at where it is
/// held. `None` when this was a server's part of it, which is printed.
pub fn select(
    session: &Session,
    pools: &mut Pools,
    names: &[String],
    wanted: SelectFilter,
    since: &[String],
) -> Result<Option<Selection>, Failure> {
    let mut out = Selection::default();
    let id_of = |kind: SpaceKind, name: &str| id_of(session, kind, name);
    if let Some(client) = session.client().filter(|client| client.is_part) {
        let pool = pools.args().look_at(session, &client.pool)?;
        let mounted = mounted_of(session, pool.guid());
        let datasets = Select::new(&pool, wanted).in_size(pool.space().usable()).mounted(mounted);
        let datasets = datasets.with(since, &id_of);
        if names.is_empty() {
            out.add(&datasets, pool.name());
        }
        let held = names.iter().filter(|name| session.held(name).is_some());
        held.for_each(|name| out.add(&datasets, name));
        show_mounted(session, &mut out.found);
        ui::json_line(
            session,
            &serde_json::to_string(&out).map_err(|e| Failure::new(e.to_string()))?,
        );
        return Ok(None);
    }
    let servers = out.ask_servers(session, pools, names)?;
    // How full a pool is takes time to find out, and is the same for all names in it.
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    let mut add = |out: &mut Selection, pool: &Pool, name: &str| {
        let size = *sizes.entry(pool.guid()).or_insert_with(|| pool.space().usable());
        let mounted = mounted_of(session, pool.guid());
        let datasets = Select::new(pool, wanted).in_size(size).mounted(mounted);
        out.add(&datasets.with(since, &id_of), name);
    };
    if names.is_empty() {
        let guids: Vec<u64> = servers.iter().map(|server| server.guid).collect();
        let (all, served) = pools.all_but(session, &guids)?;
        for mut server in served {
            out.add_part(session, &mut server);
        }
        for pool in all {
            match pool {
                Ok(pool) => add(&mut out, pool, pool.name()),
                Err(f) => out.failures.push(f),
            }
        }
    }
    let is_of_now = pools.args().open.is_of_now();
    for name in names.iter().filter(|name| !servers.iter().any(|s| s.is_called(name))) {
        match pools.of(session, name) {
            Ok(pool) => add(&mut out, pool, name),
            // A server has the newest state only.
            Err(f) if !is_of_now => out.failures.push(f),
            // A server may have taken the pool while this process waited.
            Err(f) => match Server::find(session, &pools.args().search, name)? {
                Some(mut server) => {
                    out.add_part(session, &mut server);
                }
                None => out.failures.push(f),
            },
        }
    }
    show_mounted(session, &mut out.found);
    Ok(Some(out))
}

/// Shows properties as the mounts of this process have them, where those have others.
fn show_mounted(session: &Session, found: &mut [Selected]) {
    let Some(client) = session.client() else { return };
    for one in client.mounts.all().into_iter().filter(|one| !one.name.contains('@')) {
        let Some(dataset) = found.iter_mut().find(|found| found.name == one.name) else { continue };
        for (name, value) in in_effect(&one.options) {
            let mut all = dataset.properties.iter_mut();
            if let Some(other) = all.find(|p| p.name == name && p.value != value) {
                (other.value, other.source) = (value.to_owned(), Source::Temporary);
            }
        }
    }
}

fn is_path(name: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| name.starts_with(start))
}

/// Replaces names that are paths below a mount by those of the file systems that are mounted there.
/// Mounts are visible to every user, also without access to their pool.
pub fn named_by_mount(session: &Session, names: &[String]) -> Vec<String> {
    let mounted = system::listed();
    let by_mount = |name: &String| {
        // Snapshots have no path, but the name of a file may look like one of theirs.
        let path = session.meant(Path::new(name));
        // A server does not look at paths for others.
        let is_file = || !session.is_for_another_user() && path.exists();
        if !is_path(name) || name.contains(['@', '#']) && !is_file() {
            return name.clone();
        }
        let found = system::above(&mounted, &path);
        found.map_or_else(|| path.to_string_lossy().into_owned(), |m| m.name.clone())
    };
    names.iter().map(by_mount).collect()
}

/// The names that are paths (`/tank/home`) replaced by those of the file systems that these lie in.
pub fn named_by_path(
    session: &Session,
    pools: &Pools,
    names: &[String],
) -> Result<Vec<String>, Failure> {
    let of_files = |name: &&String| is_path(name) && !name.contains(['@', '#']);
    // A server does not look at paths for others.
    for name in names.iter().filter(of_files).filter(|_| session.client().is_none()) {
        let path = session.meant(Path::new(name));
        if system::above(&system::listed(), &path).is_some() && path.symlink_metadata().is_err() {
            return Err(Failure::opening(name, "No such file or directory"));
        }
    }
    let names = named_by_mount(session, names);
    if !names.iter().any(|n| n.starts_with('/')) {
        return Ok(names);
    }
    let wanted = SelectFilter::filesystems();
    // As they are on the devices: a server is used later, by name.
    let mut all = Selection::default();
    for pool in pools.args().open_found(session, &[])?.pools.into_iter().flatten() {
        all.add(&Select::new(&pool, wanted), pool.name());
    }
    let mut mounts: Vec<(&Path, &str)> = Vec::new();
    for s in &all.found {
        let at = s.property("mountpoint").map(|p| p.value.as_str()).unwrap_or_default();
        if at.starts_with('/') {
            mounts.push((Path::new(at), &s.name));
        }
    }
    // The deepest mount point above a path is the one it lies in. Snapshots have no path here.
    mounts.sort_by_key(|(at, _)| std::cmp::Reverse(at.components().count()));
    let find = |path: &String| {
        let lies_in = |(at, _): &&(&Path, &str)| Path::new(path).starts_with(at);
        let found = mounts.iter().find(lies_in).filter(|_| !path.contains(['@', '#']));
        let is_gone = session.client().is_none()
            && session.meant(Path::new(path)).symlink_metadata().is_err();
        let why = if is_gone { "No such file or directory" } else { "not a ZFS filesystem" };
        let none = || Failure::opening(path, why);
        found.map(|(_, name)| (*name).to_owned()).ok_or_else(none)
    };
    let one = |n: &String| if n.starts_with('/') { find(n) } else { Ok(n.clone()) };
    names.iter().map(one).collect()
}

/// The mounts of this process, if it holds the pool, or of one that only reads it: what is mounted,
/// and where. The system's list does not show to which pool of that name a mount belongs.
fn mounts_of(session: &Session, guid: u64) -> Vec<(String, PathBuf)> {
    if let Some(client) = session.client().filter(|client| client.pool.guid() == guid) {
        return client.mounts.all().into_iter().map(|one| (one.name, one.dir)).collect();
    }
    let reader = Server::reader(session, &[], &guid.to_string()).ok().flatten();
    let dirs = reader.and_then(|mut reader| reader.mounts().ok()).unwrap_or_default();
    let mounted = system::listed().into_iter().filter(|one| dirs.contains(&one.dir));
    mounted.map(|one| (one.name, one.dir)).collect()
}

/// Names damaged files of a pool by where programs find them, where that is mounted.
pub fn name_seen(session: &Session, guid: u64, damaged: &mut [String]) {
    if !damaged.is_empty() {
        system::name_seen(damaged, &mounts_of(session, guid));
    }
}

/// The names of the mounted file systems and snapshots of a pool.
pub fn mounted_of(session: &Session, guid: u64) -> BTreeSet<String> {
    mounts_of(session, guid).into_iter().map(|(name, _)| name).collect()
}

impl Selection {
    /// Adds what a name means in one pool.
    fn add(&mut self, datasets: &Select<'_>, name: &str) {
        let part = datasets.named(name);
        part.found.into_iter().for_each(|found| self.push(found));
        self.failures.extend(part.missed.into_iter().map(|missed| match missed {
            Missed::OtherType(name) => Failure::opening(&name, names::other_type(&name)),
            Missed::Unreadable(e) if matches!(e.kind(), ErrorKind::NotFound) => {
                Failure::new(names::no_dataset(name)).at(Stage::Opening)
            }
            Missed::Unreadable(e) => e.into(),
            Missed::Below(name, e) => Failure::from(e).about(&name),
        }));
    }

    /// Adds the datasets of selected pools that servers have, and returns which servers those were.
    fn ask_servers(
        &mut self,
        session: &Session,
        pools: &Pools,
        names: &[String],
    ) -> Result<Vec<Server>, Failure> {
        let args = pools.args();
        if !args.open.is_of_now() {
            return Ok(Vec::new());
        }
        let mut servers = Server::all_in(session, &args.search)?;
        for name in names {
            // Two pools of one name are distinguished by their guids.
            Server::single(&mut servers, name)?;
        }
        servers.retain(|s| names.is_empty() || names.iter().any(|name| s.is_called(name)));
        if let ([server], false) = (&mut servers[..], names.is_empty())
            && names.iter().all(|name| server.is_called(name))
        {
            // One server can do all of it, and then there is nothing to put together.
            crate::served::forward(session, &args.search, &names[0])?;
        }
        // One that has ended meanwhile leaves its pool to this process.
        servers.retain_mut(|server| {
            self.add_part(session, server) || Server::holds(session, server.guid)
        });
        Ok(servers)
    }

    /// Adds what a server sees; whether it did.
    fn add_part(&mut self, session: &Session, server: &mut Server) -> bool {
        match server.part::<Self>(session) {
            Ok(part) => {
                part.found.into_iter().for_each(|found| self.push(found));
                self.failures.extend(part.failures);
                true
            }
            Err(_) if !Server::holds(session, server.guid) => false,
            Err(failure) => {
                self.failures.push(failure);
                false
            }
        }
    }

    /// Adds one, unless another name on the command line meant it already.
    fn push(&mut self, new: Selected) {
        if self.names.insert(new.name.clone()) {
            self.found.push(new);
        }
    }

    /// Says what could not be read; the exit code.
    pub fn finish(&self, session: &Session) -> ExitCode {
        let mut code = ExitCode::SUCCESS;
        for failure in &self.failures {
            code = failure.report(session);
        }
        code
    }
}
