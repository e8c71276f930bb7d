//! Why a device is not taken for a pool, in the words of OpenZFS where it has some, and what to do.

use engine::devices::{Process, SystemUse};
use engine::pools::DeviceRefusal;
use term::escape::{name, word};

/// The message for a layout that is refused.
pub const INVALID: &str = "invalid vdev specification";
/// Why no device is used twice.
pub const ONCE: &str = "a device can be in a pool only once";
/// What to do with a device that was a pool's, and is not any more.
const LEFT_OVER: &str = "`zpool status` names its devices; one that was left over, as by a split \
                         that was cut off, is taken with -f";

/// A message, its causes, and what to do.
pub type Words = (String, Vec<String>, Option<String>);

/// Why the device of this path is not taken for `pool`, or for a new one.
#[must_use]
pub fn refused(path: &str, pool: Option<&str>, why: &DeviceRefusal) -> Words {
    let invalid =
        |hint: &str| (INVALID.to_owned(), vec![format!("{path} {why}")], Some(hint.to_owned()));
    match why {
        DeviceRefusal::LoopAbove(_) => invalid("use '-f' to override, or name the loop device"),
        DeviceRefusal::System(by) => {
            let what = format!("cannot use '{path}': Device or resource busy");
            (what, vec![system_use(by)], None)
        }
        DeviceRefusal::Held(by) => {
            let what = format!("cannot open '{path}': Device or resource busy");
            let by = by.as_ref().map(|by| format!("{} has it", process(by)));
            (what, vec![by.unwrap_or_else(|| "another program writes to it".to_owned())], None)
        }
        DeviceRefusal::InItself => {
            let what = format!("cannot use '{path}'");
            let why = "it is a file in the pool itself".to_owned();
            (what, vec![why], Some("a pool cannot be stored in itself".to_owned()))
        }
        DeviceRefusal::TooSmall(_) => {
            let hint = "`truncate -s 64M FILE` makes a file of the smallest size";
            let (what, why) = (format!("'{path}' is too small"), format!("it {why}"));
            (what, vec![why], Some(hint.to_owned()))
        }
        DeviceRefusal::Silent => {
            let hint = "`zinc tunables zinc_vdev_silence_ms` says how long that is waited for";
            (format!("'{path}' does not answer"), Vec::new(), Some(hint.to_owned()))
        }
        DeviceRefusal::InPool(name) if pool == Some(name) => {
            let (what, mut causes, hint) = invalid(LEFT_OVER);
            causes.push(ONCE.to_owned());
            (what, causes, hint)
        }
        DeviceRefusal::InPool(name) => invalid(&give_up(name)),
        _ => invalid("use '-f' to override, which destroys what is on it"),
    }
}

/// A process, by number and command.
#[must_use]
pub fn process(process: &Process) -> String {
    let words: Vec<String> = process.command.iter().map(|word| name(word)).collect();
    match words.is_empty() {
        true => format!("process {}", process.pid),
        false => format!("process {} (`{}`)", process.pid, words.join(" ")),
    }
}

/// The system's use of a device, as a sentence.
#[must_use]
fn system_use(by: &SystemUse) -> String {
    match by {
        SystemUse::Swap => "it is in use as swap".to_owned(),
        SystemUse::Mount(target) => format!("it is mounted on {target}"),
        SystemUse::PartOf(name) => format!("{name} uses it"),
    }
}

/// The advice for a device that an active pool uses.
#[must_use]
pub fn give_up(pool: &str) -> String {
    let pool = word(pool);
    format!("`zinc zpool destroy {pool}` or `zinc zpool export {pool}` gives up its devices")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_the_pool_itself_is_another_matter_than_one_of_another_pool() {
        let used = DeviceRefusal::InPool("tank".to_owned());
        let (what, causes, hint) = refused("a", Some("tank"), &used);
        assert_eq!((what.as_str(), causes.len()), (INVALID, 2));
        assert!(hint.is_some_and(|hint| hint.contains("taken with -f")));
        let (_, causes, hint) = refused("a", None, &used);
        assert_eq!((causes.len(), hint), (1, Some(give_up("tank"))));
        let (what, causes, hint) = refused("a", None, &DeviceRefusal::System(SystemUse::Swap));
        assert_eq!(what, "cannot use 'a': Device or resource busy");
        assert_eq!((causes.as_slice(), hint), (&["it is in use as swap".to_owned()][..], None));
        let command = vec![b"zpool".to_vec(), b"add".to_vec()];
        let held = |process| refused("a", None, &DeviceRefusal::Held(process)).1;
        assert_eq!(held(Some(Process { pid: 7, command })), ["process 7 (`zpool add`) has it"]);
        assert_eq!(held(None), ["another program writes to it"]);
    }
}
