//! Channel programs: Lua scripts that look at the datasets of a pool and change them
//! (`zfs program`).
//!
//! # Theory
//!
//! A script runs within the sync of one txg ([`LivePool::run_program`]): nothing else changes a
//! dataset meanwhile, and what it changed is durable together or not at all. The txg waits for it,
//! so it may use a number of instructions and of bytes, and no more (`limits.rs`).
//!
//! OpenZFS's scripts are of Lua 5.2 with numbers that are integers of 64 bits. Here Lua 5.4
//! runs them, whose integers are such numbers too: the source is adapted to it before it is
//! compiled (`source.rs`). `calls.rs` has the functions that a script calls, `get.rs` properties,
//! `value.rs` what a script returns, `errno.rs` the numbers of errors.

#![forbid(unsafe_code)]

mod calls;
mod errno;
mod get;
mod given;
mod limits;
mod source;
mod value;

pub use limits::{INSTRUCTIONS, MEMORY};
pub use value::Value;

use calls::Host;
use engine::programs::ProgramCx;
use engine::{LivePool, Progress};
use limits::{INSTRUCTIONS_MAX, Limits, MEMORY_MAX};
use mlua::{ChunkMode, HookTriggers, Lua, LuaOptions, MultiValue, StdLib};
use std::rc::Rc;
use std::sync::Arc;

/// What Lua calls the script in its messages.
const CHUNK: &str = "channel program";

/// Functions of Lua's that a script does not have: they read files, make code of texts, print, or
/// keep errors from ending the script.
const ABSENT: [&str; 8] =
    ["dofile", "load", "loadfile", "pcall", "print", "require", "warn", "xpcall"];

/// A script, with what it may take.
#[derive(Clone, Debug)]
pub struct Program {
    /// The script.
    pub source: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How many instructions it may execute.
    pub instructions: u64,
    /// How many bytes it may allocate.
    pub memory: usize,
    /// It may change datasets.
    pub makes_changes: bool,
}

/// What became of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end, and returned this, or nothing.
    Returned(Option<Value>),
    /// It failed. What it did before is done.
    Failed {
        /// Why, and where.
        why: String,
        /// The instructions that it executed, when it was stopped because of their number.
        instructions: Option<u64>,
    },
}

impl Outcome {
    /// What is printed of it: on standard output, or on standard error when the script failed.
    ///
    /// # Errors
    /// It failed.
    pub fn text(&self, as_json: bool) -> Result<String, String> {
        const DONE: &str = "Channel program fully executed with";
        match self {
            Self::Failed { why, instructions } => {
                let executed = instructions.map(|n| format!("{n} Lua instructions\n"));
                let executed = executed.unwrap_or_default();
                Err(format!("Channel program execution failed:\n{why}\n{executed}"))
            }
            Self::Returned(value) if as_json => {
                let entry = value.iter().map(|value| ("return".to_owned(), value.json()));
                Ok(entry.collect::<serde_json::Value>().to_string())
            }
            Self::Returned(None) => Ok(format!("{DONE} no return value.\n")),
            Self::Returned(Some(value)) => {
                Ok(format!("{DONE} return value:\n{}", value.lines("return", 4)))
            }
        }
    }
}

impl Program {
    /// Runs it. What it changed is durable when this returns.
    ///
    /// # Errors
    /// It was not run, or a change failed half way.
    pub fn run(self, pool: &LivePool, progress: &Arc<Progress>) -> engine::Result<Outcome> {
        let is_within = (1..=INSTRUCTIONS_MAX).contains(&self.instructions)
            && (1..=MEMORY_MAX).contains(&self.memory);
        if !is_within {
            let why = "Invalid instruction or memory limit.".to_owned();
            return Ok(Outcome::Failed { why, instructions: None });
        }
        let source = match source::adapt(&self.source) {
            Ok(source) => source,
            Err(fault) => {
                let why = format!("[string \"{CHUNK}\"]:{fault}");
                return Ok(Outcome::Failed { why, instructions: None });
            }
        };
        let progress = Arc::clone(progress);
        let makes_changes = self.makes_changes;
        let run = move |cx: &ProgramCx<'_>| self.execute(&source, cx, progress);
        Ok(pool.run_program(makes_changes, run)?)
    }

