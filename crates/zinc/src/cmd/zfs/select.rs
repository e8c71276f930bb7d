//! Which datasets a command line means: names, types and depth to file systems, volumes,
//! snapshots and bookmarks, each with its properties.

use super::owners;
use crate::failure::Failure;
use crate::opening::Pools;
use crate::served::Server;
use crate::session::Session;
use crate::ui;
use ::mount::system;
use engine::properties::owner_property;
use engine::{Dataset, Dsl, Error, ErrorKind, Pool};
use engine::{DatasetKind, NamedBookmark, Property, PropertyContext, Source};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::process::ExitCode;
use views::datasets::{Selected, Types};

/// What to look for.
pub struct SelectFilter {
    pub types: Types,
    /// Levels below the named ones; `None`: all.
    pub depth: Option<usize>,
    /// What is named has to be of these types.
    pub is_strict: bool,
}

impl SelectFilter {
    /// As a verb's options say: `depth` is that of `-d`, and `others` are the types without `-t`.
    pub fn new(
        types: Option<Types>,
        is_recursive: bool,
        depth: Option<usize>,
        others: Types,
    ) -> Self {
        // Of a file system named alone, `-t snapshot` means its snapshots.
        let below = matches!(types, Some(Types::SNAPSHOT | Types::BOOKMARK));
        let depth = match (is_recursive, below) {
            (true, _) => depth,
            (false, true) => Some(1),
            (false, false) => Some(0),
        };
        let is_strict = types.is_some() && depth == Some(0);
        Self { types: types.unwrap_or(others), depth, is_strict }
    }

    fn check(&self, name: &str, kind: Types) -> Result<(), Failure> {
        if !self.is_strict || self.types.has(kind) {
            return Ok(());
        }
        let why = "operation not applicable to datasets of this type";
        Err(Failure::new(format!("cannot open '{name}': {why}")))
    }
}

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
    wanted: &SelectFilter,
    since: &[String],
) -> Result<Option<Selection>, Failure> {
    let mut out = Selection::default();
    if let Some(client) = session.client().filter(|client| client.is_part) {
        let pool = pools.args().look_at(session, &client.pool)?;
        let finder = Finder::new(session, &pool, pool.space().usable(), wanted, since);
        if names.is_empty() {
            finder.named(session, pool.name(), &mut out);
        }
        let held = names.iter().filter(|name| session.held(name).is_some());
        held.for_each(|name| finder.named(session, name, &mut out));
        ui::json_line(
            session,
            &serde_json::to_string(&out).map_err(|e| Failure::new(e.to_string()))?,
        );
        return Ok(None);
    }
    let servers = out.ask_servers(session, pools, names)?;
    // How full a pool is takes time to find out, and is the same for all names in it.
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    let mut size = |p: &Pool| *sizes.entry(p.guid()).or_insert_with(|| p.space().usable());
    if names.is_empty() {
        let guids: Vec<u64> = servers.iter().map(|server| server.guid).collect();
        let (all, served) = pools.all_but(session, &guids)?;
        for mut server in served {
            out.add_part(session, &mut server);
        }
        for pool in all {
            match pool {
                Ok(pool) => {
                    let finder = Finder::new(session, pool, size(pool), wanted, since);
                    finder.named(session, pool.name(), &mut out);
                }
                Err(f) => out.failures.push(f),
            }
        }
    }
    for name in names.iter().filter(|name| !servers.iter().any(|s| s.is_called(name))) {
        match pools.of(session, name) {
            Ok(pool) => {
                Finder::new(session, pool, size(pool), wanted, since)
                    .named(session, name, &mut out);
            }
            // A server may have taken the pool while this process waited.
            Err(f) => match Server::find(session, &pools.args().search, name)? {
                Some(mut server) => {
                    out.add_part(session, &mut server);
                }
                None => out.failures.push(f),
            },
        }
    }
    Ok(Some(out))
}

