//! How much a script may take, and what ends it before that.

use engine::Progress;
use mlua::{Error, Lua, VmState};
use std::cell::Cell;
use std::sync::Arc;

/// Instructions that a script may execute when nothing else is said.
pub const INSTRUCTIONS: u64 = 10_000_000;
/// The most that may be said.
pub(crate) const INSTRUCTIONS_MAX: u64 = 100_000_000;
/// Bytes that a script may allocate when nothing else is said.
pub const MEMORY: usize = 10 << 20;
/// The most that may be said.
pub(crate) const MEMORY_MAX: usize = 100 << 20;

/// Instructions between two looks.
pub(crate) const STRIDE: u32 = 100;

/// The state of a script that runs.
pub(crate) struct Limits {
    instructions: u64,
    executed: Cell<u64>,
    progress: Arc<Progress>,
}

impl Limits {
    pub(crate) fn new(instructions: u64, progress: Arc<Progress>) -> Self {
        Self { instructions, executed: Cell::new(0), progress }
    }

    /// Counts instructions, and ends the script when it has executed too many or is not wanted any
    /// more. A coroutine that fails is an answer to what resumed it: so this fails again at each
    /// look, until the main chunk is reached.
    pub(crate) fn step(&self, lua: &Lua) -> mlua::Result<VmState> {
        let executed = self.executed.get() + u64::from(STRIDE);
        self.executed.set(executed);
        let why = if executed > self.instructions {
            "Channel program timed out."
        } else if self.progress.check().is_err() {
            "Channel program was canceled."
        } else {
            return Ok(VmState::Continue);
        };
        let text = lua.traceback(Some(why), 0)?;
        Err(Error::RuntimeError(text.to_string_lossy()))
    }

    /// The instructions that were executed, when these were too many.
    pub(crate) fn exceeded_at(&self) -> Option<u64> {
        let executed = self.executed.get();
        (executed > self.instructions).then_some(executed)
    }
}
