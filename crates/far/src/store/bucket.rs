//! A bucket of a cloud, or of a server that speaks as one: S3, Google's or Azure's, and a prefix in
//! it. The fence is the condition that each has for a create of a name that is taken: it fails.
//!
//! The crate `object_store` signs requests and finds credentials (`s3`, `gs` and `az` say where);
//! it runs on a thread of its own, and nothing beside these files knows of its runtime. It retries
//! nothing: that is `client`'s, which counts it. An attempt is given up here when `client` has long
//! given it up, so that a store that hangs keeps neither a connection nor the bytes of a segment.
//!
//! Credentials are in the memory of this process, and may be in its environment: before a bucket is
//! opened the process stops leaving core files, and other processes cannot look into it any more.

use super::http::{CONNECTING, MET, RequestContext, met};
use super::{Answered, LISTED_MAX, Request, Response, Store, StoreError};
use super::{az, client, gs, rules, s3};
use crate::name::{Bucket, Cloud};
use bytes::Bytes;
use core::cell::Cell;
use futures_util::StreamExt as _;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use parking_lot::Mutex;
use rt::Rt;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Prefixes of a bucket that are looked at at most: each is a request that is paid for.
const FOLDERS_MAX: usize = 10_000;

/// A prefix of a bucket as a store of objects.
pub struct BucketStore(UnboundedSender<(Request, Answered)>);

/// What a library's client of a cloud can do.
trait Objects: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Objects for T {}

struct Remote {
    objects: Box<dyn Objects>,
    prefix: String,
    /// Lists begin behind any name: otherwise they may begin before it, and only a mark of the
    /// store's leads on.
    begins_anywhere: bool,
    mark: Mutex<Option<ListMark>>,
}

/// Where the last list stopped.
struct ListMark {
    /// What the names begin with.
    under: String,
    /// The last name.
    after: String,
    /// What the store wants to be told to go on.
    token: String,
}

