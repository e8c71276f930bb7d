//! Stores of objects: what a log-structured disk asks of S3 and its like.
//!
//! A store has objects under names. An object is *created* whole and then never changed: of any
//! number of creates of one name, whenever they arrive, one succeeds, and the others are told
//! [`StoreError::Exists`]. That is the only thing by which writers are kept apart, so a store that
//! cannot promise it is not used (`log::probe`). Everything else may go wrong: answers are lost or
//! late, requests arrive twice, and what was sent by a machine that died may still be done.
//!
//! Requests are submitted without waiting, each with a callback. `client` makes patience of it:
//! deadlines, retries, and how many requests are under way. The kinds of stores: a directory
//! ([`DirStore`]), a bucket of a cloud (`BucketStore`, by the cargo feature `buckets`), and a
//! simulated one ([`SimStore`]).

#[cfg(feature = "buckets")]
mod az;
#[cfg(feature = "buckets")]
mod bucket;
pub(crate) mod client;
#[cfg(feature = "buckets")]
mod credentials;
mod dir;
#[cfg(feature = "buckets")]
mod gs;
mod hedge;
#[cfg(feature = "buckets")]
mod http;
pub(crate) mod lists;
#[cfg(feature = "buckets")]
mod rules;
#[cfg(feature = "buckets")]
mod s3;
mod sim;

use core::fmt;
use device::Shared;

#[cfg(feature = "buckets")]
pub use bucket::BucketStore;
#[cfg(feature = "buckets")]
pub(crate) use bucket::{harmful_rule, prefixes_with};
pub use dir::DirStore;
pub use sim::{FaultRates, SimStore, SimWorld};

/// What is asked of a store. Names are made of small letters, digits, `-` and `/`.
#[derive(Clone, Debug)]
pub enum Request {
    /// Makes an object of these bytes, one part after the other, unless one has the name.
    Create {
        /// Name of the object.
        name: String,
        /// Its bytes.
        body: Vec<Shared>,
    },
    /// Reads the bytes from `from` on, `len` or as many as there are.
    Get {
        /// Name of the object.
        name: String,
        /// Byte offset in it.
        from: u64,
        /// Bytes to read.
        len: u64,
    },
    /// Asks for the size of an object.
    Head {
        /// Name of the object.
        name: String,
    },
    /// Lists the names that begin with `prefix` and come after `after`, in order, some at a time.
    List {
        /// What they begin with; ends with `/`.
        prefix: String,
        /// The last one that is known; empty for none.
        after: String,
    },
    /// Deletes an object; succeeds when there is none.
    Delete {
        /// Name of the object.
        name: String,
    },
}

/// What a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a create or delete.
    Done,
    /// To a get: fewer bytes than asked for when the object ends before, none behind its end.
    Bytes(Vec<u8>),
    /// To a head, in bytes.
    Size(u64),
    /// To a list: names and sizes in bytes, in order. None: there are no more.
    Names {
        /// Those that come next.
        names: Vec<(String, u64)>,
        /// The store says that there are no more; not all stores say so.
        is_last: bool,
    },
}

