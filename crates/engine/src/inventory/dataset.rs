//! File systems, volumes, snapshots and bookmarks.

use super::entry::{EntryOptions, describe, snapshot_root};
use super::errors::Errors;
use super::json::{Json, Members};
use super::tree::{Walk, WalkError, in_order};
use super::{Options, ctldir, hash, member, some_map};
use crate::{Dataset, ErrorKind, Filesystem, Pool, Volume};
use dsl::{DatasetKind, Property, PropertyContext, Source};
use ondisk::hex;
use std::io::{self, Write};
use zpl::{SpaceKind, SpaceRow};

/// Properties in a manifest: all that say something about the dataset itself, not its mount.
const PROPERTIES: [&str; 72] = [
    "type",
    "creation",
    "createtxg",
    "guid",
    "objsetid",
    "origin",
    "used",
    "available",
    "referenced",
    "written",
    "logicalused",
    "logicalreferenced",
    "compressratio",
    "refcompressratio",
    "usedbydataset",
    "usedbysnapshots",
    "usedbychildren",
    "usedbyrefreservation",
    "recordsize",
    "compression",
    "checksum",
    "copies",
    "dedup",
    "redundant_metadata",
    "special_small_blocks",
    "volsize",
    "volblocksize",
    "volthreading",
    "encryption",
    "keyformat",
    "encryptionroot",
    "pbkdf2iters",
    "pbkdf2salt",
    "keystatus",
    "quota",
    "refquota",
    "reservation",
    "refreservation",
    "filesystem_limit",
    "snapshot_limit",
    "filesystem_count",
    "snapshot_count",
    "version",
    "casesensitivity",
    "normalization",
    "utf8only",
    "xattr",
    "acltype",
    "aclmode",
    "aclinherit",
    "dnodesize",
    "atime",
    "relatime",
    "devices",
    "exec",
    "setuid",
    "readonly",
    "sync",
    "snapdir",
    "canmount",
    "mountpoint",
    "userrefs",
    "defer_destroy",
    "clones",
    "redact_snaps",
    "redacted",
    "longname",
    "prefetch",
    "logbias",
    "primarycache",
    "secondarycache",
    "defaultuserquota",
];

/// Writes every dataset of the pool, by name.
pub(super) fn write_all(
    pool: &Pool,
    options: &Options<'_>,
    read_only: bool,
    out: &mut (dyn Write + Send),
    errors: &mut Errors,
) -> io::Result<()> {
    let context = PropertyContext { pool_size: Some(pool.space().usable()), altroot: None };
    let mut dirs = pool.datasets().walk();
    // As `zfs list` sorts: by the bytes of the whole name.
    dirs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut separator = "\n";
    for (name, dir) in dirs {
        let head = dir.and_then(|d| pool.datasets().head(&d));
        let head = match head {
            Ok(Some(head)) => head,
            Ok(None) => continue,
            Err(e) => {
                errors.push(format!("{name}: {e}"));
                continue;
            }
        };
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        let (context, out, errors) = (context.clone(), &mut *out, &mut *errors);
        Writer { pool, options, read_only, context, out, errors }.head(&head)?;
    }
    Ok(())
}

struct Writer<'a> {
    pool: &'a Pool,
    options: &'a Options<'a>,
    read_only: bool,
    context: PropertyContext,
    out: &'a mut (dyn Write + Send),
    errors: &'a mut Errors,
}

