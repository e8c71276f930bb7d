//! The life of a pool at the command line: every step is followed by `zinc check`, and OpenZFS's
//! zdb is the judge of what came out.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use support::{Run, arg, zinc_in};

/// A folder with files that can become devices.
struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|f| place.file(f, 128 << 20));
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, size: u64) {
        std::fs::File::create(self.path().join(name)).unwrap().set_len(size).unwrap();
    }

    /// Runs the words of a command.
    fn run(&self, command: &str) -> Run {
        zinc_in(self.path(), &command.split_whitespace().collect::<Vec<_>>())
    }

    fn ok(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}: {}", run.out);
        run.out
    }

    /// A command that changes the pool, and what it leaves.
    fn step(&self, command: &str) -> String {
        let out = self.ok(command);
        self.check(command);
        out
    }

    fn check(&self, after: &str) {
        let names = self.ok("zpool list -Ho name -d .");
        for pool in names.lines() {
            let run = self.run(&format!("check -d . {pool}"));
            assert_eq!(run.code, 0, "after `{after}`: {}", run.out);
        }
    }

    /// A command that must fail: its code, and the first line it prints.
    fn fails(&self, command: &str) -> (i32, String) {
        let run = self.run(command);
        assert!(run.code != 0 && run.out.is_empty(), "{command}: {}", run.out);
        (run.code, run.err.lines().next().unwrap_or_default().to_owned())
    }

    /// OpenZFS's verdict, where it is there to be asked.
    fn judge(&self, pool: &str) {
        testkit::oracle::judge(self.path(), pool);
    }

    fn label_state(&self, device: &str) -> String {
        let out = self.ok(&format!("zdb -l {device}"));
        let line = out.lines().find(|l| l.trim_start().starts_with("state:"));
        line.unwrap_or_default().trim().to_owned()
    }
}

/// Something of every kind a file system holds.
fn make_tree(root: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(root.join(name), bytes).unwrap();
    std::fs::create_dir_all(root.join("deep/deeper")).unwrap();
    write("small", b"hello");
    write("empty", b"");
    let mut rng = testkit::Rng::new(7);
    let mut bytes = vec![0; 3_000_000];
    rng.fill(&mut bytes);
    write("deep/large", &bytes);
    for n in 0..40 {
        write(&format!("deep/deeper/f{n}"), &bytes[n * 100..n * 1000 + 200]);
    }
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"far", 20 << 20).unwrap();
    sparse.set_len(40 << 20).unwrap();
    std::os::unix::fs::symlink("deep/large", root.join("link")).unwrap();
    std::fs::hard_link(root.join("small"), root.join("deep/second")).unwrap();
    let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(root.join("small"), read_only).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123);
    let times = std::fs::FileTimes::new().set_modified(old).set_accessed(old);
    std::fs::File::open(root.join("deep")).unwrap().set_times(times).unwrap();
}

/// Everything a tree is, by path: kind, permissions, time, size and content.
fn describe(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let m = std::fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let content = match m {
                _ if m.is_dir() => {
                    todo.push(path);
                    String::new()
                }
                _ if m.is_symlink() => std::fs::read_link(&path).unwrap().display().to_string(),
                _ => {
                    let bytes = std::fs::read(&path).unwrap();
                    let sum: u64 = bytes.iter().fold(7, |s, b| s * 31 % 1_000_003 + u64::from(*b));
                    format!("{} {sum}", bytes.len())
                }
            };
            let links = if m.is_dir() { 0 } else { m.nlink() };
            let time = (m.mtime(), m.mtime_nsec());
            out.push(format!("{name} {:o} {links} {time:?} {content}", m.mode()));
        }
    }
    out.sort();
    out
}

