//! What a server shows over HTTP: the page as a browser has it, its data, and the metrics beside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command};
use support::answer;
use support::place::{Place, until};

/// A device whose name is HTML, an order for terminals, and text that runs backwards.
const HOSTILE: &str = "<img src=x onerror=document.title='owned'>&\"'\u{1b}[2J\u{202e}.img";

/// A server of the pool `tank`, and where it answers; killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place() -> Place {
    let place = Place::new(&["disk", HOSTILE]);
    let disk = place.path().join("disk");
    let hostile = place.path().join(HOSTILE);
    let args = ["zpool", "create", "tank", "mirror"].map(String::from).into_iter();
    let args = args.chain([disk, hostile].map(|path| path.to_str().unwrap().to_owned()));
    assert!(place.command_here("").args(args).status().unwrap().success());
    place.ok_here("zfs create tank/home");
    place.ok_here("zfs create tank/home/ada");
    place
}

fn serve(place: &Place, option: &str) -> Server {
    let mut child = place.start_here(&format!("serve {option} tank"));
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("//").unwrap().1.split('/').next().unwrap().to_owned();
    Server { child, address }
}

impl Server {
    /// The head and the text of an answer.
    fn ask(&self, path: &str, fields: &str) -> (String, String) {
        let ask = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.address);
        let answer = answer(&self.address, &ask);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), text.to_owned())
    }

    fn data(&self, after: u64) -> Value {
        serde_json::from_str(&self.ask(&format!("/data?after={after}"), "").1).unwrap()
    }

    /// Waits for the first point of its history, and for a report.
    fn has_begun(&self) -> Value {
        let mut data = Value::Null;
        until("a point and a report", || {
            data = self.data(0);
            let pool = &data["pools"][0];
            pool["points"]["at"][0].is_u64() && pool["report"].is_object()
        });
        data
    }
}

#[test]
fn the_data_says_what_the_pool_does() {
    let place = place();
    let server = serve(&place, "--http=127.0.0.1:0");
    place.ok_here("zpool sync tank");
    let data = server.has_begun();
    let pool = &data["pools"][0];
    assert_eq!((&pool["name"], &pool["state"]), (&"tank".into(), &"ONLINE".into()));
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().unwrap().iter();
        names.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&pool["report"]["datasets"]), ["tank", "tank/home", "tank/home/ada"]);
    let devices = names(&pool["vdevs"]);
    assert_eq!(devices.len(), 3);
    let hostile = devices.iter().find(|name| name.contains("onerror")).unwrap();
    assert!(hostile.ends_with("&\"'\\x1b[2J\\xe2\\x80\\xae.img"), "{hostile}");
    assert_eq!(pool["alive"].as_array().unwrap().last().unwrap()["state"], "O");

    // What a browser has seen is not sent again; what comes is.
    let last = pool["points"]["at"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    until("a later point", || server.data(last)["pools"][0]["points"]["at"][0].is_u64());
    let later = server.data(last);
    assert!(later["pools"][0]["points"]["at"][0].as_u64().unwrap() > last);
    place.ok_here("zfs set atime=off tank/home");
    until("a txg of the change", || {
        let txgs = server.data(last)["pools"][0]["txgs"].clone();
        txgs.as_array().unwrap().iter().any(|txg| txg["sync_ns"].as_u64() > Some(0))
    });
    place.ok_here("zpool scrub -w tank");
    until("the scrub", || {
        let scan = server.data(last)["pools"][0]["report"]["scan"].clone();
        scan["what"] == "scrub" && scan["state"] == "finished"
    });
    place.ok_here("zpool export tank");
}