/// The names that are paths (`/tank/home`) replaced by those of the file systems that these lie in.
pub fn named_by_path(
    session: &Session,
    pools: &Pools,
    names: &[String],
) -> Result<Vec<String>, Failure> {
    // What is mounted can be seen by every user, also those who may not look into its pool.
    let mounted = system::listed();
    let by_mount = |name: &String| {
        // Snapshots have no path, but the name of a file may look like one of theirs.
        if name.contains(['@', '#']) && !Path::new(name).exists() {
            return name.clone();
        }
        let lies_in = |m: &&system::Listed| Path::new(name).starts_with(&m.dir);
        let above = mounted.iter().filter(lies_in);
        let deepest = above.max_by_key(|m| m.dir.components().count());
        deepest.map_or_else(|| name.clone(), |m| m.name.clone())
    };
    let names: Vec<String> = names.iter().map(by_mount).collect();
    if !names.iter().any(|n| n.starts_with('/')) {
        return Ok(names);
    }
    let wanted = SelectFilter { types: Types::FILESYSTEM, depth: None, is_strict: false };
    // As they stand on the devices: a server is asked later, by name.
    let mut all = Selection::default();
    for pool in pools.args().open_found(session, &[])?.pools.into_iter().flatten() {
        Finder::new(session, &pool, 0, &wanted, &[]).named(session, pool.name(), &mut all);
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
        let none = || Failure::new(format!("cannot open '{path}': not a ZFS filesystem"));
        found.map(|(_, name)| (*name).to_owned()).ok_or_else(none)
    };
    let one = |n: &String| if n.starts_with('/') { find(n) } else { Ok(n.clone()) };
    names.iter().map(one).collect()
}

struct Finder<'a> {
    pool: &'a Pool,
    wanted: &'a SelectFilter,
    /// Properties that are made when asked for: they are not among the ordinary ones.
    since: &'a [String],
    context: PropertyContext,
    /// What this process has mounted, where it holds the pool, or one that only reads it. The
    /// system's list does not say of which pool of that name a mount is.
    mounted: BTreeSet<String>,
}

/// What a process that only reads the pool has mounted of it.
fn mounted_to_read(session: &Session, guid: u64) -> BTreeSet<String> {
    let reader = Server::reader(session, &[], &guid.to_string()).ok().flatten();
    let dirs = reader.and_then(|mut reader| reader.mounts().ok()).unwrap_or_default();
    let mounted = system::listed().into_iter().filter(|one| dirs.contains(&one.dir));
    mounted.map(|one| one.name).collect()
}

impl<'a> Finder<'a> {
    fn new(
        session: &Session,
        pool: &'a Pool,
        size: u64,
        wanted: &'a SelectFilter,
        since: &'a [String],
    ) -> Self {
        let altroot = pool.altroot().map(str::to_owned);
        let context = PropertyContext { pool_size: Some(size), altroot };
        let client = session.client().filter(|client| client.pool.guid() == pool.guid());
        let mounted = match client {
            Some(client) => client.mounts.all().into_iter().map(|one| one.name).collect(),
            None => mounted_to_read(session, pool.guid()),
        };
        Self { pool, wanted, since, context, mounted }
    }

    fn dsl(&self) -> &Dsl {
        self.pool.dsl()
    }

    fn named(&self, session: &Session, name: &str, out: &mut Selection) {
        let kind = match name.find(['@', '#']).and_then(|at| name.as_bytes().get(at)) {
            Some(b'@') => Types::SNAPSHOT,
            Some(_) => Types::BOOKMARK,
            None => Types::HEADS,
        };
        if let Err(failure) = self.wanted.check(name, kind) {
            out.failures.push(failure);
        } else if let Err(e) = self.try_named(session, name, out) {
            out.failures.push(e.into());
        }
    }

