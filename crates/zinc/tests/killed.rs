//! Commands that change pools are killed at any moment, in a row, and each leaves every pool as it
//! was or as it was to become: known or to be imported, once, and whole.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::process::Child;
use std::time::{Duration, Instant};
use support::place::Place;
use testkit::Rng;

const POOLS: [&str; 3] = ["one", "two", "three"];
const FILES: [&str; 6] = ["f0", "f1", "f2", "f3", "f4", "f5"];

/// What there is.
struct PoolContents {
    known: Vec<String>,
    importable: Vec<String>,
    /// Everything that was shown, to see which files are used.
    text: String,
}

impl PoolContents {
    /// Looks, and says what is wrong.
    fn of(place: &Place) -> Result<Self, String> {
        let mut run = place.run("zpool list -Ho name,health");
        // A destroy came to its end but for the list; what is said then helps.
        let (hint, end) = ("hint: `zinc ", "` forgets it");
        let forgotten =
            run.err.lines().filter_map(|l| l.trim().strip_prefix(hint)?.strip_suffix(end));
        let forgotten: Vec<String> = forgotten.map(str::to_owned).collect();
        if !forgotten.is_empty() {
            forgotten.iter().for_each(|command| drop(place.ok(command)));
            run = place.run("zpool list -Ho name,health");
        }
        if run.code != 0 || !matches!(&*run.err, "" | "no pools available\n") {
            return Err(format!("list: {} {}", run.out, run.err));
        }
        let mut known = Vec::new();
        for line in run.out.lines() {
            let (name, health) = line.split_once('\t').unwrap();
            if health != "ONLINE" {
                return Err(format!("{name} is {health}: {}", place.run("zpool status").out));
            }
            known.push(name.to_owned());
        }
        let found = place.run("zpool import -d .").out;
        let mut importable = Vec::new();
        for pool in found.split("   pool: ").skip(1) {
            // It was never made.
            if pool.contains("no valid uberblock on any device") {
                continue;
            }
            if !pool.contains("state: ONLINE") {
                return Err(format!("to be imported: {pool}"));
            }
            importable.push(pool.lines().next().unwrap().to_owned());
        }
        let mut all: Vec<&String> = known.iter().chain(&importable).collect();
        all.sort();
        let count = all.len();
        all.dedup();
        let text = place.run("zpool status -P").out + &found;
        match all.len() == count {
            true => Ok(Self { known, importable, text }),
            false => Err(format!("two pools have one name:\n{text}")),
        }
    }

    fn free(&self) -> Vec<&'static str> {
        let is_used = |file: &str| self.text.split(['/', '\n', ' ', '\t']).any(|word| word == file);
        FILES.into_iter().filter(|file| !is_used(file)).collect()
    }

    /// What is done next.
    fn command(&self, rng: &mut Rng, round: usize) -> String {
        let pool = *rng.pick(&POOLS);
        let free = self.free();
        let is_in = |names: &[String]| names.iter().any(|name| name == pool);
        let file = (!free.is_empty()).then(|| *rng.pick(&free));
        match (is_in(&self.known), is_in(&self.importable), file) {
            (true, _, file) => match (rng.below(8), file) {
                (0, _) => format!("zpool destroy {pool}"),
                (1 | 2, _) => format!("zpool reguid {pool}"),
                (3, _) => format!("zpool export {pool}"),
                (4, _) => format!("zfs snapshot {pool}@s{round}"),
                (5, _) => format!("zfs create {pool}/f{round}"),
                // What an add that was killed left behind takes no force.
                (_, Some(file)) => format!("zpool add -f {pool} {file}"),
                (_, None) => format!("zpool destroy {pool}"),
            },
            (_, true, _) => format!("zpool import -d . {pool}"),
            (_, _, Some(file)) => format!("zpool create -f {pool} {file}"),
            (_, _, None) => "zpool sync".to_owned(),
        }
    }
}

fn wait(child: &mut Child, limit: Duration) {
    let began = Instant::now();
    while began.elapsed() < limit && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
}

fn killed(seed: u64, rounds: usize) {
    let place = Place::new(&FILES);
    let mut rng = Rng::new(seed);
    let began = Instant::now();
    place.ok("zpool create one f0");
    let usual = began.elapsed();
    let mut done: Vec<String> = Vec::new();
    for round in 0..rounds {
        let seen = PoolContents::of(&place);
        let seen = seen.unwrap_or_else(|e| panic!("seed {seed}: {}\n{e}", done.join("\n")));
        let command = seen.command(&mut rng, round);
        // One of four is let go on to its end.
        let limit = match rng.below(4) {
            0 => Duration::from_secs(60),
            _ => usual * u32::try_from(rng.below(100)).unwrap() / 80,
        };
        wait(&mut place.start(&command), limit);
        done.push(format!("{command} ({limit:?})"));
    }
}

#[test]
fn a_row_of_killed_commands_leaves_each_pool_once_and_whole() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let rounds = number("ZINC_KILLS").unwrap_or(24);
    killed(number("ZINC_SEED").unwrap_or(1), usize::try_from(rounds).unwrap());
}
