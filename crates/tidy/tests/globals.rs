//! What a piece of code needs is passed to it: there is no state that belongs to no value, and only
//! `main` ends the process.

use tidy::source::{code, has_word, without_tests};
use tidy::{report, rust_files};

/// Statics that change, or belong to a thread, with the reason why it is nothing that two pools, or
/// two callers, could notice. One that is gone is taken off.
const GLOBALS: [(&str, &str, &str); 20] = [
    (
        "crates/codec/src/compress/lz4.rs",
        "SCRATCH",
        "memory that is used again, empty between two calls",
    ),
    (
        "crates/codec/src/compress/zstd.rs",
        "DECODER",
        "memory that is used again, reset for each call",
    ),
    (
        "crates/codec/src/compress/zstd.rs",
        "ENCODER",
        "memory that is used again, reset for each call",
    ),
    ("crates/device/src/buf/allocator.rs", "IS_ENDING", "that the process ends for want of memory"),
    ("crates/device/src/buf/idle.rs", "IDLE", "memory that is used again, bounded for the process"),
    ("crates/device/src/buf/idle.rs", "REGIONS", "memory of the process, as the allocator is"),
    ("crates/device/src/complete.rs", "QUEUE", "the depth of this thread's own stack"),
    ("crates/device/src/file/standard.rs", "IS_CLOSED", "what the process was started with"),
    ("crates/dmu/src/usage.rs", "WITHIN", "the depth of this thread's own stack"),
    ("crates/far/src/store/http.rs", "MET", "what the request of a task met, for its own errors"),
    (
        "crates/rt/src/affinity.rs",
        "TAKEN",
        "processors, which all simulations of the process share",
    ),
    ("crates/rt/src/clock.rs", "ORIGIN", "the beginning of the process's time"),
    ("crates/rt/src/os_random.rs", "SOURCE", "the system's source of randomness, open"),
    ("crates/rt/src/runtime.rs", "TIMERS", "those of the operating system's time"),
    ("crates/rt/src/sim.rs", "LEFT", "a thread that panicked, in a simulation that is over"),
    ("crates/rt/src/sim.rs", "SELF", "the simulation that a thread is part of"),
    ("crates/rt/src/thread.rs", "MARK", "the kind of thread this is, for its pool's profiler"),
    ("crates/rt/src/thread.rs", "THREADS", "how many processors the process may use"),
    ("crates/vdev/src/queue/drive.rs", "DEFERRED", "the depth of this thread's own stack"),
    ("crates/zio/src/stages.rs", "TICKS", "which of this thread's small blocks are timed"),
];

/// Types that can be changed through a shared reference.
const CHANGEABLE: [&str; 11] = [
    "Atomic",
    "Cell<",
    "Condvar",
    "Lazy",
    "Mutex",
    "Once",
    "Receiver<",
    "RwLock",
    "Sender<",
    "Timers",
    "UnsafeCell",
];

/// Where a process may be ended: there is no such place, since `main` returns. What the program
/// cannot get memory for is not a choice of a caller (`device::Allocator`).
const ENDS: [&str; 5] =
    ["process::exit", "process::abort", "libc::exit", "libc::_exit", "libc::abort"];

/// The file of that allocator.
const OUT_OF_MEMORY: &str = "crates/device/src/buf/allocator.rs";

/// Where the runtime of the calling thread is asked for, and why there: elsewhere it is passed.
const RUNTIME: [(&str, &str); 7] = [
    ("crates/device/src/batch.rs", "a device is waited for by the thread that calls"),
    ("crates/device/src/complete.rs", "a callback that panics ends a simulation"),
    ("crates/device/src/file.rs", "a simulation waits for no file"),
    ("crates/device/src/write.rs", "a device is waited for by the thread that calls"),
    ("crates/engine/src/making/device.rs", "devices are waited for by the thread that calls"),
    ("crates/pool/src/assemble.rs", "devices are waited for by the thread that calls"),
    ("crates/pool/src/scan.rs", "devices are waited for by the thread that calls"),
];

/// Where the operating system itself is taken for a runtime: what is called from above has one
/// passed. A folder stands for all files in it.
const REAL: [(&str, &str); 6] = [
    ("crates/device/src/source.rs", "the default of an option"),
    ("crates/engine/src/new_pool.rs", "the default of an option"),
    ("crates/far/src/", "other machines, which no simulation has but as stores of its own"),
    ("crates/pool/src/open.rs", "the default of an option"),
    ("crates/lab/src/", "threads that simulations run on, and pools that are real"),
    ("crates/zinc/src/", "the command chooses: it runs on this machine"),
];

/// Crates for tests alone, and programs that are not part of the product.
fn is_product(path: &str) -> bool {
    let tools = tidy::TEST_CRATES;
    path.starts_with("crates/")
        && path.contains("/src/")
        && !tools.iter().any(|tool| path.starts_with(&format!("crates/{tool}/")))
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
}

/// The name of the static that a line declares, when its type can be changed or `is_of_thread`.
fn global(line: &str, is_of_thread: bool) -> Option<&str> {
    let at = line.find("static ").filter(|_| has_word(line, "static"))?;
    // A lifetime is not a static.
    if at > 0 && line.as_bytes()[at - 1] == b'\'' {
        return None;
    }
    let rest = line[at..].strip_prefix("static ")?;
    let rest = rest.strip_prefix("mut ").unwrap_or(rest);
    let (name, kind) = rest.split_once(':')?;
    let is_mut = line.contains("static mut ");
    let changes = is_mut || is_of_thread || CHANGEABLE.iter().any(|word| kind.contains(word));
    changes.then(|| name.trim())
}