    fn try_named(&self, session: &Session, name: &str, out: &mut Selection) -> engine::Result<()> {
        let guard = self.pool.lock_datasets();
        if name.contains('#') {
            let bookmark = self.dsl().bookmark(name)?;
            return self.add_bookmark(&bookmark, out);
        }
        if name.contains('@') {
            let snapshot = self.dsl().by_name(name)?;
            return self.add(session, &snapshot, Types::SNAPSHOT, out);
        }
        self.dsl().dir_by_name(name)?;
        let depth_of = |n: &str| n.matches('/').count();
        let (base, below) = (depth_of(name), format!("{name}/"));
        let all = self.dsl().walk();
        drop(guard);
        for (dir_name, dir) in all {
            let depth = depth_of(&dir_name).saturating_sub(base);
            let inside = dir_name == name || dir_name.starts_with(&below);
            if !inside || self.wanted.depth.is_some_and(|d| depth > d) {
                continue;
            }
            // One dataset after the other: syncs do not wait for all of them.
            let guard = self.pool.lock_datasets();
            let dir = if guard.is_some() { self.dsl().dir_by_name(&dir_name) } else { dir };
            let head = match dir.and_then(|d| self.dsl().head(&d)).map_err(Error::from) {
                Ok(Some(head)) => head,
                Ok(None) => continue,
                // It was destroyed or renamed just now.
                Err(e) if guard.is_some() && *e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    out.failures.push(Failure::from(e).about(&dir_name));
                    continue;
                }
            };
            if let Err(e) = self.add_head(session, &head, depth, out) {
                out.failures.push(Failure::from(e).about(&dir_name));
            }
        }
        Ok(())
    }

    fn add_head(
        &self,
        session: &Session,
        head: &Dataset,
        depth: usize,
        out: &mut Selection,
    ) -> engine::Result<()> {
        let types = self.wanted.types;
        let kind = match self.dsl().kind(head) {
            DatasetKind::Filesystem => Types::FILESYSTEM,
            DatasetKind::Volume => Types::VOLUME,
        };
        if types.has(kind) {
            self.add(session, head, kind, out)?;
        } else if let Err(failure) = self.wanted.check(&head.name, kind) {
            out.failures.push(failure);
        }
        if self.wanted.depth.is_some_and(|d| depth >= d) {
            return Ok(());
        }
        if types.has(Types::SNAPSHOT) {
            for (name, snapshot) in self.dsl().snapshots_found(head) {
                match snapshot {
                    Ok(snapshot) => self.add(session, &snapshot, Types::SNAPSHOT, out)?,
                    Err(e) => out.failures.push(Failure::from(e).about(&name)),
                }
            }
        }
        if types.has(Types::BOOKMARK) {
            for bookmark in self.dsl().bookmarks(head)? {
                self.add_bookmark(&bookmark, out)?;
            }
        }
        Ok(())
    }

    fn add(
        &self,
        session: &Session,
        dataset: &Dataset,
        kind: Types,
        out: &mut Selection,
    ) -> engine::Result<()> {
        let mut properties = self.dsl().properties(dataset, &self.context)?;
        for name in self.since {
            let is_called = |kind, id, name: &str| owners::is_called(session, kind, id, name);
            let made = match owner_property(self.dsl(), dataset, name, &is_called) {
                None => self.dsl().property(dataset, &self.context, name)?,
                owned => owned,
            };
            properties.extend(made);
        }
        // A process that mounts holds the pool, or only reads it: what is mounted of one that is
        // looked at elsewhere is dead.
        if kind == Types::FILESYSTEM {
            let value = if self.mounted.contains(&dataset.name) { "yes" } else { "no" };
            match properties.iter_mut().find(|p| p.name == "mounted") {
                Some(property) => value.clone_into(&mut property.value),
                None => {
                    properties.extend(Property::native("mounted", value.to_owned(), Source::None));
                }
            }
        }
        out.push(Selected {
            name: dataset.name.clone(),
            pool: self.pool.name().to_owned(),
            kind,
            create_txg: dataset.phys.creation_txg,
            properties,
        });
        Ok(())
    }

    fn add_bookmark(&self, b: &NamedBookmark, out: &mut Selection) -> engine::Result<()> {
        out.push(Selected {
            name: b.name.clone(),
            pool: self.pool.name().to_owned(),
            kind: Types::BOOKMARK,
            create_txg: b.phys.creation_txg,
            properties: self.dsl().bookmark_properties(b)?,
        });
        Ok(())
    }
}

impl Selection {
    /// Adds what servers see of the pools that are meant, and says which servers those were.
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
            // Two pools of one name are told apart by their guids.
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
