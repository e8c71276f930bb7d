//! The hints of the engine, as options and commands of zinc.

use engine::Hint;
use engine::pool_refusals::Ongoing;
use term::escape::word;

/// The hint for a process that has as many files open as it may, where this text says so.
#[must_use]
pub fn of_few_files(text: &str) -> Option<&'static str> {
    text.contains("Too many open files").then_some(
        "the limit of open files is too low: `ulimit -n` raises it, LimitNOFILE= that of a unit",
    )
}

/// A hint, in words for a user at a terminal.
#[must_use]
pub fn text(hint: &Hint) -> String {
    let fixed = match hint {
        Hint::CheckPlace => "check the path given with -d",
        Hint::NamePlaces => "name directories, files or disks to search with -d PATH",
        Hint::ListPools => "`zinc zpool import` lists the pools that can be opened",
        Hint::UseGuid => "name the pool by its guid",
        Hint::FindDevices => "name the places where these devices are with -d PATH",
        Hint::NewerProgram => "a newer zinc, or OpenZFS, may know them",
        Hint::ListTxgs => "`zinc zpool import --txgs` lists the available txgs",
        Hint::OlderState => {
            "an older state may be intact: `zinc zpool import --txgs` lists them, and --txg N \
             chooses one"
        }
        Hint::OpenReadonly => {
            "it can be read, by verbs that change nothing and `zinc zpool import -o readonly=on`"
        }
        Hint::WithoutLogs => {
            "attach the device, or give up the changes that only its logs have: `zinc zpool \
             import -m`, after `zinc zpool export` if the pool is imported"
        }
        Hint::ChooseSide => {
            "`zinc zpool online POOL DEVICE` discards the changes of that device and resilvers it \
             (with -d DIRECTORY if the pool is not imported); until then the pool can be read"
        }
        Hint::Undestroy => "import it with -D to get it back",
        Hint::TakeOver => "if no other host has it open, import it with -f",
        Hint::ExportThere => "export it there first",
        Hint::OpenAgain => {
            "synced data is safe: check the devices, and open the pool again; if it is served, \
             `zinc zpool export -f` closes it, and `zinc zpool import` opens it again"
        }
        Hint::Clear => {
            "nothing is lost: when the devices are back, `zinc zpool clear` resumes all pending \
             changes; repeat a command that was refused; `zinc zpool export -f` closes the pool \
             without the changes that are not durable"
        }
        Hint::SaveData => {
            "while the pool is open, copy its data out or put the file back where it was; \
             `zinc zpool sync` continues without a device if the others suffice; \
             `zinc zpool export -f` closes the pool, and the data of lost devices is lost"
        }
        Hint::Insist => "use '-f' to override",
        Hint::LoadKey => "give the key with --keys FILE, or on the terminal with --ask",
        Hint::CreateParents => "-p creates missing parents",
        Hint::NameRules => "names have letters, digits and -_.: and at most 255 characters",
        Hint::NameSnapshot => "snapshots are named DATASET@SNAPSHOT",
        Hint::ChooseValue(values) => values,
        Hint::DestroyPool => {
            "use 'zfs destroy -r' for the datasets in it, 'zpool destroy' for the pool"
        }
        Hint::OneByOne => "take them one at a time, or use the same name for all",
        Hint::SetDefault => "set it to its default: `zinc zfs set`",
        Hint::OlderFirst => "name the older snapshot first",
        Hint::EndCheckpoint => {
            "`zinc zpool import --rewind-to-checkpoint` goes back to it, and \
             `zinc zpool checkpoint -d` discards it"
        }
        Hint::EndRemoval => {
            "import the pool, and let the removal end, or cancel it: `zinc zpool remove -s`"
        }
        Hint::BringBack => "bring it back first; -f gives up the data it may have",
        Hint::AllowMore => "--write-mib allows more",
        Hint::StopWriters => "stop what writes to it, or export it, and check it again",
        _ => {
            let fixed = of_import(hint).or_else(|| of_files(hint));
            return fixed.map_or_else(|| about(hint), str::to_owned);
        }
    };
    fixed.to_owned()
}

/// Hints of files and their names.
fn of_files(hint: &Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::RemoveTree => "-r removes directories",
        Hint::CopyToNew => "it can be read: copy its files, or send it, into a new dataset",
        Hint::CopyTwice => {
            "`zinc cp` copies out of one to this machine, and from there into another"
        }
        Hint::Replace => "--force replaces it",
        Hint::CopyRenamed => "zinc rescue gives it another",
        _ => return None,
    })
}

