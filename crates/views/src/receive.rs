//! The messages for streams that are received, and for those that are not, in the words of OpenZFS,
//! which scripts look for.

use crate::names::bad_name;
use crate::refusals;
use crate::streams;
use engine::props::find_dataset;
use engine::receive::{Followed, NotReceived, Phase, Restored, Stream};
use engine::{Error, ErrorKind, Refusal, Rule, StreamFault};
use std::time::Duration;
use term::human::nicebytes;

/// A property that occurs twice among these, by one name or by two.
#[must_use]
pub fn named_twice(names: &[String]) -> Option<&str> {
    let full = |name: &String| find_dataset(name).map_or(name.clone(), |p| p.name.to_owned());
    let all: Vec<String> = names.iter().map(full).collect();
    let at = (0..all.len()).find(|at| all[..*at].contains(&all[*at]))?;
    Some(&names[at])
}

/// The message when the stream of a snapshot begins; `is_dry`: it is only read.
#[must_use]
pub fn begins(stream: &Stream, is_dry: bool) -> String {
    let origin = stream.origin.as_ref();
    let origin = origin.map_or(String::new(), |name| format!("found clone origin {name}\n"));
    let doing = if is_dry { "would receive" } else { "receiving" };
    let what = if stream.is_increment { "incremental" } else { "full" };
    if stream.heals {
        let (doing, into) = (if is_dry { "would heal" } else { "healing" }, &stream.destination);
        return format!("{doing} {into} with the {what} stream of {}\n", stream.sent);
    }
    format!("{origin}{doing} {what} stream of {} into {}\n", stream.sent, stream.destination)
}

/// The same when it has ended.
#[must_use]
pub fn ends(bytes: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(0.01);
    let rate = nicebytes((bytes as f64 / seconds) as u64);
    format!("received {} stream in {seconds:.2} seconds ({rate}/sec)\n", nicebytes(bytes))
}

/// The result of a corrective receive of a snapshot.
#[must_use]
pub fn corrected(snapshot: &str, blocks: &Restored) -> String {
    let Restored { read, restored, written, .. } = blocks;
    let written = nicebytes(*written);
    format!("healed {restored} blocks of {snapshot}: {read} blocks read, {written} written\n")
}

/// A key that is needed is not loaded, of a stream of several datasets that of any of them.
fn no_key(doing: &str, dataset: &str, error: &Error) -> (String, Option<String>) {
    let hint = "`zinc zfs load-key` loads it in a served pool; otherwise it is read where the \
                property keylocation says";
    let head = error.dataset().and_then(|name| name.split('@').next());
    let whose = match head.filter(|name| *name != dataset) {
        Some(name) => format!("'{name}': "),
        None => String::new(),
    };
    (format!("{doing}: {whose}inherited key must be loaded"), Some(hint.to_owned()))
}

/// Why a stream was not received, and a hint. `None`: the error's own text is enough.
#[must_use]
pub fn failure(failed: &NotReceived) -> Option<(String, Option<String>)> {
    let error = &failed.error;
    let doing = match failed.phase {
        Phase::Reading => "cannot receive",
        Phase::New => "cannot receive new filesystem stream",
        Phase::Increment => "cannot receive incremental stream",
        Phase::Rest => "cannot receive resume stream",
        Phase::Correcting => "cannot receive corrective stream",
        Phase::Following => return Some(not_followed(failed)),
    };
    let destination = &failed.destination;
    let dataset = destination.split('@').next().unwrap_or_default();
    let plain = |text: String| Some((format!("{doing}: {text}"), None));
    let why = match error.kind() {
        ErrorKind::BadStream(fault) => {
            let is_cut = matches!(fault, StreamFault::Incomplete | StreamFault::Checksum);
            let Some(token) = failed.token.as_ref() else {
                return plain(streams::fault(fault));
            };
            let fault = match is_cut {
                true => "checksum mismatch or incomplete stream".to_owned(),
                false => streams::fault(fault),
            };
            let text = format!("{fault}. Partially received snapshot is saved.");
            let hint = format!(
                "A resuming stream can be generated on the sending system by running: zfs send -t \
                 {token}"
            );
            return Some((format!("{doing}: {text}"), Some(hint)));
        }
        ErrorKind::NotReceived(what) => return plain(format!("{what}: not supported by zinc yet")),
        ErrorKind::Against(Rule::HeadName) => {
            return plain("cannot specify snapshot name for multi-snapshot stream".to_owned());
        }
        ErrorKind::Against(Rule::Target) => {
            let target = error.dataset().unwrap_or(dataset);
            return Some((format!("cannot receive: specified fs ({target}) does not exist"), None));
        }
        ErrorKind::InvalidName => return plain(bad_name(destination)),
        ErrorKind::NotFound => {
            let missing = error.dataset().unwrap_or(dataset);
            return plain(format!("destination '{missing}' does not exist"));
        }
        ErrorKind::BadValue { property, value } => {
            return plain(refusals::bad_value(property, value, error.hint()));
        }
        ErrorKind::NoKey => return Some(no_key(doing, dataset, error)),
        ErrorKind::NoSpace => return plain("out of space".to_owned()),
        ErrorKind::Quota => return plain(format!("destination {dataset} space quota exceeded.")),
        ErrorKind::Refused(why) => why,
        _ => return None,
    };
    match why {
        Refusal::Exists if error.dataset().is_some_and(|name| name.contains('@')) => {
            Some((format!("cannot restore to {destination}: destination already exists"), None))
        }
        other => {
            // The incomplete dataset may be the parent.
            let is_above = matches!(other, Refusal::Inconsistent);
            let dataset = error.dataset().filter(|_| is_above).unwrap_or(dataset);
            let (text, hint) = refused(other, dataset, destination);
            Some((format!("{doing}: {text}"), hint))
        }
    }
}