impl Writer<'_> {
    fn head(&mut self, head: &Dataset) -> io::Result<()> {
        let mut snapshots = Vec::new();
        let found = self.pool.datasets().snapshots_found(head);
        for (name, snapshot) in found {
            match snapshot {
                Ok(s) => snapshots.push(s),
                Err(e) => self.errors.push(format!("{name}: {e}")),
            }
        }
        snapshots
            .sort_by(|a, b| (a.phys.creation_txg, &a.name).cmp(&(b.phys.creation_txg, &b.name)));
        self.out.write_all(b"  {\n")?;
        self.record(head, "   ", &snapshots)?;
        self.out.write_all(b",\n   \"snapshots\": [")?;
        for (i, snapshot) in snapshots.iter().enumerate() {
            self.out.write_all(if i > 0 { b",\n    {\n" } else { b"\n    {\n" })?;
            self.record(snapshot, "     ", &[])?;
            let holds = self.or_note(&snapshot.name, "holds", |p| p.datasets().holds(snapshot));
            let holds = holds.unwrap_or_default().into_iter().map(|h| h.tag.into()).collect();
            write!(self.out, ",\n     \"holds\": {}\n    }}", Json::List(holds).dump())?;
        }
        self.out.write_all(if snapshots.is_empty() { b"]" } else { b"\n   ]" })?;
        self.bookmarks(head)?;
        self.out.write_all(b"\n  }")
    }

    fn or_note<T>(
        &mut self,
        name: &str,
        what: &str,
        get: impl FnOnce(&Pool) -> dsl::Result<T>,
    ) -> Option<T> {
        get(self.pool).map_err(|e| self.errors.push(format!("{name}: {what}: {e}"))).ok()
    }

    /// Writes `name` up to the content, without an end.
    fn record(&mut self, d: &Dataset, indent: &str, snapshots: &[Dataset]) -> io::Result<()> {
        let context = self.context.clone();
        let properties =
            self.or_note(&d.name, "properties", |p| p.datasets().properties(d, &context));
        let properties = properties.unwrap_or_default();
        let kind = self.pool.datasets().kind(d);
        let of_type = if d.is_snapshot() { "snapshot" } else { kind.name() };
        let members = described(&d.name, of_type, &properties);
        self.members(&members, indent)?;
        match kind {
            DatasetKind::Filesystem => self.filesystem(d, indent, &properties, snapshots),
            DatasetKind::Volume if !self.options.volumes => Ok(()),
            DatasetKind::Volume if d.is_snapshot() && self.read_only => Ok(()),
            DatasetKind::Volume => self.volume(d, indent),
        }
    }

    /// Writes members, each on a line, separated.
    fn members(&mut self, members: &Members, indent: &str) -> io::Result<()> {
        for (i, (name, value)) in members.iter().enumerate() {
            let end = if i > 0 { ",\n" } else { "" };
            let name = Json::Text(name.clone()).dump();
            write!(self.out, "{end}{indent}{name}: {}", value.dump())?;
        }
        Ok(())
    }

    fn bookmarks(&mut self, head: &Dataset) -> io::Result<()> {
        let bookmarks = self.or_note(&head.name, "bookmarks", |p| p.datasets().bookmarks(head));
        let mut bookmarks = bookmarks.unwrap_or_default();
        bookmarks.sort_by(|a, b| a.name.cmp(&b.name));
        self.out.write_all(b",\n   \"bookmarks\": [")?;
        for (i, b) in bookmarks.iter().enumerate() {
            self.out.write_all(if i > 0 { b",\n    {\n" } else { b"\n    {\n" })?;
            let properties =
                self.or_note(&b.name, "properties", |p| p.datasets().bookmark_properties(b));
            let properties = properties.unwrap_or_default();
            self.members(&described(&b.name, "bookmark", &properties), "     ")?;
            self.out.write_all(b"\n    }")?;
        }
        self.out.write_all(if bookmarks.is_empty() { b"]" } else { b"\n   ]" })
    }

    /// Writes a member that follows others.
    fn and(&mut self, indent: &str, name: &str, value: &Json) -> io::Result<()> {
        write!(self.out, ",\n{indent}\"{name}\": {}", value.dump())
    }

    fn unmounted(&mut self, d: &Dataset, indent: &str, why: &str) -> io::Result<()> {
        self.and(indent, "entries", &Json::Null)?;
        let text = format!("filesystem '{}' can not be mounted: {why}", d.name);
        self.and(indent, "unmounted", &text.into())
    }

    fn filesystem(
        &mut self,
        d: &Dataset,
        indent: &str,
        properties: &[Property],
        snapshots: &[Dataset],
    ) -> io::Result<()> {
        if !self.pool.datasets().is_unlocked(d).unwrap_or(true) {
            return self.unmounted(d, indent, "encryption key not loaded");
        }
        let opened = (self.options.open)(d).map_err(|e| e.to_string());
        let fs = opened.and_then(|os| Filesystem::open(os).map_err(|e| e.to_string()));
        let fs = match fs {
            Ok(fs) => fs,
            Err(e) => {
                self.errors.push(format!("{}: {e}", d.name));
                return self.unmounted(d, indent, &e);
            }
        };
        let is =
            |name: &str, value: &str| properties.iter().any(|p| p.name == name && p.value == value);
        let shows_ctldir = !d.is_snapshot() && is("snapdir", "visible");
        let root_inode = d.is_snapshot().then(|| snapshot_root(d.object));
        let posix_acls = is("acltype", "posix");
        let about = EntryOptions { posix_acls, shows_ctldir, root_inode };
        self.entries(d, &fs, indent, about, snapshots)?;
        if !d.is_snapshot() && !self.read_only {
            self.space(d, &fs, indent)?;
        }
        Ok(())
    }

    fn entries(
        &mut self,
        d: &Dataset,
        fs: &Filesystem,
        indent: &str,
        about: EntryOptions,
        snapshots: &[Dataset],
    ) -> io::Result<()> {
        write!(self.out, ",\n{indent}\"entries\": [")?;
        let progress = self.options.progress;
        let hashing = self.options.hashing();
        let mut walk = Walk::new(fs, fs.root_object());
        let mut ctldir: Option<Vec<Json>> = about.shows_ctldir.then(|| {
            let short = |s: &Dataset| s.name.rsplit('@').next().unwrap_or_default().to_owned();
            let names: Vec<_> = snapshots.iter().map(|s| (short(s), s.object)).collect();
            ctldir::entries(&names)
        });
        let mut separator = "\n";
        {
            let name = &d.name;
            let (out, errors, separator) = (&mut *self.out, &mut *self.errors, &mut separator);
            let mut line = move |entry: &Json| {
                let done = write!(out, "{separator}{indent} {}", entry.dump());
                *separator = ",\n";
                done
            };
            in_order(
                &fs.rt(),
                &mut walk,
                |found| found.path.len(),
                |found| (describe(fs, &found, about, hashing), found.path),
                |(described, path)| {
                    progress.check().map_err(io::Error::other)?;
                    progress.add(1, 0);
                    let new_errors = described.errors.into_iter();
                    new_errors.for_each(|e| errors.push(format!("{name}: {e}")));
                    // `.zfs` is sorted among the names of the root.
                    if path.as_slice() > b".zfs".as_slice() {
                        ctldir.take().iter().flatten().try_for_each(&mut line)?;
                    }
                    line(&described.entry)
                },
            )?;
        }
        for e in ctldir.iter().flatten() {
            write!(self.out, "{separator}{indent} {}", e.dump())?;
            separator = ",\n";
        }
        write!(self.out, "\n{indent}]")?;
        for WalkError { path, error } in walk.into_errors() {
            let path = String::from_utf8_lossy(&path);
            self.errors.push(format!("{}: {path}: {error}", d.name));
        }
        Ok(())
    }

    fn space(&mut self, d: &Dataset, fs: &Filesystem, indent: &str) -> io::Result<()> {
        // Projects are left out: the tool that makes manifests asks for them in a way `zfs` does
        // not accept, and so never has them.
        let both = [("userspace", SpaceKind::User), ("groupspace", SpaceKind::Group)];
        for (name, kind) in both {
            match fs.space(kind) {
                Ok(rows) if rows.is_empty() => {}
                Ok(rows) => {
                    let rows = rows.iter().map(|r| space_row(r, kind)).collect();
                    self.and(indent, name, &Json::List(rows))?;
                }
                Err(e) => self.errors.push(format!("{}: {name}: {e}", d.name)),
            }
        }
        Ok(())
    }

    fn volume(&mut self, d: &Dataset, indent: &str) -> io::Result<()> {
        if !self.pool.datasets().is_unlocked(d).unwrap_or(true) {
            return self.and(indent, "volume", &Json::Null);
        }
        let progress = self.options.progress;
        progress.check().map_err(io::Error::other)?;
        let hashed = (self.options.open)(d).map_err(|e| e.to_string()).and_then(|os| {
            let volume = Volume::open(&os).map_err(|e| e.to_string())?;
            let sum = hash::sha256(volume.object(), volume.size(), self.options.hashing());
            let mut members = vec![member("size", volume.size())];
            match sum {
                Ok(sum) => members.push(member("sha256", hex::encode(&sum))),
                Err(e) if *e.kind() == ErrorKind::TooManyHoles => {
                    members.push(member("not_hashed", e.to_string()));
                }
                Err(e) => return Err(e.to_string()),
            }
            Ok(members)
        });
        progress.add(1, 0);
        match hashed {
            Ok(members) => {
                if let Some((_, why)) = members.iter().find(|(n, _)| n == b"not_hashed") {
                    self.errors.push(format!("{}: not hashed: {}", d.name, why.dump()));
                }
                self.and(indent, "volume", &Json::Map(members))
            }
            Err(e) => {
                self.errors.push(format!("{}: {e}", d.name));
                self.and(indent, "volume", &Json::Null)
            }
        }
    }
}

