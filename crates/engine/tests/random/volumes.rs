//! Random operations on volumes.

use super::{Run, State, class, class_of};
use engine::Volume;
use engine::inside::dmu::Hold;

impl Run {
    pub(super) fn volume(&mut self, name: &str) -> Volume {
        if let Some(volume) = self.volumes.get(name) {
            return volume.clone();
        }
        let volume = self.pool().volume(name).unwrap_or_else(|e| panic!("opening {name}: {e}"));
        self.volumes.insert(name.to_owned(), volume.clone());
        volume
    }

    /// Writes without a transaction of the caller.
    pub(super) fn write_volume_promised(&mut self, name: &str, data: &[u8]) -> Result<(), String> {
        let volume = self.volume(name);
        let data = &data[..data.len().min(volume.size() as usize)];
        let offset = self.rng.below(volume.size() - data.len() as u64 + 1);
        self.note(format!("{name}: promised write at {offset}, {} bytes", data.len()));
        // It is in the txg that is open.
        let tx = volume.object().objset().begin(Hold::free()).map_err(|e| e.to_string())?;
        self.in_txg(tx.txg());
        drop(tx);
        match volume.write_at(offset, data) {
            Err(e) if class_of(&e) == class::NO_SPACE => self.refused += 1,
            got => {
                got.map_err(|e| e.to_string())?;
                self.model.sets.get_mut(name).unwrap().volume_mut().write(offset, data);
            }
        }
        Ok(())
    }

    pub(super) fn volume_op(&mut self) -> Result<(), String> {
        let names = self.model.names(|s| !s.is_files());
        if names.is_empty() {
            return self.create_volume();
        }
        let name = self.rng.pick(&names).clone();
        let mut volume = self.volume(&name);
        let size = volume.size();
        let offset = self.rng.below(size);
        let len = (1 + self.rng.below(60_000)).min(size - offset);
        let what = self.rng.below(10);
        let data = self.any_bytes(len);
        let hold = if what < 7 { Hold::write(len + (256 << 10)) } else { Hold::free() };
        let tx = match volume.object().objset().begin(hold) {
            Ok(tx) => tx,
            Err(e) if class_of(&e.clone().into()) == class::NO_SPACE => {
                self.refused += 1;
                return Ok(());
            }
            Err(e) => return Err(e.to_string()),
        };
        self.in_txg(tx.txg());
        let blocks = size / volume.block_size();
        let (done, resized) = match what {
            0..=6 => {
                self.note(format!("{name}: write at {offset}, {len} bytes"));
                (volume.write_at_tx(&tx, offset, &data), None)
            }
            7 | 8 => {
                self.note(format!("{name}: trim at {offset}, {len} bytes"));
                (volume.trim_tx(&tx, offset, len), None)
            }
            _ => {
                let blocks = (blocks / 2 + self.rng.below(blocks + 8)).clamp(1, 4000);
                let to = blocks * volume.block_size();
                self.note(format!("{name}: resize from {size} to {to}"));
                (volume.resize_tx(&tx, to), Some(to))
            }
        };
        drop(tx);
        done.map_err(|e| e.to_string())?;
        let content = self.model.sets.get_mut(&name).unwrap().volume_mut();
        match (what, resized) {
            (_, Some(to)) => {
                content.resize(to);
                self.volumes.remove(&name);
            }
            (7 | 8, _) => content.clear(offset, offset + len),
            _ => content.write(offset, &data),
        }
        if self.rng.below(10) == 0 {
            let volume = self.volume(&name);
            if let State::Volume(content) = &*self.model.sets[&name].state {
                super::compare::volume(&volume, content).map_err(|e| format!("{name}: {e}"))?;
            }
        }
        Ok(())
    }
}
