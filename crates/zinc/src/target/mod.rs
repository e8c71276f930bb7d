//! What is made on this machine: trees that are copied out of a pool ([`hostfs`]), and files that a
//! verb writes. A file of a report replaces a regular file as a whole, and is written into whatever
//! else has its name ([`Output`]). What zinc writes for itself goes through no link
//! ([`Output::own`], [`append`], [`stream_to`]).

mod output;

pub use hostfs::{Dir, Identity, Keep, Look, Tree, Xattrs, is_root, names, path_of};
pub use output::{Output, Remover, append, stream_to};
