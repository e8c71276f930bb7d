//! Objects of a disk that are found by lists: they have numbers.

use super::DiskError;
use super::format::{checkpoint_name, number_of};
use crate::store::client::Client;
use crate::store::lists::{ListAnswer, NameList};

/// The list of all checkpoints behind one.
pub(super) fn checkpoint_list(after: u64) -> NameList {
    NameList::behind("ckpt/", if after == 0 { String::new() } else { checkpoint_name(after) })
}

/// The numbers in a list, in its order.
pub(super) fn numbers(list: ListAnswer) -> Result<Vec<u64>, DiskError> {
    Ok(list?.iter().flatten().filter_map(|(name, _)| number_of(name)).collect())
}

/// The numbers of all checkpoints behind one, in order.
pub(super) fn checkpoints(client: &Client, after: u64) -> Result<Vec<u64>, DiskError> {
    numbers(client.list(checkpoint_list(after)))
}
