//! Changing the tree of datasets: what a sync task does to the meta object set.
//!
//! # Theory
//!
//! Everything here runs while a txg is being synced, by its one thread, on the *live* meta object
//! set: nothing else changes the MOS meanwhile, so there are no locks, and every function reads a
//! record, changes it and writes it back ([`DslCx`] has the means). A function that can be refused
//! fails before it changes anything; its check is a function of its own where a caller may want to
//! know before a txg is spent on it.
//!
//! Space is counted where it changes. A [`HeadAccount`] is notified of every block that a head's
//! sync writes and gives up; at its end [`finish_head`] writes the sums to the dataset, and up
//! along its directories. Invariants that hold at any time, to the byte:
//!
//! ```text
//! referenced(head)  = blocks reachable from it
//! unique(snapshot)  = blocks that neither the one before nor the one after reaches
//! unique(head)      = blocks born after its last snapshot
//! dead list of d    = blocks of the snapshot before d that d does not reach
//! used(dir)         = blocks born after its origin that its head and snapshots reach
//!                     + what reservations keep free + used of the directories below
//! ```
//!
//! Snapshots cost nothing because of the dead lists: destroying one frees the blocks in the *next*
//! dataset's list that were born after the snapshot *before*, and hands its own list on.

mod account;
mod bookmarks;
mod create;
mod crypt;
mod deadlists;
mod deleg;
mod destroy;
mod features;
mod holds;
mod limits;
mod meta;
mod promote;
mod props;
mod reap;
mod receive;
mod remapped;
mod rename;
mod rollback;
mod room;
mod snapshot;
mod spacing;

pub use crate::names::{NameFault, NameKind, check_component, check_name, name_fault};
pub use account::{HeadAccount, MosAccount, finish_head};
pub use bookmarks::{check_bookmark, create_bookmark, destroy_bookmark};
pub use create::{
    NewDataset, PoolTree, check_create, clone_dataset, create_dataset, create_pool_tree,
};
pub use crypt::{
    Encryption, KeyChange, RootKey, change_key, check_change_key, encrypt_root, follow_root,
};
pub use deadlists::renew_deadlist;
pub use deleg::{DelegationEvent, RevokedPermissions, allow, unallow};
pub use destroy::{
    Destroyed, check_destroy_head, check_destroy_snapshot, check_destroyable, destroy_head,
    destroy_snapshot,
};
pub use features::MosFeatures;
pub use holds::{hold, release};
pub use meta::{Blocks, DslCx, FeatureCounts, Timestamp};
pub use promote::{check_promote, promote};
pub use props::{
    PropertyChange, check_user_property, check_version, parse_size, parse_value,
    received_properties, revert_property, set_property, set_received,
};
pub use reap::{Drained, drain, is_drained};
pub use receive::{
    Incoming, Position, begin_receive, check_discard, check_end_receive, check_receive,
    check_resume, discard_received, end_receive, kept_for_later, note_large_dnodes, note_received,
    partly_received, resume_receive, unfinished_receives,
};
pub use rename::{
    check_rename, check_rename_snapshot, check_rename_with_parents, rename_dir, rename_snapshot,
};
pub use rollback::{check_rollback, forget_tree, reset_head, rollback};
pub use room::{AvailableSpace, room};
pub use snapshot::{check_new_snapshots, check_snapshots, snapshot};
