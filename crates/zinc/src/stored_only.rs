//! Notes on settings that zinc stores for other systems and does not act on itself.

use crate::session::Session;
use crate::ui;

/// Says which of these settings (`NAME=VALUE`) zinc only keeps.
pub fn note<'s>(session: &Session, settings: impl IntoIterator<Item = &'s String>) {
    for (name, value) in settings.into_iter().filter_map(|text| text.split_once('=')) {
        if let Some(note) = views::stored_only::note(name, value) {
            ui::error(session, &format!("note: {note}\n"));
        }
    }
}
