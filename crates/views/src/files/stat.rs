//! Everything about a file.

use super::{mode_text, time_text};
use crate::HostInfo;
use engine::files::acl::{self, POSIX_ACCESS_XATTR, POSIX_DEFAULT_XATTR};
use engine::files::{FileFacts, FileKind, Segment, Stored, flags};
use engine::hex::encode as hex;
use engine::inventory::json::{Json, Members};
use engine::inventory::{kind_name, nanoseconds};
use term::escape;

/// Data ranges that are shown, at most; JSON shows all.
const RANGES_SHOWN: usize = 16;
/// Bytes of a value that are shown, at most; JSON shows all.
const VALUE_SHOWN: usize = 64;

/// Names of the bits of the flags word.
const FLAGS: [(u64, &str); 24] = [
    (flags::XATTR, "xattr"),
    (flags::INHERIT_ACE, "inherit-ace"),
    (flags::ACL_TRIVIAL, "acl-trivial"),
    (flags::ACL_OBJ_ACE, "acl-object-ace"),
    (flags::ACL_PROTECTED, "acl-protected"),
    (flags::ACL_DEFAULTED, "acl-defaulted"),
    (flags::ACL_AUTO_INHERIT, "acl-auto-inherit"),
    (flags::BONUS_SCANSTAMP, "scan-stamp"),
    (flags::NO_EXECS_DENIED, "no-execs-denied"),
    (flags::READONLY, "readonly"),
    (flags::HIDDEN, "hidden"),
    (flags::SYSTEM, "system"),
    (flags::ARCHIVE, "archive"),
    (flags::IMMUTABLE, "immutable"),
    (flags::NOUNLINK, "nounlink"),
    (flags::APPENDONLY, "appendonly"),
    (flags::NODUMP, "nodump"),
    (flags::OPAQUE, "opaque"),
    (flags::AV_QUARANTINED, "av-quarantined"),
    (flags::AV_MODIFIED, "av-modified"),
    (flags::REPARSE, "reparse"),
    (flags::OFFLINE, "offline"),
    (flags::PROJINHERIT, "project-inherit"),
    (flags::PROJID, "project"),
];

/// Shows all that is known of a file.
pub struct Facts<'a> {
    /// Its path, as it was given.
    pub name: Vec<u8>,
    /// The file.
    pub file: &'a FileFacts,
    /// Its file system has access lists of POSIX.
    pub has_posix_acls: bool,
    /// For names and times.
    pub host_info: &'a dyn HostInfo,
}

