//! Scripts on pools: what they see, change and return, what ends them, and that what they
//! changed belongs to one txg and leaves a sound pool.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use engine::check::{self, CheckOptions};
use engine::datasets::{MakeClone, hold, snapshot};
use engine::{Create, LivePool, NewPool, OpenOptions, Pool, Progress, PropertyChange, StoredValue};
use programs::{INSTRUCTIONS, MEMORY, Outcome, Program, Value};
use std::sync::Arc;

fn new() -> (tempfile::TempDir, LivePool) {
    let dir = tempfile::tempdir().unwrap();
    let new = NewPool::new("tank").file(dir.path().join("disk"), 128 << 20).unwrap();
    let pool = new.create().unwrap();
    for name in ["tank/a", "tank/a/b", "tank/a/c", "tank/d"] {
        Create::filesystem(name).unwrap().run(&pool).unwrap();
    }
    (dir, pool)
}

fn program(source: &str) -> Program {
    Program {
        source: source.as_bytes().to_vec(),
        arguments: vec!["one".to_owned(), "two".to_owned()],
        instructions: INSTRUCTIONS,
        memory: MEMORY,
        makes_changes: true,
    }
}

fn outcome(pool: &LivePool, program: Program) -> Outcome {
    program.run(pool, &Arc::new(Progress::new())).unwrap()
}

/// What a script returned, as one line.
#[track_caller]
fn returned(pool: &LivePool, source: &str) -> String {
    match outcome(pool, program(source)) {
        Outcome::Returned(value) => value.map_or(String::new(), |v| v.json().to_string()),
        Outcome::Failed { why, .. } => panic!("{source}: {why}"),
    }
}

/// Why a script failed.
#[track_caller]
fn why(pool: &LivePool, program: Program) -> (String, Option<u64>) {
    match outcome(pool, program) {
        Outcome::Failed { why, instructions } => (why, instructions),
        Outcome::Returned(value) => panic!("it returned {value:?}"),
    }
}

/// Every block of the pool is read and accounted for, and OpenZFS's zdb agrees.
#[track_caller]
fn assert_sound(dir: &tempfile::TempDir, pool: LivePool) {
    pool.export().unwrap();
    let pool = Pool::open("tank", &OpenOptions::in_places([dir.path()])).unwrap();
    let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
    assert!(report.issues.is_empty(), "{:#?}", report.issues);
    drop(pool);
    testkit::oracle::judge(dir.path(), "tank");
}

#[test]
fn numbers_are_integers_of_64_bits() {
    let (_dir, pool) = new();
    for (source, wanted) in [
        ("return 7 / 2", "3"),
        ("return 18446744073709551615 + 1 == -18446744073709551616", "true"),
        ("return tonumber('12') + (tonumber('1.5') or 1)", "13"),
        ("return 9223372036854775807 + 1", "-9223372036854775808"),
        ("local args = ... return #args.argv .. args.argv[2]", "\"2two\""),
        ("return EEXIST + ENOENT", "19"),
        ("return setmetatable({}, {__div = function(_, n) return n end}) / 6", "6"),
        ("return type(pcall), type(load), type(os), type(io), type(string.rep)", ""),
    ] {
        match source.contains("pcall") {
            true => assert!(why(&pool, program(source)).0.contains("Multiple return values")),
            false => assert_eq!(returned(&pool, source), wanted, "{source}"),
        }
    }
    let absent = "return {type(pcall), type(load), type(os), type(debug), type(print)}";
    assert!(!returned(&pool, absent).contains("function"), "{absent}");
}

