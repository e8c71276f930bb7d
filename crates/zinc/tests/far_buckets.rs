//! Pools on disks in buckets of real servers: two that speak S3, one that speaks as Azure does, and
//! one that speaks as Google's cloud does; and on an image of Ceph's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use support::place::{Place, until};
use testkit::{AzureServer, CephServer, GoogleServer, S3Server};

const BUCKET: &str = "pools";

struct Bucket {
    place: Place,
    scheme: &'static str,
    endpoint: String,
    environment: Vec<(&'static str, &'static str)>,
    secret: &'static str,
}

impl Bucket {
    fn of_s3() -> (Self, S3Server) {
        let place = Place::new(&[]);
        let server = S3Server::start(&place.path().join("server"), BUCKET);
        let (endpoint, secret) = (server.endpoint(), server.secret());
        let environment = server.environment().to_vec();
        (Self { place, scheme: "s3", endpoint, environment, secret }, server)
    }

    fn of_azure() -> (Self, AzureServer) {
        let place = Place::new(&[]);
        let server = AzureServer::start(&place.path().join("server"), BUCKET);
        let (endpoint, secret) = (server.endpoint(), server.secret());
        let environment = server.environment().to_vec();
        (Self { place, scheme: "az", endpoint, environment, secret }, server)
    }

    /// Ceph's own files, which have everything, are elsewhere.
    fn of_ceph(folder: &Path) -> (Self, CephServer) {
        let place = Place::new(&[]);
        let server = CephServer::start(folder, BUCKET);
        let (endpoint, secret) = (server.endpoint(), server.secret());
        let environment = server.environment().to_vec();
        (Self { place, scheme: "s3", endpoint, environment, secret }, server)
    }

    fn of_google(is_fenced: bool) -> (Self, GoogleServer) {
        let place = Place::new(&[]);
        let server = GoogleServer::start(&place.path().join("server"), BUCKET, is_fenced);
        let (endpoint, secret) = (server.endpoint(), server.secret());
        let environment = server.environment().to_vec();
        (Self { place, scheme: "gs", endpoint, environment, secret }, server)
    }

    fn name(&self, prefix: &str) -> String {
        format!("{}://{BUCKET}/{prefix}?endpoint={}&timeout=60", self.scheme, self.endpoint)
    }

    fn run(&self, command: &str, environment: &[(&str, &str)]) -> Output {
        let mut started = self.place.command_here(command);
        started.env("HOME", self.place.path());
        started.envs(self.environment.clone()).envs(environment.iter().copied());
        let output = started.output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            assert!(!holds(text, self.secret), "{command} shows a secret");
        }
        output
    }

    fn ok(&self, command: &str) -> Vec<u8> {
        let output = self.run(command, &[]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {message}");
        output.stdout
    }

    fn says(&self, command: &str) -> String {
        String::from_utf8(self.ok(command)).unwrap()
    }

    fn fails(&self, command: &str, environment: &[(&str, &str)]) -> String {
        let output = self.run(command, environment);
        assert!(!output.status.success(), "{command}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Makes a file of bytes that do not compress.
    fn noise(&self, name: &str, mib: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; mib << 20];
        testkit::Rng::new(seed).fill(&mut bytes);
        std::fs::write(self.place.path().join(name), &bytes).unwrap();
        bytes
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// No file below has the text.
fn is_nowhere(text: &str, below: &Path) {
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            is_nowhere(text, &path);
        } else if path.is_file() {
            assert!(!holds(&std::fs::read(&path).unwrap(), text), "{}", path.display());
        }
    }
}

#[testkit::needs("versitygw")]
#[test]
fn a_pool_in_a_bucket_is_openzfs_own() {
    let (bucket, _server) = Bucket::of_s3();
    is_openzfs_own(&bucket);
}

/// What the store answers is told with its cause, where a bucket or a key is wrong; and the disks
/// of a bucket are listed.
#[testkit::needs("versitygw")]
#[test]
fn what_a_bucket_refuses_is_told() {
    let (bucket, _server) = Bucket::of_s3();
    let [one, two] = ["one", "a/b/two"].map(|prefix| bucket.name(prefix));
    bucket.ok(&format!("far create {one} 256M"));
    bucket.ok(&format!("zpool create tank {one}"));
    let wrong = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    for command in [
        format!("far ls {one}"),
        format!("far create {two} 256M"),
        format!("zpool import -d {one}"),
    ] {
        let why = bucket.fails(&command, &wrong);
        assert!(why.contains("SignatureDoesNotMatch") && why.contains("hint: check"), "{why}");
    }
    let status = bucket.run("zpool status tank", &wrong);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("UNAVAIL") && status.contains("SignatureDoesNotMatch"), "{status}");
    let none = one.replace(BUCKET, "none");
    for command in [format!("far create {none} 256M"), format!("zpool import -d {none}")] {
        let why = bucket.fails(&command, &[]);
        assert!(why.contains("there is no such bucket"), "{why}");
    }
    bucket.ok(&format!("far create {two} 256M"));
    let whole = bucket.name("");
    let listed = bucket.says(&format!("far ls {whole}"));
    let disks: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(disks, ["DISK", &two, &one], "{listed}");
    assert!(bucket.fails(&format!("far ls {whole}"), &wrong).contains("SignatureDoesNotMatch"));
    bucket.ok("zpool export tank");
}

