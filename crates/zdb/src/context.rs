//! What is needed to make sense of the objects of one set.

use super::roles::Roles;
use super::show;
use super::tree::Pointers;
use engine::inside::dmu::{Object, Objset, Zap};
use engine::inside::ondisk::DmuType;
use engine::inside::ondisk::fuid::{Fuid, FuidTable};
use engine::inside::ondisk::sa::{SaTables, zpl};
use engine::inside::ondisk::znode::{Dirent, MASTER_NODE, Znode, flags, master};
use std::cell::RefCell;
use std::collections::HashMap;

/// Deepest nesting of directories that is followed to the root.
const DEPTH_MAX: usize = 4096;

/// What is needed to make sense of the objects of one set.
pub(crate) struct Context {
    /// The set.
    pub(crate) objset: Objset,
    /// How much is wanted.
    pub(crate) level: u8,
    /// How much of each block pointer.
    pub(crate) pointers: Pointers,
    /// What objects of the MOS are for.
    pub(crate) roles: Roles,
    /// Attribute tables and paths of a file system.
    pub(crate) names: RefCell<Names>,
    /// Compression that new blocks get where the dnode says "inherit".
    pub(crate) compression: Option<String>,
}

/// What is needed to understand the files of one file system.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) tables: Option<SaTables>,
    fuids: FuidTable,
    root: u64,
    /// Names by object, of directories that were read.
    directories: HashMap<u64, HashMap<u64, Vec<u8>>>,
}

impl Names {
    /// Reads the tables; what cannot be read is missing. The second is what went wrong.
    pub(crate) fn open(objset: &Objset) -> (Self, Option<String>) {
        let mut names = Self::default();
        match names.read(objset) {
            Ok(()) => (names, None),
            Err(e) => (names, Some(e)),
        }
    }

    fn read(&mut self, objset: &Objset) -> Result<(), String> {
        let say = |e: engine::inside::dmu::Error| e.to_string();
        let table = |n: u64| objset.object(n).and_then(|o| Zap::open(&o));
        let master = table(MASTER_NODE).map_err(say)?;
        self.root = master.get_u64(master::ROOT).map_err(say)?.unwrap_or(0);
        if let Some(sa) =
            master.get_u64(engine::inside::ondisk::sa::MASTER_NODE_ENTRY).map_err(say)?
        {
            let sa = table(sa).map_err(say)?;
            let part = |name| -> Result<Vec<_>, String> {
                match sa.get_u64(name).map_err(say)? {
                    Some(n) => table(n).and_then(|z| z.to_vec()).map_err(say),
                    None => Ok(Vec::new()),
                }
            };
            let (registry, layouts) = (part("REGISTRY")?, part("LAYOUTS")?);
            let registry = registry.iter().filter_map(|e| Some((e.name.bytes()?, e.u64()?)));
            let layouts = layouts.iter().filter_map(|e| Some((e.name.bytes()?, e.ints())));
            self.tables = Some(SaTables::new(registry, layouts).map_err(|e| e.to_string())?);
        }
        if let Some(n) = master
            .get_u64(engine::inside::ondisk::fuid::MASTER_NODE_ENTRY)
            .map_err(say)?
            .filter(|n| *n != 0)
        {
            self.fuids = domains(&objset.object(n).map_err(say)?)?;
        }
        Ok(())
    }

    /// The name of `object` in a directory.
    fn name_in(&mut self, objset: &Objset, directory: u64, object: u64) -> Option<Vec<u8>> {
        let names = self.directories.entry(directory).or_insert_with(|| {
            let mut names = HashMap::new();
            let zap = objset.object(directory).and_then(|o| Zap::open(&o));
            if let Ok(zap) = zap {
                for e in zap.entries().flatten() {
                    if let (Some(name), Some(word)) = (e.name.bytes(), e.ints().next()) {
                        names.entry(Dirent::decode(word).object).or_insert_with(|| name.to_vec());
                    }
                }
            }
            names
        });
        names.get(&object).cloned()
    }

    /// Parent and flags of a file.
    fn parent(&self, objset: &Objset, object: u64) -> Option<(u64, u64)> {
        let o = objset.object(object).ok()?;
        let dnode = o.dnode();
        if dnode.bonus_kind == DmuType::ZNODE {
            let z = Znode::decode(&dnode.bonus, dnode.endian).ok()?;
            return Some((z.parent, z.flags));
        }
        let spill = o.read_spill().ok()?;
        let spill = spill.as_ref().map(|b| b.bytes());
        let set = self.tables.as_ref()?.read(&dnode.bonus, spill).ok()?;
        Some((set.u64(zpl::PARENT)?, set.u64(zpl::FLAGS).unwrap_or(0)))
    }

    /// The path of a file; parts that cannot be found are question marks.
    pub(crate) fn path(&mut self, objset: &Objset, object: u64) -> String {
        let (mut at, mut parts) = (object, Vec::new());
        while at != self.root && parts.len() < DEPTH_MAX {
            let Some((parent, bits)) = self.parent(objset, at) else {
                parts.push(format!("???<object#{at}>"));
                break;
            };
            let is_dir = |o: &Object| o.dnode().kind == DmuType::DIRECTORY_CONTENTS;
            let hidden = bits & flags::XATTR != 0 && objset.object(at).is_ok_and(|o| is_dir(&o));
            parts.push(match self.name_in(objset, parent, at) {
                _ if hidden => "<xattrdir>".to_owned(),
                Some(name) => show::text(&name),
                None => format!("???<object#{at}>"),
            });
            if parent == at {
                break;
            }
            at = parent;
        }
        parts.reverse();
        format!("/{}", parts.join("/"))
    }

    /// An owner: the number, or domain and number.
    pub(crate) fn identity(&self, id: u64) -> String {
        if id >> 32 == 0 {
            return id.to_string();
        }
        let known = self.fuids.resolve(Fuid(id));
        let (domain, rid) = known.unwrap_or((b"???", id as u32));
        format!("{id:x} [{}-{rid}]", String::from_utf8_lossy(domain))
    }
}

/// The domains of the Windows identities of a file system.
pub(crate) fn domains(object: &Object) -> Result<FuidTable, String> {
    /// Tables have a few entries of some hundred bytes.
    const TABLE_MAX: u64 = 16 << 20;
    let dnode = object.dnode();
    let size = FuidTable::packed_size(&dnode.bonus, dnode.endian).map_err(|e| e.to_string())?;
    if size > TABLE_MAX.min(object.size_of_blocks()) {
        return Err("the domain table is larger than its object".to_owned());
    }
    let mut bytes = vec![0; size as usize];
    object.read_at(0, &mut bytes).map_err(|e| e.to_string())?;
    FuidTable::decode(&bytes).map_err(|e| e.to_string())
}