#[test]
fn the_life_of_a_pool() {
    let place = Place::new(&["a", "b"]);
    place.step("zpool create -o comment=mine -O compression=zstd -O atime=off tank mirror a b");
    assert_eq!(place.label_state("a"), "state: 0");
    assert_eq!(place.ok("zpool get -Ho value -d . comment,ashift tank"), "mine\n0\n");
    place.step("zfs create -d . -p -o recordsize=1M -o quota=60M tank/home/ann");
    place.step("zfs create -d . -s -V 16M -b 8k tank/vol");
    let names = "tank\ntank/home\ntank/home/ann\ntank/vol\n";
    assert_eq!(place.ok("zfs list -Ho name -d ."), names);
    let values = place.ok("zfs get -Hpo value -d . quota,recordsize,compression tank/home/ann");
    assert_eq!(values, "62914560\n1048576\nzstd\n");

    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    let out = place.step("cp --txgs -r -d . tree tank/home/ann:/");
    assert!(out.trim_start().starts_with("txg "), "{out}");
    place.step("zfs snapshot -r -d . tank@one");
    let copied = |from: &str, to: &str| {
        place.ok(&format!("cp -r -d . {from} {to}"));
        describe(&place.path().join(to))
    };
    assert_eq!(copied("tank/home/ann@one:/tree", "out"), describe(&tree));

    // What changes after the snapshot does not change the snapshot.
    std::fs::write(tree.join("small"), "something else").unwrap();
    let (code, _) = place.fails("cp -r -d . tree tank/home/ann:/");
    assert_eq!(code, 1, "a file that is different stays");
    place.step("cp -f -r -d . tree tank/home/ann:/");
    assert_eq!(place.ok("cat -d . tank/home/ann:/tree/small"), "something else");
    assert_eq!(place.ok("cat -d . tank/home/ann@one:/tree/small"), "hello");
    place.judge("tank");

    place.step("zfs hold -r -d . keep tank@one");
    let (code, text) = place.fails("zfs destroy -d . tank/home/ann@one");
    assert_eq!(
        (code, &*text),
        (1, "zinc: cannot destroy snapshot tank/home/ann@one: dataset is busy")
    );
    // Where it is not held it need not be.
    place.step("zfs release -d . keep tank/home@one");
    place.step("zfs release -r -d . keep tank@one");
    let (code, text) = place.fails("zfs release -r -d . keep tank@one");
    assert!(code == 1 && text.contains("no such tag on this dataset"), "{text}");
    place.step("zfs clone -d . -o org.zinc:x=1 tank/home/ann@one tank/clone");
    assert_eq!(place.ok("cat -d . tank/clone:/tree/small"), "hello");
    place.step("zfs promote -d . tank/clone");
    assert_eq!(place.ok("zfs get -Ho value -d . origin tank/home/ann"), "tank/clone@one\n");
    place.step("zfs bookmark -d . tank/clone@one #mark");
    place.step("zfs rename -d . tank/clone@one @two");
    place.step("zfs snapshot -d . tank/home/ann@late");
    let (code, _) = place.fails("zfs rollback -d . tank/home/ann@nix");
    assert_eq!(code, 1);
    place.step("zfs set -d . quota=none compression=off tank/home/ann");
    place.step("zfs rollback -d . tank/home/ann@late");
    place.step("zfs destroy -r -d . tank/home");
    place.step("zfs destroy -d . tank/clone#mark");
    place.step("zfs inherit -r -d . compression tank");
    assert_eq!(place.ok("zfs get -Ho source -d . compression tank"), "default\n");
    let history = place.ok("zpool history -d . tank");
    assert!(history.contains(" zpool create -o comment=mine"), "{history}");
    assert!(history.contains(" zfs destroy -r -d . tank/home\n"), "{history}");
    assert!(!history.contains("@nix"), "what failed is not in the history: {history}");
    place.judge("tank");

    // Exported it stays exported, whatever is done to it.
    place.step("zpool export -d . tank");
    assert_eq!(place.label_state("a"), "state: 1");
    assert_eq!(place.fails("zpool export -d . tank").0, 1);
    place.step("zfs create -d . tank/more");
    assert_eq!(place.label_state("b"), "state: 1");
    assert_eq!(place.ok("zpool import -d . tank new"), "");
    assert_eq!(place.label_state("b"), "state: 0");
    assert_eq!(place.ok("zfs list -Ho name -d . -r new/more"), "new/more\n");
    place.judge("new");

    place.ok("zpool destroy -d . new");
    assert_eq!(place.fails("zpool import -d . new").0, 1);
    place.step("zpool import -D -d . new");
    assert_eq!(place.ok("zfs list -Ho name -d . -r new/more"), "new/more\n");
    place.ok("zpool destroy -d . new");
    // What was destroyed may be used again without -f.
    place.step("zpool create other a");
}