#[test]
fn what_a_script_did_is_of_one_txg_and_sound() {
    let (dir, pool) = new();
    snapshot(&pool, &["tank/a@old"], true, Vec::new()).unwrap();
    MakeClone::new("tank/d@x", "tank/e").unwrap().run(&pool).unwrap_err();
    MakeClone::new("tank/a@old", "tank/e").unwrap().run(&pool).unwrap();
    // All kinds of changes, some of the same datasets, and one that is refused between them.
    let source = r#"
        function all(root)
            assert(zfs.sync.snapshot(root .. "@new") == 0)
            for child in zfs.list.children(root) do all(child) end
        end
        all("tank/a")
        assert(zfs.sync.snapshot("tank/a@again") == EAGAIN)
        assert(zfs.sync.bookmark("tank/a@new", "tank/a#mark") == 0)
        assert(zfs.sync.set_prop("tank/a", "my:word", "x") == 0)
        assert(zfs.get_prop("tank/a/b", "my:word") == "x")
        assert(zfs.sync.rename_snapshot("tank/a/b", "new", "renamed") == 0)
        assert(zfs.sync.destroy("tank/a/c") == EBUSY)
        assert(zfs.sync.destroy("tank/a/c@old") == 0)
        assert(zfs.sync.destroy("tank/a/c@new") == 0)
        assert(zfs.sync.destroy("tank/a/c") == 0)
        assert(zfs.sync.promote("tank/e") == 0)
        assert(zfs.sync.rollback("tank/d") ~= 0)
        assert(zfs.sync.rollback("tank/a/b") == 0)
        assert(zfs.sync.destroy("tank/e@old") == EEXIST) return zfs.list.children("tank/a")()
    "#;
    assert_eq!(returned(&pool, source), "\"tank/a/b\"");
    let txgs: Vec<u64> = ["tank/a@new", "tank/a/b@renamed"]
        .iter()
        .map(|name| pool.view().datasets().by_name(name).unwrap().create_txg())
        .collect();
    assert_eq!(txgs[0], txgs[1]);
    assert!(pool.view().datasets().by_name("tank/e@old").is_ok());
    // The pool goes on, and so does what was rolled back.
    let now = engine::files::Time { seconds: 1, nanos: 0 };
    let fs = pool.filesystem("tank/a/b").unwrap();
    let new = engine::files::NewFile::new(engine::files::NewKind::File, 0o644, now);
    let file = fs.create(fs.root_object(), b"letter", &new).unwrap();
    fs.write_at(file.number(), 0, b"text", now).unwrap();
    drop(fs);
    assert_sound(&dir, pool);
}

#[test]
fn a_script_rolls_back_what_is_open_and_was_synced() {
    let (dir, pool) = new();
    let now = engine::files::Time { seconds: 1, nanos: 0 };
    let new = engine::files::NewFile::new(engine::files::NewKind::File, 0o644, now);
    let fs = pool.filesystem("tank/a").unwrap();
    fs.create(fs.root_object(), b"kept", &new).unwrap();
    snapshot(&pool, &["tank/a@kept"], false, Vec::new()).unwrap();
    let gone = fs.create(fs.root_object(), b"gone", &new).unwrap();
    fs.write_at(gone.number(), 0, b"text", now).unwrap();
    // The intent log of the file system has blocks now.
    fs.sync(gone.number()).unwrap();
    drop(fs);
    let source = "return zfs.sync.rollback('tank/a') + zfs.sync.destroy('tank/d')";
    assert_eq!(returned(&pool, source), "0");
    let fs = pool.filesystem("tank/a").unwrap();
    assert!(fs.by_path(b"/kept", true).is_ok());
    assert!(fs.by_path(b"/gone", true).is_err());
    drop(fs);
    // What a program has open stays.
    let open = pool.hold_open("tank/a").unwrap();
    assert_eq!(returned(&pool, "return zfs.sync.rollback('tank/a')"), "16");
    assert_eq!(returned(&pool, "return zfs.check.rollback('tank/a')"), "16");
    drop(open);
    assert_sound(&dir, pool);
}

