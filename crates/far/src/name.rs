//! Names of far leaves.
//!
//! They are the URIs that NBD's programs share: `nbd://HOST[:PORT]/EXPORT` and
//! `nbd+unix:///EXPORT?socket=PATH`, inside TLS `nbds://` and `nbds+unix://`, with
//! `tls-certificates=DIRECTORY` (without it `/etc/zinc/tls`) and `tls-hostname=NAME` where the
//! certificate has another name than the host; `dir:///PATH`, which is a disk in a store of
//! objects that a directory is; and `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` and
//! `az://CONTAINER/PREFIX`, which are disks in buckets: of a server that speaks S3, of Google's
//! cloud, of Azure. They have `endpoint=URL`, the first `region=NAME` and `addressing=path` or
//! `virtual`, the last `account=NAME`, where the environment does not say them. Bytes may stand as
//! `%` and two digits. `timeout=SECONDS` says how long a server or store may be silent before the
//! leaf counts as gone. A user or password is refused, because names stand in labels.

use core::fmt;
use core::time::Duration;
use std::path::{Path, PathBuf};

/// The port of NBD.
const PORT: u16 = 10_809;
/// How long a server may be silent, unless its name says otherwise.
const SILENCE: Duration = Duration::from_secs(30);
/// The same of a store: those are slow now and then.
const STORE_SILENCE: Duration = Duration::from_secs(120);
/// The longest silence that a name may ask for.
const SILENCE_MAX: u64 = 24 * 3600;
/// Longest name of an export in bytes, as the protocol has it.
const EXPORT_MAX: usize = 4096;

/// Where certificates are, unless a name says otherwise.
const CERTIFICATES: &str = "/etc/zinc/tls";

const TCP: &str = "nbd://";
const UNIX: &str = "nbd+unix://";
const FOLDER: &str = "dir://";
const BUCKETS: [(&str, Cloud); 3] =
    [("s3://", Cloud::S3), ("gs://", Cloud::Google), ("az://", Cloud::Azure)];
const TLS_TCP: &str = "nbds://";
const TLS_UNIX: &str = "nbds+unix://";

/// Whether a name is that of a leaf of another machine, well-formed or not.
#[must_use]
pub fn is_far(name: &Path) -> bool {
    let starts = |scheme: &str| name.to_str().is_some_and(|name| name.starts_with(scheme));
    let is_bucket = name.to_str().is_some_and(is_bucket);
    is_bucket || [TCP, UNIX, TLS_TCP, TLS_UNIX, FOLDER].into_iter().any(starts)
}

/// Whether a name is that of a disk in a bucket, which is paid for by the request.
#[must_use]
pub fn is_bucket(name: &str) -> bool {
    BUCKETS.iter().any(|(scheme, _)| name.starts_with(scheme))
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    /// A socket of this machine.
    Unix(PathBuf),
    /// A directory with objects in it.
    Folder(PathBuf),
    /// A prefix of a bucket.
    Bucket(Bucket),
}

/// What is spoken with the server of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    S3,
    Google,
    Azure,
}

/// A prefix of a bucket, and what its name says of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) cloud: Cloud,
    pub(crate) bucket: String,
    /// Without a `/` at either end; not empty.
    pub(crate) prefix: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    /// The account that owns it: each account of Azure has its own containers.
    pub(crate) account: Option<String>,
    /// The bucket is part of the host, not of the path.
    pub(crate) is_virtual: Option<bool>,
}

/// A far leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub(crate) place: Place,
    pub(crate) export: String,
    pub(crate) silence: Duration,
    /// The connection is inside TLS.
    pub(crate) tls: Option<Tls>,
    text: String,
}

/// How a server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The directory with the certificates.
    pub(crate) certificates: PathBuf,
    /// The name that the server's certificate has.
    pub(crate) host: String,
}

/// Why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameError(pub &'static str);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NameError {}

