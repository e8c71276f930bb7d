//! What is remembered of each txg.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where a txg stands; the letters are those of OpenZFS's `txgs` statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TxgState {
    /// It is open.
    #[default]
    #[serde(rename = "O")]
    Open,
    /// Its last transactions are awaited.
    #[serde(rename = "Q")]
    Quiescing,
    /// It waits for its turn to be synced.
    #[serde(rename = "W")]
    Waiting,
    /// It is being synced.
    #[serde(rename = "S")]
    Syncing,
    /// It is durable.
    #[serde(rename = "C")]
    Committed,
}

impl TxgState {
    /// Its letter.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Open => 'O',
            Self::Quiescing => 'Q',
            Self::Waiting => 'W',
            Self::Syncing => 'S',
            Self::Committed => 'C',
        }
    }
}

/// Why a txg was pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PushReason {
    /// It was open for `zfs_txg_timeout`.
    Timeout,
    /// It held enough dirty data, or changes of enough objects, for the devices to begin.
    Dirty,
    /// A writer stood at the limit.
    Limit,
    /// A thread waited for its writes to be durable.
    #[default]
    Waited,
    /// A sync task was waiting: a new dataset, a snapshot, a property.
    Task,
    /// A writer did not fit into the free space, and waited for what was freed.
    Space,
    /// What was destroyed went on being freed.
    Freeing,
}

impl PushReason {
    /// As tables have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dirty => "dirty",
            Self::Limit => "limit",
            Self::Waited => "waited",
            Self::Task => "task",
            Self::Space => "space",
            Self::Freeing => "freeing",
        }
    }
}

/// What one txg did. Times are on the clock of [`rt::Rt::now`]; as JSON they are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxgRecord {
    /// Its number.
    pub txg: u64,
    /// Where it stands.
    pub state: TxgState,
    /// When it was opened.
    #[serde(rename = "birth_ns", alias = "opened_ns", with = "nanos")]
    pub opened: Duration,
    /// How long it was open.
    #[serde(rename = "open_ns", with = "nanos")]
    pub open: Duration,
    /// How long its last transactions took to end.
    #[serde(rename = "quiesce_ns", with = "nanos")]
    pub quiesce: Duration,
    /// How long it waited for its turn.
    #[serde(rename = "wait_ns", with = "nanos")]
    pub wait: Duration,
    /// How long it took to sync, without the wait for its turn.
    #[serde(rename = "sync_ns", with = "nanos")]
    pub sync: Duration,
    /// The part of it until all blocks were on their devices; what follows is flushes and labels.
    #[serde(rename = "write_ns", with = "nanos")]
    pub write_time: Duration,
    /// The part of that in which the sync waited for blocks that it had to read.
    #[serde(rename = "read_wait_ns", with = "nanos")]
    pub read_time: Duration,
    /// Bytes that became dirty in it.
    #[serde(rename = "dirty_bytes")]
    pub dirty: u64,
    /// Bytes that were dirty in all txgs when it was durable.
    #[serde(rename = "dirty_at_end_bytes")]
    pub dirty_at_end: u64,
    /// Bytes of its blocks as they are stored, of one copy.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// Blocks written.
    pub blocks: u64,
    /// All reads that devices did during its sync.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that devices did during its sync.
    pub writes: u64,
    /// Their bytes, with copies, parity and labels.
    pub write_bytes: u64,
    /// Passes over the meta object set until it converged.
    pub passes: u32,
    /// The throttle's limit when it quiesced, in the throttle's own bytes.
    #[serde(rename = "limit_bytes")]
    pub limit: u64,
    /// Delays of writers while it was open.
    pub delays: u64,
    /// Sum of the delays.
    #[serde(rename = "delayed_ns", with = "nanos")]
    pub delayed: Duration,
    /// Times that writers waited for another txg or for room while it was open.
    #[serde(rename = "stops")]
    pub waits: u64,
    /// Sum of these waits.
    #[serde(rename = "stopped_ns", with = "nanos")]
    pub waited: Duration,
    /// Why it was pushed.
    pub pushed: PushReason,
}

impl TxgRecord {
    /// When it was durable.
    #[must_use]
    pub fn ended(&self) -> Duration {
        self.opened + self.open + self.quiesce + self.wait + self.sync
    }
}

/// Durations as nanoseconds.
mod nanos {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_json_and_back() {
        let record = TxgRecord {
            txg: 9,
            state: TxgState::Committed,
            sync: Duration::from_millis(3),
            pushed: PushReason::Limit,
            ..TxgRecord::default()
        };
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains(r#""state":"C""#) && text.contains(r#""sync_ns":3000000"#), "{text}");
        assert!(text.contains(r#""pushed":"limit""#), "{text}");
        assert_eq!(serde_json::from_str::<TxgRecord>(&text).unwrap(), record);
        // A record of a version that knew less.
        let old: TxgRecord = serde_json::from_str(r#"{"txg": 3}"#).unwrap();
        assert_eq!(old, TxgRecord { txg: 3, ..TxgRecord::default() });
    }
}
