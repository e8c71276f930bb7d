//! Vdevs that are new: their configurations, and what the MOS has for each.

use super::config::{TopNumbers, VdevSpec, new_top, set_u64};
use super::config_edit::bad;
use super::features::FeatureTable;
use super::mos as util;
use super::stored_property::StoredPropertyValue;
use crate::alloc;
use crate::error::{Error, Result};
use crate::refusal::{DeviceFault, VdevFault};
use device::WriteDeviceRef;
use dmu::{Objset, Tx, zap};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos;
use rt::Rt;
use std::collections::BTreeMap;
use zio::SpaceClass;

/// A new top-level vdev.
#[derive(Clone, Debug)]
pub struct NewTop {
    /// What it is made of.
    pub spec: VdevSpec,
    /// What it is for.
    pub class: SpaceClass,
}

/// Opened devices by the path that stands in their [`VdevSpec::Leaf`]; in order, so that a
/// simulation repeats what is done with each.
pub type Devices = BTreeMap<String, WriteDeviceRef>;

/// Smallest device that can be part of a pool, in bytes.
pub const DEVICE_MIN: u64 = 64 << 20;

/// Sector exponent for these devices.
fn ashift_of(pool: &str, spec: &VdevSpec, devices: &Devices, wanted: Option<u32>) -> Result<u32> {
    let sector = |p: &str| devices.get(p).map_or(512, |d| d.sector_size());
    let largest = spec.leaves().into_iter().map(sector).max().unwrap_or(512);
    let device = largest.next_power_of_two().trailing_zeros();
    match wanted {
        Some(n) if !(9..=16).contains(&n) => Err(Error::refused(pool, VdevFault::AshiftRange(n))),
        Some(n) if n < device => {
            Err(Error::refused(pool, VdevFault::AshiftBelowDevices { wanted: n, devices: device }))
        }
        Some(n) => Ok(n),
        // Disks that say 512 and have sectors of 4096 are the rule, and cannot be told.
        None => Ok(device.max(12)),
    }
}

/// Bytes that can be allocated on a top-level vdev, parity included.
fn asize_of(pool: &str, spec: &VdevSpec, devices: &Devices) -> Result<u64> {
    let size = |path: &str| -> Result<u64> {
        let none = || Error::refused(pool, DeviceFault::NotOpened(path.to_owned()));
        let size = devices.get(path).ok_or_else(none)?.size();
        if size < DEVICE_MIN {
            let (path, size_bytes, least_bytes) = (path.to_owned(), size, DEVICE_MIN);
            return Err(Error::refused(
                pool,
                DeviceFault::BelowMinimum { path, size_bytes, least_bytes },
            ));
        }
        Ok(ondisk::label::data_size(size))
    };
    let smallest = |paths: Vec<&str>| -> Result<u64> {
        let sizes = paths.into_iter().map(size).collect::<Result<Vec<_>>>()?;
        Ok(sizes.into_iter().min().unwrap_or(0))
    };
    let leaves = spec.leaves();
    let n = leaves.len() as u64;
    match spec {
        VdevSpec::Leaf { .. } | VdevSpec::Mirror(_) => smallest(leaves),
        VdevSpec::Raidz { nparity, .. } => {
            if !(1..=3).contains(nparity) || n <= *nparity {
                let (nparity, devices) = (*nparity, n);
                return Err(Error::refused(pool, VdevFault::RaidzTooNarrow { nparity, devices }));
            }
            Ok(smallest(leaves)? * n)
        }
        VdevSpec::Draid { nparity, ndata, nspares, .. } => {
            let too_small = || Error::refused(pool, VdevFault::DraidTooSmall);
            let disks = n.saturating_sub(*nspares);
            let asize = vdev::draid_asize(smallest(leaves)?, disks, nparity + ndata);
            asize.filter(|asize| *asize > 0).ok_or_else(too_small)
        }
    }
}

