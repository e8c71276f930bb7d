//! Creating an object that no other writer may create.
//!
//! A create that is answered with "exists" may have met itself: an answer that was lost, a request
//! that a proxy sent twice. So the header that is there is read and compared: it has the hash of
//! all that matters, and a random number of the writer that made it.

use super::format::HEADER_BYTES;
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, StoreError};
use device::Shared;
use device::backend::collect;

/// How often a name that exists and is absent is tried again. Stores say so while two requests for
/// a name are under way.
const TRIES: u32 = 50;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CreateOutcome {
    /// The object is there, and ours.
    Ours,
    /// Another one has the name; its first bytes.
    Theirs(Vec<u8>),
}

/// Called once with what became of it; it must not wait.
pub(super) type MadeCall = Box<dyn FnOnce(Result<CreateOutcome, StoreError>) + Send>;

struct Job {
    client: Client,
    urgency: Urgency,
    name: String,
    body: Vec<Shared>,
    tries: u32,
    done: MadeCall,
}

/// Creates an object whose first part begins with its header, and returns.
pub(super) fn put(
    client: &Client,
    urgency: Urgency,
    name: String,
    body: Vec<Shared>,
    done: MadeCall,
) {
    Job { client: client.clone(), urgency, name, body, tries: 0, done }.create();
}

/// The same, and waits.
///
/// # Errors
/// As the store says.
pub(super) fn put_and_wait(
    client: &Client,
    urgency: Urgency,
    name: &str,
    body: &[u8],
) -> Result<CreateOutcome, StoreError> {
    let (collector, tickets) = collect(client.rt(), 1);
    for ticket in tickets {
        let done: MadeCall = Box::new(move |made| ticket.give(made));
        put(client, urgency, name.to_owned(), vec![Shared::copy_of(body)], done);
    }
    collector.wait().pop().flatten().unwrap_or(Err(StoreError::Lost))
}

impl Job {
    fn create(self) {
        let create = Request::Create { name: self.name.clone(), body: self.body.clone() };
        let (client, urgency) = (self.client.clone(), self.urgency);
        let answered = move |answer| match answer {
            Ok(_) => (self.done)(Ok(CreateOutcome::Ours)),
            Err(StoreError::Exists) => self.compare(),
            Err(error) => (self.done)(Err(error)),
        };
        client.submit(urgency, create, Box::new(answered));
    }

    fn compare(mut self) {
        let get = Request::Get { name: self.name.clone(), from: 0, len: HEADER_BYTES as u64 };
        let (client, urgency) = (self.client.clone(), self.urgency);
        let answered = move |answer| match answer {
            Ok(Response::Bytes(found)) => {
                let own = self.body.first().and_then(|part| part.get(..HEADER_BYTES));
                let is_ours = own.is_some_and(|own| own == found);
                (self.done)(Ok(if is_ours {
                    CreateOutcome::Ours
                } else {
                    CreateOutcome::Theirs(found)
                }));
            }
            Err(StoreError::Absent) if self.tries < TRIES => {
                self.tries += 1;
                self.create();
            }
            Ok(_) => (self.done)(Err(StoreError::Other("the answer has no data".to_owned()))),
            Err(error) => (self.done)(Err(error)),
        };
        client.submit(urgency, get, Box::new(answered));
    }
}
