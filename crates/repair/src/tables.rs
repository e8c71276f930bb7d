//! Tables of the meta object set of which a part cannot be read, and the history.
//!
//! They are rebuilt from the entries that can be read. Entries that other objects imply are added
//! again: the snapshots of a head, the children of a directory, and the clones. Their names are
//! stored nowhere else: they are called `lost-` and their number, but for the directories of the
//! pool's own, which are known by their contents. Properties, permissions and holds that cannot be
//! read are lost; the error log is written again by the next scrub.

use crate::attempts::{Attempts, RoundEnd};
use crate::fields::{self, Fields};
use crate::own_dirs;
use crate::plan::Step;
use check::{Issue, Report};
use dmu::{Zap, ZapEntry, zap};
use dsl::Dataset;
use ondisk::dsl::ORIGIN_SNAPSHOT_NAME;
use ondisk::zap::int_key;
use ondisk::{DmuType, DslDir, Layout, spelling};
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::{LivePool, TaskCx};
use std::collections::{BTreeMap, BTreeSet};

/// Tables that a pool can do without.
const KINDS: [DmuType; 9] = [
    DmuType::DSL_PROPS,
    DmuType::DSL_PERMS,
    DmuType::ERROR_LOG,
    DmuType::POOL_PROPS,
    DmuType::USERREFS,
    DmuType::NEXT_CLONES,
    DmuType::DSL_CLONES,
    DmuType::DSL_DS_SNAP_MAP,
    DmuType::DSL_DIR_CHILD_MAP,
];

/// The name of the history in a plan if it cannot be rebuilt.
const HISTORY: &str = "the history of the pool";

/// A table, and what is put into it beside what can be read.
pub(crate) struct Table {
    number: u64,
    kind: DmuType,
    /// Which it is, in words.
    what: String,
    known: Vec<(String, u64)>,
    /// Names of it that are wrong: what they lead to is among what is put in.
    wrong: Vec<String>,
}

/// The tables that are rebuilt in one round.
#[derive(Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    history: bool,
}

impl Tables {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && !self.history
    }

    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let of_mos = |i: &Issue| match i {
            Issue::BlockLost { at, .. } | Issue::BadStructure { at, .. } => {
                Some(at.place.object).filter(|n| at.place.objset == 0 && *n != 0)
            }
            _ => None,
        };
        let broken: BTreeSet<u64> = report.issues.iter().filter_map(of_mos).collect();
        let mut out = Self::default();
        for number in broken {
            let Ok(object) = pool.mos().object(number) else { continue };
            let kind = object.dnode().kind;
            out.history |= kind == DmuType::SPA_HISTORY;
            if KINDS.contains(&kind) {
                out.tables.push(Table::known(pool, number, kind));
            } else if kind.layout() == Layout::Zap && object.dnode().bonus_kind == DmuType::DSL_DIR
            {
                let fields = fields::known(pool, number, datasets(pool));
                out.tables.extend(fields.map(|Fields { what, known }| Table {
                    number,
                    kind,
                    what,
                    known,
                    wrong: Vec::new(),
                }));
            }
        }
        out.history &= !attempts.has_failed(HISTORY);
        out.tables.retain(|table| !attempts.has_failed(&table.what));
        out
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        if self.history {
            attempts.make(live, HISTORY, || live.renew_history().map(|()| vec![Step::History]))?;
        }
        let had_permissions = self.tables.iter().any(|table| table.kind == DmuType::DSL_PERMS);
        self.tables.into_iter().try_for_each(|table| table.mend(live, attempts))?;
        // When all of them can be read again.
        if had_permissions {
            let what = "tables of permissions that nothing leads to";
            attempts.make(live, what, || live.run(free_unused_permissions).map(|()| Vec::new()))?;
        }
        Ok(())
    }
}

