//! `zfs program`: a script on a pool that is opened for it and on one that is served, its
//! arguments, what is printed, how it ends, and what the history has of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::io::Write as _;
use support::place::Place;

fn place() -> Place {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/home");
    place
}

fn script(place: &Place, name: &str, source: &str) {
    std::fs::write(place.path().join(name), source).unwrap();
}

const TAKE: &str = "argv = (...).argv
assert(zfs.sync.snapshot('tank@' .. argv[1]) == 0)
assert(zfs.sync.snapshot('tank/home@' .. argv[1]) == 0)
assert(zfs.sync.snapshot('tank/home@' .. argv[1]) == EEXIST)
return {taken = argv[1], [argv[2]] = 5 / 2}
";

#[test]
fn a_script_changes_a_pool_and_is_in_its_history() {
    let place = place();
    script(&place, "take.lua", TAKE);
    let printed = "Channel program fully executed with return value:\n    return:\n        -x: 2\n\
                \x20       taken: 'one'\n";
    assert_eq!(place.ok("zfs program tank take.lua one -x"), printed);
    let json = "{\"return\":{\"-x\":2,\"taken\":\"two\"}}\n";
    assert_eq!(place.ok("zfs program -j tank take.lua two -x"), json);
    let snapshots = place.ok("zfs list -H -t snapshot -o name,createtxg");
    let txgs: Vec<_> = snapshots.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert!(txgs.len() == 4 && txgs[0] == txgs[2] && txgs[1] == txgs[3], "{snapshots}");
    script(&place, "nothing.lua", "zfs.debug('read ' .. tostring(zfs.exists('tank/home')))");
    let printed = "Channel program fully executed with no return value.\n";
    assert_eq!(place.ok("zfs program -n tank nothing.lua"), printed);
    assert_eq!(place.ok("zfs program -nj tank nothing.lua"), "{}\n");
    let history = place.ok("zpool history tank");
    assert!(history.contains("zfs program tank take.lua one -x"), "{history}");
    assert!(!history.contains("nothing.lua"), "{history}");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}

#[test]
fn what_is_wrong_with_a_script_is_said_on_standard_error() {
    let place = place();
    script(&place, "bad.lua", "zfs.sync.snapshot('tank@kept')\nreturn 1 / 0\n");
    script(&place, "endless.lua", "while true do end");
    let run = place.run("zfs program -j tank bad.lua");
    let printed = "Channel program execution failed:\n[string \"channel program\"]:2: attempt to \
                divide by zero\nstack traceback:\n\t[string \"channel program\"]:2: in main \
                chunk\n";
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (1, "", printed));
    assert!(place.ok("zfs list -H -t snapshot -o name").contains("tank@kept"));
    let err = place.fails("zfs program -t 5000 tank endless.lua");
    assert!(err.contains("Channel program timed out.") && err.ends_with("5100 Lua instructions\n"));
    for line in ["-t 0", "-t 100000001", "-m 0", "-m 200000000"] {
        let err = place.fails(&format!("zfs program {line} tank endless.lua"));
        assert!(err.contains("Invalid instruction or memory limit."), "{line}: {err}");
    }
    let err = place.fails("zfs program tank none.lua");
    assert!(err.starts_with("zinc: cannot read none.lua\n"), "{err}");
    let err = place.fails("zfs program tank/home bad.lua");
    assert!(err.contains("cannot open 'tank/home'"), "{err}");
    let err = place.fails("zfs program none bad.lua");
    assert!(err.contains("cannot open 'none'"), "{err}");
}

#[test]
fn a_served_pool_runs_a_script_from_standard_input_and_goes_on() {
    let place = place();
    let mut server = place.serve("tank");
    script(&place, "take.lua", TAKE);
    let printed = place.ok_here("zfs program -j tank take.lua one two");
    assert_eq!(printed, "{\"return\":{\"taken\":\"one\",\"two\":2}}\n");
    let mut child = place.start_here("zfs program tank - home");
    let source = b"argv = (...).argv return zfs.list.snapshots('tank/' .. argv[1])()";
    child.stdin.take().unwrap().write_all(source).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let wanted = "Channel program fully executed with return value:\n    return: 'tank/home@one'\n";
    assert_eq!(printed, wanted, "{}", String::from_utf8_lossy(&output.stderr));
    place.ok_here("zfs create tank/more");
    // A client that is gone takes its script along: the next one does not wait for a hundred
    // million instructions.
    script(&place, "endless.lua", "while true do zfs.check.snapshot('tank@x') end");
    let mut child = place.start_here("zfs program -t 100000000 tank endless.lua");
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.ok_here("zfs list -H -o name").contains("tank/more"));
    script(&place, "list.lua", "return zfs.list.children('tank')()");
    let printed = place.ok_here("zfs program -nj tank list.lua");
    assert_eq!(printed, "{\"return\":\"tank/home\"}\n");
    server.kill().unwrap();
    server.wait().unwrap();
}
