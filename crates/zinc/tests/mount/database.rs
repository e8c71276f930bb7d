//! A database on a mount whose process is killed.

use super::{Place, kill};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// When its journal is a file that is removed, SQLite takes a change for durable whose directory it
/// cannot open to sync it, because the process was killed in that moment: only what it had said
/// before is promised.
#[testkit::needs("fuse")]
#[test]
fn a_database_survives_the_death_of_the_process() {
    for (journal, is_strict) in [("delete", false), ("truncate", true)] {
        let (most, last) = changes_of_a_database(journal);
        assert!(most >= if is_strict { last } else { KILLED_AT }, "{journal}: {most} of {last}");
    }
}

/// The change after which the process is killed.
const KILLED_AT: u32 = 60;

/// The last change that a database has, and the last that SQLite said is durable.
fn changes_of_a_database(journal: &str) -> (u32, u32) {
    let place = Place::new();
    let pid = place.mount("tank");
    let script = r#"
import sqlite3, sys
db = sqlite3.connect("db")
db.execute("pragma synchronous = extra")
db.execute("pragma journal_mode = " + sys.argv[1])
db.execute("create table if not exists t (n integer primary key, s text)")
for n in range(1, 200):
    db.execute("insert into t values (?, ?)", (n, "x" * n))
    db.commit()
    print(n, flush=True)
"#;
    let mut python = Command::new("python3");
    python.args(["-c", script, journal]).current_dir(place.mnt());
    let mut child = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0_u32;
    for line in lines.by_ref() {
        last = line.unwrap().parse().unwrap();
        if last == KILLED_AT {
            kill(pid, "-KILL");
        }
    }
    let _ = child.wait();
    place.mount("tank");
    let query = "import sqlite3; db = sqlite3.connect('db'); \
                 print(db.execute('pragma integrity_check').fetchone()[0], \
                 db.execute('select max(n) from t').fetchone()[0])";
    let found = place.sh(&format!("python3 -c \"{query}\""));
    let (verdict, most) = found.trim().split_once(' ').unwrap();
    assert_eq!(verdict, "ok");
    place.unmount();
    (most.parse().unwrap(), last)
}
