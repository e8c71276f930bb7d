//! Why a device that was named is not taken, in the words of OpenZFS where it has some.

use engine::pools::MemberFault;

/// The fault of a device, behind its name and a colon.
#[must_use]
pub fn fault(fault: MemberFault) -> String {
    let fixed = match fault {
        MemberFault::Unknown => "no such device in pool",
        MemberFault::Reserved => "device is reserved as a hot spare",
        MemberFault::Cache => "device is in use as a cache",
        MemberFault::Several => "it is a vdev of several devices",
        MemberFault::Part => {
            "it is part of another vdev: `zinc zpool detach` takes a side off a mirror"
        }
        MemberFault::UnknownMemory => "its space maps do not say how much",
        other => return other.to_string(),
    };
    fixed.to_owned()
}

/// Why `new` does not come into `pool`, and what to do; `None`: it is not that which is wrong.
#[must_use]
pub fn new_fault(new: &str, pool: &str, fault: MemberFault) -> Option<(String, Option<String>)> {
    let hint = |text: &str| Some(text.to_owned());
    Some(match fault {
        MemberFault::NewIsSpare => (
            format!("{new} is a spare of this pool"),
            hint("`zinc zpool replace POOL DEVICE SPARE` lets it stand in"),
        ),
        MemberFault::NewIsCache => (format!("{new} is a cache device of this pool"), None),
        MemberFault::NewIsMoved => (
            format!("{new} is another device of this pool, which was moved"),
            hint("`zinc zpool online POOL PATH` uses it where it is now"),
        ),
        MemberFault::NewIsUsed => (format!("{new} is part of active pool '{pool}'"), None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_what_is_there_are_refused_in_other_words() {
        assert_eq!(fault(MemberFault::Unknown), "no such device in pool");
        assert_eq!(new_fault("b", "tank", MemberFault::Unknown), None);
        let (why, hint) = new_fault("b", "tank", MemberFault::NewIsSpare).expect("words");
        assert!(why.starts_with("b is a spare") && hint.is_some());
    }
}
