//! Everything the properties of one dataset are computed from.

use super::PropertyContext;
use crate::error::{Error, Result};
use crate::keyring::KeyInfo;
use crate::kind::DatasetKind;
use crate::property::Source;
use crate::resume::ResumeToken;
use crate::stored::{StoredProperties, StoredValue};
use crate::tree::{Dataset, Dir, Dsl};
use dmu::{Objset, Zap};
use ondisk::DslDir;
use ondisk::dsl::{dataset_field, dir_field};
use ondisk::mos::master_node;
use ondisk::props::{PropertyDesc, ValueKind};
use ondisk::zap::parse_int_key;

/// Version of file systems from which on names have the three properties; older ones have none.
const DEFAULT_NAMES: u64 = 0;

pub(super) struct Facts<'a> {
    dataset: &'a Dataset,
    context: &'a PropertyContext,
    pub(super) kind: DatasetKind,
    pub(super) stored: StoredProperties,
    /// Numbers from inside the object set, by property name.
    inside: Vec<(&'static str, u64)>,
    key: Option<Key>,
    origin: Option<String>,
    clones: Vec<String>,
    holds: usize,
    written: Option<u64>,
    available: Option<u64>,
    later: LaterFields,
}

/// The additional fields of directories and datasets.
#[derive(Default)]
struct LaterFields {
    /// File systems and snapshots below.
    counts: [Option<u64>; 2],
    snapshots_changed: Option<u64>,
    redacted: Option<Vec<u64>>,
    resume_token: Option<String>,
}

impl LaterFields {
    fn read(dsl: &Dsl, dataset: &Dataset) -> Result<Self> {
        let mut out = Self::default();
        let dir = &dataset.dir;
        if let Some(fields) = dsl.fields(dir.object, dir.has_fields)? {
            let names = [dir_field::FILESYSTEM_COUNT, dir_field::SNAPSHOT_COUNT];
            for (count, name) in out.counts.iter_mut().zip(names) {
                *count = fields.get_u64(name)?;
            }
            let changed = fields.get(dir_field::SNAPSHOTS_CHANGED.as_bytes())?;
            out.snapshots_changed = changed.and_then(|e| e.ints().next());
        }
        if let Some(fields) = dsl.fields(dataset.object, dataset.has_fields)? {
            let redacted = fields.get(dataset_field::REDACTED_DATASETS.as_bytes())?;
            out.redacted = redacted.map(|e| e.ints().collect());
            out.resume_token = token(&fields)?;
        }
        if out.resume_token.is_none() && !dataset.is_snapshot() {
            out.resume_token = dsl.token_of_receiving_child(dir)?;
        }
        Ok(out)
    }
}

/// The key of an encrypted dataset.
struct Key {
    info: KeyInfo,
    root: String,
    /// It is loaded, and so is what wraps it: after a raw stream has brought another wrapping, open
    /// datasets go on with the key, and the next one needs what wraps it now.
    is_available: bool,
}

impl<'a> Facts<'a> {
    /// Reads all of it. A part that cannot be read is missing, and the error goes to `problems`.
    pub(super) fn gather(
        dsl: &'a Dsl,
        dataset: &'a Dataset,
        context: &'a PropertyContext,
        problems: &mut Vec<Error>,
    ) -> Self {
        let snapshot = dataset.is_snapshot();
        let dir = &dataset.dir;
        let key = excuse(problems, key(dsl, dataset)).flatten();
        let stored = excuse(problems, dsl.stored(dataset)).unwrap_or_default();
        let written = excuse(problems, dsl.written(dataset)).flatten();
        let later = excuse(problems, LaterFields::read(dsl, dataset)).unwrap_or_default();
        let mut out = Self {
            dataset,
            context,
            kind: dsl.kind(dataset),
            stored,
            inside: dsl.open_part(dataset).map(|os| inside(&os)).unwrap_or_default(),
            key,
            origin: None,
            clones: Vec::new(),
            holds: 0,
            written,
            available: None,
            later,
        };
        if snapshot {
            out.clones = excuse(problems, dsl.clones(dataset)).unwrap_or_default();
            out.holds = excuse(problems, dsl.holds(dataset)).map_or(0, |h| h.len());
        } else {
            out.origin = excuse(problems, dsl.origin(dir)).flatten();
            let available = context.pool_size.map(|size| dsl.available(dataset, size));
            out.available = available.and_then(|a| excuse(problems, a));
        }
        out
    }

