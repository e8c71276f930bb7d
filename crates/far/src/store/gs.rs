//! Google Cloud Storage, by its XML interface. The fence is `x-goog-if-generation-match: 0`.
//!
//! Credentials come from `GOOGLE_BEARER_TOKEN`, from the file that `GOOGLE_SERVICE_ACCOUNT` names
//! or `GOOGLE_SERVICE_ACCOUNT_KEY`, from the file that `GOOGLE_APPLICATION_CREDENTIALS` names or
//! else `gcloud` writes, or from the machine in the cloud that this runs on, in this order.

use super::http::{client_options, connector, no_retries};
use crate::name::Bucket;
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use std::fs::File;
use std::io;

/// The client of a bucket.
///
/// # Errors
/// The settings do not fit together, or a file of credentials cannot be read.
pub(super) fn connect(bucket: &Bucket) -> io::Result<GoogleCloudStorage> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_base_url(endpoint);
    }
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