impl Name {
    /// Reads a name; `None` when it is not that of a far leaf.
    ///
    /// # Errors
    /// It begins as one, and is malformed.
    pub fn parse(name: &Path) -> Option<Result<Self, NameError>> {
        is_far(name).then(|| {
            let text = name.to_str().ok_or(NameError("it is not UTF-8"))?;
            Self::read(text)
        })
    }

    /// Reads a name of a whole bucket, which is no leaf; `None` when it is not one.
    ///
    /// # Errors
    /// It begins as one, and is malformed.
    pub fn parse_bucket(text: &str) -> Option<Result<Self, NameError>> {
        let (scheme, cloud) = BUCKETS.into_iter().find(|(scheme, _)| text.starts_with(scheme))?;
        let rest = text.strip_prefix(scheme)?;
        let place = rest.split_once('?').map_or(rest, |(place, _)| place);
        let is_whole = place.split_once('/').is_none_or(|(_, prefix)| prefix.is_empty());
        is_whole.then(|| Self::read_bucket(scheme, cloud, rest, true))
    }

    fn read(text: &str) -> Result<Self, NameError> {
        if let Some(rest) = text.strip_prefix(FOLDER) {
            return Self::read_folder(rest);
        }
        for (scheme, cloud) in BUCKETS {
            if let Some(rest) = text.strip_prefix(scheme) {
                return Self::read_bucket(scheme, cloud, rest, false);
            }
        }
        let schemes = [(TCP, false), (UNIX, true), (TLS_TCP, false), (TLS_UNIX, true)];
        let known = schemes.into_iter().find(|(scheme, _)| text.starts_with(scheme));
        let (scheme, is_unix) = known.unwrap_or((TCP, false));
        let is_tls = scheme == TLS_TCP || scheme == TLS_UNIX;
        let rest = text.strip_prefix(scheme).unwrap_or_default();
        if rest.contains('#') {
            return Err(NameError("a '#' in the name of an export is written %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') {
            return Err(NameError("it has a user or a password, which would be written to labels"));
        }
        let (mut socket, mut silence) = (None, SILENCE);
        let (mut certificates, mut tls_host) = (PathBuf::from(CERTIFICATES), None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("socket", path)) if is_unix => socket = Some(PathBuf::from(decoded(path)?)),
                Some(("timeout", n)) => silence = seconds(n)?,
                Some(("tls-certificates", path)) if is_tls => certificates = decoded(path)?.into(),
                Some(("tls-hostname", name)) if is_tls => tls_host = Some(decoded(name)?),
                _ => return Err(UNKNOWN),
            }
        }
        if !certificates.is_absolute() {
            return Err(NameError("the directory of its certificates is not absolute"));
        }
        let decoded_export = decoded(export)?;
        if decoded_export.len() > EXPORT_MAX {
            return Err(NameError("the name of the export is too long"));
        }
        let (place, authority) = match is_unix {
            true if !host.is_empty() => return Err(NameError("a socket has no host")),
            true => {
                let socket = socket.ok_or(NameError("it names no socket (?socket=PATH)"))?;
                if !socket.is_absolute() {
                    return Err(NameError("the path of its socket is not absolute"));
                }
                (Place::Unix(socket), String::new())
            }
            false => {
                let (host, port) = host_and_port(host)?;
                let shown = if port == PORT { host.clone() } else { format!("{host}:{port}") };
                let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
                (Place::Tcp(bare.unwrap_or(&host).to_owned(), port), shown)
            }
        };
        let host = match &place {
            Place::Tcp(host, _) => host.clone(),
            _ => "localhost".to_owned(),
        };
        let tls = is_tls.then(|| Tls { certificates, host: tls_host.unwrap_or(host) });
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let text = format!("{scheme}{authority}/{export}{query}");
        Ok(Self { place, export: decoded_export, silence, tls, text })
    }

