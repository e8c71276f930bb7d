//! Properties that zinc keeps for others and does not act on itself.
//!
//! A user that sets `dedup=on` expects that data is deduplicated from now on. Where zinc does not
//! do what a value asks for, it stores the value, for OpenZFS acts on it, and says so.

use crate::session::Session;
use crate::ui;
use engine::props;

/// The property, the value that asks for nothing, and what zinc does instead.
const KEPT: [(&str, &str, &str); 8] = [
    ("dedup", "off", "zinc deduplicates nothing that it writes"),
    ("primarycache", "all", "zinc caches all datasets alike"),
    ("secondarycache", "all", "zinc does not use cache devices"),
    ("prefetch", "all", "zinc reads ahead of all datasets alike"),
    ("direct", "standard", "zinc does no direct I/O of files"),
    ("autoreplace", "off", "zinc replaces no device by itself"),
    ("listsnapshots", "off", "`zinc zfs list` shows snapshots with -t snapshot or -t all"),
    ("delegation", "on", "zinc asks the system alone who may change a pool"),
];

/// Says which of these settings (`NAME=VALUE`) zinc only keeps.
pub fn note<'s>(session: &Session, settings: impl IntoIterator<Item = &'s String>) {
    for (name, value) in settings.into_iter().filter_map(|text| text.split_once('=')) {
        // A column's heading is a name of a pool's property too, unless a dataset's has that name.
        let name = match props::find(&props::DATASET, name) {
            Some(_) => name,
            None => props::find_pool(name).map_or(name, |p| p.name),
        };
        let kept = |(known, neutral, _): &&(&str, &str, &str)| *known == name && *neutral != value;
        if let Some((.., instead)) = KEPT.iter().find(kept) {
            let note = format!("note: '{name}={value}' is kept for other systems: {instead}\n");
            ui::error(session, &note);
        }
    }
}
