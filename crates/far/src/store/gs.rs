//! Google Cloud Storage, by its XML interface. The fence is `x-goog-if-generation-match: 0`.
//!
//! Credentials come from `GOOGLE_BEARER_TOKEN`, from the file that `GOOGLE_SERVICE_ACCOUNT` names
//! or `GOOGLE_SERVICE_ACCOUNT_KEY`, from the file that `GOOGLE_APPLICATION_CREDENTIALS` names or
//! else `gcloud` writes, or from the machine in the cloud that this runs on, in this order.

use super::http::{client_options, connector, no_retries, text_of};
use crate::name::Bucket;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use std::fs::File;
use std::io;

/// Where buckets are when nothing says so.
const ENDPOINT: &str = "https://storage.googleapis.com";

/// The rules of a bucket for its objects, as the server writes them; `None` when it has none, or
/// does not tell.
pub(super) async fn lifecycle(bucket: &Bucket) -> Option<String> {
    let endpoint = settings(bucket).get_config_value(&GoogleConfigKey::BaseUrl);
    let credential = connect(bucket).ok()?.credentials().get_credential().await.ok()?;
    // The library asks for objects only.
    let server = endpoint.as_deref().unwrap_or(ENDPOINT).trim_end_matches('/');
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = format!("{server}/{}?lifecycle", bucket.bucket).parse().ok()?;
    let mut bearer: HeaderValue = format!("Bearer {}", credential.bearer).parse().ok()?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    text_of(request, endpoint.as_deref()).await
}

/// What the name and the environment say of a bucket.
fn settings(bucket: &Bucket) -> GoogleCloudStorageBuilder {
    let builder = GoogleCloudStorageBuilder::from_env();
    match &bucket.endpoint {
        Some(endpoint) => builder.with_base_url(endpoint),
        None => builder,
    }
}

/// The client of a bucket.
///
/// # Errors
/// The settings do not fit together, or a file of credentials cannot be read.
pub(super) fn connect(bucket: &Bucket) -> io::Result<GoogleCloudStorage> {
    let builder = settings(bucket);
    for key in [GoogleConfigKey::ServiceAccount, GoogleConfigKey::ApplicationCredentials] {
        if let Some(path) = builder.get_config_value(&key) {
            File::open(&path).map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))?;
        }
    }
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    builder
        .with_bucket_name(&bucket.bucket)
        .with_client_options(client_options(endpoint.as_deref()))
        .with_http_connector(connector())
        .with_retry(no_retries())
        .build()
        // What the library says of a file that it cannot decode may repeat what is in it.
        .map_err(|_| io::Error::other("the credentials for Google's cloud are malformed"))
}
