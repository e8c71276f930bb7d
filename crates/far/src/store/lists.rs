//! Lists of names, which stores give in parts: each part is asked for with the last name of the one
//! before, so their parts come one after the other, but several lists are asked for at once.

use super::client::{Client, Urgency};
use super::{Request, Response, StoreError};

/// Names, in order, with the sizes of their objects in bytes.
pub(crate) type Names = Vec<(String, u64)>;

/// A list as it was answered; `None` when it has too many parts.
pub(crate) type ListAnswer = Result<Option<Names>, StoreError>;

/// A list that is wanted.
pub(crate) struct NameList {
    prefix: String,
    /// The last name that is not wanted.
    after: String,
    /// Parts that it may have, at least one.
    parts: usize,
}

impl NameList {
    /// All names that begin with `prefix`.
    pub(crate) fn of(prefix: &str) -> Self {
        Self::behind(prefix, String::new())
    }

    /// Those of them that come after `after`.
    pub(crate) fn behind(prefix: &str, after: String) -> Self {
        Self { prefix: prefix.to_owned(), after, parts: usize::MAX }
    }

    /// The same, if they are not too many for this number of parts.
    pub(crate) fn within(self, parts: usize) -> Self {
        Self { parts, ..self }
    }

    fn request(&self) -> Request {
        Request::List { prefix: self.prefix.clone(), after: self.after.clone() }
    }
}

impl Client {
    /// All names that begin with `prefix` and come after `after`.
    ///
    /// # Errors
    /// As the store says.
    pub(crate) fn names(&self, prefix: &str, after: String) -> Result<Names, StoreError> {
        Ok(self.list(NameList::behind(prefix, after))?.unwrap_or_default())
    }

    /// A list.
    ///
    /// # Errors
    /// As the store says.
    pub(crate) fn list(&self, wanted: NameList) -> ListAnswer {
        let first = self.call(Urgency::Read, wanted.request());
        self.rest_of_list(wanted, first)
    }

    /// Asks all of this at once, of lists the first parts, and waits for the answers.
    pub(crate) fn call_and_list<const N: usize>(
        &self,
        requests: Vec<Request>,
        lists: [NameList; N],
    ) -> (Vec<Result<Response, StoreError>>, [ListAnswer; N]) {
        let mut all = requests;
        let count = all.len();
        all.extend(lists.iter().map(NameList::request));
        let mut answers = self.call_all(Urgency::Read, all);
        let mut firsts = answers.split_off(count).into_iter();
        let lists = lists.map(|wanted| {
            self.rest_of_list(wanted, firsts.next().unwrap_or(Err(StoreError::Lost)))
        });
        (answers, lists)
    }

    fn rest_of_list(
        &self,
        mut wanted: NameList,
        first: Result<Response, StoreError>,
    ) -> ListAnswer {
        let (mut all, mut answer) = (Names::new(), first);
        loop {
            let Response::Names { names, is_last } = answer? else {
                return Err(StoreError::Other("the answer to a list is malformed".to_owned()));
            };
            match names.last() {
                _ if is_last => {
                    all.extend(names);
                    return Ok(Some(all));
                }
                Some((last, _)) if *last > wanted.after => wanted.after.clone_from(last),
                _ => return Ok(Some(all)),
            }
            all.extend(names);
            wanted.parts = wanted.parts.saturating_sub(1);
            if wanted.parts == 0 {
                return Ok(None);
            }
            answer = self.call(Urgency::Read, wanted.request());
        }
    }
}
