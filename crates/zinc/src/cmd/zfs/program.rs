//! `zinc zfs program`: a script that looks at datasets and changes them, in one txg.

use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveArgs};
use crate::progress::while_showing;
use crate::session::Session;
use crate::{served, ui};
use control::input::Amount;
use engine::devices::read_text;
use engine::{LivePool, Progress};
use programs::{INSTRUCTIONS, MEMORY, Program};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Longest script, in bytes.
const SCRIPT_MAX: u64 = 1 << 20;

/// Arguments of `zinc zfs program`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Change nothing: functions of zfs.sync fail
    #[arg(short = 'n')]
    dry: bool,
    /// Lua instructions that the script may execute
    #[arg(short = 't', value_name = "INSTRUCTIONS", default_value_t = INSTRUCTIONS)]
    instructions: u64,
    /// Memory that the script may allocate
    #[arg(short = 'm', value_name = "BYTES", default_value_t = MEMORY)]
    memory: usize,
    /// The pool
    pool: String,
    /// The Lua script; - is standard input
    script: PathBuf,
    /// What the script gets as the table argv in its argument
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.pool.contains(['/', '@', '#']) {
            return Err(Failure::opening(&self.pool, "not the name of a pool"));
        }
        served::forward(session, &self.live.search, &self.pool)?;
        let progress = Arc::new(Progress::new());
        progress.begin("channel program", 0);
        let program = Program {
            source: self.source(session, &progress)?,
            arguments: self.arguments.clone(),
            instructions: self.instructions,
            memory: self.memory,
            makes_changes: !self.dry,
        };
        let run = |pool: &LivePool| {
            let outcome = while_showing(session, &progress, || program.run(pool, &progress))?;
            match outcome.text(self.json) {
                Ok(text) if self.json => ui::json_line(session, &text),
                Ok(text) => ui::out(session, &text),
                Err(text) => {
                    ui::error(session, &text);
                    return Ok(ExitCode::FAILURE);
                }
            }
            Ok(ExitCode::SUCCESS)
        };
        match self.dry {
            true => live::visit(session, &self.live, &self.pool, run),
            false => self.live.change(session, &self.pool, run),
        }
    }
}

impl Args {
    fn source(&self, session: &Session, progress: &Progress) -> Result<Vec<u8>, Failure> {
        let shown = self.script.display();
        let fail = |e: std::io::Error| {
            Failure::new(format!("cannot read {shown}")).because(crate::failure::system_text(&e))
        };
        if self.script != Path::new("-") {
            let text = read_text(&session.path(&self.script), SCRIPT_MAX).map_err(fail)?;
            return Ok(text.into_bytes());
        }
        let mut source = Vec::new();
        let input = session.input(Amount::OnDemand, progress).map_err(fail)?;
        input.take(SCRIPT_MAX + 1).read_to_end(&mut source).map_err(fail)?;
        match source.len() as u64 > SCRIPT_MAX {
            true => Err(Failure::new(format!("the script is longer than {SCRIPT_MAX} bytes"))),
            false => Ok(source),
        }
    }
}
