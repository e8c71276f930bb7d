//! `zdb -l`: the labels of devices, whatever they belong to.
//!
//! Labels with the same content are printed once, with the numbers of all that agree. A disk with
//! a partition table and no label of its own is searched for partitions.

use super::dump::Dump;
use super::{show, uber};
use crate::{Error, Result};
use engine::devices::AnyDevices;
use engine::inside::device::gpt::Gpt;
use engine::inside::device::{DeviceRef, DeviceSource as _};
use engine::inside::ondisk::config::LabelConfig;
use engine::inside::ondisk::label::{BootEnv, Part};
use engine::inside::ondisk::{label, uberblock};
use engine::inside::pool;
use engine::inside::pool::{FoundLeaf, FoundUberblock, LabelView};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What of labels is wanted.
#[derive(Clone, Copy, Debug)]
pub struct LabelOptions {
    /// The configuration.
    pub config: bool,
    /// How much: 2 says where labels are, 3 prints each label, agreeing or not.
    pub level: u8,
    /// The uberblocks, each one once: 0 for no.
    pub uberblocks: u8,
}

/// The path of a device as it is named: `sda` is `/dev/sda`, unless a file here has that name.
#[must_use]
pub fn device(word: &str) -> PathBuf {
    let known = Path::new("/dev").join(word);
    let is_short = !word.contains('/') && !Path::new(word).exists() && known.exists();
    if is_short { known } else { PathBuf::from(word) }
}

/// Prints the labels of a device and of the ZFS partitions on it; whether there is one.
///
/// # Errors
/// The device cannot be opened. Problems with its labels are reported in the dump.
pub fn dump(d: &mut Dump, path: &Path, wanted: LabelOptions) -> Result<bool> {
    let device = AnyDevices::default()
        .open(path)
        .map_err(|cause| Error::Device { path: path.to_owned(), cause })?;
    let views = pool::read_labels(&device);
    let any = views.iter().any(|v| v.nvlist.is_some());
    let table = if any { None } else { Gpt::read(device.as_ref()).ok().flatten() };
    let Some(table) = table else {
        one(d, &device, path, &views, wanted);
        return Ok(any);
    };
    let mut any = false;
    for part in table.zfs() {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("#{}", part.number));
        let window: DeviceRef = Arc::new(part.open(&device));
        let views = pool::read_labels(&window);
        any |= views.iter().any(|v| v.nvlist.is_some());
        one(d, &window, &PathBuf::from(name), &views, wanted);
    }
    Ok(any)
}

fn one(d: &mut Dump, device: &DeviceRef, path: &Path, views: &[LabelView], wanted: LabelOptions) {
    d.open_flat("devices");
    d.field("device", path.display().to_string(), format_args!("Device {}", path.display()));
    d.hold("size", device.size());
    if views.is_empty() {
        d.fail("the device is too small to have labels");
    }
    let rings = match wanted.uberblocks {
        0 => None,
        level => Rings::read(device, path, views, level),
    };
    let mut done = vec![false; views.len()];
    for (i, view) in views.iter().enumerate() {
        let is_shown = done.get(i).copied().unwrap_or(false);
        if !is_shown {
            let agree = agreeing(views, i, wanted, &mut done);
            label(d, view, &agree, wanted);
        }
        let mut has_heading = !is_shown || !wanted.config;
        if let Some(rings) = &rings {
            rings.show(d, view.index, |d| {
                if !std::mem::replace(&mut has_heading, true) {
                    heading(d, view);
                }
            });
        }
    }
    boot_env(d, device);
    d.close_flat();
}

/// The labels that say the same as this one, from it on; they are noted in `done`.
fn agreeing(views: &[LabelView], i: usize, wanted: LabelOptions, done: &mut [bool]) -> Vec<usize> {
    let mut agree = Vec::new();
    if let Some(view) = views.get(i) {
        let same = |v: &LabelView| match (&v.nvlist, &view.nvlist) {
            _ if wanted.level >= 3 => v.index == view.index,
            (Some(a), Some(b)) => a == b,
            (None, None) if v.is_altered => view.is_altered,
            _ => v.index == view.index,
        };
        for (other, done) in views.iter().zip(done).skip(i) {
            if same(other) {
                *done = true;
                agree.push(other.index);
            }
        }
    }
    agree
}

fn heading(d: &mut Dump, view: &LabelView) {
    d.note("------------------------------------");
    let note = if view.is_altered { " (Bad label cksum)" } else { "" };
    d.note(format_args!("LABEL {}{note}", view.index));
    d.note("------------------------------------");
}