/// Statics that are not listed, listed ones that are gone, and places that end the process.
fn offences(files: &[(String, String)], listed: &[(&str, &str, &str)]) -> Vec<String> {
    let mut out = Vec::new();
    let mut seen = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_product(path)) {
        let mut is_of_thread = false;
        for (number, line) in without_tests(text) {
            let line = code(line);
            is_of_thread |= line.contains("thread_local!");
            if let Some(name) = global(line, is_of_thread) {
                let is_listed =
                    listed.iter().any(|(file, known, _)| path == file && name == *known);
                seen.push((path.as_str(), name));
                if !is_listed {
                    out.push(format!("{path}:{number}: {name} is a global"));
                }
            }
            if line.starts_with('}') || line.contains("thread_local!(") {
                is_of_thread = false;
            }
            let end = ENDS.iter().find(|end| line.contains(*end));
            if let Some(end) = end.filter(|_| path != OUT_OF_MEMORY) {
                out.push(format!("{path}:{number}: {end}"));
            }
        }
    }
    let gone = listed.iter().filter(|(file, name, _)| !seen.contains(&(*file, *name)));
    out.extend(gone.map(|(file, name, _)| format!("{file}: {name} need not be listed any more")));
    out
}

#[test]
fn what_is_needed_is_passed() {
    report("no globals, and only main ends the process", &offences(&rust_files(), &GLOBALS));
}

/// Files that call `what` for a runtime and are not listed, and what is listed and does not.
fn runtimes(files: &[(String, String)], what: &str, listed: &[(&str, &str)]) -> Vec<String> {
    let asks = |text: &str| without_tests(text).any(|(_, line)| code(line).contains(what));
    let product = files.iter().filter(|(path, _)| is_product(path));
    let asking: Vec<&str> =
        product.filter(|(_, text)| asks(text)).map(|(path, _)| path.as_str()).collect();
    let is_in = |path: &str, place: &str| match place.ends_with('/') {
        true => path.starts_with(place),
        false => path == place,
    };
    let new = asking.iter().filter(|path| !listed.iter().any(|(known, _)| is_in(path, known)));
    let new = new.map(|path| format!("{path}: {what} instead of a runtime that is passed"));
    let gone = listed.iter().filter(|(known, _)| !asking.iter().any(|path| is_in(path, known)));
    new.chain(gone.map(|(known, _)| format!("{known}: need not be listed any more"))).collect()
}

#[test]
fn the_runtime_is_passed() {
    let files = rust_files();
    let mut found = runtimes(&files, "Rt::current", &RUNTIME);
    found.extend(runtimes(&files, "Rt::real", &REAL));
    // A function that works on threads and is not a method of a runtime would take one of its own.
    let is_free = |line: &str| line.starts_with("pub fn for_each_parallel");
    let free = files.iter().filter(|(path, text)| is_product(path) && text.lines().any(is_free));
    found.extend(free.map(|(path, _)| format!("{path}: for_each_parallel without a runtime")));
    report("a runtime is passed to what needs one", &found);
}

#[test]
fn the_rule_of_runtimes_can_fail() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("crates/a/src/one.rs", "let rt = Rt::current();\n"),
        file("crates/a/src/fine.rs", "/// [`Rt::current`]\n#[cfg(test)]\nRt::current();\n"),
        file("crates/rt/src/own.rs", "Rt::current();\n"),
        file("crates/b/src/listed.rs", "Rt::real();\n"),
    ];
    let found = runtimes(&files, "Rt::current", &[("crates/a/src/fine.rs", "")]);
    let expected = ["one.rs", "own.rs", "fine.rs: need not"];
    assert!(found.iter().zip(expected).all(|(f, e)| f.contains(e)), "{found:?}");
    assert_eq!(found.len(), expected.len());
    assert_eq!(runtimes(&files, "Rt::real", &[("crates/b/src/", "")]), [""; 0]);
    assert_eq!(runtimes(&files, "Rt::real", &[]).len(), 1);
}

#[test]
fn the_rule_can_fail() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("crates/a/src/one.rs", "static N: AtomicUsize = AtomicUsize::new(0);\n"),
        file("crates/a/src/two.rs", "thread_local! {\n    static T: u8 = const { 1 };\n}\n"),
        file("crates/a/src/three.rs", "fn f() {\n    std::process::exit(1);\n}\n"),
        file("crates/a/src/four.rs", "fn f() {\n    libc::_exit(1)\n}\n"),
        file(OUT_OF_MEMORY, "fn f() {\n    libc::_exit(1)\n}\n"),
        file("crates/a/src/fine.rs", "static T: &[u8] = &[];\nfn f() -> &'static Mutex<u8> {\n"),
        file("crates/a/src/tested.rs", "#[cfg(test)]\nmod tests {\nstatic N: Mutex<u8> = X;\n"),
        file("crates/a/tests/any.rs", "static N: Mutex<u8> = Mutex::new(0);\n"),
        file("crates/a/src/after.rs", "thread_local! {\n}\nstatic PLAIN: u8 = 1;\n"),
    ];
    let found = offences(&files, &[("crates/a/src/fine.rs", "GONE", "")]);
    let expected = [
        "one.rs:1: N",
        "two.rs:2: T",
        "three.rs:2: process::exit",
        "four.rs:2: libc",
        "fine.rs: GONE",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(f, e)| f.contains(e)), "{found:?}");
    assert!(offences(&files[..1], &[("crates/a/src/one.rs", "N", "a reason")]).is_empty());
}