    fn read_folder(rest: &str) -> Result<Self, NameError> {
        if rest.contains('#') {
            return Err(NameError("a '#' in a path is written %23"));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut silence = STORE_SILENCE;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("timeout", n)) => silence = seconds(n)?,
                _ => return Err(UNKNOWN),
            }
        }
        let folder = PathBuf::from(decoded(path)?);
        if !folder.is_absolute() {
            return Err(NameError("the path of its directory is not absolute (dir:///PATH)"));
        }
        let path = path.trim_end_matches('/');
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let text = format!("{FOLDER}{path}{query}");
        let place = Place::Folder(folder);
        Ok(Self { place, export: String::new(), silence, tls: None, text })
    }

    fn read_bucket(
        scheme: &str,
        cloud: Cloud,
        rest: &str,
        is_whole: bool,
    ) -> Result<Self, NameError> {
        if rest.contains('#') {
            return Err(NameError("a '#' in it is written %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) {
            return Err(NameError(match cloud {
                Cloud::S3 => "it names no bucket (s3://BUCKET/PREFIX)",
                Cloud::Google => "it names no bucket (gs://BUCKET/PREFIX)",
                Cloud::Azure => "it names no container (az://CONTAINER/PREFIX)",
            }));
        }
        let own = decoded(prefix.trim_matches('/'))?;
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        let has_parts = is_whole || own.split('/').all(is_part);
        if !has_parts || !own.bytes().all(|b| is_plain(b) || b == b'/') {
            let why = "a prefix has only letters, digits, '-', '.', '_' and '/'";
            return Err(NameError(why));
        }
        let (mut endpoint, mut region, mut account, mut is_virtual) = (None, None, None, None);
        let (mut silence, is_s3) = (STORE_SILENCE, cloud == Cloud::S3);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("timeout", n)) => silence = seconds(n)?,
                Some(("endpoint", url)) => endpoint = Some(endpoint_of(url)?),
                Some(("region", name)) if is_s3 => region = Some(decoded(name)?),
                Some(("addressing", "path")) if is_s3 => is_virtual = Some(false),
                Some(("addressing", "virtual")) if is_s3 => is_virtual = Some(true),
                Some(("account", name)) if cloud == Cloud::Azure => account = Some(decoded(name)?),
                _ => return Err(UNKNOWN),
            }
        }
        let shown = prefix.trim_matches('/');
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let text = format!("{scheme}{bucket}/{shown}{query}");
        let (bucket, prefix) = (bucket.to_owned(), own);
        let bucket = Bucket { cloud, bucket, prefix, endpoint, region, account, is_virtual };
        let place = Place::Bucket(bucket);
        Ok(Self { place, export: String::new(), silence, tls: None, text })
    }

    /// The stores that this one is a part of, the nearest first.
    pub(crate) fn above(&self) -> Vec<Self> {
        match &self.place {
            Place::Folder(folder) => {
                let real = folder.canonicalize();
                let parent = real.as_deref().unwrap_or(folder).parent();
                let parent = parent.and_then(|parent| parent.canonicalize().ok());
                let all = parent.iter().flat_map(|parent| parent.ancestors());
                let of = |folder: &Path| {
                    let text = format!("{FOLDER}{}", folder.display());
                    Self { place: Place::Folder(folder.to_owned()), text, ..self.clone() }
                };
                all.map(of).collect()
            }
            Place::Bucket(own) => {
                let ends = own.prefix.rmatch_indices('/').map(|(at, _)| at);
                let shorter = ends.filter_map(|end| own.prefix.get(..end));
                let scheme = BUCKETS.iter().find(|(_, cloud)| *cloud == own.cloud);
                let scheme = scheme.map_or("", |(scheme, _)| scheme);
                let of = |prefix: &str| {
                    let text = format!("{scheme}{}/{prefix}", own.bucket);
                    let bucket = Bucket { prefix: prefix.to_owned(), ..own.clone() };
                    Self { place: Place::Bucket(bucket), text, ..self.clone() }
                };
                shorter.map(of).collect()
            }
            Place::Tcp(..) | Place::Unix(_) => Vec::new(),
        }
    }

    /// The disk at a prefix of this bucket, with the same parameters.
    pub(crate) fn in_bucket(&self, prefix: &str) -> Option<Self> {
        let (place, query) = self.text.split_once('?').unwrap_or((&self.text, ""));
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let place = place.trim_end_matches('/');
        Self::parse(Path::new(&format!("{place}/{prefix}{query}")))?.ok()
    }

    /// It is a disk in a store of objects.
    #[must_use]
    pub fn is_store(&self) -> bool {
        matches!(self.place, Place::Folder(_) | Place::Bucket(_))
    }

    /// The name in its one form: hosts in small letters, the usual port left out.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What tells whether two names are of one leaf.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        let place = match &self.place {
            Place::Tcp(host, port) => format!("tcp\0{host}\0{port}"),
            Place::Unix(path) => format!("unix\0{}", path.to_string_lossy()),
            Place::Folder(path) => {
                // However it is written: links and points are the directory's own.
                let own = std::fs::canonicalize(path);
                let own = own.unwrap_or_else(|_| path.components().collect());
                format!("dir\0{}", own.to_string_lossy())
            }
            Place::Bucket(Bucket { cloud, bucket, prefix, endpoint, account, .. }) => {
                let endpoint = endpoint.as_deref().unwrap_or_default();
                let cloud = match cloud {
                    Cloud::S3 => "s3".to_owned(),
                    Cloud::Google => "gs".to_owned(),
                    Cloud::Azure => format!("az\0{}", account.as_deref().unwrap_or_default()),
                };
                format!("{cloud}\0{endpoint}\0{bucket}\0{prefix}")
            }
        };
        *blake3::hash(format!("{place}\0{}", self.export).as_bytes()).as_bytes()
    }
}

