//! The kernel goes on with what came raw here: what belongs to whom was counted anew, and clones
//! have the roots that it gives them as well.

use super::raw::{KEY, RAW, change_key, check_with, root, snapshot};
use super::recount::{Files, source};
use super::*;
use engine::files::SpaceKind;
use engine::inside::pool::UnguardedDatasets as _;
use engine::live::ImportOptions;
use engine::send::{Package, Scope};

/// What the machine does. It receives the packages as well, loads the keys in both pools, and says
/// which dataset has which root. Then it removes all files of a file system that was counted here,
/// and nothing is left of those who had some.
const GOES_ON: &str = "set -e\n\
    mkdir /vd && dd if=/dev/img0 of=/vd/img0 bs=1M conv=sparse status=none\n\
    zpool import -d /vd -f -N -R /mnt there\n\
    zpool create -o cachefile=none theirs /dev/img1\n\
    for round in 0 1; do zfs receive -u theirs/top < /job/$round.stream; done\n\
    for pool in there theirs; do\n\
        zfs get -H -r -t filesystem -o name,value encryptionroot $pool/top > /out/$pool.roots\n\
        for name in top top/k44; do zfs load-key -L file:///job/key $pool/$name; done\n\
        zfs get -H -r -t filesystem -o value keystatus $pool/top | sort -u > /out/status\n\
        test $(cat /out/status) = available\n\
    done\n\
    zfs load-key -L file:///job/key there/fs\n\
    for pool in there theirs; do python3 /judge/zmanifest.py $pool -o /out/$pool.json; done\n\
    zfs userspace -Hpn -o name,used,objused there/fs > /out/users\n\
    zfs groupspace -Hpn -o name,used,objused there/fs > /out/groups\n\
    zfs mount there/fs\n\
    find /mnt/there/fs -mindepth 1 -delete\n\
    zpool sync there\n\
    zfs userspace -Hpn -o name,used,objused there/fs > /out/users-left\n\
    zfs groupspace -Hpn -o name,used,objused there/fs > /out/groups-left\n\
    zfs unmount there/fs\n\
    zpool scrub -w there\n\
    zpool status there | tee /out/status\n\
    grep -q 'No known data errors' /out/status\n\
    zpool export there\n\
    dd if=/vd/img0 of=/dev/img0 bs=1M conv=fsync status=none\n";

const ROUNDS: [&str; 2] = ["first", "second"];

/// Clones have the key of their origin, and what is made below a clone has the root of a dataset
/// that is not above it.
fn tree(pool: &LivePool) {
    let new = |name: &str| {
        Create::filesystem(&format!("here/top/{name}")).unwrap().run(pool).unwrap();
    };
    let clone = |of: &str, name: &str| {
        let at = format!("here/top/{of}@s");
        snapshot(pool, &at);
        pool.clone_snapshot(&at, &format!("here/top/{name}"), Vec::new()).unwrap();
    };
    root(pool, Create::filesystem("here/top").unwrap(), "on");
    ["n3", "n3/c29"].into_iter().for_each(new);
    clone("n3", "k44");
    pool.promote("here/top/k44").unwrap();
    ["a", "m"].into_iter().for_each(new);
    clone("a", "m/cl");
    new("m/cl/x");
    clone("m/cl/x", "cx");
    new("cx/q");
    for (n, name) in ["n3", "k44", "m/cl/x", "cx/q"].into_iter().enumerate() {
        let fs = pool.filesystem(&format!("here/top/{name}")).unwrap();
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), b"file", &new).unwrap().number();
        fs.write_at(file, 0, &vec![n as u8 + 1; 100_000], NOW).unwrap();
    }
}

/// The package of a round, and what comes before it.
fn package(pool: &LivePool, round: usize) -> Vec<u8> {
    let all = format!("here/top@{}", ROUNDS[round]);
    engine::datasets::snapshot(pool, &[all.as_str()], true, Vec::new()).unwrap();
    let from = (round > 0).then(|| format!("@{}", ROUNDS[round - 1]));
    let is_later = from.is_some();
    let scope = Scope { replicate: true, raw: true, intermediates: is_later, ..Scope::default() };
    let view = pool.look().unwrap();
    let package = Package::plan(&view, &all, from.as_deref(), Forms::default(), &scope).unwrap();
    let mut out = Vec::new();
    package.run(&mut out, &Progress::new()).unwrap();
    out
}