    /// What was set, and nothing else: enough for [`Self::kept`].
    pub(super) fn of_stored(
        dataset: &'a Dataset,
        context: &'a PropertyContext,
        stored: StoredProperties,
    ) -> Self {
        Self {
            dataset,
            context,
            kind: DatasetKind::Filesystem,
            stored,
            inside: Vec::new(),
            key: None,
            origin: None,
            clones: Vec::new(),
            holds: 0,
            written: None,
            available: None,
            later: LaterFields::default(),
        }
    }

    /// Value and source of a property that is kept as it was set.
    pub(super) fn kept(&self, p: &'static PropertyDesc) -> Option<(String, Source)> {
        match p.name {
            "mountpoint" => Some(self.mountpoint()),
            _ => self.ordinary(p),
        }
    }

    /// Value and source of a property; `None` when the dataset does not have it.
    pub(super) fn value(&self, p: &'static PropertyDesc) -> Option<(String, Source)> {
        match p.name {
            "quota" | "reservation" | "refquota" | "refreservation" | "volsize" => self.limit(p),
            "filesystem_limit" | "snapshot_limit" => self.count(self.stored.number(p.name)),
            "filesystem_count" => self.count(self.later.counts[0]),
            "snapshot_count" => self.count(self.later.counts[1]),
            "volblocksize" => {
                let (value, default) = (self.inside(p.name)?, p.default_number());
                let source = if Some(value) == default { Source::Default } else { Source::None };
                Some((value.to_string(), source))
            }
            "encryption" | "keyformat" | "pbkdf2iters" => Some(self.crypt(p)),
            "version" | "utf8only" | "normalization" | "casesensitivity" => {
                let n = self.inside(p.name)?;
                let word = p.word(n).map_or_else(|| n.to_string(), str::to_owned);
                Some((word, Source::None))
            }
            name if p.access == ondisk::props::Access::ReadOnly => {
                Some((self.computed(name)?, Source::None))
            }
            _ => self.kept(p),
        }
    }