#[test]
fn the_page_and_the_metrics_stand_beside_each_other() {
    let place = place();
    let server = serve(&place, "--http=127.0.0.1:0");
    server.has_begun();
    let (head, page) = server.ask("/", "");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/html"), "{head}");
    assert!(head.contains("default-src 'none'") && !head.contains("unsafe"), "{head}");
    assert!(page.starts_with("<!doctype html>") && !page.contains("tank"), "no pool is in it");
    let (head, text) = server.ask("/metrics", "");
    assert!(head.contains("text/plain; version=0.0.4") && text.contains("zinc_pool_synced_txg"));
    let (head, text) = server.ask("/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(head.contains("application/openmetrics-text") && text.ends_with("# EOF\n"), "{head}");
    for path in ["/metrics/", "/../metrics", "/data/x", "/page.js"] {
        assert!(server.ask(path, "").0.starts_with("HTTP/1.1 404"), "{path}");
    }
    let foreign = "Host: evil.example\r\n";
    for path in ["/", "/data", "/metrics"] {
        let (head, text) = server.ask(path, foreign);
        assert!(head.starts_with("HTTP/1.1 421") && !text.contains("tank"), "{path}: {head}");
    }
    // The other option has the metrics alone.
    let other = place.start_here("serve --http=nowhere tank").wait_with_output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    drop(server);
    let server = serve(&place, "--metrics 127.0.0.1:0");
    assert!(server.ask("/", "").0.starts_with("HTTP/1.1 404"));
    assert!(server.ask("/metrics", "").1.contains("zinc_pool_synced_txg"));
}

/// MiB of memory that a process holds, but for the pages of files.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

/// A load leaves a server with its cache and little else, without being told.
#[test]
fn an_idle_server_gives_back_the_memory_of_its_load() {
    let place = Place::new(&[]);
    let file = |name| std::fs::File::create(place.path().join(name)).unwrap();
    file("disk").set_len(512 << 20).unwrap();
    place.ok_here(&format!("zpool create tank {}", place.path().join("disk").display()));
    // What cannot be compressed is in memory as it is until it is on the disk.
    let mut noise = std::fs::File::open("/dev/urandom").unwrap().take(160 << 20);
    std::io::copy(&mut noise, &mut file("noise")).unwrap();
    let server = serve(&place, "--metrics 127.0.0.1:0");
    let cache = || {
        let text = server.ask("/metrics", "").1;
        let bytes = text.lines().find_map(|l| l.strip_prefix("zinc_cache_bytes{pool=\"tank\"} "));
        bytes.unwrap().parse::<u64>().unwrap() >> 20
    };
    let beside_cache = || resident(server.child.id()).saturating_sub(cache());
    place.ok_here("cp noise tank:/");
    let loaded = beside_cache();
    assert!(loaded > 96, "{loaded} MiB are no load");
    // It is idle when nothing was changed for as long as a txg may be open.
    place.ok_here("tunables --pool tank zfs_txg_timeout=1");
    until("it gives that back", || beside_cache() < 64);
}

/// What a browser makes of the page, in which its script has run.
fn shown(place: &Place, server: &Server, width: u32) -> String {
    let profile = place.path().join("profile");
    let mut browser = Command::new("chromium");
    browser.args(["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    browser.args(["--no-first-run", "--virtual-time-budget=6000", "--timeout=60000"]);
    // A sandbox is not to be had for root; the page is our own.
    browser.arg("--no-sandbox").arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("--window-size={width},1600")).arg(format!("http://{}/", server.address));
    let output = browser.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[testkit::needs("chromium")]
#[test]
fn a_browser_shows_the_pool_and_runs_nothing_of_its_names() {
    let place = place();
    let server = serve(&place, "--http=127.0.0.1:0");
    server.has_begun();
    for width in [1280, 390] {
        let dom = shown(&place, &server, width);
        assert!(dom.contains("<title>tank online</title>"), "{width}: {dom}");
        for text in ["ONLINE</b>", ">mirror-0<", ">ada<", "durable", "Transaction groups"] {
            assert!(dom.contains(text), "{width}: no {text}: {dom}");
        }
        // As text, and nothing as an element.
        assert!(dom.contains("onerror=document.title='owned'&gt;&amp;"), "{dom}");
        assert!(!dom.contains("<img") && !dom.contains("owned</title>"), "{dom}");
        assert!(dom.contains("<p id=\"notice\" role=\"status\" hidden"), "it has an answer: {dom}");
    }
}
