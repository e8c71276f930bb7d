//! Properties that are set at the end of a receive, kept for the case that its end comes with the
//! rest of the stream: that has no properties.
//!
//! They are a packed list in hexadecimal digits, in a field of the head ([`Incoming::later`]).
//!
//! [`Incoming::later`]: dsl::write::Incoming::later

use dsl::StoredValue;
use dsl::write::PropertyChange;
use ondisk::hex;
use ondisk::nvlist::{NvList, NvValue, Packing};
use pool::live::Received;

/// The lists, in this order: what came with the stream, what is not received any more, what is set
/// here, and what is the snapshot's.
const NAMES: [&str; 4] = ["received", "cleared", "local", "snapshot"];

/// Decodes the properties of a text; `None` if the text is not one of [`encode`]'s.
pub(super) fn decode(text: &str) -> Option<Received> {
    let whole = NvList::decode(&hex::decode(text)?).ok()?;
    let [received, cleared, local, of_snapshot] = NAMES.map(|name| match whole.get(name) {
        Some(NvValue::NvList(list)) => list.pairs.iter().filter_map(change).collect(),
        _ => Vec::new(),
    });
    let cleared = cleared.into_iter().map(|change: PropertyChange| change.name).collect();
    Some(Received { received, cleared, local, of_snapshot })
}

fn change(pair: &ondisk::nvlist::NvPair) -> Option<PropertyChange> {
    let name = std::str::from_utf8(&pair.name).ok()?.to_owned();
    let value = match &pair.value {
        NvValue::U64(n) => Some(StoredValue::Number(*n)),
        NvValue::String(text) => Some(StoredValue::Text(String::from_utf8(text.clone()).ok()?)),
        NvValue::Boolean => None,
        _ => return None,
    };
    Some(PropertyChange { name, value })
}

/// The text for these; `None` where there are none.
pub(super) fn encode(with: &Received) -> Option<String> {
    let cleared = |name: &String| PropertyChange { name: name.clone(), value: None };
    let cleared: Vec<_> = with.cleared.iter().map(cleared).collect();
    let all = [&with.received, &cleared, &with.local, &with.of_snapshot];
    let mut whole = NvList::new();
    for (name, changes) in NAMES.into_iter().zip(all).filter(|(_, changes)| !changes.is_empty()) {
        let mut list = NvList::new();
        for change in changes {
            list.set(
                &change.name,
                match &change.value {
                    None => NvValue::Boolean,
                    Some(StoredValue::Number(n)) => NvValue::U64(*n),
                    Some(StoredValue::Text(text)) => NvValue::String(text.clone().into_bytes()),
                },
            );
        }
        whole.set(name, NvValue::NvList(list));
    }
    let packed = whole.encode(Packing::XDR).ok().filter(|_| !whole.pairs.is_empty())?;
    Some(hex::encode(&packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() {
        let change = |name: &str, value| PropertyChange { name: name.to_owned(), value };
        let with = Received {
            received: vec![change("quota", Some(StoredValue::Number(7)))],
            cleared: vec!["atime".to_owned()],
            local: vec![
                change("a:b", Some(StoredValue::Text("ü".to_owned()))),
                change("c:d", None),
            ],
            of_snapshot: Vec::new(),
        };
        let found = encode(&with).and_then(|text| decode(&text)).unwrap_or_default();
        assert_eq!(format!("{found:?}"), format!("{with:?}"));
        assert_eq!(encode(&Received::default()), None);
        for bad in ["", "0", "zz", "ü", "00000000"] {
            assert!(decode(bad).is_none_or(|found| found.received.is_empty()), "{bad}");
        }
    }
}