    fn inside(&self, name: &str) -> Option<u64> {
        self.inside.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    /// A stored value or the default.
    fn ordinary(&self, p: &'static PropertyDesc) -> Option<(String, Source)> {
        if let Some((value, source)) = self.stored.get(p.name) {
            return Some((value.text(Some(p)), source.clone()));
        }
        let text = match p.kind {
            ValueKind::Number(n) => n.to_string(),
            ValueKind::Index(n, _) => p.word(n)?.to_owned(),
            ValueKind::Text(t) => t?.to_owned(),
        };
        Some((text, Source::Default))
    }

    /// Sizes that are not inherited: 0 means no limit.
    fn limit(&self, p: &'static PropertyDesc) -> Option<(String, Source)> {
        let dir = &self.dataset.dir.phys;
        let value = match p.name {
            "quota" => dir.quota,
            "reservation" => dir.reserved,
            "volsize" => self.inside(p.name).unwrap_or(0),
            name => self.stored.number(name).unwrap_or(0),
        };
        let source = match (value, self.stored.get(p.name)) {
            (0, _) => Source::Default,
            (_, Some((_, Source::Received))) => Source::Received,
            _ => Source::Local,
        };
        Some((value.to_string(), source))
    }

    fn count(&self, value: Option<u64>) -> Option<(String, Source)> {
        Some(match value.filter(|n| *n != u64::MAX) {
            Some(n) => (n.to_string(), Source::Local),
            None => ("none".to_owned(), Source::Default),
        })
    }

    fn mountpoint(&self) -> (String, Source) {
        let name = self.dataset.dir.name.as_str();
        let (value, source) = match self.stored.get("mountpoint") {
            Some((StoredValue::Text(t), source)) => (t.as_str(), source.clone()),
            _ => ("/", Source::Default),
        };
        let Some(path) = value.strip_prefix('/') else { return (value.to_owned(), source) };
        let rest = match &source {
            Source::Inherited(from) => {
                name.strip_prefix(from.as_str()).unwrap_or(name).trim_start_matches('/')
            }
            Source::Default => name,
            _ => "",
        };
        let root = self.context.altroot.as_deref().unwrap_or("").trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        let text = match (rest, path.as_str()) {
            ("", "") => if root.is_empty() { "/" } else { root }.to_owned(),
            ("", _) => format!("{root}{path}"),
            _ => format!("{root}{path}/{rest}"),
        };
        (text, source)
    }

    fn crypt(&self, p: &'static PropertyDesc) -> (String, Source) {
        let default = p.default_number().unwrap_or(0);
        let value = self.key.as_ref().map_or(default, |k| match p.name {
            "encryption" => k.info.suite.number(),
            "keyformat" => p.number(k.info.format.name()).unwrap_or(0),
            _ => k.info.pbkdf2_iters,
        });
        let source = if value == default { Source::Default } else { Source::None };
        (p.word(value).map_or_else(|| value.to_string(), str::to_owned), source)
    }

    /// A computed property; `None` when it does not apply.
    fn computed(&self, name: &str) -> Option<String> {
        let (ds, dir) = (&self.dataset.phys, &self.dataset.dir.phys);
        let snapshot = self.dataset.is_snapshot();
        let number = match name {
            "creation" => ds.creation_time,
            "used" if snapshot => ds.unique,
            "used" => dir.used,
            "available" => self.available?,
            "referenced" => ds.referenced,
            "logicalreferenced" => ds.uncompressed,
            "logicalused" => dir.uncompressed,
            "createtxg" => ds.creation_txg,
            "guid" => ds.guid,
            "objsetid" => self.dataset.object,
            "userrefs" => self.holds as u64,
            "written" => self.written?,
            "snapshots_changed" => self.later.snapshots_changed?,
            "usedbysnapshots" | "usedbydataset" | "usedbychildren" | "usedbyrefreservation" => {
                used_by(dir, name)?
            }
            _ => return self.computed_text(name),
        };
        Some(number.to_string())
    }

    fn computed_text(&self, name: &str) -> Option<String> {
        let (ds, dir) = (&self.dataset.phys, &self.dataset.dir.phys);
        let snapshot = self.dataset.is_snapshot();
        let deferred = ds.flags & ondisk::DslDataset::FLAG_DEFER_DESTROY != 0;
        Some(match name {
            "type" if snapshot => "snapshot".to_owned(),
            "type" => self.kind.name().to_owned(),
            "compressratio" if !snapshot => ratio(dir.uncompressed, dir.compressed),
            "compressratio" | "refcompressratio" => ratio(ds.uncompressed, ds.compressed),
            "mounted" => "no".to_owned(),
            "origin" => self.origin.clone()?,
            "clones" if self.clones.is_empty() => return None,
            "clones" => self.clones.join(","),
            "defer_destroy" => if deferred { "on" } else { "off" }.to_owned(),
            "encryptionroot" => self.key.as_ref()?.root.clone(),
            "keystatus" => match self.key.as_ref()?.is_available {
                true => "available".to_owned(),
                false => "unavailable".to_owned(),
            },
            "redact_snaps" => {
                let guids = self.later.redacted.as_ref()?.iter();
                guids.map(u64::to_string).collect::<Vec<_>>().join(",")
            }
            "receive_resume_token" => self.later.resume_token.clone()?,
            _ => return None,
        })
    }
}

/// Notes a failure that costs only what it is about.
fn excuse<T>(problems: &mut Vec<Error>, result: Result<T>) -> Option<T> {
    match result {
        Ok(v) => Some(v),
        Err(e) => {
            problems.push(e);
            None
        }
    }
}

fn key(dsl: &Dsl, dataset: &Dataset) -> Result<Option<Key>> {
    let Some(info) = dsl.key_info(&dataset.dir)? else { return Ok(None) };
    let is_available = dsl.is_unlocked(dataset)? && dsl.has_root_key(info.root_dir);
    Ok(Some(Key { root: dsl.dir_name(info.root_dir)?, info, is_available }))
}

/// A part of the used space; `None` in pools that do not keep it apart.
fn used_by(dir: &DslDir, name: &str) -> Option<u64> {
    if dir.flags & DslDir::FLAG_USED_BREAKDOWN == 0 {
        return None;
    }
    let part = |i: usize| dir.used_breakdown[i];
    Some(match name {
        "usedbysnapshots" => part(DslDir::USED_SNAP),
        "usedbydataset" => part(DslDir::USED_HEAD),
        "usedbyrefreservation" => part(DslDir::USED_REF_RESERVED),
        _ => part(DslDir::USED_CHILD).saturating_add(part(DslDir::USED_CHILD_RESERVED)),
    })
}

/// A ratio with two digits, cut off: `2.50`.
pub(super) fn ratio(uncompressed: u64, compressed: u64) -> String {
    let percent = match compressed {
        0 => 100,
        c => u128::from(uncompressed) * 100 / u128::from(c),
    };
    format!("{}.{:02}", percent / 100, percent % 100)
}

/// The values of a file system's master node or of a volume's properties; those that cannot be read
/// are missing.
fn inside(objset: &Objset) -> Vec<(&'static str, u64)> {
    let mut out = Vec::new();
    if objset.phys().kind == ondisk::ObjsetKind::Zvol {
        let table = objset.object(master_node::ZVOL_PROPS_OBJECT).and_then(|o| Zap::open(&o));
        let size = table.and_then(|t| t.get_u64(master_node::ZVOL_SIZE));
        out.extend(size.ok().flatten().map(|n| ("volsize", n)));
        let data = objset.object(master_node::ZVOL_DATA_OBJECT);
        out.extend(data.ok().map(|d| ("volblocksize", d.dnode().block_size())));
        return out;
    }
    let Ok(table) = objset.object(master_node::OBJECT).and_then(|o| Zap::open(&o)) else {
        return out;
    };
    let version = table.get_u64(master_node::VERSION).ok().flatten();
    out.extend(version.map(|v| ("version", v)));
    for name in [master_node::UTF8ONLY, master_node::NORMALIZATION, master_node::CASE_SENSITIVITY] {
        let value = table.get_u64(name).ok();
        out.extend(value.map(|v| (name, v.unwrap_or(DEFAULT_NAMES))));
    }
    out
}

/// The token of a dataset with these fields; `None` when no receive was interrupted.
fn token(fields: &Zap) -> Result<Option<String>> {
    Ok(ResumeToken::of_fields(fields)?.and_then(|token| token.encode()))
}

impl Dsl {
    /// The token of the hidden directory below a dataset that is received into.
    fn token_of_receiving_child(&self, dir: &Dir) -> Result<Option<String>> {
        let Some(child) = self.receiving_child(dir)? else { return Ok(None) };
        let Some(head) = self.head(&child)? else { return Ok(None) };
        let fields = self.fields(head.object, head.has_fields)?;
        Ok(fields.as_ref().map(token).transpose()?.flatten())
    }

    /// Names of the clones of a snapshot, in stored order.
    pub fn clones(&self, snapshot: &Dataset) -> Result<Vec<String>> {
        let mut out = Vec::new();
        if snapshot.phys.next_clones == 0 {
            return Ok(out);
        }
        let table = Zap::open(&self.mos().object(snapshot.phys.next_clones)?)?;
        for entry in table.entries() {
            let entry = entry?;
            let key = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            // The entry names the oldest dataset of the clone, which may be a snapshot of it.
            if let Some(object) = key.and_then(parse_int_key) {
                let clone = self.dataset(object, String::new(), &snapshot.dir)?;
                out.push(self.dir_name(clone.phys.dir)?);
            }
        }
        Ok(out)
    }
}
