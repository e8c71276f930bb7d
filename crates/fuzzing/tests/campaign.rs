//! Every committed seed, and damaged copies of them, through every target.
//!
//! A failure prints the target and the input in hexadecimal, and leaves it under
//! `target/campaign/`; of an input that panics, the shortest part that still does. An input that
//! takes longer than [`SLOW`] is a hang.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::Rng;

/// No decoder has a reason to think longer about at most a few hundred kilobytes, even in a debug
/// build on a busy machine.
const SLOW: Duration = Duration::from_secs(5);

/// Damaged copies per target when no time is given for the campaign.
const ROUNDS: u64 = 20_000;

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = testkit::workspace_root().join("fuzz/corpus").join(target);
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

/// Runs one input; on a panic or a hang, keeps the input and says where.
fn feed(name: &str, target: fuzzing::Target, input: &[u8], from: &str) -> Result<(), String> {
    let begun = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let slow = begun.elapsed() > SLOW;
    if outcome.is_ok() && !slow {
        return Ok(());
    }
    let fails = |part: &[u8]| catch_unwind(AssertUnwindSafe(|| target(part))).is_err();
    let input = if slow { input.to_vec() } else { testkit::shrunk(input, fails) };
    let folder = testkit::workspace_root().join("target/campaign");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, &input).unwrap();
    let shown: String = input.iter().take(512).map(|byte| format!("{byte:02x}")).collect();
    let what = if slow { "too slow" } else { "panic" };
    Err(format!("{name}: {what} on an input from {from}, kept as {}: {shown}", path.display()))
}

/// A damaged copy of `seed`: a few of the changes that break decoders.
fn damaged(rng: &mut Rng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        let left = bytes.len() - at;
        match rng.below(8) {
            0 if left > 0 => bytes[at] ^= 1 << rng.below(8),
            1 if left > 0 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 if left >= 8 => {
                let edge = *rng.pick(&[0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 1 << 32]);
                bytes[at..at + 8].copy_from_slice(&edge.to_le_bytes());
            }
            3 if left >= 4 => {
                let edge = *rng.pick(&[0, 1, u32::MAX, 1 << 31, u32::MAX >> 1]);
                bytes[at..at + 4].copy_from_slice(&edge.to_be_bytes());
            }
            4 => bytes.truncate(at),
            5 if left > 0 => {
                let len = rng.below(left.min(64) as u64) as usize;
                rng.fill(&mut bytes[at..at + len]);
            }
            6 => {
                let from = rng.below(other.len() as u64) as usize;
                let len = rng.below(left.min(other.len() - from).min(64) as u64) as usize;
                bytes[at..at + len].copy_from_slice(&other[from..from + len]);
            }
            _ => bytes.extend_from_slice(&seed[..at.min(seed.len())]),
        }
    }
    bytes
}

/// The seeds of one target, then damaged copies of them: `seconds` long, or [`ROUNDS`] many.
fn campaign(name: &str, target: fuzzing::Target, seconds: Option<u64>) -> Result<(), String> {
    let mut rng = Rng::new(0x5eed);
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    for (path, bytes) in seeds(name) {
        feed(name, target, &bytes, &path.display().to_string())?;
        inputs.push(bytes);
    }
    let mut noise = vec![0; 4096];
    rng.fill(&mut noise);
    inputs.extend([Vec::new(), vec![0; 2048], vec![0xff; 2048], noise]);
    let begun = Instant::now();
    for round in 0.. {
        let over = match seconds {
            None => round == ROUNDS,
            Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
        };
        if over {
            break;
        }
        let seed = rng.pick(&inputs).clone();
        let other = rng.pick(&inputs).clone();
        let input = damaged(&mut rng, &seed, &other);
        feed(name, target, &input, &format!("round {round}"))?;
    }
    Ok(())
}

#[test]
fn every_target_survives_its_seeds_and_damaged_copies_of_them() {
    let seconds = std::env::var("ZINC_CAMPAIGN_SECONDS").ok().and_then(|text| text.parse().ok());
    let failures = Mutex::new(Vec::new());
    let Ok(()) = rt::Rt::real().for_each_parallel(0, fuzzing::targets(), |(name, target)| {
        failures.lock().unwrap().extend(campaign(name, target, seconds).err());
        Ok::<(), Infallible>(())
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The campaign can fail: a target that panics on a certain byte is found out.
#[test]
fn the_campaign_sees_a_panic() {
    let fragile: fuzzing::Target = |data| assert!(data.first() != Some(&0xff), "fragile");
    assert!(feed("fragile", fragile, &[0], "here").is_ok());
    let message = feed("fragile", fragile, &[0xff; 1000], "here").unwrap_err();
    assert!(message.ends_with(": ff"), "not made shorter: {message}");
    assert!(campaign("fragile", fragile, None).is_err());
}

#[test]
fn every_folder_of_seeds_has_a_target_and_every_target_its_fuzzer() {
    let root = testkit::workspace_root();
    let names: Vec<&str> = fuzzing::targets().iter().map(|(name, _)| *name).collect();
    for entry in std::fs::read_dir(root.join("fuzz/corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name.as_str()), "fuzz/corpus/{name} has no target");
    }
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/ has no {name}");
        assert!(!seeds(name).is_empty(), "fuzz/corpus/{name} has no seed");
    }
}
