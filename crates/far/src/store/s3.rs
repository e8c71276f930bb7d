//! Servers that speak S3. The fence is `If-None-Match: *`.
//!
//! Credentials come from the environment, from the files that the programs of AWS share
//! (`credentials`), or from the machine in the cloud that this runs on, in this order; the region
//! and the server from the name, from the environment, or from those files.

use super::credentials;
use super::http::{CONNECTING, client_options, connector, is_plain, no_retries, text_of};
use crate::name::Bucket;
use object_store::aws::{
    AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, S3ConditionalPut,
};
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::Signer as _;
use std::io;

/// Where a bucket is when nothing says so.
const REGION: &str = "us-east-1";

/// The client of a bucket.
///
/// # Errors
/// The settings do not fit together.
pub(super) fn connect(bucket: &Bucket) -> io::Result<AmazonS3> {
    let (builder, endpoint) = settings(bucket)?;
    builder
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

/// The rules of a bucket for its objects, as the server writes them; `None` when it has none, or
/// does not tell.
pub(super) async fn lifecycle(bucket: &Bucket) -> Option<String> {
    let (builder, endpoint) = settings(bucket).ok()?;
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let client = connect(bucket).ok()?;
    // The library asks for objects only; it knows where the bucket is.
    let mut url =
        client.signed_url(reqwest::Method::GET, &Path::default(), CONNECTING).await.ok()?;
    url.set_query(Some("lifecycle"));
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url.as_str().parse().ok()?;
    let credential = client.credentials().get_credential().await.ok()?;
    let region = region.unwrap_or_else(|| REGION.to_owned());
    let signer = AwsAuthorizer::new(&credential, "s3", &region);
    signer.try_authorize(&mut request, None).ok()?;
    text_of(request, endpoint.as_deref()).await
}

/// What the name and the environment say of a bucket, and where its server is if they say that.
fn settings(bucket: &Bucket) -> io::Result<(AmazonS3Builder, Option<String>)> {
    let mut builder = AmazonS3Builder::from_env();
    let lacks = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_none();
    let has_other = [AmazonS3ConfigKey::WebIdentityTokenFile, AmazonS3ConfigKey::AccessKeyId]
        .into_iter()
        .any(|key| !lacks(&builder, key));
    if !has_other && let Some(own) = credentials::from_files()? {
        builder = builder.with_access_key_id(own.id).with_secret_access_key(own.secret);
        if let Some(token) = own.token {
            builder = builder.with_token(token);
        }
    }
    let of_profile = credentials::region()?;
    let region = of_profile.name.filter(|_| lacks(&builder, AmazonS3ConfigKey::Region));
    if let Some(region) = bucket.region.as_ref().or(region.as_ref()) {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = of_profile.endpoint
        && lacks(&builder, AmazonS3ConfigKey::Endpoint)
        && lacks(&builder, AmazonS3ConfigKey::S3Endpoint)
    {
        builder = builder.with_endpoint(endpoint);
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
    Ok((builder.with_bucket_name(&bucket.bucket), endpoint))
}
