//! A pool as a user has it who is not its administrator.
//!
//! # Theory
//!
//! [`LivePool::on_behalf_of`] makes a second handle of a pool that is open. What is changed through
//! it is changed for one user, and only by the tasks that say what they [need](Need): those of
//! `datasets.rs`, `delegations.rs` and `receive.rs`. All other tasks, and opening a dataset for
//! writing, are refused, whatever permissions the user has. So a task that is new is refused until
//! it says what it needs.
//!
//! Permissions are asked for twice. Before the task, so that a request without permission costs no
//! txg; and in the task, where no dataset is renamed and no permission is taken between the
//! question and the change. Limits on the number of file systems and snapshots count for the user,
//! also where they do not for the administrator.

use super::LivePool;
use super::shared::{Shared, TaskCx};
use crate::error::Result;
use dsl::write::RevokedPermissions;
use dsl::{Action, Caller, Delegation, Dsl, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whom a handle is for.
pub(super) struct DelegatedUser {
    caller: Arc<Caller>,
    /// Something was changed through it.
    has_changed: AtomicBool,
}

/// What a task needs of a user.
#[derive(Clone, Debug)]
pub(super) enum Need {
    /// To do that to a dataset.
    To(Action, String),
    /// To change a property of a dataset.
    Property(String, String),
    /// To give a property to a dataset that is made.
    NewProperty(String, String),
    /// To give permissions on a dataset.
    Allow(String, Arc<Vec<Delegation>>),
    /// To take permissions on a dataset.
    Unallow(String, Arc<Vec<RevokedPermissions>>),
}

impl Need {
    /// The same for each of these names.
    pub(super) fn to_each(action: Action, names: &[String]) -> Vec<Self> {
        names.iter().map(|name| Self::To(action, name.clone())).collect()
    }

    /// Refuses a user who does not have it.
    fn check_permission(&self, dsl: &Dsl, caller: &Caller) -> Result<()> {
        Ok(match self {
            Self::To(action, name) => dsl.permit(caller, *action, name),
            Self::Property(name, property) => dsl.permit_property(caller, name, property),
            Self::NewProperty(name, property) => dsl.permit_new_property(caller, name, property),
            Self::Allow(name, given) => dsl.permit_allow(caller, name, given),
            Self::Unallow(name, taken) => dsl.permit_unallow(caller, name, taken),
        }?)
    }
}

impl TaskCx<'_> {
    /// Refuses the task when it is done for a user who does not have this. Before any change.
    pub(super) fn permit(&self, need: &Need) -> Result<()> {
        match &*self.caller.borrow() {
            Some(caller) => need.check_permission(self.datasets(), caller),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Runs a task for a user, who needs this, or for the administrator.
    pub(super) fn run_for<T: Send + 'static>(
        &self,
        caller: Option<&Arc<Caller>>,
        needs: Vec<Need>,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let caller = caller.map(Arc::clone);
        self.run(move |cx| {
            cx.caller.replace(caller);
            let permitted = needs.iter().try_for_each(|need| cx.permit(need));
            let done = permitted.and_then(|()| task(cx));
            cx.caller.replace(None);
            done
        })
    }
}

impl LivePool {
    /// The pool as this user has it: it changes what it has permissions for, and nothing else. The
    /// pool stays open when the handle is dropped, and the handle is of no use when the pool is
    /// closed.
    ///
    /// # Errors
    /// Those of [`LivePool::look`].
    pub fn on_behalf_of(&self, caller: Caller) -> Result<Self> {
        Ok(Self {
            shared: Arc::clone(&self.shared),
            view: self.look()?,
            syncer: parking_lot::Mutex::default(),
            left_out: Vec::new(),
            claims: Vec::new(),
            replayed: parking_lot::Mutex::default(),
            given_up: Vec::new(),
            behalf: Some(DelegatedUser {
                caller: Arc::new(caller),
                has_changed: AtomicBool::new(false),
            }),
        })
    }

    /// Refuses what only the administrator does.
    pub(super) fn check_administrator(&self) -> Result<()> {
        match self.behalf {
            None => Ok(()),
            Some(_) => Err(dsl::Error::refused(self.name(), Refusal::Denied).into()),
        }
    }

    /// Refuses a user who may not do that to a dataset. What changes a dataset asks for itself;
    /// this is for what reads one.
    ///
    /// # Errors
    /// It may not, or there is no such dataset.
    pub fn permit(&self, action: Action, name: &str) -> Result<()> {
        self.check_permission(&[Need::To(action, name.to_owned())])
    }

    /// Refuses a user who may not give this property to a dataset that it is about to make. For
    /// properties that are set once it is there.
    ///
    /// # Errors
    /// It may not, or there is nothing above the dataset.
    pub fn permit_new_property(&self, name: &str, property: &str) -> Result<()> {
        self.check_permission(&[Need::NewProperty(name.to_owned(), property.to_owned())])
    }

    /// Refuses a user who does not have all of this.
    pub(super) fn check_permission(&self, needs: &[Need]) -> Result<()> {
        let Some(DelegatedUser { caller, .. }) = &self.behalf else { return Ok(()) };
        let _guard = self.shared.gate.read();
        needs.iter().try_for_each(|need| need.check_permission(&self.shared.dsl, caller))
    }

    /// Something was changed through this handle, or may have been: a command of a user who may
    /// change nothing leaves no line in the history.
    pub(super) fn may_have_changed(&self) -> bool {
        self.behalf.as_ref().is_none_or(|behalf| behalf.has_changed.load(Ordering::Relaxed))
    }

    /// Something is changed through this handle.
    pub(super) fn note_change(&self) {
        if let Some(behalf) = &self.behalf {
            behalf.has_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a task that needs this of a user.
    pub(super) fn run_with<T: Send + 'static>(
        &self,
        needs: Vec<Need>,
        task: impl FnOnce(&TaskCx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(behalf) = &self.behalf else { return self.shared.run(task) };
        self.check_permission(&needs)?;
        let done = self.shared.run_for(Some(&behalf.caller), needs, task)?;
        self.note_change();
        Ok(done)
    }

    /// The user whom the handle is for, when that is not the administrator.
    pub(super) fn caller(&self) -> Option<&Arc<Caller>> {
        self.behalf.as_ref().map(|behalf| &behalf.caller)
    }
}
