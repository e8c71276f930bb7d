//! One file that is not a directory: what there is for it under its name, and how it is made.

use super::data::{self, Source};
use super::failure::Failure;
use super::names::escaped;
use super::{Existing, Extract, Folder, Found, MadeHere, Sink, TargetFile as _, kind_phrase};
use crate::{Conflict, Error, Hint};
use std::io;
use std::sync::Arc;
use zpl::write::NewKind;
use zpl::{FileKind, Node};

/// What a name of the target refers to.
pub(super) enum NameState<I> {
    /// Nothing, or what will be replaced.
    Free(Option<I>),
    /// A whole copy.
    Whole(I),
}

/// The result of copying a file.
struct Copied<I> {
    /// Which file it is in the target, if there is one now.
    id: Option<I>,
    /// The bytes lost, if something was copied.
    lost: Option<u64>,
}

impl Extract<'_> {
    /// Copies one file that is not a directory into `dir`, under this name. Reports call it
    /// `shown`.
    pub fn one<S: Sink>(&self, node: &Node, dir: Arc<S>, name: &[u8], shown: &[u8]) {
        self.see(node.number());
        let folder = Folder::new(dir, 0, Vec::new(), &MadeHere::default());
        self.make(node, &folder, name, shown);
    }

    /// Makes a file; which one it is and its name, if it is whole.
    pub(super) fn make<S: Sink>(
        &self,
        node: &Node,
        folder: &Folder<S>,
        name: &[u8],
        shown: &[u8],
    ) -> Option<(S::Id, Vec<u8>)> {
        let mut name = name.to_vec();
        let mut result = self.try_make(node, folder, &name, shown);
        if let Err(Failure::Sink(e)) = &result
            && self.renames
            && S::refuses_name(e)
            && escaped(&name) != name
        {
            name = escaped(&name);
            result = self.try_make(node, folder, &name, shown);
            if result.is_ok() {
                self.observer.renamed(shown, node.number(), &name);
            }
        }
        self.progress.add(1, 0);
        match result {
            Ok(Copied { id, lost }) => {
                lost.into_iter().for_each(|lost| self.observer.done(shown, node, lost));
                folder.note_made(id?);
                Some((id?, name))
            }
            Err(e) => {
                self.report(shown, node.number(), e);
                None
            }
        }
    }

    /// Reports why something was not copied. A cancelled copy is reported once, as a whole.
    pub(super) fn report(&self, shown: &[u8], object: u64, e: Failure) {
        let hint = match &e {
            Failure::Cancelled(_) => return,
            Failure::Conflict(e) => e.hint().cloned(),
            _ => None,
        };
        let why = Error::from(e).to_string();
        match hint {
            Some(hint) => self.observer.refused(shown, object, &why, &hint),
            None => self.observer.failed(shown, object, &why),
        }
    }

    fn try_make<S: Sink>(
        &self,
        node: &Node,
        folder: &Folder<S>,
        name: &[u8],
        shown: &[u8],
    ) -> Result<Copied<S::Id>, Failure> {
        match node.kind() {
            FileKind::File => self.regular(node, folder, name, shown),
            _ => self.special(node, folder, name, shown),
        }
    }

    /// Looks up a name of the target, and whether it may be made; `whole` decides whether an
    /// existing file is a complete copy.
    pub(super) fn room<S: Sink>(
        &self,
        folder: &Folder<S>,
        name: &[u8],
        whole: impl Fn(&Found<S::Id>) -> bool,
    ) -> Result<NameState<S::Id>, Failure> {
        let Some(there) = folder.dir.find(name)? else { return Ok(NameState::Free(None)) };
        if folder.has_made(there.id) {
            return Err(Failure::Conflict(Error::external(
                "another file of the pool was made here: the target does not tell their names \
                 apart",
            )));
        }
        let is_renewed = self.existing != Existing::Refuse && there.is_file();
        if !is_renewed && whole(&there) {
            return Ok(NameState::Whole(there.id));
        }
        if there.kind == FileKind::Dir {
            return Err(Failure::Conflict(Conflict::Directory.into()));
        }
        let why = match self.existing {
            Existing::Refuse => Error::from(Conflict::Different),
            Existing::Renew { force: false } if !there.is_file() => {
                Error::external(format!("{} is in the way", kind_phrase(there.kind)))
            }
            _ => return Ok(NameState::Free(Some(there.id))),
        };
        Err(Failure::Conflict(why.with_hint(Hint::Replace)))
    }

    fn regular<S: Sink>(
        &self,
        node: &Node,
        folder: &Folder<S>,
        name: &[u8],
        shown: &[u8],
    ) -> Result<Copied<S::Id>, Failure> {
        if let Some(there) = folder.dir.find(name)?
            && (there.is_file() && there.size == node.size)
            && !folder.has_made(there.id)
            && self.observer.is_done(shown, node)
        {
            return Ok(Copied { id: Some(there.id), lost: None });
        }
        let replaced = match self.room(folder, name, |there| is_copy(there, node))? {
            NameState::Free(replaced) => replaced,
            NameState::Whole(id) => return Ok(Copied { id: Some(id), lost: None }),
        };
        let out = folder.dir.file(node.size)?;
        let observer = self.observer;
        let source = Source { object: node.object(), size: node.size, shown, observer };
        let lost = data::copy(source, &out, self.progress)?;
        self.set_attributes(&out, node, shown);
        let id = out.finish(name, replaced)?;
        Ok(Copied { id: Some(id), lost: Some(lost) })
    }

    /// Links, pipes, sockets and devices.
    fn special<S: Sink>(
        &self,
        node: &Node,
        folder: &Folder<S>,
        name: &[u8],
        shown: &[u8],
    ) -> Result<Copied<S::Id>, Failure> {
        let (major, minor) = node.device();
        let what = match node.kind() {
            FileKind::Symlink => NewKind::Symlink(node.read_link()?),
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
            FileKind::Block => NewKind::Block(major, minor),
            FileKind::Char => NewKind::Char(major, minor),
            FileKind::File | FileKind::Dir | FileKind::Unknown => {
                return Err(io::Error::other("the type of the file is not known").into());
            }
        };
        let is_device = matches!(what, NewKind::Block(..) | NewKind::Char(..));
        if is_device && !self.keep.devices {
            return Ok(Copied { id: None, lost: None });
        }
        let whole = |there: &Found<S::Id>| is_special_copy(there, &what, node);
        let replaced = match self.room(folder, name, whole)? {
            NameState::Free(replaced) => replaced,
            NameState::Whole(id) => return Ok(Copied { id: Some(id), lost: None }),
        };
        if let Some(seen) = replaced {
            folder.dir.remove(name, seen)?;
        }
        let (made, id) = match folder.dir.special(name, &what) {
            Ok(made) => made,
            // Only root makes devices; their numbers are reported, so nothing is lost.
            Err(e) if is_device && e.kind() == io::ErrorKind::PermissionDenied => {
                let kind = crate::inventory::kind_name(node.kind());
                let what = format!("{kind} device {major}:{minor}");
                self.observer.not_kept(shown, &what, &e.to_string());
                return Ok(Copied { id: None, lost: Some(0) });
            }
            Err(e) => return Err(e.into()),
        };
        self.set_attributes(&made, node, shown);
        Ok(Copied { id: Some(id), lost: Some(0) })
    }
}

/// Whether what is there is a whole copy of a regular file: same size and time of change.
pub(super) fn is_copy<I>(there: &Found<I>, node: &Node) -> bool {
    there.is_file() && there.size == node.size && there.mtime == node.mtime
}

/// Whether what is there is the same link, pipe, socket or device. The time of the latter is set
/// last of all.
fn is_special_copy<I>(there: &Found<I>, what: &NewKind, node: &Node) -> bool {
    if there.kind != node.kind() {
        return false;
    }
    match what {
        NewKind::Symlink(target) => there.target.as_ref() == Some(target),
        NewKind::Block(..) | NewKind::Char(..) => {
            there.device == node.device() && there.mtime == node.mtime
        }
        _ => there.mtime == node.mtime,
    }
}