/// The same cluster has a pool in its gateway's bucket, and one on an image, by qemu's NBD server;
/// its only OSD is killed under both.
#[testkit::needs("ceph", "qemu-nbd")]
#[test]
fn pools_in_ceph_are_openzfs_own() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, server) = Bucket::of_ceph(&folder.path().join("ceph"));
    is_openzfs_own(&bucket);
    let socket = bucket.place.path().join("rbd.socket");
    let _image = server.image("disk", "256M", &socket);
    let image = format!("nbd+unix:///?socket={}&timeout=60", socket.display());
    let far = bucket.name("three");
    bucket.ok(&format!("far create {far} 256M"));
    bucket.ok(&format!("zpool create objects {far}"));
    bucket.ok(&format!("zpool create -o autotrim=on image {image}"));
    let bytes = bucket.noise("y", 48, 3);
    let copy = |pool: &str| {
        let mut copy = bucket.place.command_here(&format!("cp y {pool}:/"));
        copy.env("HOME", bucket.place.path()).envs(bucket.environment.clone()).spawn().unwrap()
    };
    let copies = ["objects", "image"].map(copy);
    std::thread::sleep(Duration::from_millis(300));
    server.restart_osd(Duration::from_secs(2));
    assert!(copies.into_iter().all(|mut copy| copy.wait().unwrap().success()));
    for pool in ["objects", "image"] {
        assert!(bucket.ok(&format!("cat {pool}:/y")) == bytes, "{pool}");
        bucket.ok(&format!("zpool scrub -w {pool}"));
        let status = bucket.says(&format!("zpool status {pool}"));
        assert!(status.contains("with 0 errors"), "{status}");
        bucket.ok(&format!("zpool export {pool}"));
    }
    std::fs::create_dir(bucket.place.path().join("copies")).unwrap();
    bucket.ok(&format!("far copy {far} copies/objects"));
    testkit::oracle::judge(&bucket.place.path().join("copies"), "objects");
    is_nowhere(bucket.secret, bucket.place.path());
}

/// Who looks at the processes of a machine sees no secret, and a process that dies leaves none.
#[testkit::needs("versitygw")]
#[test]
fn a_process_with_credentials_shows_none() {
    let (bucket, _server) = Bucket::of_s3();
    let one = bucket.name("one");
    bucket.ok(&format!("far create {one} 256M"));
    bucket.ok(&format!("zpool create tank {one}"));
    bucket.ok("zpool export tank");
    let log = File::create(bucket.place.path().join("log")).unwrap();
    let mut serving = bucket.place.command_here(&format!("serve --log-filter debug -d {one} tank"));
    let serving = serving.envs(bucket.environment.clone()).stderr(log);
    let mut serving = serving.stdout(Stdio::null()).spawn().unwrap();
    let of = |file: &str| std::fs::read(format!("/proc/{}/{file}", serving.id())).unwrap();
    let has_none = || {
        let limits = String::from_utf8(of("limits")).unwrap();
        let cores = limits.lines().find_map(|l| l.strip_prefix("Max core file size")).unwrap();
        cores.split_whitespace().take(2).all(|limit| limit == "0")
    };
    let began = Instant::now();
    while !has_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it may leave a core file");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!holds(&of("cmdline"), bucket.secret), "the list of processes shows a secret");
    // Its files in /proc, the environment among them, are those of root.
    let owner = std::fs::metadata(format!("/proc/{}/environ", serving.id())).unwrap().uid();
    assert_eq!(owner, 0);
    serving.kill().unwrap();
    serving.wait().unwrap();
    is_nowhere(bucket.secret, bucket.place.path());
}

#[testkit::needs("azurite")]
#[test]
fn a_pool_in_a_container_of_azure_is_openzfs_own() {
    let (bucket, _server) = Bucket::of_azure();
    is_openzfs_own(&bucket);
}

