//! What open txgs made of a live object set: the versions of its objects that are in front of the
//! last durable tree. [`crate::live`] has the theory, and what changes them.
//!
//! `state.rs` is one object with its versions, `set.rs` the set's knowledge of all of them.
//! `spec.rs` and `policy.rs` are what the owner of a set says of it and of new objects, `slots.rs`
//! which slots of dnodes are taken, `counts.rs` the space of users. None knows an
//! [`Objset`](crate::Objset) or an [`Object`](crate::Object), which hold these.

pub(crate) mod counts;
pub(crate) mod policy;
pub(crate) mod set;
pub(crate) mod slots;
pub(crate) mod spec;
pub(crate) mod state;

pub use policy::{RedundantMetadata, SetPolicy};
pub use spec::{
    Accounting, BlockOwner, BlockWriter, DnodeAttrs, LiveSpec, NewObject, Owner, SealedSet, SetKey,
    SyncContext,
};
pub use state::TreeMend;
