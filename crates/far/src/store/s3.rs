//! A store that speaks S3: a bucket, and a prefix in it. The fence is `If-None-Match: *`, which
//! makes a create of a name that is taken fail.
//!
//! The crate `object_store` signs requests and finds credentials; it runs on a thread of its own,
//! and nothing beside this file knows of its runtime. It retries nothing: that is `client`'s,
//! which counts it. An attempt is given up here when `client` has long given it up, so that a
//! store that hangs keeps neither a connection nor the bytes of a segment.
//!
//! Credentials come from the environment, from the file of `AWS_SHARED_CREDENTIALS_FILE` (as a
//! rule `~/.aws/credentials`), or from the machine in the cloud that this runs on, in this order.

use super::{Answered, LISTED_MAX, Request, Response, Store, StoreError, client, credentials};
use crate::name::Bucket;
use bytes::Bytes;
use core::cell::Cell;
use core::pin::Pin;
use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutMode,
    PutPayload, RetryConfig,
};
use rt::Rt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A connection is made within this time.
const CONNECTING: Duration = Duration::from_secs(5);
/// Where a machine in a cloud is asked for its credentials.
const MACHINE: &str = "169.254.169.254";

/// A prefix of a bucket as a store of objects.
pub struct S3Store(UnboundedSender<(Request, Answered)>);

struct Remote {
    s3: AmazonS3,
    prefix: String,
}

impl S3Store {
    /// The store of a name, with what the environment says beside it. Nothing is asked of it yet.
    ///
    /// # Errors
    /// The settings do not fit together, or there is no thread for it.
    pub(crate) fn new(bucket: &Bucket) -> io::Result<Self> {
        let remote = Arc::new(Remote { s3: connect(bucket)?, prefix: bucket.prefix.clone() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (send, requests) = unbounded_channel();
        let serve = move || runtime.block_on(serve(remote, requests));
        drop(Rt::real().spawn("far store", serve)?);
        Ok(Self(send))
    }
}

impl Store for S3Store {
    fn submit(&self, request: Request, answered: Answered) {
        // The thread ends after this store only.
        let _ = self.0.send((request, answered));
    }
}

fn connect(bucket: &Bucket) -> io::Result<AmazonS3> {
    // The one provider of ciphers in this program; that another has set it does not matter.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::from_env();
    let lacks = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_none();
    let has_other = [AmazonS3ConfigKey::WebIdentityTokenFile, AmazonS3ConfigKey::AccessKeyId]
        .into_iter()
        .any(|key| !lacks(&builder, key));
    if !has_other && let Some(own) = credentials::from_file()? {
        builder = builder.with_access_key_id(own.id).with_secret_access_key(own.secret);
        if let Some(token) = own.token {
            builder = builder.with_token(token);
        }
    }
    if let Some(region) = &bucket.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &bucket.endpoint {
        // That of the environment for S3 alone would go before it.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if let Some(is_virtual) = bucket.is_virtual {
        builder = builder.with_virtual_hosted_style_request(is_virtual);
    }
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .into_iter()
        .find_map(|key| builder.get_config_value(&key));
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(CONNECTING)
        .with_timeout_disabled();
    let none = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    builder
        .with_bucket_name(&bucket.bucket)
        .with_client_options(options)
        .with_http_connector(RecordingConnector(ReqwestConnector::default()))
        // Without TLS the signature is all that holds bytes together on their way.
        .with_unsigned_payload(!is_plain)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(true)
        .with_retry(none)
        .build()
        .map_err(|e| io::Error::other(e.to_string()))
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
                let put = self.s3.put_opts(&path, body, PutMode::Create.into()).await;
                put.map_err(|e| meaning(&e))?;
                Ok(Response::Done)
            }
            Request::Get { name, from, len } => self.get(&self.path(&name)?, from, len).await,
            Request::Head { name } => match self.s3.head(&self.path(&name)?).await {
                Ok(found) => Ok(Response::Size(found.size)),
                Err(e) => Err(meaning(&e)),
            },
            Request::List { prefix, after } => self.list(&prefix, &after).await,
            Request::Delete { name } => match self.s3.delete(&self.path(&name)?).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(Response::Done),
                Err(e) => Err(meaning(&e)),
            },
        }
    }

    async fn get(&self, path: &Path, from: u64, len: u64) -> Result<Response, StoreError> {
        let range = GetRange::Bounded(from..from.saturating_add(len));
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let found = match self.s3.get_opts(path, options).await {
            Err(_) if met().status == Some(416) => return Ok(Response::Bytes(Vec::new())),
            found => found.map_err(|e| meaning(&e))?,
        };
        let expected = found.range.end.saturating_sub(found.range.start);
        let mut parts = found.into_stream();
        let mut all = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|e| meaning(&e))?;
            if (all.len() + part.len()) as u64 > len {
                return Err(StoreError::Other("more bytes came than were asked for".to_owned()));
            }
            all.extend_from_slice(&part);
        }
        // What is cut off on its way is no short object.
        if all.len() as u64 == expected { Ok(Response::Bytes(all)) } else { Err(StoreError::Lost) }
    }

    async fn list(&self, prefix: &str, after: &str) -> Result<Response, StoreError> {
        let own = format!("{}/", self.prefix);
        let options = PaginatedListOptions {
            offset: (!after.is_empty()).then(|| format!("{own}{after}")),
            max_keys: Some(LISTED_MAX),
            ..PaginatedListOptions::default()
        };
        let under = format!("{own}{prefix}");
        let page = self.s3.list_paginated(Some(&under), options).await.map_err(|e| meaning(&e))?;
        let mut names: Vec<(String, u64)> = Vec::new();
        for object in page.result.objects {
            let Some(name) = object.location.as_ref().strip_prefix(&own) else { continue };
            if names.last().map_or(after, |(last, _)| last) >= name {
                let why = "the store lists names out of order; such a one cannot be used";
                return Err(StoreError::Other(why.to_owned()));
            }
            names.push((name.to_owned(), object.size));
        }
        match names.is_empty() && page.page_token.is_some() {
            true => Err(StoreError::Other("a part of a list is empty".to_owned())),
            false => Ok(Response::Names(names)),
        }
    }
}