/// Each file system below `top` with its root, both without their pools.
fn roots(pool: &LivePool) -> Vec<String> {
    let view = pool.look().unwrap();
    let dsl = view.dsl();
    let names = ["", "/a", "/cx", "/cx/q", "/k44", "/m", "/m/cl", "/m/cl/x", "/n3", "/n3/c29"];
    let root = |name: &str| {
        let dataset = dsl.by_name(&format!("there/top{name}")).unwrap();
        let all = dsl.properties(&dataset, &PropertyContext::default()).unwrap();
        all.into_iter().find(|p| p.name == "encryptionroot").unwrap().value
    };
    names.map(|name| format!("/top{name} {}", root(name).trim_start_matches("there"))).into()
}

/// The same in what the machine wrote.
fn listed_roots(text: &str, pool: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.split_once('\t'));
    let short = |name: &str| name.strip_prefix(pool).unwrap_or(name).to_owned();
    let mut all: Vec<_> = names.map(|(n, r)| format!("{} {}", short(n), short(r))).collect();
    all.sort();
    all
}

/// What owners have: name, bytes, objects.
fn owners(pool: &LivePool, kind: SpaceKind) -> Vec<String> {
    let fs = pool.view().filesystem("there/fs").unwrap();
    let row = |id, used: Option<u64>, objects: Option<u64>| {
        format!("{id}\t{}\t{}", used.unwrap_or(0), objects.unwrap_or(0))
    };
    let rows = fs.space(kind).unwrap();
    let mut rows: Vec<_> = rows.into_iter().map(|r| row(r.id, r.used, r.objects)).collect();
    rows.sort();
    rows
}

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_goes_on_with_what_came_raw() {
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::tempdir().unwrap();
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    std::fs::create_dir_all(&job).unwrap();
    std::fs::write(job.join("key"), KEY).unwrap();
    let images = ["there", "theirs"].map(|name| dir.path().join(format!("{name}.img")));
    std::fs::File::create(&images[1]).unwrap().set_len(128 << 20).unwrap();
    let from = NewPool::new("here").memory(256 << 20).create().unwrap();
    let into = NewPool::new("there").file(&images[0], 192 << 20).unwrap().create().unwrap();
    let mut files: Files = source(&from, &mut Rng::new(1));
    snapshot(&from, "here/fs@0");
    receive(&into, &to("there/fs"), &sent(&from, "here/fs@0", None, RAW)).unwrap();
    tree(&from);
    for round in 0..ROUNDS.len() {
        let stream = package(&from, round);
        std::fs::write(job.join(format!("{round}.stream")), &stream).unwrap();
        receive(&into, &to("there/top"), &stream).unwrap();
        if round == 0 {
            change_key(&from, "here/top/k44", "raw", KEY);
        }
    }
    into.load_key("there/fs", KEY).unwrap();
    let fs = into.filesystem("there/fs").unwrap();
    (0..40).for_each(|n| change(&mut Rng::new(n), &fs, &mut files));
    into.sync().unwrap();
    drop(fs);
    check_owners(&into, "there/fs");
    let ours = [SpaceKind::User, SpaceKind::Group].map(|kind| owners(&into, kind));
    let our_roots = roots(&into);
    into.export().unwrap();
    assert!(judge.run(GOES_ON, &job, &out, &images), "the kernel does not go on");
    let out_of = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    for pool in ["there", "theirs"] {
        assert_eq!(listed_roots(&out_of(&format!("{pool}.roots")), pool), our_roots, "{pool}");
    }
    let described = ["there", "theirs"].map(|name| out.join(format!("{name}.json")));
    let diff = judge.diff(["there/top", "theirs/top"], described).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    for (name, ours) in ["users", "groups"].into_iter().zip(ours) {
        let mut theirs: Vec<String> = out_of(name).lines().map(str::to_owned).collect();
        theirs.sort();
        assert_eq!(theirs, ours, "{name}");
        let left = out_of(&format!("{name}-left"));
        assert!(left.lines().all(|line| line.starts_with("0\t")), "{name}: {left}");
    }
    let options = ImportOptions::new(OpenOptions::in_places([images[0].as_path()]));
    let into = LivePool::open("there", &ImportOptions { force: true, ..options }).unwrap();
    let keys = ["there/fs", "there/top", "there/top/k44"].map(|name| (name, &KEY[..]));
    for (name, key) in &keys {
        into.load_key(name, key).unwrap();
    }
    check_owners(&into, "there/fs");
    check_with(into, &images[0], &keys);
}