/// A change of the sender that is about to be repeated; `is_dry`: it is not.
#[must_use]
pub fn follows(change: &Followed, is_dry: bool) -> String {
    let doing = if is_dry { "would" } else { "attempting" };
    match change {
        Followed::Promoted(name) => format!("{doing} promote {name}\n"),
        Followed::Destroyed(name) => format!("{doing} destroy {name}\n"),
        Followed::Renamed(from, to) => format!("{doing} rename {from} to {to}\n"),
    }
}

/// Why a dataset or snapshot is not as the sender has it.
fn not_followed(failed: &NotReceived) -> (String, Option<String>) {
    let name = &failed.destination;
    let why = match failed.error.kind() {
        ErrorKind::Refused(why) => refusals::text(why),
        _ => failed.error.to_string(),
    };
    (format!("cannot receive: '{name}' cannot be made as the sender has it: {why}"), None)
}

/// Why a partly received state is not discarded; `None`: the error's own text is enough.
#[must_use]
pub fn not_aborted(name: &str, error: &Error) -> Option<String> {
    let is_whole = matches!(error.kind(), ErrorKind::Refused(Refusal::NotPartlyReceived));
    is_whole.then(|| format!("'{name}' does not have any resumable receive state to abort"))
}

/// Why the pool refuses a stream, and what to do about it.
fn refused(why: &Refusal, dataset: &str, destination: &str) -> (String, Option<String>) {
    let hinted = |text: String, hint: &str| (text, Some(hint.to_owned()));
    let text = match why {
        Refusal::Exists => {
            let text = format!("destination '{dataset}' exists");
            return hinted(text, "must specify -F to overwrite it");
        }
        Refusal::HasSnapshots(_, one) => {
            let text = format!("destination has snapshots (eg. {one})");
            return hinted(text, "must destroy them to overwrite it");
        }
        Refusal::HasChildren(one) => {
            let text = format!("destination has children (eg. {one})");
            return hinted(text, "cannot overwrite with a ZVOL");
        }
        Refusal::PoolRoot => {
            let text = format!("destination {dataset} is the root dataset");
            return hinted(text, "cannot overwrite with a ZVOL");
        }
        Refusal::IsAClone => {
            let text = format!("destination '{dataset}' is a clone");
            return hinted(text, "must destroy it to overwrite it");
        }
        Refusal::NoFeature(guid) => {
            let hint = format!("it does not have the feature {guid}");
            return hinted("pool must be upgraded to receive this stream.".to_owned(), &hint);
        }
        Refusal::NotTheSource => {
            format!("most recent snapshot of {dataset} does not match incremental source")
        }
        Refusal::Modified => {
            format!("destination {dataset} has been modified since most recent snapshot")
        }
        Refusal::NoLocalOrigin => format!("local origin for clone {destination} does not exist"),
        Refusal::LargeBlocksCut => {
            "incremental send stream requires -L (--large-block), to match previous receive.".into()
        }
        Refusal::Receiving | Refusal::Inconsistent => {
            format!(
                "destination {dataset} contains partially-complete state from \"zfs receive -s\"."
            )
        }
        Refusal::RawOnPlain => {
            "cannot perform raw receive on top of existing unencrypted dataset".into()
        }
        Refusal::RawReplaces => {
            "zfs receive -F cannot be used to destroy an encrypted filesystem or overwrite an \
             unencrypted one with an encrypted one"
                .into()
        }
        Refusal::NoIvset => {
            let hint = "one of both was made by a program that did not note it yet";
            return hinted("IV set guid missing.".to_owned(), hint);
        }
        Refusal::OtherIvset => {
            let hint = "the snapshot was not received raw itself, or not from that stream; raw \
                        increments go on from raw streams only";
            return hinted("IV set guid mismatch.".to_owned(), hint);
        }
        Refusal::OtherKey => "encryption key does not match existing key".into(),
        Refusal::OfRawStream(_) | Refusal::OfIncrement(_) => why.to_string(),
        Refusal::OtherKind | Refusal::NotTheRest | Refusal::OtherForm => {
            format!("invalid backup stream: {why}")
        }
        Refusal::Quota(_) => format!("destination {dataset} space quota exceeded."),
        other => refusals::text(other),
    };
    (text, None)
}
