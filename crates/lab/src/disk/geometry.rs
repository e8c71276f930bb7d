//! Where sectors lie on a rotating disk, as times.
//!
//! Sectors are numbered along one long spiral: all of a track, then the next head's track, after
//! the last head the next cylinder. Outer tracks hold more of them (zones). From the end of a track
//! to the first sector of the next one the platter turns by as much as the switch takes (skew), so
//! that a head which follows the spiral never waits. Hence one function says everything: the
//! *spiral time* of a sector, when a head that began at sector 0 at time 0 would reach it. Its
//! remainder by the time of a rotation is the sector's angle; the difference of two is the time it
//! takes to read from the one to the other.

use super::Nanos;

/// Bytes of a sector.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// What a geometry is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) capacity_bytes: u64,
    pub(crate) rotation: Nanos,
    pub(crate) heads: u64,
    pub(crate) zones: u64,
    /// Sustained rates, switches included.
    pub(crate) outer_bytes_per_second: f64,
    pub(crate) inner_bytes_per_second: f64,
    /// Sectors of a track are a multiple of this.
    pub(crate) track_sectors_multiple: u64,
    pub(crate) head_skew: Nanos,
    pub(crate) cylinder_skew: Nanos,
}

/// Tracks, zones and skews.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    rotation: Nanos,
    heads: u64,
    head_skew: Nanos,
    cylinder_skew: Nanos,
    zones: Vec<Zone>,
    cylinders: u64,
    sectors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    /// Spiral time of the first sector.
    time: Nanos,
    track_sectors: u64,
}

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u64,
    pub(crate) head: u64,
    /// Spiral time of its begin.
    pub(crate) begin: Nanos,
    /// Spiral time of its end, on the same track.
    pub(crate) end: Nanos,
}

impl Geometry {
    pub(crate) fn new(layout: &Layout) -> Self {
        let Layout { rotation, head_skew, cylinder_skew, .. } = *layout;
        let (heads, zones) = (layout.heads.max(1), layout.zones.max(1));
        let cylinder_time = heads * rotation + (heads - 1) * head_skew + cylinder_skew;
        let multiple = layout.track_sectors_multiple.max(1);
        let track_sectors = |zone: u64| {
            let part = if zones == 1 { 0.0 } else { zone as f64 / (zones - 1) as f64 };
            let rate =
                layout.outer_bytes_per_second * (1.0 - part) + layout.inner_bytes_per_second * part;
            let bytes = rate * cylinder_time as f64 * 1e-9 / heads as f64;
            let sectors = bytes / SECTOR_BYTES as f64;
            ((sectors / multiple as f64).round() as u64).max(1) * multiple
        };
        let wanted = layout.capacity_bytes.div_ceil(SECTOR_BYTES).max(1);
        let of_all_zones: u64 = (0..zones).map(|zone| track_sectors(zone) * heads).sum();
        let zone_cylinders = wanted.div_ceil(of_all_zones).max(1);
        let mut geometry = Self {
            rotation,
            heads,
            head_skew,
            cylinder_skew,
            zones: Vec::new(),
            cylinders: zones * zone_cylinders,
            sectors: 0,
        };
        let mut time = 0;
        for zone in 0..zones {
            let track_sectors = track_sectors(zone);
            geometry.zones.push(Zone {
                first_sector: geometry.sectors,
                first_cylinder: zone * zone_cylinders,
                time,
                track_sectors,
            });
            geometry.sectors += track_sectors * heads * zone_cylinders;
            time += cylinder_time * zone_cylinders;
        }
        geometry
    }

    pub(crate) fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Sectors of the whole disk, at least as many as were wanted.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(crate) fn rotation(&self) -> Nanos {
        self.rotation
    }

    fn cylinder_time(&self) -> Nanos {
        self.heads * self.rotation + (self.heads - 1) * self.head_skew + self.cylinder_skew
    }

    /// Where a sector lies; one beyond the end lies where the last one does.
    pub(crate) fn place(&self, sector: u64) -> Place {
        let sector = sector.min(self.sectors - 1);
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let zone = self.zones[zone];
        let within = sector - zone.first_sector;
        let (track, at) = (within / zone.track_sectors, within % zone.track_sectors);
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let start =
            zone.time + cylinder * self.cylinder_time() + head * (self.rotation + self.head_skew);
        Place {
            cylinder: zone.first_cylinder + cylinder,
            head,
            begin: start + at * self.rotation / zone.track_sectors,
            end: start + (at + 1) * self.rotation / zone.track_sectors,
        }
    }

    /// The sector that a head which follows the spiral has not yet finished at this spiral time.
    pub(crate) fn sector_at(&self, time: Nanos) -> u64 {
        let zone = self.zones.partition_point(|zone| zone.time <= time).max(1) - 1;
        let zone = self.zones[zone];
        let (cylinder, rest) =
            ((time - zone.time) / self.cylinder_time(), (time - zone.time) % self.cylinder_time());
        let head = (rest / (self.rotation + self.head_skew)).min(self.heads - 1);
        let in_track = rest - head * (self.rotation + self.head_skew);
        let at = (in_track * zone.track_sectors / self.rotation).min(zone.track_sectors);
        let track = cylinder * self.heads + head;
        (zone.first_sector + track * zone.track_sectors + at).min(self.sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(&Layout {
            capacity_bytes: 1 << 30,
            rotation: 6_000_000,
            heads: 4,
            zones: 5,
            outer_bytes_per_second: 60e6,
            inner_bytes_per_second: 40e6,
            track_sectors_multiple: 1,
            head_skew: 500_000,
            cylinder_skew: 900_000,
        })
    }

    #[test]
    fn following_the_spiral_gives_the_stated_rates() {
        let g = geometry();
        let rate = |first: u64, sectors: u64| {
            let time = g.place(first + sectors - 1).end - g.place(first).begin;
            (sectors * SECTOR_BYTES) as f64 / (time as f64 * 1e-9)
        };
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.005;
        assert!(near(rate(0, 100_000), 60e6), "{}", rate(0, 100_000));
        let last = rate(g.sectors() - 100_000, 100_000);
        assert!(near(last, 40e6), "{last}");
        assert!(g.sectors() * SECTOR_BYTES >= 1 << 30);
    }

    #[test]
    fn places_and_spiral_times_are_inverse() {
        let g = geometry();
        for sector in (0..g.sectors()).step_by(997) {
            let place = g.place(sector);
            assert_eq!(g.sector_at(place.begin.midpoint(place.end)), sector);
            let next = g.place((sector + 1).min(g.sectors() - 1));
            let skew = next.begin.saturating_sub(place.end);
            assert!([0, 500_000, 900_000].contains(&skew), "{sector}: {place:?} {next:?}");
        }
    }
}