#[testkit::needs("fake-gcs-server")]
#[test]
fn a_pool_in_a_bucket_of_google_is_openzfs_own() {
    let (bucket, _server) = Bucket::of_google(true);
    is_openzfs_own(&bucket);
}

fn is_openzfs_own(bucket: &Bucket) {
    let (one, two) = (bucket.name("a/one"), bucket.name("a/two"));
    // The store is tried by creates that race.
    bucket.ok(&format!("far create {one} 256M"));
    assert!(bucket.fails(&format!("far create {one} 1G"), &[]).contains("a disk in this store"));
    bucket.ok(&format!("zpool create tank {one}"));
    let bytes = bucket.noise("x", 24, 1);
    bucket.ok("cp x tank:/");
    assert!(bucket.says("zpool status tank").contains(&one));
    bucket.ok("zpool scrub -w tank");
    bucket.ok("zpool export tank");
    bucket.ok(&format!("zpool import -d {one} tank"));
    assert!(bucket.ok("cat tank:/x") == bytes);
    bucket.ok("zpool export tank");
    let listed = bucket.says(&format!("far ls {one}"));
    assert!(listed.contains("size: 256M") && listed.contains("state: closed"), "{listed}");
    bucket.ok(&format!("far check {one}"));
    bucket.ok(&format!("far gc {one}"));
    std::fs::create_dir(bucket.place.path().join("images")).unwrap();
    bucket.ok(&format!("far copy {one} images/one"));
    testkit::oracle::judge(&bucket.place.path().join("images"), "tank");
    // And in again.
    bucket.ok(&format!("far create {two} 256M"));
    bucket.ok(&format!("far copy images/one {two}"));
    bucket.ok(&format!("zpool import -d {two} tank"));
    assert!(bucket.ok("cat tank:/x") == bytes);
    bucket.ok("zpool export tank");
    is_nowhere(bucket.secret, bucket.place.path());
}