fn numbers(labels: &[usize]) -> String {
    labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn label(d: &mut Dump, view: &LabelView, agree: &[usize], wanted: LabelOptions) {
    d.open_flat("labels");
    d.hold("label", view.index);
    if wanted.config {
        heading(d, view);
    }
    if wanted.level >= 2 {
        d.field("offset", view.offset, format_args!("    offset = {:#x}", view.offset));
    }
    match (&view.nvlist, &view.config) {
        (Some(list), config) => {
            if wanted.config {
                show::nvlist(d, "config", list, 4);
            }
            if let Err(e) = config {
                d.fail(format_args!("label {}: {e}", view.index));
            }
        }
        (None, Err(e)) => d.fail(format_args!("label {}: {e}", view.index)),
        (None, Ok(_)) => {}
    }
    if view.nvlist.is_some() {
        d.field("agree", agree.to_vec(), format_args!("    labels = {}", numbers(agree)));
    }
    d.close_flat();
}

/// What a boot loader keeps in the labels; each label has its own copy.
fn boot_env(d: &mut Dump, device: &DeviceRef) {
    for n in 0..label::LABELS {
        let Some(at) = label::part_offset(device.size(), n, Part::BootEnv) else { continue };
        let range = [(at, Part::BootEnv.size() as usize)];
        let block = engine::inside::device::read_batch(device.as_ref(), &range).pop();
        let Some(Ok(block)) = block else { continue };
        // One that was never written has no checksum either: only a good one is worth a word.
        if engine::inside::codec::checksum::verify_label(&block, at).is_err() {
            continue;
        }
        match BootEnv::decode(&block) {
            Ok(BootEnv::Empty) => {}
            Ok(BootEnv::Raw(text)) => {
                d.open("boot_environments", format_args!("Boot environment of label {n}:"));
                d.hold("label", n);
                d.fact("text", show::text(&text));
                d.close();
            }
            Ok(BootEnv::NvList(list)) => {
                d.open("boot_environments", format_args!("Boot environment of label {n}:"));
                d.hold("label", n);
                show::nvlist(d, "list", &list, 0);
                d.close();
            }
            Err(e) => d.fail(format_args!("boot environment of label {n}: {e}")),
        }
    }
}

/// The uberblocks of a device, from the rings of all labels.
struct Rings {
    found: Vec<FoundUberblock>,
    /// Slots of each ring.
    slots: usize,
    /// How much is shown: from the second `-u` on also slots without one, from the third on those
    /// of each label.
    level: u8,
}

impl Rings {
    fn read(device: &DeviceRef, path: &Path, views: &[LabelView], level: u8) -> Option<Self> {
        let txg = |c: &&LabelConfig| if let LabelConfig::Member(m) = c { m.txg } else { 0 };
        let config = views.iter().filter_map(|v| v.config.as_ref().ok()).max_by_key(txg)?.clone();
        let (device, path, labels) = (Arc::clone(device), path.to_owned(), views.to_vec());
        let ashift = match &config {
            LabelConfig::Member(member) => member.vdev_tree.ashift.unwrap_or(0),
            LabelConfig::Aux(_) => return None,
        };
        let found = pool::read_ring(&FoundLeaf { device, path, labels, config });
        Some(Self { found, slots: uberblock::slot_count(ashift), level })
    }

    /// Those that are found in this label first; `heading` is called before the first line.
    fn show(&self, d: &mut Dump, label: usize, mut heading: impl FnMut(&mut Dump)) {
        for slot in 0..self.slots {
            let here = || self.found.iter().filter(|f| f.slot == slot);
            let Some(own) = here().find(|f| f.label == label) else {
                if self.level >= 2 {
                    heading(d);
                    d.note(format_args!("    Uberblock[{slot}] invalid"));
                }
                continue;
            };
            let same = here().filter(|f| f.uberblock == own.uberblock);
            let labels: Vec<usize> = same.map(|f| f.label).collect();
            if self.level < 3 && labels.first() != Some(&label) {
                continue;
            }
            heading(d);
            d.open("uberblocks", format_args!("    Uberblock[{slot}]"));
            d.hold("slot", slot);
            uber::fields(d, &own.uberblock);
            d.field("labels", labels.clone(), format_args!("labels = {}", numbers(&labels)));
            d.close();
        }
    }
}