/// Frees the tables of permissions that no directory leads to: those of which the number was lost.
fn free_unused_permissions(cx: &TaskCx<'_>) -> pool::Result<()> {
    let mos = cx.dsl().mos;
    let (mut all, mut used) = (BTreeSet::new(), BTreeSet::new());
    for object in mos.objects().filter_map(std::result::Result::ok) {
        let dnode = object.dnode();
        if dnode.kind == DmuType::DSL_PERMS {
            all.insert(object.number());
        }
        if dnode.bonus_kind == DmuType::DSL_DIR
            && let Ok(dir) = DslDir::decode(&dnode.bonus, dnode.endian)
            && dir.deleg_zap != 0
        {
            used.insert(dir.deleg_zap);
            let table = Zap::open(&mos.object(dir.deleg_zap)?)?;
            used.extend(table.entries().filter_map(|e| e.ok()?.u64()));
        }
    }
    Ok(all.difference(&used).try_for_each(|unused| mos.free(cx.tx, *unused))?)
}

impl Table {
    /// The description of the repair.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// One that can be read and has not what other objects say: names of others go, too.
    pub(crate) fn unlike(pool: &Pool, number: u64, kind: DmuType) -> Option<Self> {
        let mut table = Self::known(pool, number, kind);
        let entries = pool.mos().object(number).and_then(|o| Zap::open(&o)?.to_vec()).ok()?;
        let all: BTreeSet<u64> = match kind {
            DmuType::DSL_DS_SNAP_MAP => snapshots_of(pool, number).0.into_iter().collect(),
            _ => clones_of_snapshot(pool, number).into_iter().collect(),
        };
        let is_stray = |e: &&ZapEntry| e.u64().is_none_or(|n| !all.contains(&n));
        let strays = entries.iter().filter(is_stray).filter_map(|e| e.name.bytes());
        table.wrong.extend(strays.map(spelling::name));
        let is_wrong = !table.wrong.is_empty() || !table.known.is_empty();
        is_wrong.then_some(table)
    }

    /// Rebuilds it.
    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        let what = self.what.clone();
        attempts.make(live, &what, || {
            let kept = live.run(move |cx| self.renew(cx))?;
            Ok::<_, pool::Error>(vec![Step::Table { table: what.clone(), kept }])
        })
    }

    /// With what other objects say is in it and is not among what can be read of it.
    fn known(pool: &Pool, number: u64, kind: DmuType) -> Self {
        let table = pool.mos().object(number).and_then(|o| Zap::open(&o));
        let entries = table.iter().flat_map(Zap::entries).filter_map(std::result::Result::ok);
        let entry = |e: ZapEntry| Some((e.u64()?, e.name.bytes().map(spelling::name)?));
        let read: BTreeMap<u64, String> = entries.filter_map(entry).collect();
        let mut own = BTreeMap::new();
        let all = match kind {
            DmuType::DSL_DS_SNAP_MAP => {
                let (all, is_origin) = snapshots_of(pool, number);
                own.extend(all.iter().filter(|_| is_origin).map(|n| (*n, ORIGIN_SNAPSHOT_NAME)));
                all
            }
            DmuType::DSL_DIR_CHILD_MAP => {
                let (parent, below) = directories_below(pool, number);
                if pool.dsl().root().is_ok_and(|root| root.object == parent) {
                    own = own_dirs::names(pool, &below, &read);
                }
                below.into_iter().map(|(n, _)| n).collect()
            }
            DmuType::NEXT_CLONES => clones_of_snapshot(pool, number),
            DmuType::DSL_CLONES => clones_of_directory(pool, number),
            _ => Vec::new(),
        };
        let has_name = matches!(kind, DmuType::DSL_DS_SNAP_MAP | DmuType::DSL_DIR_CHILD_MAP);
        let name = |n: u64| match own.get(&n) {
            Some(own) => (*own).to_owned(),
            None if has_name => format!("lost-{n}"),
            None => int_key(n),
        };
        let is_wrong =
            |n: &u64| own.get(n).is_some_and(|own| read.get(n).is_some_and(|r| r != own));
        let wrong =
            all.iter().filter(|n| is_wrong(n)).filter_map(|n| read.get(n).cloned()).collect();
        let missing = all.into_iter().filter(|n| !read.contains_key(n) || is_wrong(n));
        let known = missing.map(|n| (name(n), n)).collect();
        let what = format!("object {number} of the MOS ({})", kind.name());
        Self { number, kind, what, known, wrong }
    }

    /// Rebuilds it; returns its number of entries.
    fn renew(&self, cx: &TaskCx<'_>) -> pool::Result<u64> {
        let (mos, tx) = (cx.dsl().mos, cx.tx);
        let kept = mos.renew_table(tx, self.number, 0)?;
        let table = mos.object(self.number)?;
        for name in &self.wrong {
            zap::remove(&table, tx, name.as_str())?;
        }
        self.known.iter().try_for_each(|(name, value)| zap::set_u64(&table, tx, name, *value))?;
        Ok(kept.saturating_sub(self.wrong.len() as u64).saturating_add(self.known.len() as u64))
    }
}

