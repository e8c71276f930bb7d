//! Keys of encrypted datasets, in the words of OpenZFS.

use engine::keys::KeyFormat;
use engine::{Error, ErrorKind, Place, Rule};

/// The noun for a key in a format.
#[must_use]
pub fn key_noun(format: KeyFormat) -> &'static str {
    match format {
        KeyFormat::Raw => "raw key",
        KeyFormat::Hex => "hex key",
        KeyFormat::Passphrase => "passphrase",
    }
}

/// The message when another property is to be changed with a key.
pub const ONLY_KEY_PROPERTIES: &str = "Key change error: Only keyformat, keylocation and \
                                       pbkdf2iters may be set with this command.";

/// What to do instead of mounting one file system of a pool that is not served, with its key.
pub const MOUNT_ALL: &str = "keys are held by the process that serves a pool: `zinc serve POOL` \
                             first, or mount the whole pool with `zinc zfs mount -al POOL`";

/// An operation on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyVerb {
    /// They are loaded.
    Load,
    /// They are tried, and not loaded.
    Verify,
    /// They are unloaded.
    Unload,
    /// They are changed.
    Change,
}

impl KeyVerb {
    /// The beginning of the message when it fails.
    #[must_use]
    pub fn failed(self) -> &'static str {
        match self {
            Self::Load | Self::Verify => "Key load error",
            Self::Unload => "Key unload error",
            Self::Change => "Key change error",
        }
    }

    /// Whether it is done to the key of an encryption root, which is loaded or not, where it is
    /// done to all.
    #[must_use]
    pub fn applies(self, is_loaded: bool) -> bool {
        match self {
            Self::Load => !is_loaded,
            Self::Unload => is_loaded,
            Self::Verify | Self::Change => true,
        }
    }

    /// The message and hint when no process has the pool open that could have its keys.
    #[must_use]
    pub fn not_served(self, name: &str) -> (String, &'static str) {
        let what = format!("{}: nothing serves the pool of '{name}'", self.failed());
        let hint = "keys are held by the process that serves a pool: `zinc serve POOL` first, or \
                    give them to the verb that needs them, with --keys FILE or --ask";
        (what, hint)
    }

    /// The message when a dataset of the key is mounted.
    #[must_use]
    pub fn busy(self, name: &str) -> String {
        format!("{}: '{name}' is busy.", self.failed())
    }

    /// The message when it was done to several.
    #[must_use]
    pub fn done(self, done: usize, of: usize) -> String {
        let word = match self {
            Self::Load => "loaded",
            Self::Verify => "verified",
            Self::Unload => "unloaded",
            Self::Change => "changed",
        };
        format!("{done} / {of} key(s) successfully {word}\n")
    }

    /// Why it cannot be done to a dataset.
    #[must_use]
    pub fn failure_text(self, name: &str, error: &Error) -> String {
        let be = if self == Self::Unload { "unloaded" } else { "loaded" };
        let text = match (error.kind(), error.place()) {
            (ErrorKind::Against(Rule::NotAnEncryptionRoot), Some(Place::Dataset(root))) => {
                format!("Keys must be {be} for encryption root of '{name}' ({root}).")
            }
            (ErrorKind::Against(Rule::KeyLoaded), _) => format!("Key already loaded for '{name}'."),
            (ErrorKind::Against(Rule::KeyNotLoaded), _) => {
                format!("Key already unloaded for '{name}'.")
            }
            (ErrorKind::NotFound, _) => {
                return format!("cannot open '{name}': dataset does not exist");
            }
            (ErrorKind::NotEncrypted, _) if self == Self::Change => "Dataset not encrypted.".into(),
            (ErrorKind::NotEncrypted, _) => format!("'{name}' is not encrypted."),
            (ErrorKind::NoKey, _) => "Key must be loaded.".to_owned(),
            (ErrorKind::Refused(engine::Refusal::Busy), _) => return self.busy(name),
            (ErrorKind::WrongKey, _) => format!("Incorrect key provided for '{name}'."),
            (ErrorKind::Against(Rule::NoKeyFormat), _) => {
                "Keyformat required for new encryption root.".to_owned()
            }
            _ => error.to_string(),
        };
        format!("{}: {text}", self.failed())
    }
}
