//! How verbs that only look open pools: those that are served where they are held, the others here,
//! when no process writes to them any more.

use crate::args::{PoolArgs, Wait};
use crate::failure::Failure;
use crate::served::{self, Server};
use crate::session::Session;
use crate::{foreign_servers, found, known, queue, ui};
use engine::datasets::pool_of;
use engine::{LivePool, Pool};
use imported::{Found, Known, SearchScope};

impl PoolArgs {
    /// Opens the pool that `name` (a pool or anything in it) belongs to, and loads the keys. One
    /// that is served is looked at where it is held.
    pub fn open(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        match self.open.is_of_now() {
            true => {
                served::or_forward(session, &self.search, name, || self.open_here(session, name))
            }
            false => self.open_here(session, name),
        }
    }

    /// The same for a verb that has asked the servers already.
    pub fn open_here(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        if let Some(pool) = session.held(name).filter(|_| self.open.is_of_now()) {
            return self.look_at(session, &pool);
        }
        let found = found::find(session, &self.search, name, self.reach)?;
        let keep = self.reach == SearchScope::Anywhere;
        let found = match queue::wait_for_writers(session, self.open.wait, &found.candidate, keep)?
        {
            true => found::find(session, &self.search, name, self.reach)?,
            false => found,
        };
        self.open_found_one(session, &found)
    }

    /// The pool that this process holds, as it was when its last txg was synced. For a verb that
    /// reads files that is now, as long as the pool takes changes.
    pub fn look_at(&self, session: &Session, pool: &LivePool) -> Result<Pool, Failure> {
        if self.of_files
            && let Err(e) = pool.sync_changes()
        {
            let text = "the latest changes are not shown";
            ui::note(session, &format!("warning: pool '{}': {text}: {e}", pool.name()));
        }
        let pool = if self.for_writers { pool.glance() } else { pool.look()? };
        self.open.load_keys(session, &pool)?;
        Ok(pool)
    }

    /// The same, as it is on its devices, whichever process holds it.
    pub fn open_devices(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        self.open_found_one(
            session,
            &found::find(session, &self.search, name, SearchScope::Anywhere)?,
        )
    }

    fn open_found_one(&self, session: &Session, found: &Found) -> Result<Pool, Failure> {
        let mut options = self.options(session);
        found.complete(&mut options);
        options.for_writers = self.for_writers && found.is_for_writers();
        let opened = Pool::open_candidate(&found.candidate, &options);
        let pool = opened.map_err(|e| found::cannot_open(found, e.into()))?;
        self.open.load_keys(session, &pool)?;
        if self.open.is_of_now() {
            found.note(&known::pools(session), &pool);
        }
        if let Some(what) = found::warning(found).filter(|_| self.open.is_of_now()) {
            ui::note(session, &format!("warning: pool '{}': {what}", pool.name()));
        }
        // A pool that may be incomplete is reported if an older state was opened.
        if (self.reach == SearchScope::Anywhere || !self.search.is_empty())
            && let Some(older) = self.open.older_state(&pool)
        {
            ui::note(session, &format!("warning: {older}"));
        }
        Ok(pool)
    }

    /// Opens every pool that is known, or in the places that are named, but destroyed ones and
    /// those of these guids, in order of their names. Those that cannot be opened are failures
    /// among them. The servers were queried already; those that took pools since come along.
    pub fn open_found(&self, session: &Session, but: &[u64]) -> Result<Opened, Failure> {
        let mut opened = Opened::default();
        for found in found::all(session, &self.search, but)? {
            let guid = found.as_ref().map(Found::guid).unwrap_or_default();
            let pool = found.and_then(|found| self.open_one(session, &found));
            let server =
                |_: &Failure| Server::find(session, &self.search, &guid.to_string()).ok().flatten();
            // A server has the newest state only.
            match pool.as_ref().err().filter(|_| self.open.is_of_now()).and_then(server) {
                Some(server) => opened.served.push(server),
                None => opened.pools.push(pool),
            }
        }
        if let Some(client) = session.client() {
            let guid = client.pool.guid();
            if !opened.pools.iter().flatten().any(|p| p.guid() == guid) {
                opened.pools.push(client.pool.look().map_err(Failure::from));
            }
        } else if self.search.is_empty() {
            self.open_those_of_others(session, but, &mut opened);
        }
        Ok(opened)
    }

