//! Why something cannot be done to a dataset or pool, in OpenZFS's words.

use crate::failure::Failure;
use engine::Error;
use views::cannot::{Cannot, start};

/// `cannot DOING 'NAME': …`; of an operation on several things, `NAME` is the one that failed.
pub fn cannot(doing: &str, name: &str, error: impl Into<Error>) -> Failure {
    let error = error.into();
    let name = error.operand().unwrap_or(name).to_owned();
    match Cannot::of(doing, &name, &error) {
        Some(message) => message.into(),
        None => Failure::from(error).about(&start(doing, &name)),
    }
}