/// Configurations of new top-level vdevs, numbered from `first`.
pub(super) fn new_tops(
    pool: &str,
    tops: &[NewTop],
    first: u64,
    txg: u64,
    ashift: Option<u32>,
    devices: &Devices,
    guid: &mut dyn FnMut() -> u64,
) -> Result<Vec<VdevConfig>> {
    let mut out = Vec::with_capacity(tops.len());
    for (top, id) in tops.iter().zip(first..) {
        let ashift = ashift_of(pool, &top.spec, devices, ashift)?;
        let asize = asize_of(pool, &top.spec, devices)?;
        let metaslab_shift = u64::from(alloc::metaslab_shift(asize));
        let ashift = u64::from(ashift);
        let numbers = TopNumbers { id, ashift, asize, metaslab_shift, create_txg: txg };
        let config = new_top(&top.spec, top.class, &numbers, guid);
        out.push(config.map_err(|e| bad(&e))?);
    }
    Ok(out)
}

/// A guid that is not 0.
pub(super) fn guid_from(rt: &Rt) -> impl FnMut() -> u64 + use<> {
    let rt = rt.clone();
    move || loop {
        let n = rt.random_u64();
        if n != 0 {
            return n;
        }
    }
}

pub(super) fn set_member(
    mos: &Objset,
    vdev: &mut VdevConfig,
    name: &str,
    n: u64,
) -> dmu::Result<()> {
    let failed = |e| dmu::Error {
        objset: mos.id(),
        object: mos::DIRECTORY_OBJECT,
        kind: dmu::ErrorKind::Format { place: zio::Place::default(), error: e },
    };
    set_u64(vdev, name, n).map_err(failed)
}

pub(super) fn new_vdev_zap(mos: &Objset, tx: &Tx, map: u64) -> dmu::Result<u64> {
    let zap = util::new_zap(mos, tx, util::TABLE)?;
    // The key is the number in hexadecimal, as with every table of numbers that is a set.
    util::set_u64(mos, tx, map, &format!("{zap:x}"), zap)?;
    Ok(zap)
}

/// Counts new dRAID vdevs.
pub(super) fn count_draids(
    features: &FeatureTable,
    tx: &Tx,
    tops: &[VdevConfig],
) -> dmu::Result<()> {
    let draids = tops.iter().filter(|top| is_draid(top)).count() as i64;
    if draids > 0 { features.add(tx, "org.openzfs:draid", draids) } else { Ok(()) }
}

pub(super) fn is_draid(top: &VdevConfig) -> bool {
    matches!(top.kind, VdevKind::Draid { .. })
}

/// Gives a new top-level vdev and its leaves their ZAPs.
pub(super) fn add_top_zaps(
    mos: &Objset,
    tx: &Tx,
    map: u64,
    top: &mut VdevConfig,
    features: &FeatureTable,
) -> dmu::Result<()> {
    fn leaves(mos: &Objset, tx: &Tx, map: u64, vdev: &mut VdevConfig) -> dmu::Result<()> {
        if vdev.kind.has_device() {
            let zap = new_vdev_zap(mos, tx, map)?;
            return set_member(mos, vdev, "com.delphix:vdev_zap_leaf", zap);
        }
        vdev.children.iter_mut().try_for_each(|c| leaves(mos, tx, map, c))
    }
    leaves(mos, tx, map, top)?;
    let zap = new_vdev_zap(mos, tx, map)?;
    set_member(mos, top, "com.delphix:vdev_zap_top", zap)?;
    let Some(bias) = &top.alloc_bias else { return Ok(()) };
    let text = StoredPropertyValue::Text(bias.clone()).value();
    let key = mos::vdev_zap::ALLOCATION_BIAS.as_bytes();
    zap::set(&mos.object(zap)?, tx, key, &text)?;
    if !top.is_log {
        features.add(tx, "org.zfsonlinux:allocation_classes", 1)?;
    }
    Ok(())
}
