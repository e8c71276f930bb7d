//! The tree of directories and datasets, by name.

use crate::error::{Error, Result};
use crate::keyring::Keyring;
use dmu::{Key, Object, Objset, Zap};
use ondisk::dsl::dir_field::CRYPTO_KEY_OBJ;
use ondisk::dsl::{DslDataset, DslDir, ORIGIN_DIR_NAME, RECV_DIR_NAME};
use ondisk::{DmuType, Dnode, spelling};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Deepest nesting of datasets that is followed. OpenZFS makes 50 levels unless a tunable says
/// more; a name of 255 bytes has room for 128.
pub(crate) const DEPTH_MAX: usize = 128;

/// A directory: a name in the tree.
#[derive(Clone, Debug)]
pub struct Dir {
    /// Its object in the MOS.
    pub object: u64,
    /// Full name, `pool/a/b`.
    pub name: String,
    /// As on disk.
    pub phys: DslDir,
    /// The object is also a ZAP of later fields ("zapified").
    pub has_fields: bool,
}

/// A dataset: the head of a directory, or a snapshot.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its object in the MOS; also the id of its object set.
    pub object: u64,
    /// Full name, `pool/a` or `pool/a@snapshot`.
    pub name: String,
    /// As on disk.
    pub phys: DslDataset,
    /// Its directory.
    pub dir: Arc<Dir>,
    /// The object is also a ZAP of later fields ("zapified").
    pub has_fields: bool,
}

impl Dataset {
    /// A snapshot, not a head.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.name.contains('@')
    }

    /// When it was made, in seconds since 1970.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.phys.creation_time
    }

    /// The txg in which it was made.
    #[must_use]
    pub fn create_txg(&self) -> u64 {
        self.phys.creation_txg
    }

    /// Bytes that it leads to, whatever else leads to them.
    #[must_use]
    pub fn referenced(&self) -> u64 {
        self.phys.referenced
    }

    /// Objects that it has: the pointer to its object set counts them.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.phys.bp.fill()
    }

    /// It is being received, or a receive of it was broken off.
    #[must_use]
    pub fn is_partly_received(&self) -> bool {
        self.phys.is_inconsistent()
    }
}

/// The datasets of a pool.
pub struct Dsl {
    mos: Objset,
    pool: String,
    root: u64,
    keys: Keyring,
    ignores_limits: Arc<AtomicBool>,
}

impl Dsl {
    /// Finds the root directory in the MOS.
    pub fn open(mos: Objset, pool: &str) -> Result<Self> {
        let directory = Zap::open(&mos.object(1)?)?;
        let root = directory.need_u64("root_dataset")?;
        let ignores_limits = Arc::default();
        Ok(Self { mos, pool: pool.to_owned(), root, keys: Keyring::default(), ignores_limits })
    }

    /// The datasets of a pool whose object directory is lost: the root directory is the one that is
    /// below no other. Without that, all are found as those that damage has cut off.
    #[must_use]
    pub fn search(mos: Objset, pool: &str) -> Self {
        let is_root = |object: &Object| {
            let dnode = object.dnode();
            dnode.bonus_kind == DmuType::DSL_DIR
                && DslDir::decode(&dnode.bonus, dnode.endian).is_ok_and(|dir| dir.parent == 0)
        };
        let root = mos.objects().flatten().find(is_root).map_or(0, |object| object.number());
        let ignores_limits = Arc::default();
        Self { mos, pool: pool.to_owned(), root, keys: Keyring::default(), ignores_limits }
    }

    /// The same datasets of a pool of another name.
    #[must_use]
    pub fn named(&self, pool: &str) -> Self {
        Self { pool: pool.to_owned(), ..self.apart() }
    }

