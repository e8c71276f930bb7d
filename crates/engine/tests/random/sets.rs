//! The model of a pool: its datasets and their snapshots.

use super::Time;
use super::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::posix::Content;

/// What a dataset holds at one moment.
#[derive(Clone)]
pub enum State {
    Files(Tree),
    Volume(Content),
}

/// A file system or volume.
#[derive(Clone)]
pub struct Set {
    pub state: Arc<State>,
    /// Snapshots, oldest first, by a name that no other snapshot of the pool has.
    pub snapshots: Vec<(String, Arc<State>)>,
    /// The snapshot it was cloned from.
    pub origin: Option<String>,
    /// Local values of properties, as text.
    pub properties: BTreeMap<String, String>,
}

impl Set {
    pub fn new(state: Arc<State>) -> Self {
        let properties = BTreeMap::new();
        Self { state, snapshots: Vec::new(), origin: None, properties }
    }

    pub fn is_files(&self) -> bool {
        matches!(*self.state, State::Files(_))
    }

    pub fn tree(&self) -> &Tree {
        match &*self.state {
            State::Files(tree) => tree,
            State::Volume(_) => panic!("it is a volume"),
        }
    }

    pub fn tree_mut(&mut self) -> &mut Tree {
        match Arc::make_mut(&mut self.state) {
            State::Files(tree) => tree,
            State::Volume(_) => panic!("it is a volume"),
        }
    }

    pub fn volume_mut(&mut self) -> &mut Content {
        match Arc::make_mut(&mut self.state) {
            State::Volume(content) => content,
            State::Files(_) => panic!("it is a file system"),
        }
    }
}

/// A pool.
#[derive(Clone)]
pub struct Model {
    pub sets: BTreeMap<String, Set>,
}

impl Model {
    pub fn new(pool: &str, root: u64, now: Time) -> Self {
        let set = Set::new(Arc::new(State::Files(Tree::new(root, now))));
        Self { sets: BTreeMap::from([(pool.to_owned(), set)]) }
    }

    pub fn names(&self, wanted: impl Fn(&Set) -> bool) -> Vec<String> {
        self.sets.iter().filter(|(_, s)| wanted(s)).map(|(n, _)| n.clone()).collect()
    }

    pub fn children(&self, name: &str) -> bool {
        let below = format!("{name}/");
        self.sets.keys().any(|n| n.starts_with(&below))
    }

    pub fn clones(&self, snapshot: &str) -> Vec<String> {
        self.names(|s| s.origin.as_deref() == Some(snapshot))
    }

    /// All snapshots: dataset and name.
    pub fn snapshots(&self) -> Vec<(String, String)> {
        let of = |(n, s): (&String, &Set)| -> Vec<_> {
            s.snapshots.iter().map(|(snap, _)| (n.clone(), snap.clone())).collect()
        };
        self.sets.iter().flat_map(of).collect()
    }

    pub fn holder(&self, snapshot: &str) -> Option<String> {
        self.names(|s| s.snapshots.iter().any(|(n, _)| n == snapshot)).pop()
    }

    /// The clone `name` takes the snapshots of its origin's dataset up to its origin.
    pub fn promote(&mut self, name: &str) {
        let origin = self.sets[name].origin.clone().unwrap();
        let other = self.holder(&origin).unwrap();
        let parent = self.sets.get_mut(&other).unwrap();
        let upto = parent.snapshots.iter().position(|(n, _)| *n == origin).unwrap() + 1;
        let mut moved: Vec<_> = parent.snapshots.drain(..upto).collect();
        let above = parent.origin.replace(origin);
        let set = self.sets.get_mut(name).unwrap();
        moved.append(&mut set.snapshots);
        set.snapshots = moved;
        set.origin = above;
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let below = format!("{from}/");
        for old in self.names(|_| true) {
            if old == from || old.starts_with(&below) {
                let set = self.sets.remove(&old).unwrap();
                self.sets.insert(format!("{to}{}", &old[from.len()..]), set);
            }
        }
    }
}
