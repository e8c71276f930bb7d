//! Parts that could not be read, as far as they are kept: a hostile pool has an error for each of
//! millions of names that are megabytes long.

/// Bytes of errors that are kept, each with [`EACH`] more.
const BYTES_MAX: usize = 16 << 20;
/// Bytes that an error takes beside its text.
const EACH: usize = 64;

/// The first errors, and the number of the others.
#[derive(Debug, Default)]
pub(super) struct Errors {
    list: Vec<String>,
    bytes: usize,
    more: u64,
}

impl Errors {
    /// One more.
    pub(super) fn push(&mut self, error: String) {
        let bytes = self.bytes.saturating_add(error.len()).saturating_add(EACH);
        if self.more > 0 || bytes > BYTES_MAX {
            self.more = self.more.saturating_add(1);
            return;
        }
        self.bytes = bytes;
        self.list.push(error);
    }

    /// All that are kept, and a line about the rest.
    pub(super) fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.list.push(format!("and {} more errors", self.more));
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_up_to_a_bound_and_then_counted() {
        let mut errors = Errors::default();
        (0..100).for_each(|_| errors.push("e".repeat(1 << 20)));
        errors.push("a short one".to_owned());
        let list = errors.into_list();
        assert_eq!(list.len(), 16);
        assert_eq!(list.last().map(String::as_str), Some("and 86 more errors"));
    }
}
