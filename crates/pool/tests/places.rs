//! Places to search that are not devices.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use pool::{SearchOptions, denied};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A pipe would be waited for until another process opens its other end.
#[test]
fn a_pipe_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let options = SearchOptions { paths: vec![pipe], ..SearchOptions::default() };
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(denied(&options)));
    assert!(ended.recv_timeout(Duration::from_secs(60)).unwrap().is_empty());
}