impl BucketStore {
    /// The store of a name, with what the environment says beside it. Nothing is asked of it yet.
    ///
    /// # Errors
    /// The settings do not fit together, or there is no thread for it.
    pub(crate) fn new(bucket: &Bucket) -> io::Result<Self> {
        let remote = Arc::new(Remote {
            objects: connect(bucket)?,
            prefix: bucket.prefix.clone(),
            begins_anywhere: bucket.cloud == Cloud::S3,
            mark: Mutex::new(None),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (send, requests) = unbounded_channel();
        let serve = move || runtime.block_on(serve(remote, requests));
        drop(Rt::real().spawn("far store", serve)?);
        Ok(Self(send))
    }
}

fn connect(bucket: &Bucket) -> io::Result<Box<dyn Objects>> {
    prepare_process();
    Ok(match bucket.cloud {
        Cloud::S3 => Box::new(s3::connect(bucket)?),
        Cloud::Google => Box::new(gs::connect(bucket)?),
        Cloud::Azure => Box::new(az::connect(bucket)?),
    })
}

/// The prefixes of a bucket below which an object has this name, in order; there is nothing else
/// below one.
///
/// # Errors
/// What the store says, at once: it is not asked again.
pub(crate) fn prefixes_with(bucket: &Bucket, name: &str) -> Result<Vec<String>, StoreError> {
    let failed = |e: io::Error| StoreError::Other(e.to_string());
    let objects = connect(bucket).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (mut found, mut left) = (Vec::new(), vec![None]);
    let search = async {
        for _ in 0..FOLDERS_MAX {
            let Some(prefix) = left.pop() else { return Ok(found) };
            let list = objects.list_with_delimiter(prefix.as_ref());
            let limit = client::deadline(0) + CONNECTING;
            let list = tokio::time::timeout(limit, list).await.map_err(|_| StoreError::Lost)?;
            let list = list.map_err(|e| meaning(&e))?;
            let is_it = list.objects.iter().any(|o| o.location.filename() == Some(name));
            match prefix {
                Some(prefix) if is_it => found.push(prefix.to_string()),
                _ => left.extend(list.common_prefixes.into_iter().rev().map(Some)),
            }
        }
        Err(StoreError::Other(format!("it has more than {FOLDERS_MAX} folders to look at")))
    };
    runtime.map_err(failed)?.block_on(MET.scope(Cell::default(), search))
}

/// The rule of a bucket by which the objects of a disk would vanish, as far as that is told.
pub(crate) fn harmful_rule(bucket: &Bucket) -> Option<String> {
    prepare_process();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let limit = client::deadline(0) + CONNECTING;
    let rules = async {
        match bucket.cloud {
            Cloud::S3 => s3::lifecycle(bucket).await,
            Cloud::Google => gs::lifecycle(bucket).await,
            // Those of an account, whose interface takes other credentials than its blobs.
            Cloud::Azure => None,
        }
    };
    let answer = async { tokio::time::timeout(limit, rules).await.ok().flatten() };
    let text = runtime.block_on(answer)?;
    match bucket.cloud {
        Cloud::Google => rules::harm_of_google(&text, &bucket.prefix),
        Cloud::S3 | Cloud::Azure => rules::harm(&text, &bucket.prefix),
    }
}

/// Keeps credentials in; where a system does not have one of the two, the other does most of it.
fn prepare_process() {
    // The one provider of ciphers in this program; that another has set it does not matter.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

impl Store for BucketStore {
    fn submit(&self, request: Request, answered: Answered) {
        // The thread ends after this store only.
        let _ = self.0.send((request, answered));
    }
}

/// Answers requests until the store is dropped; those that are under way then are cut off.
async fn serve(remote: Arc<Remote>, mut requests: UnboundedReceiver<(Request, Answered)>) {
    while let Some((request, answered)) = requests.recv().await {
        let remote = Arc::clone(&remote);
        tokio::spawn(async move {
            let limit = client::deadline(request.weight()) + CONNECTING;
            let answer = tokio::time::timeout(limit, remote.answer(request));
            let answer = MET.scope(Cell::default(), answer).await;
            answered(answer.unwrap_or(Err(StoreError::Lost)));
        });
    }
}

impl Remote {
    fn path(&self, name: &str) -> Result<Path, StoreError> {
        Path::parse(format!("{}/{name}", self.prefix)).map_err(|e| StoreError::Other(e.to_string()))
    }

    async fn answer(&self, request: Request) -> Result<Response, StoreError> {
        match request {
            Request::Create { name, body } => {
                let parts = body.into_iter().map(Bytes::from_owner);
                let body = PutPayload::from_iter(parts);
                let path = self.path(&name)?;
                let put = self.objects.put_opts(&path, body, PutMode::Create.into()).await;
                put.map_err(|e| meaning(&e))?;
                Ok(Response::Done)
            }
            Request::Get { name, from, len } => self.get(&self.path(&name)?, from, len).await,
            Request::Head { name } => match self.objects.head(&self.path(&name)?).await {
                Ok(found) => Ok(Response::Size(found.size)),
                Err(e) => Err(meaning(&e)),
            },
            Request::List { prefix, after } => self.list(&prefix, &after).await,
            Request::Delete { name } => match self.objects.delete(&self.path(&name)?).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(Response::Done),
                Err(e) => Err(meaning(&e)),
            },
        }
    }

    async fn get(&self, path: &Path, from: u64, len: u64) -> Result<Response, StoreError> {
        let range = GetRange::Bounded(from..from.saturating_add(len));
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let found = match self.objects.get_opts(path, options).await {
            Err(_) if met().status == Some(416) => return Ok(Response::Bytes(Vec::new())),
            found => found.map_err(|e| meaning(&e))?,
        };
        let expected = found.range.end.saturating_sub(found.range.start);
        let mut parts = found.into_stream();
        let mut all = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|e| meaning(&e))?;
            if (all.len() + part.len()) as u64 > len {
                return Err(StoreError::Other("more data came than was requested".to_owned()));
            }
            all.extend_from_slice(&part);
        }
        // What is cut off on its way is no short object.
        if all.len() as u64 == expected { Ok(Response::Bytes(all)) } else { Err(StoreError::Lost) }
    }

    async fn list(&self, prefix: &str, after: &str) -> Result<Response, StoreError> {
        let own = format!("{}/", self.prefix);
        let under = format!("{own}{prefix}");
        let mut token = self.mark_of(prefix, after);
        // Everything before `after` is known, and a list that is in order hides nothing.
        let may_go_back = !self.begins_anywhere && token.is_none();
        let mut last = if may_go_back { String::new() } else { after.to_owned() };
        loop {
            let offset = (token.is_none() && !after.is_empty()).then(|| format!("{own}{after}"));
            let options = PaginatedListOptions {
                offset,
                page_token: token.take(),
                max_keys: Some(LISTED_MAX),
                ..PaginatedListOptions::default()
            };
            let page = self.objects.list_paginated(Some(&under), options).await;
            let page = page.map_err(|e| meaning(&e))?;
            let mut names: Vec<(String, u64)> = Vec::new();
            for object in page.result.objects {
                let Some(name) = object.location.as_ref().strip_prefix(&own) else { continue };
                if *last >= *name {
                    let why = "the store lists names out of order and cannot be used";
                    return Err(StoreError::Other(why.to_owned()));
                }
                name.clone_into(&mut last);
                if name > after {
                    names.push((name.to_owned(), object.size));
                }
            }
            match page.page_token {
                // Stores may answer with a part that is empty before the end.
                Some(next) if names.is_empty() => token = Some(next),
                Some(token) if !self.begins_anywhere => {
                    let under = prefix.to_owned();
                    *self.mark.lock() = Some(ListMark { under, after: last, token });
                    return Ok(Response::Names { names, is_last: false });
                }
                next => return Ok(Response::Names { names, is_last: next.is_none() }),
            }
        }
    }