#[test]
fn lists_and_properties_are_those_of_the_moment() {
    let (_dir, pool) = new();
    snapshot(&pool, &["tank/a@x", "tank/d@x"], false, Vec::new()).unwrap();
    hold(&pool, &["tank/a@x"], "tag", false).unwrap();
    MakeClone::new("tank/a@x", "tank/clone").unwrap().run(&pool).unwrap();
    let set = |name: &str, value| {
        let change = PropertyChange { name: name.to_owned(), value: Some(value) };
        pool.set_property("tank/a", change).unwrap();
    };
    set("my:word", StoredValue::Text("here".to_owned()));
    set("quota", StoredValue::Number(1 << 30));
    let list = |call: &str| {
        let source = format!("l = {{}} for n in zfs.list.{call} do l[#l + 1] = n end return l");
        returned(&pool, &source)
    };
    assert_eq!(list("children('tank/a')"), r#"{"1":"tank/a/b","2":"tank/a/c"}"#);
    assert_eq!(list("snapshots('tank/d')"), r#"{"1":"tank/d@x"}"#);
    assert_eq!(list("bookmarks('tank/d')"), "{}");
    assert_eq!(list("clones('tank/a@x')"), r#"{"1":"tank/clone"}"#);
    assert_eq!(list("holds('tank/a@x')"), r#"{"1":"tag"}"#);
    assert_eq!(list("properties('tank/a/b')"), r#"{"1":"my:word"}"#);
    for (source, wanted) in [
        ("{zfs.get_prop('tank/a', 'quota')}", r#"{"1":1073741824,"2":"tank/a"}"#),
        ("{zfs.get_prop('tank/d', 'quota')}", r#"{"1":0,"2":"default"}"#),
        ("{zfs.get_prop('tank/a/b', 'my:word')}", r#"{"1":"here","2":"tank/a"}"#),
        ("{zfs.get_prop('tank/d', 'my:word')}", "{}"),
        ("{zfs.get_prop('tank/a@x', 'type')}", r#"{"1":"snapshot"}"#),
        ("{zfs.get_prop('tank/a@x', 'clones')}", r#"{"1":{"1":"tank/clone"}}"#),
        ("{zfs.get_prop('tank/a', 'compressratio')}", r#"{"1":100}"#),
        ("{zfs.get_prop('tank/a', 'snapshot_limit')}", r#"{"1":-1,"2":"default"}"#),
        ("{zfs.get_prop('tank/a', 'compression')}", r#"{"1":"on","2":"default"}"#),
        ("{zfs.get_prop('tank/a', 'mountpoint')}", r#"{"1":"/tank/a","2":"default"}"#),
        ("{zfs.get_prop('tank/a@x', 'mountpoint')}", "{}"),
        ("zfs.exists('tank/a@x')", "true"),
        ("zfs.exists('tank/none')", "false"),
        ("zfs.get_prop('tank/a', 'guid') ~= 0", "true"),
        ("#zfs.list.system_properties('tank/a') > 40", "true"),
    ] {
        assert_eq!(returned(&pool, &format!("return {source}")), wanted, "{source}");
    }
    for source in [
        "zfs.exists('other/a')",
        "zfs.list.children('tank/a@x')",
        "zfs.list.clones('tank/a')",
        "zfs.list.snapshots('tank/none')",
        "zfs.get_prop('tank/a', 'nix')",
        "zfs.get_prop('tank/none', 'type')",
        "zfs.sync.destroy('tank/a', true)",
        "zfs.sync.destroy{'tank/a', nix=true}",
    ] {
        assert!(why(&pool, program(source)).0.contains(":1: "), "{source}");
    }
}

#[test]
fn a_refusal_is_a_number_and_its_question_has_the_same_answer() {
    let (dir, pool) = new();
    snapshot(&pool, &["tank/a@x", "tank/a@y", "tank/d@x"], false, Vec::new()).unwrap_err();
    for name in ["tank/a@x", "tank/a@y", "tank/d@x"] {
        snapshot(&pool, &[name], false, Vec::new()).unwrap();
    }
    hold(&pool, &["tank/a@x"], "tag", false).unwrap();
    MakeClone::new("tank/a@y", "tank/clone").unwrap().run(&pool).unwrap();
    snapshot(&pool, &["tank/clone@x"], false, Vec::new()).unwrap();
    let long = "n".repeat(300);
    for (call, number) in [
        ("snapshot('tank/a@x')".to_owned(), 17),
        ("snapshot('tank/none@x')".to_owned(), 2),
        ("snapshot('tank/a')".to_owned(), 22),
        ("snapshot('nothing')".to_owned(), 22),
        ("snapshot('other/a@x')".to_owned(), 18),
        (format!("snapshot('tank/a@{long}')"), 36),
        ("destroy('tank/a@x')".to_owned(), 16),
        ("destroy('tank/a@y')".to_owned(), 17),
        ("destroy('tank/a')".to_owned(), 17),
        ("destroy('tank/d')".to_owned(), 16),
        ("destroy('tank/none')".to_owned(), 2),
        ("promote('tank/a')".to_owned(), 22),
        ("promote('tank/clone')".to_owned(), 17),
        ("rollback('tank/a/b')".to_owned(), 2),
        ("rename_snapshot('tank/a', 'x', 'y')".to_owned(), 17),
        ("bookmark('tank/a@none', 'tank/a#b')".to_owned(), 2),
        ("set_prop('tank/a', 'compression', 'on')".to_owned(), 22),
        (format!("set_prop('tank/a', 'my:{long}', 'on')"), 36),
        ("set_prop('tank/a', 'my:word', string.rep('x', 9000))".to_owned(), 7),
        ("set_prop('tank/none', 'my:word', 'x')".to_owned(), 2),
        ("inherit('tank/a', 'quota')".to_owned(), 22),
        ("inherit('tank/none', 'compression')".to_owned(), 2),
    ] {
        for module in ["check", "sync"] {
            let source = format!("local e = zfs.{module}.{call} return e");
            assert_eq!(returned(&pool, &source), number.to_string(), "{source}");
        }
    }
    let names = "local e, names = zfs.check.promote('tank/clone') return names";
    assert_eq!(returned(&pool, names), r#"{"1":"x"}"#);
    // What it says can be done is not done by the question.
    for call in [
        "snapshot('tank/d@new')",
        "destroy('tank/d@x')",
        "destroy{'tank/a@x', defer=true}",
        "destroy('tank/a/c')",
        "rollback('tank/d')",
        "rename_snapshot('tank/d', 'new', 'z')",
        "bookmark('tank/d@z', 'tank/d#b')",
        "set_prop('tank/d', 'my:word', 'x')",
        "inherit('tank/d', 'compression')",
    ] {
        let question =
            Program { makes_changes: false, ..program(&format!("return zfs.check.{call}")) };
        assert_eq!(outcome(&pool, question), Outcome::Returned(Some(Value::Number(0))), "{call}");
        let refused = Program { makes_changes: false, ..program(&format!("zfs.sync.{call}")) };
        assert!(why(&pool, refused).0.contains("requires passing sync=TRUE"), "{call}");
        assert_eq!(returned(&pool, &format!("return zfs.sync.{call}")), "0", "{call}");
    }
    assert_sound(&dir, pool);
}

#[test]
fn a_script_that_fails_keeps_what_it_did() {
    let (dir, pool) = new();
    let source = "zfs.sync.snapshot('tank/a@x')\nzfs.sync.snapshot('tank/d@x')\nlocal n return n.f";
    let (text, instructions) = why(&pool, program(source));
    assert!(text.starts_with("[string \"channel program\"]:3: attempt to index"), "{text}");
    assert!(text.ends_with("[string \"channel program\"]:3: in main chunk"), "{text}");
    assert_eq!(instructions, None);
    let txg = |name: &str| pool.view().datasets().by_name(name).unwrap().create_txg();
    assert_eq!(txg("tank/a@x"), txg("tank/d@x"));
    for source in
        ["error(0)", "error({})", "error()", "retrn 1", "{]", "return 1 / 0", "return 1.5"]
    {
        why(&pool, program(source));
    }
    assert_sound(&dir, pool);
}

#[test]
fn limits_end_a_script_and_leave_the_pool_at_work() {
    let (_dir, pool) = new();
    let endless = "local i = 0 while true do i = i + 1 end";
    for limit in [1_000, 100_000] {
        let (text, executed) = why(&pool, Program { instructions: limit, ..program(endless) });
        assert!(text.starts_with("Channel program timed out."), "{text}");
        assert!(text.contains("in main chunk"), "{text}");
        assert!(executed.unwrap().abs_diff(limit) <= 100, "{executed:?}");
    }
    // An error that a coroutine keeps to itself.
    let nested =
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end";
    let nested = Program { instructions: 10_000, ..program(nested) };
    assert!(why(&pool, nested).0.starts_with("Channel program timed out."));
    let deep = format!("{}{}", "if true then ".repeat(300), "end ".repeat(300));
    assert!(why(&pool, program(&deep)).0.contains("too many C levels"));
    let greedy = "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end";
    let (text, executed) = why(&pool, program(greedy));
    assert!(text.starts_with("Memory limit exhausted."), "{text}");
    assert_eq!(executed, None);
    for (memory, source) in [(1, "return 1"), (MEMORY, "return ('x'):rep(20000000)")] {
        why(&pool, Program { memory, ..program(source) });
    }
    let small = Program { memory: 100_000, ..program("local s = 'text' return s .. s") };
    assert_eq!(outcome(&pool, small), Outcome::Returned(Some(Value::Text("texttext".into()))));
    let large = "local t = {} for i = 1, 5000 do t[i] = ('x'):rep(100) end return t";
    assert!(returned(&pool, large).len() > 5000 * 100);
    why(&pool, Program { memory: 100_000, ..program(large) });
    let progress = Arc::new(Progress::new());
    progress.cancel();
    let ended = program(endless).run(&pool, &progress).unwrap();
    assert!(matches!(ended, Outcome::Failed { why, .. } if why.contains("was canceled")));
    assert_eq!(returned(&pool, "return zfs.sync.snapshot('tank@x')"), "0");
}