/// Every dataset record of the MOS, with an empty name.
pub(crate) fn datasets(pool: &Pool) -> impl Iterator<Item = Dataset> {
    let objects = pool.mos().objects().filter_map(std::result::Result::ok);
    let records = objects.filter(|o| o.dnode().bonus_kind == DmuType::DSL_DATASET);
    records.filter_map(|o| pool.dsl().nameless(o.number()).ok())
}

/// Every directory record of the MOS, with its number.
fn directories(pool: &Pool) -> impl Iterator<Item = (u64, DslDir)> {
    let objects = pool.mos().objects().filter_map(std::result::Result::ok);
    objects.filter(|o| o.dnode().bonus_kind == DmuType::DSL_DIR).filter_map(|o| {
        let record = DslDir::decode(&o.dnode().bonus, o.dnode().endian).ok()?;
        Some((o.number(), record))
    })
}

/// The snapshots behind the head whose table of names this is, and whether the head is `$ORIGIN`.
fn snapshots_of(pool: &Pool, table: u64) -> (Vec<u64>, bool) {
    let mut out = Vec::new();
    let head = datasets(pool).find(|d| d.phys.snapnames_zap == table);
    let Some(head) = head.filter(|d| !d.is_snapshot()) else { return (out, false) };
    let mut at = head.phys.prev_snap;
    while let Ok(snapshot) = pool.dsl().nameless(at) {
        if snapshot.phys.dir != head.phys.dir || out.contains(&at) {
            break;
        }
        out.push(at);
        at = snapshot.phys.prev_snap;
    }
    (out, own_dirs::is_origin(pool, &head.dir.phys))
}

/// The directory that has this table of names, and those whose parent it is.
fn directories_below(pool: &Pool, table: u64) -> (u64, Vec<(u64, DslDir)>) {
    let parent = directories(pool).find(|(_, d)| d.child_zap == table);
    let Some((parent, _)) = parent else { return (0, Vec::new()) };
    (parent, directories(pool).filter(|(_, d)| d.parent == parent).collect())
}

/// The clones of the snapshot that has this table of them.
fn clones_of_snapshot(pool: &Pool, table: u64) -> Vec<u64> {
    let snapshot = datasets(pool).find(|d| d.phys.next_clones == table);
    let Some(snapshot) = snapshot else { return Vec::new() };
    let is_clone =
        |d: &Dataset| d.phys.prev_snap == snapshot.object && d.object != snapshot.phys.next_snap;
    datasets(pool).filter(is_clone).map(|d| d.object).collect()
}

/// The heads that are clones of snapshots of the directory that has this table of them.
fn clones_of_directory(pool: &Pool, table: u64) -> Vec<u64> {
    let dir = directories(pool).find(|(_, d)| d.clones == table);
    let Some((dir, _)) = dir else { return Vec::new() };
    let is_of_dir =
        |origin: u64| pool.dsl().nameless(origin).is_ok_and(|origin| origin.phys.dir == dir);
    let clones = directories(pool).filter(|(_, d)| d.origin != 0 && is_of_dir(d.origin));
    clones.map(|(_, d)| d.head_dataset).collect()
}