    /// The same datasets for another user. Keys that are loaded here stay here, those of the
    /// original are found. Limits count. Reads nothing.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self {
            mos: self.mos.clone(),
            pool: self.pool.clone(),
            root: self.root,
            keys: self.keys.above(),
            ignores_limits: Arc::default(),
        }
    }

    /// The same datasets with the same keys, read by `mos`, which is the same object set as theirs.
    #[must_use]
    pub fn through(&self, mos: Objset) -> Self {
        let (ignores_limits, keys) = (Arc::clone(&self.ignores_limits), self.keys.clone());
        Self { mos, ignores_limits, keys, ..self.apart() }
    }

    /// From now on its keys are those of `other`, which has the same datasets.
    pub fn share_keys(&mut self, other: &Self) {
        self.keys = other.keys.clone();
    }

    /// From now on limits on the number of file systems and snapshots stop nothing: they are for
    /// users that may not change them.
    pub fn ignore_limits(&self) {
        self.ignores_limits.store(true, Ordering::Relaxed);
    }

    /// Whether limits on the number of file systems and snapshots stop nothing.
    pub(crate) fn ignores_limits(&self) -> bool {
        self.ignores_limits.load(Ordering::Relaxed)
    }

    /// The meta object set.
    #[must_use]
    pub fn mos(&self) -> &Objset {
        &self.mos
    }

    /// The unlocked keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keys
    }

    /// Object of the pool's directory.
    pub(crate) fn root_object(&self) -> u64 {
        self.root
    }

    /// The pool's name.
    pub(crate) fn pool(&self) -> &str {
        &self.pool
    }

    /// The pool's directory.
    pub fn root(&self) -> Result<Arc<Dir>> {
        self.dir(self.root, self.pool.clone())
    }

    /// A directory by its object.
    pub fn dir(&self, object: u64, name: String) -> Result<Arc<Dir>> {
        let o = self.mos.object(object)?;
        need_bonus(&o, DmuType::DSL_DIR, "a directory of datasets")?;
        let phys = DslDir::decode(&o.dnode().bonus, o.dnode().endian)
            .map_err(|error| Error::Format { object, error })?;
        Ok(Arc::new(Dir { object, name, phys, has_fields: is_zapified(o.dnode()) }))
    }

    /// A dataset by its object, as one of `dir`.
    pub fn dataset(&self, object: u64, name: String, dir: &Arc<Dir>) -> Result<Dataset> {
        let o = self.mos.object(object)?;
        need_bonus(&o, DmuType::DSL_DATASET, "a dataset")?;
        let phys = DslDataset::decode(&o.dnode().bonus, o.dnode().endian)
            .map_err(|error| Error::Format { object, error })?;
        let has_fields = is_zapified(o.dnode());
        Ok(Dataset { object, name, phys, dir: Arc::clone(dir), has_fields })
    }

    /// The head of a directory; `None` for the pool's internal directories.
    pub fn head(&self, dir: &Arc<Dir>) -> Result<Option<Dataset>> {
        match dir.phys.head_dataset {
            0 => Ok(None),
            head => self.dataset(head, dir.name.clone(), dir).map(Some),
        }
    }

    /// Names and objects of the directories below, sorted by name; internal ones (their names
    /// start with `$`) left out.
    pub fn child_names(&self, dir: &Dir) -> Result<Vec<(String, u64)>> {
        let mut names = self.names_in(dir.phys.child_zap)?;
        names.retain(|(n, _)| !is_internal(n));
        Ok(names)
    }

    /// Names and objects of the pool's internal directories (`$MOS`, `$ORIGIN`, `$FREE`, …).
    pub fn internal_dirs(&self) -> Result<Vec<(String, u64)>> {
        let mut names = self.names_in(self.root()?.phys.child_zap)?;
        names.retain(|(n, _)| n.starts_with('$'));
        Ok(names)
    }

    /// The directories below.
    pub fn children(&self, dir: &Dir) -> Result<Vec<Arc<Dir>>> {
        let names = self.child_names(dir)?;
        names.into_iter().map(|(n, o)| self.dir(o, format!("{}/{n}", dir.name))).collect()
    }

    /// The directories below, in the order of their table, in which OpenZFS lists them.
    pub fn children_as_stored(&self, dir: &Dir) -> Result<Vec<Arc<Dir>>> {
        let (names, failure) = self.names_stored(dir.phys.child_zap);
        if let Some(e) = failure {
            return Err(e);
        }
        let below = names.into_iter().filter(|(n, _)| !is_internal(n));
        below.map(|(n, o)| self.dir(o, format!("{}/{n}", dir.name))).collect()
    }

    /// The directories from `dir` up to the root, with their names.
    pub(crate) fn ancestry(&self, dir: &Dir) -> Result<Vec<Dir>> {
        let mut out = vec![dir.clone()];
        let mut at = dir.phys.parent;
        let mut name = dir.name.as_str();
        while at != 0 {
            if out.len() > DEPTH_MAX {
                return Err(Error::Tree { object: dir.object, rule: "directories nest too deep" });
            }
            name = name.rsplit_once('/').map_or("", |(parent, _)| parent);
            let parent = self.dir(at, name.to_owned())?;
            at = parent.phys.parent;
            out.push(Dir::clone(&parent));
        }
        Ok(out)
    }

    /// The hidden directory into which a stream for the dataset goes until it is complete.
    pub(crate) fn receiving_child(&self, dir: &Dir) -> Result<Option<Arc<Dir>>> {
        let names = self.names_in(dir.phys.child_zap)?;
        let found = names.into_iter().find(|(name, _)| name == RECV_DIR_NAME);
        found.map(|(name, object)| self.dir(object, format!("{}/{name}", dir.name))).transpose()
    }

    /// Names and objects of a head's snapshots, oldest first.
    pub fn snapshots(&self, head: &Dataset) -> Result<Vec<Dataset>> {
        let names = self.names_in(head.phys.snapnames_zap)?;
        let mut out = Vec::with_capacity(names.len());
        for (n, o) in names {
            out.push(self.dataset(o, format!("{}@{n}", head.name), &head.dir)?);
        }
        sort_by_age(&mut out, head);
        Ok(out)
    }

    /// Name to object entries of a table, sorted by name; empty without a table.
    pub(crate) fn names_in(&self, zap: u64) -> Result<Vec<(String, u64)>> {
        match self.names_found(zap) {
            (names, None) => Ok(names),
            (_, Some(e)) => Err(e),
        }
    }

    /// The same of a damaged table: what can be read of it, and the first failure.
    pub(crate) fn names_found(&self, zap: u64) -> (Vec<(String, u64)>, Option<Error>) {
        let (mut out, failure) = self.names_stored(zap);
        out.sort();
        (out, failure)
    }

    /// The same in the order of the table.
    fn names_stored(&self, zap: u64) -> (Vec<(String, u64)>, Option<Error>) {
        let mut out = Vec::new();
        if zap == 0 {
            return (out, None);
        }
        let table = match self.mos.object(zap).and_then(|o| Zap::open(&o)) {
            Ok(table) => table,
            Err(e) => return (out, Some(e.into())),
        };
        let mut failure = None;
        for e in table.entries() {
            let entry = e.map_err(Error::from).and_then(|e| {
                let rule = "a name table has an entry that is not a name and object";
                let name = e.name.bytes().map(spelling::name);
                name.zip(e.u64()).ok_or(Error::Tree { object: zap, rule })
            });
            match entry {
                Ok(pair) => out.push(pair),
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        (out, failure)
    }

    /// The name that a table has for an object.
    fn name_in(&self, zap: u64, object: u64) -> Result<Option<String>> {
        if zap == 0 {
            return Ok(None);
        }
        let mut failure = None;
        for entry in Zap::open(&self.mos.object(zap)?)?.entries() {
            match entry {
                Ok(e) if e.u64() == Some(object) => {
                    return Ok(e.name.bytes().map(spelling::name));
                }
                Ok(_) => {}
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        failure.map_or(Ok(None), |e| Err(e.into()))
    }

    /// The object that a table has under a name, as it is spelled.
    fn number_of(table: &Zap, name: &str) -> Result<Option<u64>> {
        let Some(entry) = table.get(&spelling::stored(name))? else { return Ok(None) };
        let rule = "a name table has an entry that is not a name and object";
        let number = entry.u64().ok_or(Error::Tree { object: table.object().number(), rule })?;
        Ok(Some(number))
    }

    /// The directory of a name without `@` or `#`.
    pub fn dir_by_name(&self, name: &str) -> Result<Arc<Dir>> {
        let absent = || Error::NoSuchDataset(name.to_owned());
        let mut parts = name.split('/');
        if parts.next() != Some(self.pool.as_str()) {
            return Err(absent());
        }
        let mut dir = self.root()?;
        for (depth, part) in parts.enumerate() {
            if part.is_empty() || depth >= DEPTH_MAX {
                return Err(Error::BadName(name.to_owned()));
            }
            let table = Zap::open(&self.mos.object(dir.phys.child_zap)?)?;
            let child = Self::number_of(&table, part)?.ok_or_else(absent)?;
            dir = self.dir(child, format!("{}/{part}", dir.name))?;
        }
        Ok(dir)
    }

    /// The dataset `pool/a/b` or `pool/a/b@snapshot`.
    pub fn by_name(&self, name: &str) -> Result<Dataset> {
        let absent = || Error::NoSuchDataset(name.to_owned());
        let (path, snapshot) = match name.split_once('@') {
            Some((p, s)) => (p, Some(s)),
            None => (name, None),
        };
        let head = self.head(&self.dir_by_name(path)?)?.ok_or_else(absent)?;
        let Some(snapshot) = snapshot else { return Ok(head) };
        let table = Zap::open(&self.mos.object(head.phys.snapnames_zap)?)?;
        let object = Self::number_of(&table, snapshot)?.ok_or_else(absent)?;
        self.dataset(object, name.to_owned(), &head.dir)
    }

    /// The directory of a dataset by the dataset's object: walks up the directories for its name.
    fn dir_of(&self, object: u64) -> Result<Arc<Dir>> {
        let dir = self.dir_object_of(object)?;
        self.dir(dir, self.dir_name(dir)?)
    }

    fn dir_object_of(&self, object: u64) -> Result<u64> {
        let nameless = Arc::new(Dir {
            object: 0,
            name: String::new(),
            phys: DslDir::default(),
            has_fields: false,
        });
        Ok(self.dataset(object, String::new(), &nameless)?.phys.dir)
    }

    /// A head by its object.
    ///
    /// # Errors
    /// It is not a head, or cannot be read.
    pub fn head_by_object(&self, object: u64) -> Result<Dataset> {
        self.head_of(&self.dir_of(object)?, object)
    }

    /// The same with empty names: those are found in the tables of all directories above, which is
    /// too much for what is done for every open head in every txg.
    ///
    /// # Errors
    /// It is not a head, or cannot be read.
    pub fn nameless_head(&self, object: u64) -> Result<Dataset> {
        let dir = self.dir(self.dir_object_of(object)?, String::new())?;
        self.head_of(&dir, object)
    }

    /// A head or a snapshot by its object, with empty names.
    ///
    /// # Errors
    /// It is not a dataset, or cannot be read.
    pub fn nameless(&self, object: u64) -> Result<Dataset> {
        let dir = self.dir(self.dir_object_of(object)?, String::new())?;
        self.dataset(object, String::new(), &dir)
    }

    fn head_of(&self, dir: &Arc<Dir>, object: u64) -> Result<Dataset> {
        let head = self.head(dir)?.filter(|head| head.object == object);
        head.ok_or(Error::Tree { object, rule: "it is not the head of its directory" })
    }

    /// The name of a dataset by its object: walks up its directories.
    pub fn name_of(&self, object: u64) -> Result<String> {
        let dir = self.dir_of(object)?;
        if dir.phys.head_dataset == object {
            return Ok(dir.name.clone());
        }
        let tree = |rule| Error::Tree { object, rule };
        let head = self.head(&dir)?.ok_or_else(|| tree("a snapshot's directory has no head"))?;
        let name = self.name_in(head.phys.snapnames_zap, object)?;
        let name = name.ok_or_else(|| tree("a snapshot is not in its head's table"))?;
        Ok(format!("{}@{name}", dir.name))
    }

    /// The name of a directory by its object.
    pub fn dir_name(&self, object: u64) -> Result<String> {
        let mut parts = Vec::new();
        let mut at = object;
        while at != self.root {
            if parts.len() > DEPTH_MAX {
                return Err(Error::Tree { object, rule: "directories nest too deep" });
            }
            let dir = self.dir(at, String::new())?;
            let parent = self.dir(dir.phys.parent, String::new())?;
            let name = self.name_in(parent.phys.child_zap, at)?;
            let rule = "a directory is not in its parent's table";
            parts.push(name.ok_or(Error::Tree { object: at, rule })?);
            at = dir.phys.parent;
        }
        parts.push(self.pool.clone());
        parts.reverse();
        Ok(parts.join("/"))
    }

    /// The origin of a clone as a name; `None` when the dataset is not a clone.
    pub fn origin(&self, dir: &Dir) -> Result<Option<String>> {
        if dir.phys.origin == 0 {
            return Ok(None);
        }
        let name = self.name_of(dir.phys.origin)?;
        let internal = format!("{}/{ORIGIN_DIR_NAME}@", self.pool);
        Ok(Some(name).filter(|n| !n.starts_with(&internal)))
    }

    /// Every directory of the pool, parents before children, by name, internal ones left out.
    /// A directory that cannot be read is one error item; its siblings still come.
    pub fn walk(&self) -> Vec<(String, Result<Arc<Dir>>)> {
        let mut out = Vec::new();
        let mut stack = vec![(self.pool.clone(), self.root)];
        // A depth alone does not bound what loops with more than one child make.
        let mut seen = HashSet::new();
        while let Some((name, object)) = stack.pop() {
            if !seen.insert(object) {
                let rule = "a directory is reachable twice";
                out.push((name, Err(Error::Tree { object, rule })));
                continue;
            }
            let dir = self.dir(object, name.clone());
            if let Ok(dir) = &dir {
                let depth = name.matches('/').count();
                let (names, failure) = self.names_found(dir.phys.child_zap);
                if depth < DEPTH_MAX {
                    let below = names.into_iter().rev().filter(|(n, _)| !is_internal(n));
                    stack.extend(below.map(|(n, o)| (format!("{name}/{n}"), o)));
                }
                out.extend(failure.map(|e| (format!("{name}/?"), Err(e))));
            }
            out.push((name, dir));
        }
        // An error about children was noted before their parent.
        out.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
        out
    }

    /// Opens the object set of a dataset, with its key when that is unlocked.
    pub fn objset(&self, dataset: &Dataset) -> Result<Objset> {
        let key: Option<Key> = self.key_object_of(dataset)?.and_then(|o| self.keys.get(o));
        let store = Arc::clone(self.mos.store());
        Ok(Objset::open(store, dataset.object, &dataset.phys.bp, key)?)
    }

    /// The key object of a dataset; `None` if it is not encrypted. Its object set has that too: if
    /// the directory's additional fields cannot be read, a dataset that is not encrypted needs no
    /// key.
    pub(crate) fn key_object_of(&self, dataset: &Dataset) -> Result<Option<u64>> {
        let is_plain = !dataset.phys.bp.is_hole() && !dataset.phys.bp.uses_crypt();
        match self.key_object(&dataset.dir) {
            Err(_) if is_plain => Ok(None),
            found => found,
        }
    }

    /// The key object of a directory; `None` when it is not encrypted.
    pub fn key_object(&self, dir: &Dir) -> Result<Option<u64>> {
        match self.fields(dir.object, dir.has_fields)? {
            Some(fields) => Ok(fields.get_u64(CRYPTO_KEY_OBJ)?),
            None => Ok(None),
        }
    }

    /// The later fields of a zapified directory or dataset.
    pub fn fields(&self, object: u64, has_fields: bool) -> Result<Option<Zap>> {
        match has_fields {
            true => Ok(Some(Zap::open(&self.mos.object(object)?)?)),
            false => Ok(None),
        }
    }
}

/// Sorts the snapshots of `head`, oldest first. The truth is the chain of links from the head back;
/// txgs alone do not decide, because pools exist with several snapshots of one head and one txg.
/// Snapshots that a damaged chain does not reach are placed by their txgs.
pub(crate) fn sort_by_age(snapshots: &mut [Dataset], head: &Dataset) {
    let links: HashMap<u64, u64> = snapshots.iter().map(|s| (s.object, s.phys.prev_snap)).collect();
    // How far back from the head. A link is followed once, so a circle ends.
    let mut back: HashMap<u64, usize> = HashMap::with_capacity(links.len());
    let mut at = head.phys.prev_snap;
    while let Some(before) = links.get(&at) {
        let rank = back.len();
        if back.insert(at, rank).is_some() {
            break;
        }
        at = *before;
    }
    let rank = |s: &Dataset| back.get(&s.object).copied().unwrap_or(usize::MAX);
    snapshots.sort_by_key(|s| (s.phys.creation_txg, Reverse(rank(s)), s.object));
}

/// The objects that a walk along links from disk has visited: links that lead in a circle are
/// damage, and end it. It takes no more memory than there are objects.
#[derive(Default)]
pub(crate) struct VisitedLinks(HashSet<u64>);

impl VisitedLinks {
    /// Notes that the walk is at `object`.
    pub(crate) fn step(&mut self, object: u64, rule: &'static str) -> Result<()> {
        match self.0.insert(object) {
            true => Ok(()),
            false => Err(Error::Tree { object, rule }),
        }
    }
}

/// Directories of the pool's own (`$`), and of a receive under way (`%`).
fn is_internal(name: &str) -> bool {
    name.starts_with(['$', '%'])
}

fn is_zapified(dnode: &Dnode) -> bool {
    dnode.kind.layout() == ondisk::Layout::Zap
}

fn need_bonus(o: &Object, kind: DmuType, wanted: &'static str) -> Result<()> {
    let found = o.dnode().bonus_kind;
    if found == kind {
        return Ok(());
    }
    let kind = dmu::ErrorKind::WrongType { wanted, found: found.name() };
    Err(Error::Dmu(o.error(kind)))
}
