//! Raw streams at the command line: what cannot be wanted of them, what is damaged in them, and one
//! whose receiver is killed.

use super::*;
use engine::inside::ondisk::stream::{RAW_BYTESWAP, Write};
use engine::live::ImportOptions;
use engine::streams::Writer;
use engine::{LivePool, OpenOptions};

const KEY: [u8; 32] = [7; 32];

/// Options of a new dataset with a key of its own, in the file `key` of the place.
fn of_key(place: &Place) -> String {
    let at = place.path().join("key").display().to_string();
    format!("-o encryption=on -o keyformat=raw -o keylocation=file://{at}")
}

/// The pools `tank` and `other`, and a key.
fn two_pools() -> Place {
    let place = Place::new(&["one", "two"]);
    std::fs::write(place.path().join("key"), KEY).unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.path().join("key"), owner).unwrap();
    place.ok("zpool create tank one");
    place.ok("zpool create other two");
    place
}

/// A pool with an encrypted file system and an encrypted volume, which have content and two
/// snapshots, and another pool.
fn sealed_pools() -> Place {
    let place = two_pools();
    let key = of_key(&place);
    place.ok(&format!("zfs create {key} -o compression=lz4 tank/fs"));
    place.ok(&format!("zfs create {key} -V 8M tank/vol"));
    let text: Vec<u8> = (0..500_000u32).flat_map(u32::to_le_bytes).collect();
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        std::fs::write(place.path().join(name), &text[round..]).unwrap();
        let at = format!("--key tank/fs=file://{}", place.path().join("key").display());
        place.ok(&format!("cp {at} {name} tank/fs:/"));
        with_pool(&place, "tank", |pool| {
            pool.load_key("tank/vol", &KEY).unwrap();
            let volume = pool.volume("tank/vol").unwrap();
            volume.write_at(round as u64 * (1 << 20) + 8192, &text[..1 << 20]).unwrap();
        });
        place.ok(&format!("zfs snapshot tank/fs@{name} tank/vol@{name}"));
    }
    place
}

/// Does something to a pool that no command does.
fn with_pool(place: &Place, name: &str, act: impl FnOnce(&LivePool)) {
    place.ok(&format!("zpool export {name}"));
    let options = ImportOptions::new(OpenOptions::in_places([place.path()]));
    let pool = LivePool::open(name, &options).unwrap();
    act(&pool);
    pool.export().unwrap();
    place.ok(&format!("zpool import -d . {name}"));
}

/// The options with which datasets are read.
fn with_key(place: &Place, names: &[&str]) -> String {
    let at = place.path().join("key").display().to_string();
    names.iter().map(|name| format!("--key {name}=file://{at} ")).collect()
}