impl Facts<'_> {
    fn flag_names(&self) -> Vec<&'static str> {
        FLAGS.iter().filter(|(bit, _)| self.file.flags & bit != 0).map(|(_, n)| *n).collect()
    }

    fn posix_acl(&self) -> Option<String> {
        self.file.posix.as_ref().map(|[access, default]| acl::posix_text(access, default))
    }

    /// A line for each fact.
    #[must_use]
    pub fn text(&self) -> String {
        let (n, summary) = (self.file, &self.file.summary);
        let mut out = String::new();
        let mut line = |what: &str, value: String| out.push_str(&format!("{what:>10}: {value}\n"));
        let target = match &summary.target {
            Some(Ok(t)) => format!(" -> {}", escape::name(t)),
            Some(Err(e)) => format!(" -> ? ({e})"),
            None => String::new(),
        };
        line("File", format!("{}{target}", escape::name(&self.name)));
        line("Type", kind_name(summary.kind).to_owned());
        line("Object", format!("{}  generation {}  parent {}", n.object, n.generation, n.parent));
        let (mode, links) = (summary.permissions, summary.links);
        line("Mode", format!("{mode:04o} {}  links {links}", mode_text(summary)));
        let named = |id: &str, name: Option<&str>| match name {
            Some(name) => format!("{id} ({name})"),
            None => id.to_owned(),
        };
        line("Owner", named(&summary.owner, self.host_info.user_name(summary.uid)));
        line("Group", named(&summary.group, self.host_info.group_name(summary.gid)));
        if n.project != 0 {
            line("Project", n.project.to_string());
        }
        if matches!(summary.kind, FileKind::Block | FileKind::Char) {
            let (major, minor) = summary.device;
            line("Device", format!("{major}:{minor}"));
        }
        line("Size", format!("{} bytes, {} of 512 used", summary.size, n.blocks));
        let times = [("Access", n.atime), ("Modify", summary.mtime), ("Change", n.ctime)];
        for (what, t) in times.into_iter().chain([("Birth", n.crtime)]) {
            line(what, format!("{}.{:09}", time_text(self.host_info, t), t.nanos));
        }
        line("Flags", format!("{:#x} {}", n.flags, self.flag_names().join(" ")));
        let form = if n.is_old_form { "znode" } else { "system attributes" };
        line(
            "Stored as",
            format!("{form}, bonus {} bytes, {} slots", n.stored.bonus_bytes, n.stored.slots),
        );
        line("Blocks", layout_text(&n.stored));
        match &n.segments {
            Some(Ok(s)) => line("Data", ranges_text(s)),
            Some(Err(e)) => line("Data", format!("? ({e})")),
            None => {}
        }
        match &n.acl {
            Ok(acl) => acl.iter().for_each(|ace| line("NFSv4", ace.to_string())),
            Err(e) => line("NFSv4", format!("? ({e})")),
        }
        for l in self.posix_acl().iter().flat_map(|t| t.lines()) {
            line("POSIX", l.to_owned());
        }
        self.xattr_texts().into_iter().for_each(|text| line("Xattr", text));
        out
    }

    /// The extended attributes, a line each.
    fn xattr_texts(&self) -> Vec<String> {
        let xattrs = match &self.file.xattrs {
            Ok(xattrs) => xattrs,
            Err(e) => return vec![format!("? ({e})")],
        };
        let lists = [POSIX_ACCESS_XATTR.as_bytes(), POSIX_DEFAULT_XATTR.as_bytes()];
        let is_list = |name: &[u8]| self.has_posix_acls && lists.contains(&name);
        let text = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            let shown = value.get(..VALUE_SHOWN).unwrap_or(value);
            let more = if shown.len() < value.len() { "…" } else { "" };
            let (name, shown) = (escape::name(name), escape::name(shown));
            format!("{name} ({} bytes) = {shown}{more}", value.len())
        };
        xattrs.iter().filter(|(name, _)| !is_list(name)).map(text).collect()
    }

    /// All of it, as a JSON object.
    #[must_use]
    pub fn json(&self) -> Json {
        let (n, summary) = (self.file, &self.file.summary);
        let mut m: Members = Vec::new();
        let mut errors: Vec<Json> = Vec::new();
        let mut put = |name: &str, value: Json| m.push((name.into(), value));
        match std::str::from_utf8(&self.name) {
            Ok(name) => put("path", name.into()),
            Err(_) => put("path_hex", hex(&self.name).into()),
        }
        put("type", kind_name(summary.kind).into());
        put("mode", format!("{:04o}", summary.permissions).into());
        put("uid", summary.owner.as_str().into());
        put("gid", summary.group.as_str().into());
        let numbers = [
            ("size", summary.size),
            ("nlink", summary.links),
            ("ino", n.object),
            ("generation", n.generation),
            ("parent", n.parent),
            ("projid", n.project),
            ("xattr_dir", n.xattr_dir),
        ];
        numbers.into_iter().for_each(|(name, v)| put(name, v.into()));
        let times = [("atime", n.atime), ("mtime", summary.mtime), ("ctime", n.ctime)];
        for (name, t) in times.into_iter().chain([("crtime", n.crtime)]) {
            put(&format!("{name}_ns"), Json::Int(nanoseconds(t)));
        }
        put("blocks", n.blocks.into());
        put("flags", Json::List(self.flag_names().into_iter().map(Json::from).collect()));
        match &summary.target {
            Some(Ok(t)) => put("target", Json::Text(t.clone())),
            Some(Err(e)) => errors.push(e.to_string().into()),
            None => {}
        }
        if matches!(summary.kind, FileKind::Block | FileKind::Char) {
            let (major, minor) = summary.device;
            put("rdev", Json::List(vec![major.into(), minor.into()]));
        }
        put("layout", layout_json(&n.stored));
        match &n.segments {
            None => {}
            Some(Ok(segments)) => {
                let pair = |s: &Segment| Json::List(vec![s.offset.into(), s.length.into()]);
                put("data", Json::List(segments.iter().map(pair).collect()));
            }
            Some(Err(e)) => errors.push(e.to_string().into()),
        }
        match &n.acl {
            Ok(acl) => {
                let texts = acl.iter().map(|ace| ace.to_string().into());
                put("nfs4_acl", Json::List(texts.collect()));
            }
            Err(e) => errors.push(e.to_string().into()),
        }
        if let Some(acl) = self.posix_acl() {
            put("acl", acl.into());
        }
        match &n.xattrs {
            Ok(x) => {
                let pairs = x.iter().map(|(name, value)| (name.clone(), hex(value).into()));
                put("xattrs", Json::Map(pairs.collect()));
            }
            Err(e) => errors.push(e.to_string().into()),
        }
        if !errors.is_empty() {
            put("errors", Json::List(errors));
        }
        Json::Map(m)
    }
}

/// Sizes of the object and its blocks.
fn layout_json(stored: &Stored) -> Json {
    let layout = [
        ("block_size", stored.block_size),
        ("indirect_block_size", stored.indirect_block_size),
        ("levels", stored.levels.into()),
        ("max_block", stored.max_block),
        ("slots", stored.slots),
        ("bonus_bytes", stored.bonus_bytes as u64),
    ];
    Json::Map(layout.into_iter().map(|(name, v)| (name.into(), v.into())).collect())
}

fn layout_text(stored: &Stored) -> String {
    let Stored { block_size, levels, indirect_block_size, max_block, .. } = stored;
    format!(
        "{block_size} bytes each, {levels} levels, indirect blocks of {indirect_block_size} \
         bytes, largest number {max_block}"
    )
}

fn ranges_text(segments: &[Segment]) -> String {
    let mut texts: Vec<String> =
        segments.iter().take(RANGES_SHOWN).map(|s| format!("{}+{}", s.offset, s.length)).collect();
    if segments.len() > RANGES_SHOWN {
        texts.push(format!("… {} ranges", segments.len()));
    }
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}
