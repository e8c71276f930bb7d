//! Servers that speak S3. The fence is `If-None-Match: *`.
//!
//! Credentials come from the environment, from the file of `AWS_SHARED_CREDENTIALS_FILE` (as a
//! rule `~/.aws/credentials`), or from the machine in the cloud that this runs on, in this order.

use super::credentials;
use super::http::{client_options, connector, is_plain, no_retries};
use crate::name::Bucket;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use std::io;

/// The client of a bucket.
///
/// # Errors
/// The settings do not fit together.
pub(super) fn connect(bucket: &Bucket) -> io::Result<AmazonS3> {
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
    builder
        .with_bucket_name(&bucket.bucket)
        .with_client_options(client_options(endpoint.as_deref()))
        .with_http_connector(connector())
        // Without TLS the signature is all that holds bytes together on their way.
        .with_unsigned_payload(!is_plain(endpoint.as_deref()))
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(true)
        .with_retry(no_retries())
        .build()
        .map_err(|e| io::Error::other(e.to_string()))
}