/// The bytes of a file or of a volume, or what is said of them.
fn read(place: &Place, keys: &str, what: &str) -> Result<Vec<u8>, String> {
    let output = place.command_here(&format!("cat {keys}{what}")).stdin(Stdio::null()).output();
    let output = output.unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn what_cannot_be_wanted_of_a_raw_stream_is_said_in_the_words_of_openzfs() {
    let place = sealed_pools();
    let full = sent(&place, "-w tank/fs@a");
    let more = sent(&place, "-w -i @a tank/fs@b");
    let open = with_key(&place, &["tank/fs"]);
    let plain = sent(&place, &format!("{open}tank/fs@a"));
    let plain_more = sent(&place, &format!("{open}-i @a tank/fs@b"));
    let key = of_key(&place);
    let new = "cannot receive new filesystem stream: ";
    let increment = "cannot receive incremental stream: ";
    let says = |args: &str, stream: &[u8], words: &str| {
        let message = refused(&place, &format!("zfs receive {args}"), stream);
        assert!(message.contains(words), "{args}: {message}");
        assert!(!message.contains("--ask"), "{args}: {message}");
    };
    for (args, name) in [
        ("-o encryption=on", "encryption"),
        ("-o encryption=off", "encryption"),
        ("-x encryption", "encryption"),
        ("-o keyformat=passphrase -o keylocation=prompt", "keyformat"),
        ("-o pbkdf2iters=400000", "pbkdf2iters"),
        (&*key, "encryption"),
    ] {
        let words =
            format!("{new}encryption property '{name}' cannot be set or excluded for raw streams.");
        says(&format!("{args} other/fs"), &full, &words);
        says(&format!("-n {args} other/fs"), &full, &words);
    }
    assert!(place.run("zfs list other/fs").code != 0);
    // Where its key is can be said.
    let location = key.split(' ').next_back().unwrap();
    says(&format!("-o {} other/fs", "keylocation=nowhere"), &full, "bad value");
    taken(&place, &format!("zfs receive -o {location} other/fs"), &full);
    let get = "zfs get -H -o value,source keylocation,encryptionroot other/fs";
    let value = location.split_once('=').unwrap().1;
    assert_eq!(place.ok(get), format!("{value}\tlocal\nother/fs\t-\n"));
    taken(&place, "zfs receive -o keylocation=prompt other/fs", &more);
    assert!(place.ok(get).starts_with("prompt\tlocal\n"));
    // Onto what was encrypted here, is not encrypted, or is locked.
    taken(&place, &format!("zfs receive {key} other/own"), &plain);
    says("other/own", &more, &format!("{increment}IV set guid mismatch."));
    taken(&place, "zfs receive other/plain", &plain);
    let words = "cannot perform raw receive on top of existing unencrypted dataset";
    says("other/plain", &more, &format!("{increment}{words}"));
    taken(&place, "zfs receive other/locked", &full);
    let words = format!("{increment}inherited key must be loaded");
    says("other/locked", &plain_more, &words);
    let words = "encryption property 'encryption' cannot be set for incremental streams.";
    says("-o encryption=off other/plain", &plain_more, &format!("{increment}{words}"));
    // The key of what is above is not needed, and that of an increment is where it is said to be.
    place.ok(&format!("zfs create {key} other/above"));
    taken(&place, "zfs receive other/own", &plain_more);
    std::fs::rename(place.path().join("key"), place.path().join("away")).unwrap();
    taken(&place, "zfs receive other/above/fs", &full);
    says("other/above/plain", &plain, "cannot read the key");
    std::fs::rename(place.path().join("away"), place.path().join("key")).unwrap();
    let keys = with_key(&place, &["other/fs", "other/own"]);
    let content = std::fs::read(place.path().join("b")).unwrap();
    for name in ["fs", "own"] {
        assert!(read(&place, &keys, &format!("other/{name}:/b")).unwrap() == content, "{name}");
    }
    place.zdb_is_content("other");
}

/// Whether a block is one of data, and no table.
fn large(block: &Write) -> bool {
    block.logical_size >= 16 << 10
}

/// What is made of a record and its payload.
type Change = dyn Fn(&mut Body, &mut Vec<u8>);

/// The stream with what `change` makes of its records and payloads, and with sums that are right.
fn changed(stream: &[u8], mut change: impl FnMut(&mut Body, &mut Vec<u8>)) -> Vec<u8> {
    let mut reader = Reader::new(stream);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    while let Some(record) = reader.record().unwrap() {
        let mut payload = reader.payload().unwrap().to_vec();
        let mut body = record.body;
        change(&mut body, &mut payload);
        match body {
            Body::Begin(begin) => writer.begin(begin, &payload).unwrap(),
            Body::End(end) => writer.end(end.to_guid).unwrap(),
            body => writer.record(body, &payload).unwrap(),
        }
    }
    drop(writer);
    out
}

#[test]
fn a_raw_stream_that_was_tampered_with_is_found_out_by_the_key() {
    let place = sealed_pools();
    let files = sent(&place, "-w tank/fs@a");
    let volume = sent(&place, "-w tank/vol@a");
    let more = sent(&place, "-w -i @a tank/fs@b");
    // Blocks of data: their bytes, codes, IVs, and those of a block of dnodes.
    let bytes = |body: &mut Body, payload: &mut Vec<u8>| {
        if let Body::Write(w) = body
            && w.offset == 0
            && large(w)
        {
            payload[100] ^= 1;
        }
    };
    let code = |body: &mut Body, _: &mut Vec<u8>| {
        if let Body::Write(w) = body
            && w.offset == 0
            && large(w)
        {
            w.mac[3] ^= 1;
        }
    };
    let vector = |body: &mut Body, _: &mut Vec<u8>| {
        if let Body::Write(w) = body
            && w.offset == 0
            && large(w)
        {
            w.iv[3] ^= 1;
        }
    };
    let dnodes = |body: &mut Body, _: &mut Vec<u8>| {
        if let Body::ObjectRange(r) = body {
            r.mac[0] ^= 1;
        }
    };
    let changes: [(&str, &Change); 4] =
        [("bytes", &bytes), ("code", &code), ("vector", &vector), ("dnodes", &dnodes)];
    for (name, change) in changes {
        let (fs, vol) = (format!("other/fs-{name}"), format!("other/vol-{name}"));
        taken(&place, &format!("zfs receive {fs}"), &changed(&files, change));
        let keys = with_key(&place, &[&fs]);
        assert!(read(&place, &keys, &format!("{fs}:/a")).is_err(), "{name}");
        taken(&place, &format!("zfs receive {vol}"), &changed(&volume, change));
        let keys = with_key(&place, &[&vol]);
        assert!(read(&place, &keys, &vol).is_err(), "{name}");
        place.ok(&format!("zfs destroy -r {fs}"));
        place.ok(&format!("zfs destroy -r {vol}"));
    }
    // An increment onto what is whole harms its own snapshot alone.
    taken(&place, "zfs receive other/fs", &files);
    taken(&place, "zfs receive other/fs", &changed(&more, bytes));
    let keys = with_key(&place, &["other/fs"]);
    let content = std::fs::read(place.path().join("a")).unwrap();
    assert!(read(&place, &keys, "other/fs@a:/a").unwrap() == content);
    assert!(read(&place, &keys, "other/fs@b:/b").is_err());
    // What is of a form that nothing can have is refused, and nothing is left of it.
    let is_refused = |stream: &[u8], target: &str| {
        let message = refused(&place, &format!("zfs receive {target}"), stream);
        assert!(message.contains("cannot receive"), "{message}");
    };
    is_refused(
        &changed(&files, |body, _| {
            if let Body::Write(w) = body
                && large(w)
            {
                w.offset += 512;
            }
        }),
        "other/new",
    );
    is_refused(
        &changed(&files, |body, _| {
            if let Body::ObjectRange(r) = body {
                r.first += 1;
            }
        }),
        "other/new",
    );
    place.ok("zfs rollback -r other/fs@a");
    let again = changed(&more, |body, _| {
        if let Body::ObjectRange(r) = body {
            r.flags |= RAW_BYTESWAP;
        }
    });
    let message = refused(&place, "zfs receive other/fs", &again);
    assert!(
        message.contains("a machine of the other byte order wrote: not supported"),
        "{message}"
    );
    assert_eq!(place.ok("zfs list -H -o name -t all -r other"), "other\nother/fs\nother/fs@a\n");
    taken(&place, "zfs receive other/fs", &more);
    let content = std::fs::read(place.path().join("b")).unwrap();
    assert!(read(&place, &keys, "other/fs@b:/b").unwrap() == content);
    place.zdb_is_content("other");
}

#[test]
fn raw_streams_of_files_and_of_volumes_go_on_where_their_receiver_was_killed() {
    let place = sealed_pools();
    for of in ["fs", "vol"] {
        let full = sent(&place, &format!("-w tank/{of}@a"));
        taken(&place, &format!("zfs receive other/{of}"), &full);
    }
    for of in ["fs", "vol"] {
        let more = sent(&place, &format!("-w -i @a tank/{of}@b"));
        let mut server = place.serve("other");
        let mut child = place.command_here(&format!("zfs receive -s other/{of}")).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&more[..more.len() / 2]).unwrap();
        let mut cut = String::new();
        support::place::until("a part came", || {
            place.ok_here("zpool sync other");
            cut = token(&place, &format!("other/{of}"));
            cut != "-"
        });
        server.kill().unwrap();
        server.wait().unwrap();
        drop(stdin);
        assert!(!child.wait().unwrap().success());
        assert_eq!(token(&place, &format!("other/{of}")), cut);
        let rest = sent(&place, &format!("-t {cut}"));
        taken(&place, &format!("zfs receive -s other/{of}"), &rest);
        assert_eq!(token(&place, &format!("other/{of}")), "-");
    }
    for what in ["fs@a:/a", "fs@b:/a", "fs@b:/b", "vol@a", "vol@b", "vol"] {
        let at = |pool: &str| {
            let keys = with_key(&place, &[&format!("{pool}/fs"), &format!("{pool}/vol")]);
            read(&place, &keys, &format!("{pool}/{what}")).unwrap()
        };
        assert!(at("tank") == at("other"), "{what}");
    }
    place.zdb_is_content("other");
}