const UNKNOWN: NameError = NameError("it has an unknown parameter");

fn endpoint_of(text: &str) -> Result<String, NameError> {
    let url = decoded(text)?;
    let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let host = host.filter(|host| !host.is_empty() && !host.starts_with('/'));
    let host = host.ok_or(NameError("its endpoint is not an http:// or https:// URL"))?;
    match host.contains(['@', '?', '#']) {
        true => Err(NameError(
            "its endpoint has a user or parameters, which would be written to labels",
        )),
        false => Ok(url.trim_end_matches('/').to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, NameError> {
    let n = text.parse().ok().filter(|n| (1..=SILENCE_MAX).contains(n));
    let why = NameError("its timeout is not a number of seconds, from 1 to 86400");
    Ok(Duration::from_secs(n.ok_or(why)?))
}

fn host_and_port(text: &str) -> Result<(String, u16), NameError> {
    let none = NameError("it names no host");
    let (host, port) = match text.rfind(']') {
        Some(end) => match text.get(end + 1..) {
            Some("") | None => (text.get(..=end), None),
            Some(rest) => (text.get(..=end).filter(|_| rest.starts_with(':')), rest.get(1..)),
        },
        None => match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    };
    let host = host.filter(|host| !host.is_empty() && *host != "[]").ok_or(none)?;
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => Some(PORT),
    };
    Ok((host.to_ascii_lowercase(), port.ok_or(NameError("its port is not a number"))?))
}

/// Bytes that stand as `%` and two digits.
fn decoded(text: &str) -> Result<String, NameError> {
    let wrong = NameError("a '%' in it is not followed by two hexadecimal digits of UTF-8");
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong) };
        out.push((high * 16 + low) as u8);
    }
    let text = String::from_utf8(out).map_err(|_| wrong)?;
    if text.contains('\0') { Err(NameError("it has a zero byte")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Name, NameError> {
        Name::parse(Path::new(text)).unwrap_or(Err(NameError("not far")))
    }

    #[test]
    fn a_store_is_a_part_of_those_with_shorter_prefixes() {
        let above = |text: &str| {
            let name = Name::parse(Path::new(text)).unwrap().unwrap();
            name.above().into_iter().map(|above| above.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(above("s3://b/one/two/three"), ["s3://b/one/two", "s3://b/one"]);
        assert_eq!(above("gs://b/one"), [""; 0]);
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let found = above(&format!("dir://{}/none", folder.path().display()));
        assert_eq!(found[0], format!("dir://{}", real.display()));
        assert_eq!(found.last().unwrap(), "dir:///");
        assert_eq!(above("nbd://host/a/b"), [""; 0]);
    }

    #[test]
    fn names_are_read_and_have_one_form() {
        let name = read("nbd://Storage:10809/tank%2Fvol%201").unwrap();
        assert_eq!(name.place, Place::Tcp("storage".to_owned(), 10809));
        assert_eq!(name.export, "tank/vol 1");
        assert_eq!(name.as_str(), "nbd://storage/tank%2Fvol%201");
        let name = read("nbd://[::1]:10900/").unwrap();
        assert_eq!(name.place, Place::Tcp("::1".to_owned(), 10900));
        assert_eq!((name.as_str(), name.export.as_str()), ("nbd://[::1]:10900/", ""));
        let name = read("nbd+unix:///disk?socket=/run/a%20b&timeout=5").unwrap();
        assert_eq!(name.place, Place::Unix(PathBuf::from("/run/a b")));
        assert_eq!((name.export.as_str(), name.silence.as_secs()), ("disk", 5));
        assert!(Name::parse(Path::new("/dev/sda")).is_none());
        let name = read("nbds://Storage/e?tls-certificates=/pki&tls-hostname=s.example").unwrap();
        let tls = Tls { certificates: PathBuf::from("/pki"), host: "s.example".to_owned() };
        assert_eq!((name.tls.as_ref(), name.export.as_str()), (Some(&tls), "e"));
        assert!(name.as_str().starts_with("nbds://storage/e?"));
        assert_eq!(name.identity(), read("nbd://storage/e").unwrap().identity());
        let name = read("nbds+unix:///?socket=/run/x").unwrap();
        let tls = Tls { certificates: CERTIFICATES.into(), host: "localhost".to_owned() };
        assert_eq!(name.tls, Some(tls));
        assert_eq!(read("nbd://h/e").unwrap().tls, None);
    }

    #[test]
    fn a_directory_is_a_store() {
        let name = read("dir:///srv/a%20store/tank/?timeout=5").unwrap();
        assert_eq!(name.place, Place::Folder(PathBuf::from("/srv/a store/tank/")));
        assert_eq!((name.as_str(), name.is_store()), ("dir:///srv/a%20store/tank?timeout=5", true));
        assert_eq!(name.identity(), read("dir:///srv/a store/tank").unwrap().identity());
        assert!(read("dir://tank").unwrap_err().0.contains("absolute"));
        assert!(read("dir:///tank?size=1").unwrap_err().0.contains("parameter"));
        assert!(!read("nbd://h/e").unwrap().is_store());
    }

    #[test]
    fn a_prefix_of_a_bucket_is_a_store() {
        let text = "s3://Pools/tank/?endpoint=http%3A%2F%2F[::1]:7070/&region=eu&addressing=path";
        let name = read(text).unwrap();
        let Place::Bucket(bucket) = &name.place else { panic!("{name:?}") };
        assert_eq!((bucket.bucket.as_str(), bucket.prefix.as_str()), ("Pools", "tank"));
        assert_eq!(bucket.endpoint.as_deref(), Some("http://[::1]:7070"));
        assert_eq!((bucket.region.as_deref(), bucket.is_virtual), (Some("eu"), Some(false)));
        assert!(name.is_store());
        let same = |other: &str| name.identity() == read(other).unwrap().identity();
        assert!(same("s3://Pools/t%61nk?endpoint=http://[::1]:7070"));
        assert!(!same("s3://Pools/tank"));
        let wrong = |text: &str| read(text).unwrap_err().0;
        assert!(wrong("s3:///tank").contains("bucket"));
        let whole = Name::parse_bucket("s3://pools/?endpoint=http://h:1").unwrap().unwrap();
        let one = whole.in_bucket("a/tank").unwrap();
        assert_eq!(one.as_str(), "s3://pools/a/tank?endpoint=http://h:1");
        assert!(Name::parse_bucket("s3://pools").unwrap().is_ok());
        assert!(Name::parse_bucket("s3://").unwrap().is_err());
        assert!(Name::parse_bucket("s3://pools/tank").is_none());
        assert!(Name::parse_bucket("dir:///srv").is_none());
        for prefix in ["", "/", "a//b", "../b", "a b", "a%00b"] {
            read(&format!("s3://pools/{prefix}")).unwrap_err();
        }
        assert!(wrong("s3://key:secret@pools/tank").contains("bucket"));
        assert!(wrong("s3://pools/tank?endpoint=http://key:secret@host").contains("user"));
        assert!(wrong("s3://pools/tank?endpoint=host").contains("URL"));
        assert!(wrong("s3://pools/tank?secret=x").contains("parameter"));
    }

    #[test]
    fn buckets_of_other_clouds_have_what_is_theirs() {
        let name = read("az://pools/tank/?account=me&endpoint=http://[::1]:1/me").unwrap();
        let Place::Bucket(bucket) = &name.place else { panic!("{name:?}") };
        assert_eq!((bucket.cloud, bucket.account.as_deref()), (Cloud::Azure, Some("me")));
        assert_eq!(bucket.endpoint.as_deref(), Some("http://[::1]:1/me"));
        assert!(is_bucket(name.as_str()) && is_far(Path::new("gs://")) && name.is_store());
        assert!(!is_bucket("dir:///s3://") && !is_bucket("nbd://h/e"));
        let same = |a, b| read(a).unwrap().identity() == read(b).unwrap().identity();
        assert!(same("gs://pools/tank?timeout=5", "gs://pools/tank/"));
        assert!(!same("gs://pools/tank", "s3://pools/tank"));
        assert!(!same("az://pools/tank", "gs://pools/tank"));
        assert!(!same("az://pools/tank?account=me", "az://pools/tank?account=you"));
        let wrong = |text: &str| read(text).unwrap_err().0;
        assert!(wrong("az:///tank").contains("container"));
        assert!(wrong("gs:///tank").contains("gs://"));
        for name in ["gs://b/p?region=eu", "gs://b/p?account=me", "az://b/p?addressing=path"] {
            assert!(wrong(name).contains("parameter"), "{name}");
        }
        assert!(wrong("s3://b/p?account=me").contains("parameter"));
        assert!(wrong("az://b/p?sas=secret").contains("parameter"));
    }

    #[test]
    fn what_tells_leaves_from_one_another_is_not_how_they_are_written() {
        let same = |a, b| read(a).unwrap().identity() == read(b).unwrap().identity();
        assert!(same("nbd://h/e", "nbd://H:10809/%65?timeout=9"));
        assert!(!same("nbd://h/e", "nbd://h:1/e"));
        assert!(!same("nbd://h/e", "nbd://h/f"));
    }

    #[test]
    fn wrong_names_say_why() {
        let wrong = |text: &str| read(text).unwrap_err().0;
        assert!(wrong("nbd://user:secret@host/e").contains("password"));
        assert!(wrong("nbd:///e").contains("no host"));
        assert!(wrong("nbd://[::1]x/e").contains("no host"));
        assert!(wrong("nbd://h:0/e").contains("port"));
        assert!(wrong("nbd://h/e?tls=1").contains("parameter"));
        assert!(wrong("nbd+unix:///e").contains("socket"));
        assert!(wrong("nbd+unix:///e?socket=rel").contains("absolute"));
        assert!(wrong("nbd://h/e?tls-hostname=x").contains("parameter"));
        assert!(wrong("nbds://h/e?tls-certificates=pki").contains("absolute"));
        assert!(wrong("nbd://h/%zz").contains('%'));
        assert!(wrong("nbd://h/%00").contains("zero"));
    }
}
