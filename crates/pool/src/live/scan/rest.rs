//! A scrub beside a load: it reads for a part of the time, and leaves the devices and the
//! processors to others for the rest.
//!
//! The queues of the devices have their say as well, but a device that is fast has a scrub's few
//! requests back at once, and the bytes that come keep processors busy. So the scrub rests as well,
//! for several times as long as it read, and goes on when nothing has begun at any device for a
//! moment.

use super::super::shared::Shared;
use super::super::tunables::Tunable;
use std::time::Duration;

/// How long a scrub reads at a time beside a load: that is how long others wait for it.
const PIECE: Duration = Duration::from_millis(20);
/// How often it is looked whether others use the devices.
const LOOK: Duration = Duration::from_millis(2);
/// Without a request for this long there is no load.
const QUIET: Duration = Duration::from_millis(10);

/// Pieces of a scrub, and the rests between them.
#[derive(Default)]
pub(super) struct ScanPacing {
    /// The last rest was cut short by nothing: there is a load.
    is_loaded: bool,
    /// When the piece began, and how many requests of others there had been.
    began: (Duration, u64),
}

impl ScanPacing {
    /// A piece begins; for how long it may go on.
    pub(super) fn begin(&mut self, shared: &Shared) -> Duration {
        self.began = (shared.rt.now(), shared.reader.vdevs().interactive_requests());
        let piece = shared.scan_piece();
        if self.is_loaded { piece.min(PIECE) } else { piece }
    }

    /// It has ended: rests while there is a load, and no scan is to end.
    pub(super) fn rest(&mut self, shared: &Shared) {
        let share = u32::try_from(shared.tunables.get(Tunable::ScrubShare)).unwrap_or(100);
        let load = || shared.reader.vdevs().interactive_requests();
        let (began, before) = self.began;
        let mut seen = load();
        self.is_loaded = false;
        if seen == before || share >= 100 {
            return;
        }
        let now = shared.rt.now();
        let until = now + now.saturating_sub(began) * (100 - share) / share.max(1);
        let mut last = now;
        while !shared.is_scan_interrupted() {
            let now = shared.rt.now();
            if now >= until {
                self.is_loaded = true;
                return;
            }
            if now.saturating_sub(last) >= QUIET {
                return;
            }
            shared.rt.sleep(LOOK);
            let count = load();
            if count != seen {
                (seen, last) = (count, shared.rt.now());
            }
        }
    }
}