#[test]
fn quotas_of_users_are_kept_in_what_came_raw() {
    let place = sealed_pools();
    let (ours, theirs) = (with_key(&place, &["tank/fs"]), with_key(&place, &["other/fs"]));
    let used = |key: &str, name: &str| {
        place.ok_here(&format!("zfs userspace {key} -Hp -o name,used,objused {name}"))
    };
    for stream in ["-w tank/fs@a", "-w -i @a tank/fs@b"] {
        taken(&place, "zfs receive other/fs", &sent(&place, stream));
    }
    let before = used(&theirs, "other/fs");
    let bytes = |text: &str| text.split('\t').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(bytes(&before), bytes(&used(&ours, "tank/fs")));
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(place.path()).unwrap());
    let mut server = place.serve("other");
    let key = place.path().join("key").display().to_string();
    place.ok_here(&format!("zfs load-key -L file://{key} other/fs"));
    // Half of what is used.
    let quota = bytes(&before) / 2;
    place.ok_here(&format!("zfs set userquota@{uid}={quota} other/fs"));
    assert_eq!(used("", "other/fs"), used(&ours, "tank/fs"));
    std::fs::write(place.path().join("c"), [7; 100_000]).unwrap();
    let refused = refused(&place, "cp c other/fs:/", &[]);
    assert!(refused.contains("quota"), "{refused}");
    place.ok_here(&format!("zfs set userquota@{uid}=none other/fs"));
    place.ok_here("cp c other/fs:/");
    place.ok_here("zpool sync other");
    server.kill().unwrap();
    server.wait().unwrap();
    place.ok_here(&format!("check {theirs} other"));
    place.zdb_is_content("other");
}