    fn execute(self, source: &[u8], cx: &ProgramCx<'_>, progress: Arc<Progress>) -> Outcome {
        let limits = Rc::new(Limits::new(self.instructions, progress));
        let host = Host { cx, makes_changes: self.makes_changes, limits: Rc::clone(&limits) };
        match self.interpret(source, &host) {
            Ok(value) => Outcome::Returned(value),
            Err(e) => {
                let instructions = limits.exceeded_at();
                Outcome::Failed { why: explained(&e), instructions }
            }
        }
    }

    fn interpret(&self, source: &[u8], host: &Host<'_, '_>) -> mlua::Result<Option<Value>> {
        let libraries = StdLib::COROUTINE | StdLib::STRING | StdLib::TABLE;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let globals = lua.globals();
        ABSENT.iter().try_for_each(|name| globals.set(*name, mlua::Nil))?;
        read_numbers_as_integers(&lua)?;
        errno::NAMES.iter().try_for_each(|(name, number)| globals.set(*name, *number))?;
        let limits = Rc::clone(&host.limits);
        let steps = HookTriggers::new().every_nth_instruction(limits::STRIDE);
        lua.set_global_hook(steps, move |lua, _| limits.step(lua))?;
        let returned: MultiValue = lua.scope(|scope| {
            calls::install(&lua, scope, host)?;
            let arguments = lua.create_table()?;
            arguments.set("argv", self.arguments.as_slice())?;
            lua.set_memory_limit(self.memory)?;
            let script = lua.load(source).set_name(CHUNK).set_mode(ChunkMode::Text);
            script.call(arguments)
        })?;
        value::returned(returned, self.memory)
    }
}

/// Has `tonumber` give integers alone, as all numbers are.
fn read_numbers_as_integers(lua: &Lua) -> mlua::Result<()> {
    let read: mlua::Function = lua.globals().get("tonumber")?;
    let integer = lua.create_function(move |_, given: MultiValue| {
        Ok(match read.call::<mlua::Value>(given)? {
            mlua::Value::Number(n) => value::integer(n).map_or(mlua::Nil, mlua::Value::Integer),
            other => other,
        })
    })?;
    lua.globals().set("tonumber", integer)
}

/// Why a script failed, with the calls that led there, in the words of OpenZFS.
fn explained(e: &mlua::Error) -> String {
    let text = match e {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::MemoryError(_) => "Memory limit exhausted.".to_owned(),
        mlua::Error::CallbackError { traceback, cause } => {
            format!("{}\n{traceback}", explained(cause))
        }
        other => other.to_string(),
    };
    let text = text.replace("attempt to perform 'n//0'", "attempt to divide by zero");
    let text = text.replace("attempt to perform 'n%%0'", "attempt to divide by zero");
    let text = text.replace("C stack overflow", "C stack overflow: too many C levels");
    // What called the script is not of the script.
    let lines: Vec<&str> = text.lines().filter(|line| *line != "\t[C]: in ?").collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_in_the_words_of_openzfs() {
        let e = mlua::Error::RuntimeError(
            "[string \"channel program\"]:1: attempt to perform 'n//0'\nstack traceback:\n\
             \t[string \"channel program\"]:1: in main chunk\n\t[C]: in ?"
                .to_owned(),
        );
        let words = "[string \"channel program\"]:1: attempt to divide by zero\nstack traceback:\n\
                     \t[string \"channel program\"]:1: in main chunk";
        assert_eq!(explained(&e), words);
        let cause = mlua::Error::MemoryError("x".to_owned()).into();
        let e = mlua::Error::CallbackError { traceback: "stack".to_owned(), cause };
        assert_eq!(explained(&e), "Memory limit exhausted.\nstack");
    }
}
