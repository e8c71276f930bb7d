//! A directory tree that is being made, of any depth, with a bounded number of open directories.
//!
//! Every directory that was made is remembered by its number: its name, its parent, and which
//! directory it is. Whole paths are kept nowhere. The directories on the way to the last one that
//! was used are held open, but only some of the deepest: one that was closed is opened again from
//! the one below (`..`), or else from the top. It is always compared with what was made, so that
//! directories moved about meanwhile are noticed.

use super::dir::{Dir, Identity};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// Directories held open on the way, beside the top.
const OPEN_MAX: usize = 48;

/// Longest path that is shown whole: four times what a path in a call may have.
const SHOWN_MAX: usize = 16 << 10;

/// One directory that was made.
struct CreatedDir {
    above: usize,
    depth: usize,
    name: Box<[u8]>,
    identity: Identity,
}

/// The tree; see the head of the module. Number 0 is the top.
pub struct Tree {
    dirs: Vec<CreatedDir>,
    made: HashSet<Identity>,
    /// From the top to the last one that was used.
    way: Vec<(usize, Option<Arc<Dir>>)>,
}

impl Tree {
    /// A tree below `top`.
    pub fn new(top: Arc<Dir>) -> io::Result<Self> {
        let identity = top.identity()?;
        let dir = CreatedDir { above: 0, depth: 0, name: Box::default(), identity };
        let way = vec![(0, Some(top))];
        Ok(Self { dirs: vec![dir], made: HashSet::from([identity]), way })
    }

    /// Makes a directory in `above`, or takes the one that is there; its number, and whether it
    /// was there.
    pub fn make(&mut self, above: usize, name: &[u8]) -> io::Result<(usize, bool)> {
        let (dir, was_there) = self.dir(above)?.subdir(name)?;
        let identity = dir.identity()?;
        if !self.made.insert(identity) {
            let text = "another directory of the pool was made here: the target does not tell \
                        their names apart";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let at = self.dirs.len();
        let depth = self.dirs.get(above).map_or(0, |s| s.depth) + 1;
        self.dirs.push(CreatedDir { above, depth, name: name.into(), identity });
        self.push(at, Arc::new(dir));
        Ok((at, was_there))
    }

    /// A directory by its number.
    pub fn dir(&mut self, at: usize) -> io::Result<Arc<Dir>> {
        let mut down = Vec::new();
        let mut on_way = at;
        while self.way.get(self.depth(on_way)).is_none_or(|(n, _)| *n != on_way) {
            down.push(on_way);
            on_way = self.dirs.get(on_way).map_or(0, |s| s.above);
        }
        if self.retreat(self.depth(on_way)).is_err() {
            // Something was moved: from the top it is found, or its absence is.
            self.way.truncate(1);
            down.clear();
            let mut up = at;
            while up != 0 {
                down.push(up);
                up = self.dirs.get(up).map_or(0, |s| s.above);
            }
        }
        for next in down.into_iter().rev() {
            let from = self.last()?;
            let made = self.dirs.get(next).ok_or(io::ErrorKind::NotFound)?;
            let dir = from.child(&made.name)?;
            if dir.identity()? != made.identity {
                return Err(moved());
            }
            self.push(next, Arc::new(dir));
        }
        self.last()
    }

    /// The path of a directory from the top, for people: of a very long one only the end.
    pub fn path(&self, at: usize) -> Vec<u8> {
        let (mut names, mut length) = (Vec::new(), 0);
        let mut at = at;
        while at != 0 {
            let Some(dir) = self.dirs.get(at) else { break };
            length += dir.name.len() + 1;
            if length > SHOWN_MAX {
                names.push(&b"..."[..]);
                break;
            }
            names.push(&*dir.name);
            at = dir.above;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn depth(&self, at: usize) -> usize {
        self.dirs.get(at).map_or(0, |s| s.depth)
    }

    fn last(&self) -> io::Result<Arc<Dir>> {
        match self.way.last() {
            Some((_, Some(dir))) => Ok(Arc::clone(dir)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn push(&mut self, at: usize, dir: Arc<Dir>) {
        self.way.push((at, Some(dir)));
        // The top stays open, as the place to start from.
        if let Some(far) = self.way.len().checked_sub(OPEN_MAX).filter(|far| *far > 0) {
            self.way[far].1 = None;
        }
    }

    /// Goes back until the way is `depth` long.
    fn retreat(&mut self, depth: usize) -> io::Result<()> {
        while self.way.len() > depth + 1 {
            let below = self.way.pop().and_then(|(_, dir)| dir);
            let Some((at, dir)) = self.way.last_mut() else { break };
            if dir.is_none() {
                let above = below.ok_or(io::ErrorKind::NotFound)?.above()?;
                let known = self.dirs.get(*at).map(|s| s.identity);
                if Some(above.identity()?) != known {
                    return Err(moved());
                }
                *dir = Some(Arc::new(above));
            }
        }
        Ok(())
    }
}

fn moved() -> io::Error {
    io::Error::other("the directory was moved by another program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_trees_take_few_descriptors_and_are_found_again() {
        let place = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(Arc::new(Dir::open_target(place.path(), false).unwrap())).unwrap();
        let name = [b'n'; 200];
        let mut at = 0;
        let mut chain = vec![0];
        for _ in 0..3000 {
            at = tree.make(at, &name).unwrap().0;
            chain.push(at);
        }
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open() < OPEN_MAX + 100, "{} descriptors", open());
        let side = tree.make(1500, b"side").unwrap().0;
        assert!(tree.path(side).starts_with(b".../n") && tree.path(side).ends_with(b"/side"));
        for at in chain.iter().rev() {
            assert_eq!(tree.dir(*at).unwrap().identity().unwrap(), tree.dirs[*at].identity);
        }
        tree.dir(3000).unwrap();
        assert!(tree.make(2999, &name).is_err(), "it was made before");
        // Taken apart from within: its path is longer than any call takes.
        for at in chain.iter().skip(1).rev() {
            let above = tree.dirs[*at].above;
            let dir = tree.dir(above).unwrap();
            if above == 1500 {
                rustix::fs::unlinkat(&*dir, "side", rustix::fs::AtFlags::REMOVEDIR).unwrap();
            }
            rustix::fs::unlinkat(&*dir, &name[..], rustix::fs::AtFlags::REMOVEDIR).unwrap();
        }
    }

    #[test]
    fn a_directory_that_was_moved_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(Arc::new(Dir::open_target(place.path(), false).unwrap())).unwrap();
        let a = tree.make(0, b"a").unwrap().0;
        let b = tree.make(0, b"b").unwrap().0;
        std::fs::rename(place.path().join("a"), place.path().join("c")).unwrap();
        std::os::unix::fs::symlink("c", place.path().join("a")).unwrap();
        assert!(tree.dir(a).is_err());
        assert!(tree.dir(b).is_ok());
    }
}