/// Clones have the key of their origin, and what is made below a clone inherits it: it has the
/// root of a dataset that is not above it.
#[test]
fn no_dataset_is_left_with_an_encryption_root_that_is_none() {
    let place = two_pools();
    let mut servers = [place.serve("tank"), place.serve("other")];
    place.ok_here(&format!("zfs create {} tank/top", of_key(&place)));
    for step in [
        "create n3",
        "create n3/c29",
        "snapshot n3@s",
        "clone n3@s k44",
        "promote k44",
        "create a",
        "snapshot a@s",
        "create m",
        "clone a@s m/cl",
        "create m/cl/x",
        "snapshot m/cl/x@s",
        "clone m/cl/x@s cx",
        "create cx/q",
        "snapshot -r @first",
    ] {
        let words: Vec<&str> = step.split(' ').collect();
        let full = |word: &str| match word.strip_prefix('@') {
            Some(_) => format!("tank/top{word}"),
            None => format!("tank/top/{word}"),
        };
        let is_option = |word: &str| word.starts_with('-');
        let line = words[1..].iter().map(|w| if is_option(w) { (*w).to_owned() } else { full(w) });
        place.ok_here(&format!("zfs {} {}", words[0], line.collect::<Vec<_>>().join(" ")));
    }
    let roots = |of: &str| -> Vec<(String, String)> {
        let text = place.ok_here(&format!("zfs get -H -r -t filesystem encryptionroot {of}"));
        let fields = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        fields.map(|f| (f[0].to_owned(), f[2].to_owned())).collect()
    };
    taken(&place, "zfs receive -u other/top", &sent(&place, "-w -R tank/top@first"));
    let got = roots("other/top");
    assert_eq!(got.len(), 10, "{got:?}");
    assert!(got.iter().all(|(_, root)| root == "other/top"), "{got:?}");
    // A new root has its clones, and what is below these, here and where it is sent to.
    place.ok_here(&format!(
        "zfs change-key {} tank/top/k44",
        &of_key(&place)["-o encryption=on ".len()..]
    ));
    place.ok_here("zfs snapshot -r tank/top@second");
    taken(&place, "zfs receive -u other/top", &sent(&place, "-w -R -I @first tank/top@second"));
    for pool in ["tank", "other"] {
        for (name, root) in roots(&format!("{pool}/top")) {
            let of_clones = ["k44", "n3", "n3/c29"].map(|name| format!("{pool}/top/{name}"));
            let want =
                if of_clones.contains(&name) { &of_clones[0] } else { &format!("{pool}/top") };
            assert_eq!(&root, want, "{name}");
        }
    }
    let key = place.path().join("key").display().to_string();
    for root in ["top", "top/k44"] {
        place.ok_here(&format!("zfs load-key -L file://{key} other/{root}"));
    }
    let status = place.ok_here("zfs get -H -o value -r -t filesystem keystatus other/top");
    assert!(status.lines().all(|line| line == "available"), "{status}");
    for (pool, server) in ["tank", "other"].into_iter().zip(&mut servers) {
        place.ok_here(&format!("zpool export {pool}"));
        server.wait().unwrap();
    }
    place.zdb_is_content("other");
}