#[testkit::needs("versitygw")]
#[test]
fn a_server_that_goes_away_and_comes_back_loses_nothing() {
    let (bucket, mut server) = Bucket::of_s3();
    let one = bucket.name("one");
    bucket.ok(&format!("far create {one} 512M"));
    bucket.ok(&format!("zpool create tank {one}"));
    // Three times this has room, for the copy that is killed may have been done.
    let bytes = bucket.noise("x", 48, 2);
    let mut copy = bucket.place.command_here("cp x tank:/");
    let mut copy = copy.envs(bucket.environment.clone()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    server.restart(&bucket.place.path().join("server"), Duration::from_secs(2));
    assert!(copy.wait().unwrap().success());
    assert!(bucket.ok("cat tank:/x") == bytes);
    // A zinc that is killed leaves a whole pool; the next one takes the disk over.
    let mut copy = bucket.place.command_here("cp x tank:/y");
    let mut copy = copy.envs(bucket.environment.clone()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    copy.kill().unwrap();
    copy.wait().unwrap();
    bucket.ok("cp -f x tank:/y");
    bucket.ok("check tank");
    assert!(bucket.ok("cat tank:/y") == bytes);
    bucket.ok("zpool export tank");
}

/// Moving what is alive costs money: without any left it waits, and that is said; what cannot be
/// read as money is none.
#[testkit::needs("versitygw")]
#[test]
fn garbage_that_waits_for_money_is_told() {
    let (bucket, _server) = Bucket::of_s3();
    let one = bucket.name("one");
    bucket.ok(&format!("far create {one} 256M"));
    bucket.ok(&format!("zpool create tank {one}"));
    for (money, waits) in [("much", true), ("1000", false)] {
        let mut serve = bucket.place.command_here("serve tank");
        serve.envs(bucket.environment.clone()).env("ZINC_GC_BUDGET", money);
        let mut serve = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("it is served", || bucket.says(&format!("far ls {one}")).contains("state: open"));
        // More segments than there are between two checkpoints, most of each dead soon.
        (0..80).for_each(|n| drop(bucket.ok(&format!("zfs set a:b={n} tank"))));
        let remark = "of garbage waits: ZINC_GC_BUDGET is used up)";
        let says = || bucket.says("zpool status tank").contains(remark);
        if waits {
            until("it waits for money", says);
        } else {
            assert!(!says());
        }
        bucket.ok("zpool export tank");
        serve.wait().unwrap();
        bucket.ok(&format!("zpool import -d {one} tank"));
    }
    bucket.ok("zpool export tank");
    bucket.ok(&format!("far check {one}"));
}

/// A store that takes connections and answers nothing does not hold up who looks at its pool, for
/// as long as its name lets a server wait.
#[testkit::needs("versitygw")]
#[test]
fn a_pool_that_is_served_by_none_is_shown_while_its_store_is_silent() {
    let (bucket, server) = Bucket::of_s3();
    let one = bucket.name("one");
    bucket.ok(&format!("far create {one} 256M"));
    bucket.ok(&format!("zpool create tank {one}"));
    let address = bucket.endpoint.strip_prefix("http://").unwrap();
    drop(server);
    let _silent = std::net::TcpListener::bind(address).unwrap();
    for command in ["zpool status tank", "zpool list tank", "zpool status"] {
        let began = Instant::now();
        let output = bucket.run(command, &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        // Each opening of the device waits for 10 or 3 seconds, and there are four.
        assert!(began.elapsed() < Duration::from_secs(50), "{command}: {:?}", began.elapsed());
        assert!(text.contains("tank") && text.contains("UNAVAIL"), "{command}: {text}");
    }
}

#[testkit::needs("versitygw")]
#[test]
fn what_a_server_refuses_is_said_at_once() {
    let (bucket, server) = Bucket::of_s3();
    let one = bucket.name("one");
    let ls = format!("far ls {one}");
    assert!(bucket.fails(&ls, &[]).contains("no disk"), "{}", bucket.fails(&ls, &[]));
    let message = bucket.fails(&ls, &[("AWS_SECRET_ACCESS_KEY", "another")]);
    assert!(message.contains("403") && !message.contains("another"), "{message}");
    let elsewhere = one.replace(BUCKET, "elsewhere");
    let message = bucket.fails(&format!("far create {elsewhere} 1G"), &[]);
    assert!(message.contains("bucket"), "{message}");
    // Keys of a file, by the name of a profile.
    let file = bucket.place.path().join("keys");
    let [(_, id), (_, secret), _] = server.environment();
    let keys = format!("[ours]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    std::fs::write(&file, keys).unwrap();
    let own = |profile: &str| {
        let mut command = bucket.place.command_here(&format!("far create {one} 256M"));
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        command.env("AWS_SHARED_CREDENTIALS_FILE", &file).env("AWS_PROFILE", profile);
        command.output().unwrap()
    };
    let output = own("theirs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no keys for the profile 'theirs'"));
    let output = own("ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // And all of it, so that a name has the bucket alone.
    let config = bucket.place.path().join("config");
    let ours = format!("[profile ours]\nregion = us-east-1\nendpoint_url = {}\n", bucket.endpoint);
    std::fs::write(&config, ours).unwrap();
    let mut command = bucket.place.command_here(&format!("far create s3://{BUCKET}/two 256M"));
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    command.env("AWS_SHARED_CREDENTIALS_FILE", &file).env("AWS_CONFIG_FILE", &config);
    let output = command.env("AWS_PROFILE", "ours").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(bucket.says(&format!("far ls {}", bucket.name("two"))).contains("size: 256M"));
}

#[testkit::needs("azurite")]
#[test]
fn what_azure_refuses_is_said_at_once() {
    let (bucket, _server) = Bucket::of_azure();
    let one = bucket.name("one");
    let ls = format!("far ls {one}");
    assert!(bucket.fails(&ls, &[]).contains("no disk"));
    let message = bucket.fails(&ls, &[("AZURE_STORAGE_KEY", "YW5vdGhlcg==")]);
    assert!(message.contains("403") && !message.contains("YW5v"), "{message}");
    let message = bucket.fails(&format!("far create {} 1G", one.replace(BUCKET, "other")), &[]);
    assert!(message.contains("bucket"), "{message}");
    // Whose container it is may stand in the name, or else in the environment.
    let mut command = bucket.place.command_here(&ls);
    let output = command.env_remove("AZURE_STORAGE_ACCOUNT").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs an account"), "{output:?}");
}

#[testkit::needs("fake-gcs-server")]
#[test]
fn a_server_that_ignores_conditions_is_for_a_single_writer() {
    let (bucket, _server) = Bucket::of_google(false);
    let one = bucket.name("one");
    let message = bucket.fails(&format!("far create {one} 256M"), &[]);
    assert!(message.contains("does not keep two writers apart"), "{message}");
    bucket.ok(&format!("far create --single-writer {one} 256M"));
    bucket.ok(&format!("zpool create tank {one}"));
    let bytes = bucket.noise("x", 4, 3);
    bucket.ok("cp x tank:/");
    assert!(bucket.ok("cat tank:/x") == bytes);
    bucket.ok("zpool export tank");
    // No credentials at all, on a machine that gives none: the file that is named says it first.
    let missing = ("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json");
    let message = bucket.fails(&format!("far ls {one}"), &[missing]);
    assert!(message.contains("/nonexistent/key.json"), "{message}");
}