#[test]
fn a_pool_grows() {
    let place = Place::new(&["a", "b", "c", "d", "e", "f", "g"]);
    place.step("zpool create -f tank a raidz2 b c d e");
    place.ok("zpool destroy -d . tank");
    place.step("zpool create tank mirror a b");
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    place.step("cp -r -d . tree/. tank:/");
    place.ok("zpool export -d . tank");
    let (code, _) = place.fails("zpool add -d . tank c");
    assert_eq!(code, 1, "a disk beside a mirror");
    let size = || place.ok("zpool list -Hpo size -d . tank").trim().parse::<u64>().unwrap();
    let before = size();
    let shown = place.ok("zpool add -n -d . tank mirror c d");
    assert_eq!(shown.matches("mirror").count(), 2, "{shown}");
    place.step("zpool add -d . tank mirror c d");
    assert_eq!(size(), 2 * before);
    assert_eq!(place.label_state("d"), "state: 1", "it was exported, and is so again");
    place.step("zpool add -f -d . tank log e special mirror f g");
    place.step("zfs create -d . -o special_small_blocks=64k tank/fs");
    place.file("h", 128 << 20);
    place.file("i", 128 << 20);
    place.file("j", 128 << 20);
    place.step("zpool add -d . tank cache h spare i");
    place.step("zpool add -d . tank spare j");
    for again in ["spare i", "cache h", "cache j", "spare h", "log i", "spare a", "log a"] {
        let (code, message) = place.fails(&format!("zpool add -f -d . tank {again}"));
        assert!(code == 1 && message.contains("invalid vdev specification"), "{again}: {message}");
    }
    for twice in ["spare k k", "cache k spare k", "mirror k k"] {
        place.file("k", 128 << 20);
        let (code, message) = place.fails(&format!("zpool add -f -d . tank {twice}"));
        assert!(code == 1 && message.contains("refer to the same device"), "{twice}: {message}");
    }
    let status = place.ok("zpool status -d . tank");
    let at = |what: &str| status.find(what).unwrap_or_else(|| panic!("{what}: {status}"));
    assert!(at("cache") < at("/h") && at("/h") < at("spares"), "{status}");
    assert!(at("spares") < at("/i") && at("/i") < at("/j"), "{status}");
    place.step("cp -r -d . tree/. tank/fs:/");
    place.ok("cp -r -d . tank/fs:/ out");
    assert_eq!(describe(&place.path().join("out")), describe(&tree));
    place.step("zpool reguid -d . tank");
    place.step("zpool set -d . comment=grown tank");
    place.judge("tank");
}