/// `name`, `type` and the three members made from the properties.
fn described(name: &str, of_type: &str, all: &[Property]) -> Members {
    let (mut native, mut user, mut sources) = (Members::new(), Members::new(), Members::new());
    for p in all {
        let invented = p.name.contains(':');
        if invented {
            user.push(member(&p.name, p.value.as_str()));
        } else if !PROPERTIES.contains(&p.name.as_str()) {
            continue;
        } else if !matches!(p.value.as_str(), "-" | "") {
            native.push(member(&p.name, p.value.as_str()));
        }
        sources.extend(source(&p.source).map(|source| member(&p.name, source)));
    }
    let mut out = vec![member("name", name), member("type", of_type)];
    out.push(member("properties", Json::Map(native)));
    out.extend(some_map(user).map(|m| member("user_properties", m)));
    out.extend(some_map(sources).map(|m| member("property_sources", m)));
    out
}

/// Where a value comes from that was set.
fn source(source: &Source) -> Option<String> {
    Some(match source {
        Source::None | Source::Default => return None,
        Source::Local => "local".to_owned(),
        Source::Inherited(from) => format!("inherited from {from}"),
        Source::Received => "received".to_owned(),
        Source::Temporary => "temporary".to_owned(),
    })
}

fn space_row(r: &SpaceRow, kind: SpaceKind) -> Json {
    let system = if r.domain.is_some() { "SMB" } else { "POSIX" };
    let of = match kind {
        SpaceKind::User => format!("{system} User"),
        SpaceKind::Group => format!("{system} Group"),
        SpaceKind::Project => "Project".to_owned(),
    };
    // Of a pair, one that is set makes the other 0; if neither is, none is shown.
    let shown = |v: Option<u64>, other: Option<u64>| match v.or(other.map(|_| 0)) {
        Some(n) => n.to_string(),
        None => "-".to_owned(),
    };
    Json::Map(vec![
        member("type", of),
        member("id", r.id_text()),
        member("used", shown(r.used, r.quota)),
        member("quota", shown(r.quota, r.used)),
        member("objused", shown(r.objects, r.object_quota)),
        member("objquota", shown(r.object_quota, r.objects)),
    ])
}
