//! The tree of vdevs under `config:`, with names, states and reasons.

use crate::json;
use engine::config::{AllocBias, VdevConfig, VdevKind};
use engine::inside::dmu::Zap;
use engine::inside::ondisk::mos::vdev_zap;
use engine::inside::vdev::{NodeRef, Reason, VdevTree};
use engine::{Candidate, Pool};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Narrowest column of names.
const NAME_WIDTH: usize = 10;

/// A vdev as it is shown.
struct Line {
    guid: u64,
    name: String,
    kind: String,
    state: String,
    reason: String,
    children: Vec<Line>,
}

/// A top-level vdev, and the class it is shown under.
struct Top {
    line: Line,
    class: Option<AllocBias>,
    id: u64,
}

/// The whole tree.
pub struct Shape {
    root: Line,
    tops: Vec<Top>,
    /// Top-level vdevs of which nothing is known.
    pub unknown_tops: usize,
    pub spares: Vec<String>,
    pub cache: Vec<String>,
}

impl Shape {
    /// The tree of `config`, with the states of `tree`.
    pub fn new(candidate: &Candidate, config: &VdevConfig, tree: &VdevTree) -> Self {
        let mut out = Self::bare(candidate);
        out.root.state = tree.root().state().to_string();
        out.root.reason = tree.root().reason().to_string();
        for top in &config.children {
            let node = u32::try_from(top.id).ok().and_then(|id| tree.top(id)).map(|t| t.node());
            let (Some(node), false) = (node, top.kind == VdevKind::Hole) else { continue };
            if top.kind == VdevKind::Missing {
                out.unknown_tops += 1;
                continue;
            }
            if top.kind == VdevKind::Indirect {
                continue;
            }
            let class = top.is_log.then_some(AllocBias::Log).or_else(|| top.alloc_bias.clone());
            out.tops.push(Top { line: line(candidate, node), class, id: top.id });
        }
        out
    }

    /// Only the pool's name.
    pub fn bare(candidate: &Candidate) -> Self {
        let root = Line {
            guid: candidate.config.pool_guid,
            name: candidate.name().to_owned(),
            kind: "root".to_owned(),
            state: String::new(),
            reason: String::new(),
            children: Vec::new(),
        };
        Self { root, tops: Vec::new(), unknown_tops: 0, spares: Vec::new(), cache: Vec::new() }
    }

    /// The pool cannot be opened, whatever its devices say.
    pub fn refuse(&mut self, state: &str, reason: &str) {
        state.clone_into(&mut self.root.state);
        reason.clone_into(&mut self.root.reason);
    }

    /// Fills in the allocation classes, which are in the pool and not in the labels.
    pub fn add_classes(&mut self, pool: &Pool) {
        for top in self.tops.iter_mut().filter(|t| t.class.is_none()) {
            let config = pool.config().vdev_tree.children.iter().find(|c| c.id == top.id);
            let zap = config.and_then(|c| c.vdev_zap_top).filter(|n| *n != 0);
            let table = zap.and_then(|n| Zap::open(&pool.mos().object(n).ok()?).ok());
            let entry = table.and_then(|t| t.get(vdev_zap::ALLOCATION_BIAS.as_bytes()).ok()?);
            let word =
                entry.and_then(|e| Some(String::from_utf8_lossy(e.value_text()?).into_owned()));
            top.class = word.map(|w| AllocBias::from_name(&w));
        }
    }

    fn in_class(&self, class: Option<&'static str>) -> impl Iterator<Item = &Top> {
        self.tops.iter().filter(move |t| t.class.as_ref().map(AllocBias::name) == class)
    }

    pub fn to_text(&self) -> String {
        let width = self.tops.iter().map(|t| width(&t.line, 2)).max().unwrap_or(0);
        let width = width.max(self.root.name.len()).max(NAME_WIDTH);
        let mut t = String::new();
        put(&mut t, &self.root, 0, width);
        for top in self.in_class(None) {
            put(&mut t, &top.line, 2, width);
        }
        for (title, names) in [("cache", &self.cache), ("spares", &self.spares)] {
            if !names.is_empty() {
                let _ = writeln!(t, "\t{title}");
            }
            for name in names {
                let _ = writeln!(t, "\t  {name}");
            }
        }
        let titles = [("dedup", "dedup"), ("special", "special"), ("logs", "log")];
        for (title, class) in titles {
            if self.in_class(Some(class)).next().is_some() {
                let _ = writeln!(t, "\t{title}");
            }
            for top in self.in_class(Some(class)) {
                put(&mut t, &top.line, 2, width);
            }
        }
        t
    }

    pub fn to_json(&self, as_int: bool) -> Value {
        let mut root = value(&self.root, as_int);
        let tops = self.tops.iter().map(|t| {
            let mut v = value(&t.line, as_int);
            if let (Some(class), Some(map)) = (&t.class, v.as_object_mut()) {
                map.insert("class".to_owned(), json!(class.name()));
            }
            (t.line.name.clone(), v)
        });
        if let Some(map) = root.as_object_mut() {
            map.insert("vdevs".to_owned(), Value::Object(tops.collect()));
            map.insert("spares".to_owned(), json!(self.spares));
            map.insert("l2cache".to_owned(), json!(self.cache));
        }
        root
    }
}

// Depth is bounded: configurations nest at most `MAX_VDEV_DEPTH` deep.
fn line(candidate: &Candidate, node: NodeRef<'_>) -> Line {
    let found = candidate.leaves.get(&node.guid()).map(|l| l.path.display().to_string());
    let is_leaf = node.kind() == "leaf";
    let reason = match node.reason() {
        Reason::BadLabel => "corrupted data".to_owned(),
        other => other.to_string(),
    };
    Line {
        guid: node.guid(),
        name: found.filter(|_| is_leaf).unwrap_or_else(|| node.name().to_owned()),
        kind: node.kind().to_owned(),
        state: node.state().to_string(),
        reason,
        children: node.children().map(|c| line(candidate, c)).collect(),
    }
}

fn width(line: &Line, indent: usize) -> usize {
    let below = line.children.iter().map(|c| width(c, indent + 2)).max().unwrap_or(0);
    below.max(indent + line.name.chars().count())
}

fn put(t: &mut String, line: &Line, indent: usize, width: usize) {
    let names = width - indent.min(width);
    let _ = write!(t, "\t{:indent$}{:names$}  {}", "", line.name, line.state);
    if !line.reason.is_empty() {
        let _ = write!(t, "  {}", line.reason);
    }
    t.push('\n');
    for child in &line.children {
        put(t, child, indent + 2, width);
    }
}

fn value(line: &Line, as_int: bool) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(line.name));
    map.insert("vdev_type".to_owned(), json!(line.kind));
    map.insert("guid".to_owned(), json::number(line.guid, as_int));
    map.insert("state".to_owned(), json!(line.state));
    if !line.reason.is_empty() {
        map.insert("reason".to_owned(), json!(line.reason));
    }
    if !line.children.is_empty() {
        let children = line.children.iter().map(|c| (c.name.clone(), value(c, as_int)));
        map.insert("vdevs".to_owned(), Value::Object(children.collect()));
    }
    Value::Object(map)
}