    fn open_one(&self, session: &Session, found: &Found) -> Result<Pool, Failure> {
        let guid = found.guid().to_string();
        if let Some(pool) = session.held(&guid) {
            return self.look_at(session, &pool);
        }
        match queue::wait_for_writers(session, self.open.wait, &found.candidate, false)? {
            true => self.open_here(session, &guid),
            false => self.open_found_one(session, found),
        }
    }

    /// Adds pools that root has imported, as far as this user may read their devices, and reports
    /// which pools of others are left out.
    fn open_those_of_others(&self, session: &Session, but: &[u64], opened: &mut Opened) {
        let say = |name: &str, why: &str| {
            let name = ui::escape::line(name);
            ui::note(session, &format!("'{name}' is not shown: {}", ui::escape::line(why)));
        };
        let mut named = Vec::new();
        let own: Vec<u64> = opened.pools.iter().flatten().map(Pool::guid).collect();
        let is_new = |known: &Known| !but.contains(&known.guid()) && !own.contains(&known.guid());
        for known in known::all_of_root(session).into_iter().filter(is_new) {
            let name = known.name().to_owned();
            let open = |found: Found| {
                queue::wait_for_writers(session, Wait::none(), &found.candidate, false)?;
                self.open_found_one(session, &found)
            };
            match found::look_for(session, known).and_then(open) {
                Ok(pool) => opened.pools.push(Ok(pool)),
                Err(_) => say(&name, "root has imported it, and this user may not read it"),
            }
            named.push(name);
        }
        if session.user() == 0 {
            return;
        }
        for process in foreign_servers::of_other_users(session) {
            if !named.contains(&process.serves) {
                say(&process.serves, &format!("{} has it", foreign_servers::shown(&process)));
            }
        }
    }
}

/// Pools that were opened at once.
#[derive(Default)]
pub struct Opened {
    /// Those of this process, and why others could not be opened.
    pub pools: Vec<Result<Pool, Failure>>,
    /// Processes that took a pool while it was waited for.
    pub served: Vec<Server>,
}

/// The pools a command line names, each opened once.
pub struct Pools {
    args: PoolArgs,
    open: Vec<Pool>,
}

impl Pools {
    /// None is open yet.
    pub fn new(args: PoolArgs) -> Self {
        Self { args, open: Vec::new() }
    }

    /// The pool `name` (a pool, its guid or anything in it) belongs to.
    pub fn of(&mut self, session: &Session, name: &str) -> Result<&Pool, Failure> {
        let wanted = pool_of(name);
        let guid = wanted.parse().ok();
        let known = |p: &Pool| p.name() == wanted || Some(p.guid()) == guid;
        let at = match self.open.iter().position(known) {
            Some(at) => at,
            None => {
                self.open.push(self.args.open(session, wanted)?);
                self.open.len() - 1
            }
        };
        Ok(&self.open[at])
    }

    /// How they are found.
    pub fn args(&self) -> &PoolArgs {
        &self.args
    }

    /// Every pool found, but those of these guids, which others have looked at, and the servers
    /// that have taken a pool since.
    pub fn all_but(
        &mut self,
        session: &Session,
        known: &[u64],
    ) -> Result<PoolsAndServers<'_>, Failure> {
        let mut failures = Vec::new();
        let opened = self.args.open_found(session, known)?;
        for pool in opened.pools {
            match pool {
                Ok(pool) if self.open.iter().all(|p| p.guid() != pool.guid()) => {
                    self.open.push(pool);
                }
                Ok(_) => {}
                Err(f) => failures.push(f),
            }
        }
        let pools = self.open.iter().map(Ok).chain(failures.into_iter().map(Err)).collect();
        Ok((pools, opened.served))
    }
}

/// The result of [`Pools::all_but`].
type PoolsAndServers<'a> = (Vec<Result<&'a Pool, Failure>>, Vec<Server>);