    /// What leads on behind a name. It is used once: a store that does not know it any more is
    /// asked from the beginning.
    fn mark_of(&self, prefix: &str, after: &str) -> Option<String> {
        let mut mark = self.mark.lock();
        mark.take_if(|mark| mark.under == prefix && mark.after == after).map(|mark| mark.token)
    }
}

const NO_BUCKET: &str = "there is no such bucket";

/// What a store means that refuses a request, by the codes that are known.
fn denial(status: u16, code: &str) -> &'static str {
    match code {
        "InvalidAccessKeyId" => "the store does not know the key (403 InvalidAccessKeyId)",
        "SignatureDoesNotMatch" => "the secret is not that of the key (403 SignatureDoesNotMatch)",
        "AuthenticationFailed" => {
            "the secret is not that of the account (403 AuthenticationFailed)"
        }
        "ExpiredToken" | "TokenRefreshRequired" => "the credentials have expired (ExpiredToken)",
        "RequestTimeTooSkewed" => "the clocks differ too much (403 RequestTimeTooSkewed)",
        "AccessDenied" => "the credentials do not permit this (403 AccessDenied)",
        _ if status == 401 => "the store does not accept the credentials (401)",
        _ => "the credentials do not permit this (403)",
    }
}

/// What an error means to the caller. The answer of a store may repeat the name of a key and a
/// signature, so no more of it is told than its code.
fn meaning(error: &object_store::Error) -> StoreError {
    use object_store::Error as E;
    let text = error.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map_or("", |(code, _)| code);
    match error {
        E::AlreadyExists { .. } | E::Precondition { .. } => return StoreError::Exists,
        E::NotFound { .. } if matches!(code, "NoSuchBucket" | "ContainerNotFound") => {
            return StoreError::Denied(NO_BUCKET);
        }
        E::NotFound { .. } => return StoreError::Absent,
        _ => {}
    }
    let RequestContext { status, is_machine } = met();
    match status {
        _ if is_machine => StoreError::Denied(
            "there are no credentials in the environment, in a file, or of this machine",
        ),
        Some(429 | 500..=599) => StoreError::Busy,
        Some(status @ (401 | 403)) => StoreError::Denied(denial(status, code)),
        Some(301 | 307 | 308) => StoreError::Denied("the bucket is in another region"),
        Some(400) if code == "AuthorizationHeaderMalformed" => {
            StoreError::Denied("the bucket is in another region (AuthorizationHeaderMalformed)")
        }
        Some(400) if code == "InvalidBucketName" => {
            StoreError::Denied("the store has no buckets with such names (InvalidBucketName)")
        }
        Some(status @ 300..) => StoreError::Other(format!("the store answers {status} {code}")),
        Some(_) if code == "SlowDown" => StoreError::Busy,
        Some(_) | None => StoreError::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::name::Place;

    fn store(name: &str) -> BucketStore {
        let name = Name::parse(name.as_ref()).unwrap().unwrap();
        let Place::Bucket(bucket) = &name.place else { panic!("{name:?}") };
        BucketStore::new(bucket).unwrap()
    }

    #[test]
    fn a_machine_that_has_no_server_is_silent() {
        let port = testkit::free_port();
        for name in ["s3://bucket/disk", "gs://bucket/disk", "az://bucket/disk?account=a"] {
            let more = if name.contains('?') { '&' } else { '?' };
            // Whether this machine has credentials does not matter here: either is an error.
            let store = store(&format!("{name}{more}endpoint=http://127.0.0.1:{port}"));
            let head = Request::Head { name: "super".to_owned() };
            let answer = crate::store::tests::ask(&store, head);
            let is_error = matches!(answer, Err(StoreError::Lost | StoreError::Denied(_)));
            assert!(is_error, "{name}: {answer:?}");
        }
    }
}
