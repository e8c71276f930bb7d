//! Checkpoints: the pages of the map that changed, and a root that says where all are.

use super::DiskError;
use super::core::{Core, Phase};
use super::format::{
    Header, Kind, PageRef, Root, checkpoint_name, encode_page, object, pages_name,
};
use super::put::{CreateOutcome, put_and_wait};
use super::seconds;
use super::writer::Snapshot;
use crate::store::client::Urgency;
use std::sync::Arc;

/// Bytes of an object of pages, about.
const OBJECT_BYTES: usize = 32 << 20;

impl Core {
    /// Makes a checkpoint of what is written now, unless there is one. Returns its place.
    pub(super) fn checkpoint(self: &Arc<Self>, last: u64) -> Result<u64, DiskError> {
        let Some(snapshot) = self.snapshot()? else { return Ok(last) };
        let seq = snapshot.seq;
        let pages: Vec<u64> = snapshot.pages.iter().map(|(page, _)| *page).collect();
        if seq == last && pages.is_empty() {
            return Ok(last);
        }
        let made = self.write_checkpoint(&snapshot);
        let mut state = self.state.lock();
        match &made {
            Ok(written) => {
                state.index.wrote(written);
                if let Some(writer) = &mut state.writer {
                    writer.since = writer.next.saturating_sub(seq);
                }
            }
            Err(_) => state.index.changed_again(pages),
        }
        made.map(|_| seq)
    }

    /// The state at a place of the log up to which everything counts.
    fn snapshot(self: &Arc<Self>) -> Result<Option<Snapshot>, DiskError> {
        let mut state = self.state.lock();
        let super::core::State { index, writer, .. } = &mut *state;
        let Some(writer) = writer else { return Ok(None) };
        writer.want_snapshot(index);
        drop(state);
        self.pump();
        let failed = |kind: device::ErrorKind| DiskError::Machine(kind.to_string());
        let mut state = self.state.lock();
        let snapshot = loop {
            if let Phase::Failed(kind) = state.phase {
                return Err(failed(kind));
            }
            let Some(writer) = &mut state.writer else { return Ok(None) };
            if let Some(snapshot) = writer.snapshot.take() {
                break snapshot;
            }
            self.changed.wait(&mut state);
        };
        drop(state);
        let counted = self.wait_for(snapshot.seq);
        if let Err(kind) = counted {
            return Err(failed(kind));
        }
        Ok(Some(snapshot))
    }

    fn write_checkpoint(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Vec<(u64, Option<PageRef>)>, DiskError> {
        let mut written = Vec::new();
        let (mut body, mut own, mut part) = (Vec::new(), Vec::new(), 0);
        for (page, extents) in &snapshot.pages {
            if extents.is_empty() {
                written.push((*page, None));
                continue;
            }
            let (base, _) = self.state.lock().index.page_range(*page);
            let bytes = encode_page(base, extents);
            let mut hash = [0; 16];
            hash.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
            let from = (super::format::HEADER_BYTES + body.len()) as u32;
            let (object, len) = ((snapshot.seq, part), bytes.len() as u32);
            own.push((*page, Some(PageRef { page: *page, object, from, len, hash })));
            body.extend(bytes);
            if body.len() >= OBJECT_BYTES {
                self.write_pages(snapshot, part, &core::mem::take(&mut body))?;
                written.append(&mut own);
                part += 1;
            }
        }
        if !body.is_empty() {
            self.write_pages(snapshot, part, &body)?;
            written.append(&mut own);
        }
        self.write_root(snapshot, &written)?;
        Ok(written)
    }

    fn write_pages(&self, snapshot: &Snapshot, part: u32, body: &[u8]) -> Result<(), DiskError> {
        let mut header = Header::over(Kind::Pages, self.volume.uuid, snapshot.writer, body);
        (header.epoch, header.seq) = (snapshot.epoch, snapshot.seq);
        header.time = seconds(self.client.rt());
        let name = pages_name((snapshot.seq, part));
        self.make(&name, &object(&header, body), snapshot)
    }

    fn write_root(
        &self,
        snapshot: &Snapshot,
        written: &[(u64, Option<PageRef>)],
    ) -> Result<(), DiskError> {
        let mut pages: std::collections::BTreeMap<u64, PageRef> = {
            let state = self.state.lock();
            state.index.written().map(|page| (page.page, *page)).collect()
        };
        for (page, place) in written {
            match place {
                Some(place) => drop(pages.insert(*page, *place)),
                None => drop(pages.remove(page)),
            }
        }
        let pages = pages.into_values().collect();
        let root = Root { pages, segments: snapshot.segments.clone() };
        let body = root.encode();
        let mut header = Header::over(Kind::Checkpoint, self.volume.uuid, snapshot.writer, &body);
        (header.epoch, header.seq) = (snapshot.epoch, snapshot.seq);
        header.previous = snapshot.previous;
        header.time = seconds(self.client.rt());
        self.make(&checkpoint_name(snapshot.seq), &object(&header, &body), snapshot)
    }

    fn make(&self, name: &str, bytes: &[u8], snapshot: &Snapshot) -> Result<(), DiskError> {
        match put_and_wait(&self.client, Urgency::Later, name, bytes)? {
            CreateOutcome::Ours => Ok(()),
            CreateOutcome::Theirs(found) => {
                let by = Header::decode(&found).map_or(0, |header| header.epoch);
                Err(DiskError::Fenced(by.max(snapshot.epoch)))
            }
        }
    }
}