/// What was not encrypted below something that is: it has its properties with it, and stays so.
#[test]
fn a_raw_package_has_what_is_not_encrypted() {
    let place = two_pools();
    place.ok(&format!("zfs create {} tank/top", of_key(&place)));
    place.ok("zfs create -o encryption=off tank/top/plain");
    place.ok("zfs snapshot -r tank/top@a");
    std::fs::write(place.path().join("text"), "text").unwrap();
    place.ok("cp text tank/top/plain:/");
    place.ok("zfs snapshot -r tank/top@b");
    taken(&place, "zfs receive -u other/top", &sent(&place, "-w -R tank/top@a"));
    taken(&place, "zfs receive -u other/top", &sent(&place, "-w -R -I @a tank/top@b"));
    let get = "zfs get -H -o value encryption other/top other/top/plain";
    assert_eq!(place.ok(get), "aes-256-gcm\noff\n");
    assert_eq!(place.ok("cat other/top/plain:/text"), "text");
    // Unless something else is said.
    let plain = sent(&place, "-p tank/top/plain@b");
    place.ok(&format!("zfs create {} tank/own", of_key(&place)));
    taken(&place, "zfs receive -u tank/own/same", &plain);
    taken(&place, "zfs receive -u -x encryption tank/own/new", &plain);
    let get = "zfs get -H -o name,value encryption tank/own/same tank/own/new";
    assert_eq!(place.ok(get), "tank/own/new\taes-256-gcm\ntank/own/same\toff\n");
}
