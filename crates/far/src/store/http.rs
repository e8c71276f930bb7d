//! How buckets are spoken with: connections, and what a request met on its way.

use core::cell::Cell;
use core::pin::Pin;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, RetryConfig};
use std::time::Duration;

/// A connection is made within this time.
pub(super) const CONNECTING: Duration = Duration::from_secs(5);
/// Where a machine in a cloud is asked for its credentials.
const MACHINE: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// How connections are made; without TLS only where the endpoint says so.
pub(super) fn client_options(endpoint: Option<&str>) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(is_plain(endpoint))
        .with_connect_timeout(CONNECTING)
        .with_timeout_disabled()
}

/// The endpoint does without TLS.
pub(super) fn is_plain(endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

/// The library is not to repeat anything.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// What the library speaks HTTP with.
pub(super) fn connector() -> impl HttpConnector {
    RecordingConnector(ReqwestConnector::default())
}

/// What a request met on its way, as far as the errors of the library do not tell it.
#[derive(Clone, Copy, Default)]
pub(super) struct RequestContext {
    /// The status of the last answer.
    pub(super) status: Option<u16>,
    /// The last that was asked was the machine that this runs on, for credentials.
    pub(super) is_machine: bool,
}

tokio::task_local! {
    /// Of the request that a task is about.
    pub(super) static MET: Cell<RequestContext>;
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
            let is_machine = request.uri().host().is_some_and(|host| MACHINE.contains(&host));
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

/// The text that a server answers with; `None` when it does not do what it is asked.
pub(super) async fn text_of(request: HttpRequest, endpoint: Option<&str>) -> Option<String> {
    let http = connector().connect(&client_options(endpoint)).ok()?;
    let answer = http.execute(request).await.ok()?;
    if !answer.status().is_success() {
        return None;
    }
    let text = answer.into_body().bytes().await.ok()?;
    String::from_utf8(text.to_vec()).ok()
}

pub(super) fn met() -> RequestContext {
    MET.try_with(Cell::get).unwrap_or_default()
}
