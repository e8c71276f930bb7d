//! The names that are properties of datasets.

use crate::failure::Failure;
use engine::props;
use views::datasets::is_computed;

/// An error when `name` cannot be a property of a dataset.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let native = props::find_dataset(name).is_some();
    let user = props::is_user_property(name);
    if native || user || name == "name" || is_computed(name) {
        return Ok(());
    }
    Err(Failure::usage(format!("bad property list: invalid property '{name}'"))
        .hint("`zinc zfs get all DATASET` shows the properties there are"))
}
