//! `zinc zpool list`: pools, and with `-v` their vdevs, as a table.

use super::each::each_or_closed;
use super::naming::Naming;
use crate::args::{JsonArgs, PoolArgs, TableArgs};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::session::Session;
use crate::{json, local_time, ui};
use engine::pools::{PoolFacts, Status};
use engine::{Candidate, Pool, Rt};
use std::process::ExitCode;
use std::time::Duration;
use term::human::ctime;
use views::listed::{ListedPool, Listing};
use views::pools::{COLUMNS, Column, Row, text};

/// Arguments of `zinc zpool list`.
#[derive(clap::Args)]
pub struct Args {
    /// Also the vdevs of each pool
    #[arg(short = 'v')]
    verbose: bool,
    #[command(flatten)]
    naming: Naming,
    #[command(flatten)]
    table: TableArgs,
    /// Columns, separated by commas: properties of pools, or all
    #[arg(short = 'o', value_name = "PROPERTY,…", default_value_t = COLUMNS.join(","))]
    columns: String,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    keys: json::ByGuid,
    #[command(flatten)]
    pool: PoolArgs,
    /// Print a timestamp before each repetition: d as `date` prints it, u as seconds since 1970
    #[arg(short = 'T', value_name = "d|u", value_parser = ["d", "u"])]
    stamp: Option<String>,
    /// Pools [default: all found]; then INTERVAL in seconds to repeat the list, and COUNT of
    /// repetitions
    #[arg(value_name = "POOL|INTERVAL [COUNT]")]
    pools: Vec<String>,
}

/// Takes the interval and the count off the end of the arguments, as `zpool` does: names of pools
/// never begin with a digit.
pub(super) fn repetition(
    args: &mut Vec<String>,
) -> Result<Option<(Duration, Option<u64>)>, Failure> {
    // A number this long is the guid of a pool.
    const DIGITS_MAX: usize = 9;
    // `inf` and `nan` are numbers to Rust, and may be pools.
    let is_number =
        |s: &String| s.len() <= DIGITS_MAX && s.starts_with(|c: char| !c.is_alphabetic());
    let number = |s: &String| s.parse::<f64>().ok().filter(|_| is_number(s));
    let tail = args.iter().rev().take(2).take_while(|s| number(s).is_some()).count();
    let numbers: Vec<f64> = args.split_off(args.len() - tail).iter().filter_map(number).collect();
    let bad = |what: &str| Failure::usage(format!("{what} must be more than zero"));
    let Some(interval) = numbers.first() else { return Ok(None) };
    let interval = Duration::try_from_secs_f64(*interval).ok().filter(|d| !d.is_zero());
    let interval = interval.ok_or_else(|| bad("the interval"))?;
    let count = match numbers.get(1) {
        None => None,
        Some(c) if *c >= 1.0 => Some(*c as u64),
        Some(_) => return Err(bad("the count")),
    };
    Ok(Some((interval, count)))
}

/// Prints the time: `u` as seconds since 1970, `d` as `date` does.
pub(super) fn stamp(session: &Session, form: Option<&str>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_secs());
    match form {
        Some("u") => ui::out(session, &format!("{now}\n")),
        Some(_) => ui::out(session, &format!("{}\n", ctime(local_time::local(session, now)))),
        None => {}
    }
}

/// Looks at pools as often as requested, with the time before each look; `look` is told whether it
/// is the first. A single one that is not there is not looked for again.
pub(super) fn repeated(
    session: &Session,
    names: &[String],
    repeat: Option<(Duration, Option<u64>)>,
    form: Option<&str>,
    mut look: impl FnMut(bool) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    if session.is_for_a_part() {
        return look(true);
    }
    let mut done = 0;
    loop {
        stamp(session, form);
        let code = look(done == 0)?;
        done += 1;
        if done == 1 && names.len() == 1 && code != ExitCode::SUCCESS {
            return Ok(code);
        }
        match repeat {
            Some((interval, count)) if count.is_none_or(|c| done < c) => {
                session.sleep(interval)?;
            }
            _ => return Ok(code),
        }
    }
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.pool.is_for_everyone(session, &self.pools))
    }

    /// Runs it, as often as requested. Pools are opened again each time: other processes may be
    /// writing to them.
    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let repeat = repetition(&mut self.pools)?;
        let look = |is_first: bool| self.once(session, is_first);
        repeated(session, &self.pools, repeat, self.stamp.as_deref(), look)
    }
}

impl Args {
    fn once(&self, session: &Session, is_first: bool) -> Result<ExitCode, Failure> {
        let columns = columns(&self.columns)?;
        let listing = Listing {
            columns: &columns,
            with_vdevs: self.verbose,
            parsable: self.table.parsable,
            json_int: self.output.json_int,
            as_json: self.output.json,
        };
        let look = |pool: &Pool| {
            let space = pool.space();
            let mut properties = pool.properties(&space);
            crate::known::complete(session, &mut properties, pool.guid());
            let mut view = pool.vdev_view(&space);
            self.naming.names().apply(&mut view);
            let is_exported = !self.output.json && is_exported_and_well(session, pool);
            Ok(listing.open(&PoolFacts::of(pool), &properties, &view, is_exported))
        };
        let closed = |candidate: &Candidate| {
            let mut status = Status::of_closed(&Rt::real(), candidate);
            self.naming.names().apply(&mut status.vdevs);
            Some(listing.closed(&status))
        };
        each_or_closed(session, &self.pool, &self.pools, look, closed, |all: Vec<ListedPool>, _| {
            if self.output.json {
                let content = all.into_iter().map(|seen| (seen.name, seen.value)).collect();
                ui::json(session, &json::document("zpool list", "pools", self.keys.keys(content)));
            } else {
                let rows: Vec<Row> = all.into_iter().flat_map(|seen| seen.rows).collect();
                self.print(session, &columns, &rows, is_first);
            }
        })
    }

    fn print(&self, session: &Session, columns: &[Column], rows: &[Row], is_first: bool) {
        if self.table.script {
            for row in rows {
                let lead = if row.indent > 0 { "\t" } else { "" };
                ui::exact(session, &format!("{lead}{}", ui::script_row(&row.cells)));
            }
            return;
        }
        ui::out(session, &text(columns, rows, self.verbose, is_first));
    }
}

fn columns(text: &str) -> Result<Vec<Column>, Failure> {
    if text == "all" {
        return Ok(Column::all().collect());
    }
    let column = |word| {
        Column::of(word).ok_or_else(|| {
            Failure::usage(format!("bad property list: invalid property '{word}'"))
                .hint("`zinc zpool get all POOL` shows the properties there are")
        })
    };
    text.split(',').map(column).collect()
}

fn is_exported_and_well(session: &Session, pool: &Pool) -> bool {
    super::is_exported(session, pool) && pool.health() == "ONLINE"
}