/// How what runs in a pool is waited for, and ended where that is possible.
fn until_it_ends(what: Ongoing) -> &'static str {
    match what {
        Ongoing::Scrub => {
            "`zinc zpool wait -t scrub` waits for its end; `zinc zpool scrub -s` cancels it"
        }
        Ongoing::Resilver | Ongoing::Rebuild => "`zinc zpool wait -t resilver` waits for its end",
        Ongoing::Initialize => {
            "`zinc zpool wait -t initialize` waits for its end; `zinc zpool initialize -c` cancels \
             it"
        }
        Ongoing::Trim => {
            "`zinc zpool wait -t trim` waits for its end; `zinc zpool trim -c` cancels it"
        }
        Ongoing::Removal | Ongoing::OtherRemoval | Ongoing::OwnRemoval => {
            "`zinc zpool wait -t remove` waits for its end; `zinc zpool remove -s` cancels it"
        }
        Ongoing::Expansion => "`zinc zpool wait -t raidz_expand` waits for its end",
        // The engine may learn of more that runs.
        _ => "`zinc zpool wait` waits for its end",
    }
}

/// Hints of imports.
fn of_import(hint: &Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::ImportRenamed => {
            "use the form 'zpool import <pool | id> <newpool>' to give it a new name"
        }
        Hint::ImportReadOnly => {
            "with -o readonly=on it is imported without that device; root may open it"
        }
        Hint::ListElsewhere => "ZINC_STATE names another folder to remember pools in",
        Hint::ChooseCachefile => "cachefile= names a file in a folder that is there",
        Hint::OlderStates => "-X tries older states; `zinc repair` repairs damage",
        Hint::LetGo => {
            "what was not durable is lost: `zinc zpool export -f` closes the pool here; it goes on \
             where the other writer is, which `zinc far ls` names"
        }
        Hint::RepairOrRescue => "`zinc repair` repairs damage, `zinc rescue` copies readable data",
        _ => return None,
    })
}

/// Hints that name something.
fn about(hint: &Hint) -> String {
    match hint {
        Hint::ExportFirst(name) => format!(
            "run `zinc zpool export {}` first, then import it under the new name",
            word(name)
        ),
        Hint::CheckStore(name) => format!(
            "check the name given with -d; `zinc far check {}` verifies the disk in it",
            word(&name.to_string_lossy())
        ),
        Hint::ImportByGuid(guid) => format!("`zinc zpool import {guid} NEWNAME` gives it another"),
        Hint::ListTunables => "`zinc tunables` lists all, with their ranges".to_owned(),
        Hint::AwaitEnd(what) => until_it_ends(*what).to_owned(),
        Hint::ListDevices => "`zinc zpool status` lists the devices of the pool".to_owned(),
        Hint::Record => "`zinc top --record FILE POOL` makes one".to_owned(),
        Hint::DestroyBelow(one) => {
            format!("use '-r' to destroy them too: '{one}' and all others below")
        }
        Hint::DestroySnapshots(one) => {
            format!("use '-r' to destroy its snapshots too: '{one}' for one")
        }
        Hint::DestroyClones { clones, are_examples: true } => {
            format!("use '-R' to destroy them too: {} for one", clones.join(", "))
        }
        Hint::DestroyClones { clones, .. } => {
            format!("use '-R' to destroy them too: {}", clones.join(", "))
        }
        Hint::Promote(clone) => {
            format!("it lies in its own clone: `zinc zfs promote {clone}` lets both go")
        }
        Hint::DestroyYounger(one) => format!("use '-r' to destroy them: '{one}' for one"),
        Hint::Release(tag) => {
            format!("it is held: `zinc zfs release '{tag}' SNAPSHOT` lets it go")
        }
        Hint::SetProperty { name, value } => {
            format!("`zinc zfs set {name}={value} DATASET` allows it")
        }
        Hint::EnableFeature(_) => "`zinc zpool set feature@NAME=enabled POOL` enables one".into(),
        Hint::MakeFile(path) => {
            format!("`truncate -s 1G {}` makes a file for a pool", path.display())
        }
        Hint::MeantTunable(like) => format!("did you mean {like}?"),
        // The engine may learn to give hints that this program has no words for yet.
        _ => String::new(),
    }
}
