//! Space and files by user, group and project, with their quotas: what `zfs userspace` shows.
//!
//! # Theory
//!
//! The header of an object set holds three accounting tables (users, groups, projects). Their
//! keys are ids in hexadecimal, the values bytes; with the feature `userobj_accounting` there are
//! also keys `obj-` and the id, whose values are numbers of objects. The object of a file counts
//! with its own blocks and the 512 bytes of its dnode.
//!
//! Quotas are tables of the same keys, named in the master node. An owner that has only a quota and
//! no file still has a row.
//!
//! An object set from before the accounting has no tables, and those of one that was received as it
//! was encrypted elsewhere are not complete: they lack what came while the owners of files were not
//! known. A flag in the header says so. The figures are then counted from the objects themselves,
//! until the tables are made anew (`dmu`, `live/recount.rs`).

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use dmu::{Object, Zap};
use ondisk::dnode::DNODE_SLOT_SIZE;
use ondisk::fuid::Fuid;
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
};
use std::collections::BTreeMap;

/// Before an id in the key of a count of objects.
pub(crate) const OBJECT_PREFIX: &str = "obj-";

/// The owners by which space is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// By owner.
    User,
    /// By group.
    Group,
    /// By project.
    Project,
}

impl SpaceKind {
    pub(crate) const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::User => 0,
            Self::Group => 1,
            Self::Project => 2,
        }
    }

    /// The flags in the header of a set whose table of this kind is complete.
    pub(crate) fn complete_flags(self) -> u64 {
        match self {
            Self::User | Self::Group => FLAG_USERACCOUNTING_COMPLETE,
            Self::Project => FLAG_USERACCOUNTING_COMPLETE | FLAG_PROJECTQUOTA_COMPLETE,
        }
    }

    /// Tables of the quotas in the master node: bytes, objects.
    pub(crate) fn quotas(self) -> [&'static str; 2] {
        match self {
            Self::User => ["userquota@", "userobjquota@"],
            Self::Group => ["groupquota@", "groupobjquota@"],
            Self::Project => ["projectquota@", "projectobjquota@"],
        }
    }
}

/// The space of one user, group or project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceRow {
    /// Domain of the id, of users and groups from elsewhere.
    pub domain: Option<String>,
    /// The id, relative to its domain when it has one.
    pub id: u64,
    /// Bytes used.
    pub used: Option<u64>,
    /// Limit in bytes.
    pub quota: Option<u64>,
    /// Objects used.
    pub objects: Option<u64>,
    /// Limit of objects.
    pub object_quota: Option<u64>,
}

impl SpaceRow {
    /// The id as `zfs userspace -n` prints it.
    #[must_use]
    pub fn id_text(&self) -> String {
        match &self.domain {
            Some(d) => format!("{d}-{}", self.id),
            None => self.id.to_string(),
        }
    }
}

impl Filesystem {
    /// Space, files and quotas by `kind`, ordered by domain (none first) and id.
    pub fn space(&self, kind: SpaceKind) -> Result<Vec<SpaceRow>> {
        let mut rows: BTreeMap<u64, SpaceRow> = BTreeMap::new();
        let table = self.objset().accounting_objects()[kind.index()].clone();
        let flags = self.objset().phys().flags;
        let counts_objects = table.is_some() && flags & FLAG_USEROBJACCOUNTING_COMPLETE != 0;
        let complete = kind.complete_flags();
        match table.filter(|_| flags & complete == complete) {
            Some(table) => {
                let table = accounting(&table)?;
                for (key, value) in table {
                    match key.strip_prefix(OBJECT_PREFIX.as_bytes()) {
                        Some(id) => row(&mut rows, id)?.objects = Some(value),
                        None => row(&mut rows, &key)?.used = Some(value),
                    }
                }
            }
            None => self.count_space(kind, counts_objects, &mut rows)?,
        }
        let master = self.master()?;
        for (i, name) in kind.quotas().into_iter().enumerate() {
            let Some(number) = master.get_u64(name)?.filter(|n| *n != 0) else { continue };
            for entry in Zap::open(&self.objset().object(number)?)?.to_vec()? {
                let (Some(key), Some(value)) = (entry.name.bytes(), entry.u64()) else { continue };
                let row = row(&mut rows, key)?;
                let slot = if i == 0 { &mut row.quota } else { &mut row.object_quota };
                *slot = Some(value);
            }
        }
        let mut rows: Vec<SpaceRow> =
            rows.into_iter().map(|(id, r)| self.resolved(id, r)).collect();
        rows.sort_by(|a, b| (&a.domain, a.id).cmp(&(&b.domain, b.id)));
        Ok(rows)
    }

    fn resolved(&self, id: u64, mut row: SpaceRow) -> SpaceRow {
        let fuid = Fuid(id);
        row.id = u64::from(fuid.id());
        if fuid.domain() != 0 {
            let known = self.fuids().resolve(fuid).map(|(d, _)| String::from_utf8_lossy(d));
            row.domain =
                Some(known.map_or_else(|| format!("domain-{}", fuid.domain()), Into::into));
        }
        row
    }

    /// Counts what was not counted yet; with `objects` these are counted too.
    fn count_space(
        &self,
        kind: SpaceKind,
        objects: bool,
        rows: &mut BTreeMap<u64, SpaceRow>,
    ) -> Result<()> {
        for object in self.objset().objects() {
            let object = object?;
            let used = object.dnode().used_bytes().saturating_add(DNODE_SLOT_SIZE as u64);
            // Objects that are not files have no owner and are not counted.
            let Ok(node) = Node::from_object(self, object) else { continue };
            let id = match kind {
                SpaceKind::User => node.uid,
                SpaceKind::Group => node.gid,
                SpaceKind::Project => node.project,
            };
            let row = rows.entry(id).or_default();
            row.used = Some(row.used.unwrap_or(0).saturating_add(used));
            if objects {
                row.objects = Some(row.objects.unwrap_or(0) + 1);
            }
        }
        Ok(())
    }
}

fn accounting(table: &Object) -> Result<Vec<(Vec<u8>, u64)>> {
    // A table that was not written to yet has no block.
    if table.next_block(0).map_err(|(e, _)| e)?.is_none() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for entry in Zap::open(table)?.entries() {
        let entry = entry?;
        if let (Some(key), Some(value)) = (entry.name.bytes(), entry.u64()) {
            out.push((key.to_vec(), value));
        }
    }
    Ok(out)
}

/// The row of a key: an id in hexadecimal.
fn row<'a>(rows: &'a mut BTreeMap<u64, SpaceRow>, key: &[u8]) -> Result<&'a mut SpaceRow> {
    let text = String::from_utf8_lossy(key);
    let id = u64::from_str_radix(&text, 16);
    let id = id.map_err(|_| Error::BadName(format!("accounting key '{text}'")))?;
    Ok(rows.entry(id).or_default())
}