/// Sparse files in the three forms that pax archives have them in, after a note of `git archive`.
#[test]
fn sparse_files_in_pax_archives() {
    let place = Place::new(&["a"]);
    place.step("zpool create tank a");
    let mut archive = tar::Builder::new(std::fs::File::create(place.path().join("t.tar")).unwrap());
    let add = |archive: &mut tar::Builder<std::fs::File>, kind, path: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        archive.append_data(&mut header, path, content).unwrap();
    };
    add(&mut archive, tar::EntryType::XGlobalHeader, "pax_global_header", b"13 comment=1\n");
    let map: &[(&str, &[u8])] = &[("GNU.sparse.map", b"4096,3,9000,4")];
    let parts: &[(&str, &[u8])] = &[
        ("GNU.sparse.offset", b"4096"),
        ("GNU.sparse.numbytes", b"3"),
        ("GNU.sparse.offset", b"9000"),
        ("GNU.sparse.numbytes", b"4"),
    ];
    for (name, records) in [("0.1", map), ("0.0", parts)] {
        let size: (&str, &[u8]) = ("GNU.sparse.size", b"10000");
        archive.append_pax_extensions([size].into_iter().chain(records.iter().copied())).unwrap();
        add(&mut archive, tar::EntryType::Regular, name, b"onefour");
    }
    for (name, map) in [("1.0", "2\n4096\n3\n9000\n4\n"), ("bad", "1\n9998\n7\n")] {
        let records: [(&str, &[u8]); 4] = [
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", name.as_bytes()),
            ("GNU.sparse.realsize", b"10000"),
        ];
        archive.append_pax_extensions(records).unwrap();
        let mut content = map.as_bytes().to_vec();
        content.resize(512, 0);
        content.extend(b"onefour");
        add(&mut archive, tar::EntryType::Regular, &format!("parts.1/{name}"), &content);
    }
    archive.into_inner().unwrap();
    let (code, line) = place.fails("cp --tar t.tar -d . tank:/");
    assert!(code == 1 && line.starts_with("zinc: bad: a sparse file whose map"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let mut wanted = vec![0; 10000];
    wanted[4096..4099].copy_from_slice(b"one");
    wanted[9000..9004].copy_from_slice(b"four");
    for name in ["0.0", "0.1", "1.0"] {
        place.ok(&format!("cp -d . tank:/{name} ."));
        assert!(std::fs::read(place.path().join(name)).unwrap() == wanted, "{name}");
    }
    assert_eq!(place.ok("ls -d . tank:/"), "0.0\n0.1\n1.0\n");
    place.judge("tank");
}

#[test]
fn archives_and_odd_files() {
    let place = Place::new(&["a", "b", "c"]);
    place.step("zpool create tank raidz a b c");
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    let mut archive = tar::Builder::new(std::fs::File::create(place.path().join("t.tar")).unwrap());
    archive.follow_symlinks(false);
    archive.append_dir_all("tree", &tree).unwrap();
    archive.into_inner().unwrap();
    place.step("cp --tar t.tar -d . tank:/");
    place.ok("cp -r -d . tank:/tree out");
    // An archive of this kind has whole seconds, and no second names.
    let plain = |root: &Path| -> Vec<String> {
        let lines = describe(root).into_iter();
        let words = lines.map(|l| l.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words.map(|w| format!("{} {} {:?}", w[0], w[1], &w[5..])).collect()
    };
    assert_eq!(plain(&place.path().join("out")), plain(&tree));

    // Names are changed, and nothing is left behind.
    place.step("mkdir -d . -p tank:/x/y/z");
    place.step("mv -d . tank:/tree/deep tank:/x/y/z");
    place.step("ln -d . tank:/x/y/z/deep/large tank:/x");
    place.step("ln -d . -s y/z tank:/x/short");
    assert_eq!(place.ok("ls -d . tank:/x"), "large\nshort\ny\n");
    for (command, text) in [
        ("mkdir -d . tank:/x", "cannot create directory 'tank:/x': "),
        ("mkdir -d . tank:/q/r", "cannot create directory 'tank:/q/r': "),
        ("rm -d . tank:/x", "cannot remove 'tank:/x': Is a directory"),
        ("rm -d . tank:/q", "cannot remove 'tank:/q': No such file or directory"),
        ("mv -d . tank:/x tank:/x/y", "cannot move 'tank:/x': "),
        ("ln -d . tank:/x tank:/q", "cannot create link 'tank:/q': "),
    ] {
        let (code, line) = place.fails(command);
        assert!(code == 1 && line.contains(text), "{command}: {line}");
    }
    place.step("rm -d . -r tank:/x tank:/tree");
    place.step("rm -d . -f tank:/q");
    assert_eq!(place.ok("ls -d . tank:/"), "");

    // The volume gets what a full one needs, and no more.
    place.step("zfs create -d . -V 16M -o volblocksize=8k tank/vol");
    let get = || place.ok("zfs get -Hpo value -d . volsize,refreservation tank/vol");
    let reserved = |text: &str| text.lines().nth(1).unwrap().parse::<u64>().unwrap();
    let small = get();
    assert!(small.starts_with("16777216\n") && reserved(&small) > 16 << 20, "{small}");
    place.step("zfs set -d . volsize=24M tank/vol");
    let large = get();
    assert!(large.starts_with("25165824\n") && reserved(&large) > reserved(&small), "{large}");
    let (code, _) = place.fails("zfs set -d . volsize=1000 tank/vol");
    assert_eq!(code, 1);
    place.check("volsize");
}

#[test]
fn what_is_refused() {
    let place = Place::new(&["a", "b", "c"]);
    place.file("tiny", 1 << 20);
    place.ok("zpool create tank mirror a b");
    place.ok("zfs create -d . tank/fs");
    place.ok("zfs snapshot -d . tank/fs@s");
    place.ok("zfs create -d . -V 1M tank/vol");
    place.ok("zfs snapshot -d . tank/vol@s");
    let before = place.ok("zpool history -d . tank");
    let cases = [
        ("zpool create p", 2, "error: the following required arguments were not provided:"),
        ("zpool create -q p c", 2, "error: unexpected argument '-q' found"),
        ("zpool create p nix", 1, "No such file or directory"),
        ("zpool create p tiny", 1, "is too small"),
        ("zpool create p a", 1, "zinc: invalid vdev specification"),
        ("zpool create p c c", 1, "refer to the same device"),
        ("zpool create p mirror c", 1, "mirror requires at least 2 devices"),
        ("zpool create 9p c", 1, "zinc: cannot create '9p': name must begin with a letter"),
        ("zpool create raidz c", 1, "name is reserved"),
        ("zpool create -o nix=1 p c", 1, "property 'nix' is not a valid pool or vdev property"),
        ("zpool create -O nix=1 p c", 1, "zinc: cannot create 'p': invalid property 'nix'"),
        ("zpool create p c spare", 1, "spare requires at least 1 device"),
        ("zpool labelclear a", 1, "is a member (ACTIVE) of pool \"tank\""),
        ("zpool import -d . nix", 1, "zinc: cannot import 'nix': no such pool available"),
        ("zfs create -d . tank/fs", 1, "zinc: cannot create 'tank/fs': dataset already exists"),
        ("zfs create -d . tank/x/y", 1, "zinc: cannot create 'tank/x/y': parent does not exist"),
        ("zfs create -d . tank", 1, "missing dataset name"),
        ("zfs create -d . -o used=1 tank/x", 1, "'used' is readonly"),
        ("zfs create -d . -o volsize=1M tank/x", 1, "does not apply to datasets of this type"),
        ("zfs create -d . -o compression=x tank/x", 1, "'compression' must be one of 'on | off"),
        ("zfs create -d . -o compression tank/x", 2, "missing '=' for property=value argument"),
        (
            "zfs create -d . -o encryption=on tank/x",
            1,
            "Keyformat required for new encryption root",
        ),
        ("zfs snapshot -d . tank/fs@s", 1, "cannot create snapshot 'tank/fs@s': dataset already"),
        ("zfs snapshot -d . tank/fs", 2, "invalid snapshot name"),
        ("zfs snapshot -d . tank/nix@s", 1, "does not exist"),
        ("zfs destroy -d . tank/fs", 1, "zinc: cannot destroy 'tank/fs': filesystem has children"),
        ("zfs destroy -d . tank/vol", 1, "zinc: cannot destroy 'tank/vol': volume has children"),
        ("zfs destroy -d . tank/nix", 1, "does not exist"),
        ("zfs destroy -d . tank/fs@nix", 1, "zinc: could not find any snapshots to destroy; check"),
        ("zfs set -d . quota=1 tank/fs@s", 1, "'quota' cannot be set on snapshots"),
        ("zfs set -d . quota tank/fs", 2, "missing property=value argument"),
        ("zfs set -d . atime=1 tank/fs", 1, "must be one of 'on | off'"),
        ("zfs inherit -d . quota tank/fs", 1, "'quota' property cannot be inherited"),
        ("zfs promote -d . tank/fs", 1, "not a cloned filesystem"),
        ("zfs rename -d . tank/fs tank/x/y", 1, "zinc: cannot rename 'tank/fs'"),
        ("zfs release -d . tag tank/fs@s", 1, "no such tag on this dataset"),
        ("cp -d . nix tank/fs:/", 1, "zinc: cannot copy 'nix'"),
        ("cp -d . tiny tank/fs@s:/", 1, "a snapshot cannot be changed"),
        ("cp -d . tiny tank/fs:/no/such", 1, "zinc: cannot copy to 'tank/fs:/no/such'"),
    ];
    for (command, code, text) in cases {
        let run = place.run(command);
        assert_eq!(run.code, code, "{command}: {}", run.err);
        let first = run.err.lines().next().unwrap_or_default();
        assert!(first.contains(text), "{command}: {}", run.err);
        assert!(run.out.is_empty(), "{command}: {}", run.out);
    }
    assert_eq!(place.ok("zpool history -d . tank"), before, "what fails is not remembered");
    place.check("what was refused");
}

#[test]
fn dry_runs_change_nothing() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -d . tank/fs");
    place.ok("zfs snapshot -d . tank/fs@one");
    place.ok("zfs snapshot -d . tank/fs@two");
    place.ok("zpool export -d . tank");
    let bytes = || std::fs::read(place.path().join("a")).unwrap();
    let before = bytes();
    let shown = place.ok("zpool create -n other b");
    assert!(shown.starts_with("would create 'other' with the following layout:\n\n\tother\n"));
    assert_eq!(
        place.ok("zfs create -n -v -p -d . tank/x/y"),
        "would create ancestors of tank/x/y\nwould create tank/x/y\n"
    );
    let shown = place.ok("zfs destroy -n -v -r -d . tank/fs");
    let lines = "would destroy tank/fs@one\nwould destroy tank/fs@two\nwould destroy tank/fs\n";
    assert_eq!(shown, lines);
    assert_eq!(
        place.ok("zfs destroy -n -p -d . tank/fs@%two"),
        "destroy\ttank/fs@one\ndestroy\ttank/fs@two\nreclaim\t0\n"
    );
    place.ok("zpool import -o readonly=on -d . tank");
    assert!(bytes() == before, "nothing was written");
    assert_eq!(place.run("check -d . tank").code, 0, "{}", arg(place.path()));
}