/// What a request met on its way, as far as the errors of the library do not tell it.
#[derive(Clone, Copy, Default)]
struct RequestContext {
    /// The status of the last answer.
    status: Option<u16>,
    /// The last that was asked was the machine that this runs on, for credentials.
    is_machine: bool,
}

tokio::task_local! {
    /// Of the request that a task is about.
    static MET: Cell<RequestContext>;
}

/// What HTTP is spoken with: that of the library, noting what is met.
#[derive(Debug)]
struct RecordingConnector(ReqwestConnector);

#[derive(Debug)]
struct RecordingClient(HttpClient);

impl HttpConnector for RecordingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(RecordingClient(self.0.connect(options)?)))
    }
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl HttpService for RecordingClient {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Pending<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let is_machine = request.uri().host().is_some_and(|host| host == MACHINE);
            // It is only asked for within a task.
            let note = |status| {
                let _ = MET.try_with(|met| met.set(RequestContext { status, is_machine }));
            };
            note(None);
            let response = self.0.execute(request).await?;
            note(Some(response.status().as_u16()));
            Ok(response)
        })
    }
}

fn met() -> RequestContext {
    MET.try_with(Cell::get).unwrap_or_default()
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
        E::NotFound { .. } if code == "NoSuchBucket" => {
            return StoreError::Denied("there is no such bucket".to_owned());
        }
        E::NotFound { .. } => return StoreError::Absent,
        _ => {}
    }
    let RequestContext { status, is_machine } = met();
    match status {
        _ if is_machine => StoreError::Denied(
            "there are no credentials in the environment or a file, nor does this machine give any"
                .to_owned(),
        ),
        Some(429 | 503) => StoreError::Busy,
        Some(status @ (401 | 403)) => StoreError::Denied(format!("{status} {code}")),
        Some(status @ 300..) => StoreError::Other(format!("it answers {status} {code}")),
        Some(_) if code == "SlowDown" => StoreError::Busy,
        Some(_) | None => StoreError::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_has_no_server_is_silent() {
        // Nothing listens where a listener has just ended.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let bucket = Bucket {
            bucket: "bucket".to_owned(),
            prefix: "disk".to_owned(),
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            region: None,
            is_virtual: None,
        };
        // Whether this machine has credentials does not matter here: either is an error.
        let store = S3Store::new(&bucket).unwrap();
        let head = Request::Head { name: "super".to_owned() };
        let answer = crate::store::tests::ask(&store, head);
        assert!(matches!(answer, Err(StoreError::Lost | StoreError::Denied(_))), "{answer:?}");
    }
}
