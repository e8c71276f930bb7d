//! Keys of encrypted datasets, in a pool that is open for writing.
//!
//! They are in memory, for all that use the pool, from the moment at which they are loaded until
//! they are unloaded or the pool is closed. A dataset whose key is not there can be snapshotted,
//! cloned, renamed and destroyed, and its blocks are scrubbed and moved; it cannot be opened, and
//! the log that an import has claimed for it waits.

use super::LivePool;
use crate::error::Result;
use dsl::write::{KeyChange, change_key, check_change_key};
use dsl::{KeyError, KeyInfo, WrappingKey};

impl LivePool {
    /// Loads the key of the encryption root that `name` belongs to, as its user gave it, and
    /// replays logs that waited for it. How many key objects it unlocked.
    ///
    /// # Errors
    /// It is not the key, or what was given is not of the root's format; a log is damaged.
    pub fn load_key(&self, name: &str, given: &[u8]) -> Result<usize> {
        self.check_administrator()?;
        let info = self.key_of(name)?;
        let of = |error| dsl::Error::Key { dataset: name.to_owned(), error };
        // It takes its time: nothing waits for that.
        let wrapping = WrappingKey::derive(&info, given).map_err(of)?;
        let unlocked = {
            let _guard = self.shared.gate.read();
            self.shared.dsl.unlock_with(name, wrapping)?
        };
        self.replay_unlocked()?;
        Ok(unlocked)
    }

    fn key_of(&self, name: &str) -> Result<KeyInfo> {
        let _guard = self.shared.gate.read();
        Ok(self.shared.dsl.needed_key(name)?)
    }

    /// Forgets the key of the encryption root `name`. Its datasets are closed before.
    ///
    /// # Errors
    /// It is not an encryption root, its key is not loaded, or one of its datasets is in use.
    pub fn unload_key(&self, name: &str) -> Result<()> {
        self.check_administrator()?;
        let heads = {
            let _guard = self.shared.gate.read();
            let dsl = &self.shared.dsl;
            let heads = dsl.under_root(name)?;
            if !dsl.has_root_key(dsl.dir_by_name(name)?.object) {
                let (dataset, error) = (name.to_owned(), KeyError::Locked);
                return Err(dsl::Error::Key { dataset, error }.into());
            }
            for head in &heads {
                self.shared.uses.check(head)?;
                for snapshot in dsl.snapshots(head)? {
                    self.shared.uses.check(&snapshot)?;
                }
            }
            heads
        };
        let mut quiet = Vec::new();
        for head in &heads {
            quiet.extend(self.without_log(&head.name)?);
        }
        // No more transactions begin, and what has been changed becomes durable.
        for head in &heads {
            if let Some(open) = self.shared.heads.read().get(&head.object) {
                open.space.close();
            }
        }
        self.sync()?;
        let name = name.to_owned();
        self.run(move |cx| {
            // This first: another may have unloaded it meanwhile, and a task that has changed
            // something must not fail.
            cx.datasets().unload_key(&name)?;
            heads.iter().for_each(|head| cx.drop_head(head.object));
            Ok(())
        })
    }

    /// Makes a dataset that came with a raw stream an encryption root, or one of the root above it,
    /// without a key, as its sender has it.
    ///
    /// # Errors
    /// What is above it is not encrypted.
    pub fn follow_root(&self, name: &str, is_root: bool) -> Result<()> {
        let name = name.to_owned();
        self.run(move |cx| Ok(dsl::write::follow_root(&cx.dsl(), cx.datasets(), &name, is_root)?))
    }

    /// Wraps the keys of a dataset, and of those below it with the same encryption root, anew.
    ///
    /// # Errors
    /// It is not encrypted, a key is not loaded, or there is no root above whose key it could have.
    pub fn change_key(&self, name: &str, change: KeyChange) -> Result<()> {
        self.check_administrator()?;
        let name = name.to_owned();
        self.run(move |cx| {
            check_change_key(cx.datasets(), &name, &change)?;
            change_key(&cx.dsl(), cx.datasets(), &name, &change)?;
            cx.log_event("change key", " ", &name)
        })
    }
}
