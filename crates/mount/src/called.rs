//! How `mount` and `/etc/fstab` call the program that mounts.

use std::ffi::OsString;

/// The command line of `zinc mount` for what `mount -t fuse.zinc` and `/etc/fstab` call:
/// `mount.fuse.zinc DATASET DIR [-sfnv] [-o OPTIONS] [-t TYPE]`.
#[must_use]
pub fn helper_arguments(given: Vec<OsString>) -> Vec<OsString> {
    let mut given = given.into_iter();
    let mut args: Vec<OsString> = given.next().into_iter().chain(["mount".into()]).collect();
    let mut names = Vec::new();
    while let Some(word) = given.next() {
        match word.to_str() {
            Some("-o") => args.extend([word].into_iter().chain(given.next())),
            // The type is known, and this program is of one namespace.
            Some("-t" | "-N") => drop(given.next()),
            // Sloppy, no entry in mtab, more words: nothing of that changes what is done.
            Some("-s" | "-n" | "-v" | "-sn" | "-nv" | "-sv" | "-snv") => {}
            // A dataset and a directory; what else there may be is refused by its name.
            _ => names.push(word),
        }
    }
    args.extend(names);
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_of_mount_is_zinc_mount() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let called = "/sbin/mount.fuse.zinc tank/home /mnt -n -o rw,nosuid -t fuse.zinc";
        let want = words("/sbin/mount.fuse.zinc mount -o rw,nosuid tank/home /mnt");
        assert_eq!(helper_arguments(words(called)), want);
    }
}