/// Why a request was not answered as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// An object has that name. It may be the one that was to be created: an earlier answer may
    /// have been lost.
    Exists,
    /// No object has that name.
    Absent,
    /// The store wants to be asked later, or fails for now. As a rule nothing was done.
    Busy,
    /// The store does not do it, as long as it, the name or the credentials are as they are. The
    /// text is a clause that says why, without what the store said itself.
    Denied(&'static str),
    /// No answer came: it may have been done, or be done later.
    Lost,
    /// Anything else: it may have been done.
    Other(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("the object exists"),
            Self::Absent => f.write_str("there is no such object"),
            Self::Busy => f.write_str("the store is busy, or fails for now"),
            Self::Denied(why) => f.write_str(why),
            Self::Lost => f.write_str("the store does not answer"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

/// Called once with the answer, on a thread of the store's or the caller's. It must not wait.
pub type Answered = Box<dyn FnOnce(Result<Response, StoreError>) + Send>;

/// A store of objects, and a place in it: names are those within.
pub trait Store: Send + Sync {
    /// Asks, and returns. The callback is called once, or dropped when the store is gone.
    fn submit(&self, request: Request, answered: Answered);
}

impl Request {
    /// Bytes that go out and come in, about, for the time that an answer may take.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Create { body, .. } => body.iter().map(|part| part.len() as u64).sum(),
            Self::Get { len, .. } => *len,
            Self::Head { .. } | Self::List { .. } | Self::Delete { .. } => 0,
        }
    }
}

/// Names that a list gives at once, at most.
const LISTED_MAX: usize = 1000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Asks and waits, in real time.
    pub(crate) fn ask(store: &dyn Store, request: Request) -> Result<Response, StoreError> {
        let (send, receive) = mpsc::channel();
        store.submit(request, Box::new(move |answer| drop(send.send(answer))));
        receive.recv().unwrap_or(Err(StoreError::Lost))
    }

    pub(crate) fn create(name: &str, bytes: &[u8]) -> Request {
        Request::Create { name: name.to_owned(), body: vec![Shared::copy_of(bytes)] }
    }

    pub(crate) fn get(name: &str, from: u64, len: u64) -> Request {
        Request::Get { name: name.to_owned(), from, len }
    }

    /// What every store does.
    pub(crate) fn keeps_the_rules(store: &dyn Store) {
        assert_eq!(ask(store, get("a/x", 0, 9)), Err(StoreError::Absent));
        assert_eq!(ask(store, create("a/x", b"hello")), Ok(Response::Done));
        assert_eq!(ask(store, create("a/x", b"other")), Err(StoreError::Exists));
        assert_eq!(ask(store, get("a/x", 1, 3)), Ok(Response::Bytes(b"ell".to_vec())));
        assert_eq!(ask(store, get("a/x", 3, 99)), Ok(Response::Bytes(b"lo".to_vec())));
        assert_eq!(ask(store, get("a/x", 5, 9)), Ok(Response::Bytes(vec![])));
        assert_eq!(ask(store, get("a/x", 77, 9)), Ok(Response::Bytes(vec![])));
        let head = |name: &str| ask(store, Request::Head { name: name.to_owned() });
        assert_eq!(head("a/x"), Ok(Response::Size(5)));
        assert_eq!(head("a/y"), Err(StoreError::Absent));
        let list = |prefix: &str, after: &str| {
            let (prefix, after) = (prefix.to_owned(), after.to_owned());
            match ask(store, Request::List { prefix, after }) {
                Ok(Response::Names { names, .. }) => Ok(names),
                answer => Err(answer),
            }
        };
        assert_eq!(list("log/", ""), Ok(vec![]));
        for name in ["log/01/0101", "log/00/0200", "log/00/0100", "lo/1"] {
            assert_eq!(ask(store, create(name, b"1")), Ok(Response::Done), "{name}");
        }
        let names = |all: &[&str]| Ok(all.iter().map(|n| ((*n).to_owned(), 1)).collect());
        assert_eq!(list("log/", ""), names(&["log/00/0100", "log/00/0200", "log/01/0101"]));
        assert_eq!(list("log/", "log/00/0100"), names(&["log/00/0200", "log/01/0101"]));
        assert_eq!(list("log/", "log/01/0101"), names(&[]));
        let delete = |name: &str| ask(store, Request::Delete { name: name.to_owned() });
        assert_eq!(delete("log/00/0100"), Ok(Response::Done));
        assert_eq!(delete("log/00/0100"), Ok(Response::Done));
        assert_eq!(list("log/", ""), names(&["log/00/0200", "log/01/0101"]));
    }

    /// Of racing creates of a name one succeeds, and its bytes are those that are there.
    pub(crate) fn one_wins(store: &dyn Store) {
        for round in 0..20 {
            let name = format!("race/{round:04}");
            let (send, receive) = mpsc::channel();
            for racer in 0..16u8 {
                let send = send.clone();
                let answered: Answered = Box::new(move |answer| drop(send.send((racer, answer))));
                store.submit(create(&name, &[racer; 3000]), answered);
            }
            drop(send);
            let answers: Vec<_> = receive.iter().collect();
            assert_eq!(answers.len(), 16);
            let won: Vec<u8> = answers.iter().filter(|a| a.1.is_ok()).map(|a| a.0).collect();
            assert_eq!(won.len(), 1, "{answers:?}");
            assert_eq!(ask(store, get(&name, 0, 9999)), Ok(Response::Bytes(vec![won[0]; 3000])));
        }
    }
}
