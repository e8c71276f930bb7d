//! Azure's blobs. The fence is `If-None-Match: *`.
//!
//! Credentials come from the environment (the key of an account, a token that was signed with it,
//! or the secret of a client), or from the machine in the cloud that this runs on.

use super::http::{client_options, connector, no_retries};
use crate::name::Bucket;
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use std::io;

/// Variables that Microsoft's own programs read, which the library has under other names.
const ALSO: [(&str, AzureConfigKey); 2] = [
    ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
    ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
];

/// The client of a container.
///
/// # Errors
/// The settings do not fit together.
pub(super) fn connect(bucket: &Bucket) -> io::Result<MicrosoftAzure> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    for (variable, key) in ALSO {
        if builder.get_config_value(&key).is_none()
            && let Ok(value) = std::env::var(variable)
        {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(account) = &bucket.account {
        builder = builder.with_account(account);
    }
    if builder.get_config_value(&AzureConfigKey::AccountName).is_none() {
        let why = "it needs an account: AZURE_STORAGE_ACCOUNT, or ?account=NAME after its name";
        return Err(io::Error::other(why));
    }
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_endpoint(endpoint.clone()).with_use_emulator(false);
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    builder
        .with_container_name(&bucket.bucket)
        .with_client_options(client_options(endpoint.as_deref()))
        .with_http_connector(connector())
        .with_retry(no_retries())
        .build()
        .map_err(|e| io::Error::other(e.to_string()))
}
