//! Adding vdevs, spares and cache devices to a pool.

use super::claim::DeviceClaim;
use crate::error::{Error, ErrorKind, Place, Result, Rule};
use crate::layout::{Layout, Level};
use pool::live::{Devices, LivePool, SpaceClass};
use pool::{Pool, class_of};

/// What a pool is to get.
///
/// ```
/// use engine::devices::AnyDevices;
/// use engine::pools::{Add, DeviceClaim};
/// use engine::{NewPool, Rt, layout};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| {
/// #     let path = folder.path().join(name);
/// #     std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
/// #     path.to_str().unwrap().to_owned()
/// # };
/// let pool = NewPool::new("tank").file(folder.path().join("a.img"), 64 << 20)?.create()?;
/// let log = image("log.img");
/// let add = Add::new(layout::parse(&["log".to_owned(), log])?);
/// let rt = Rt::real();
/// let devices = add.claim(&pool.look()?, &DeviceClaim::new(&rt, &AnyDevices::default()))?;
/// add.run(&pool, &devices)?;
/// assert!(pool.look()?.config().vdev_tree.children[1].is_log);
/// # pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Add {
    layout: Layout,
    ashift: Option<u32>,
    despite_mismatch: bool,
    despite_ashift: bool,
}

impl Add {
    /// Adds the vdevs, spares and cache devices of a layout.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, ashift: None, despite_mismatch: false, despite_ashift: false }
    }

    /// With sectors of two to the power of this many bytes; otherwise as the pool's property says.
    #[must_use]
    pub fn with_ashift(self, ashift: Option<u32>) -> Self {
        Self { ashift, ..self }
    }

    /// Also vdevs that survive other losses than those that are there, or of unequal devices.
    #[must_use]
    pub fn despite_mismatch(self, despite_mismatch: bool) -> Self {
        Self { despite_mismatch, ..self }
    }

    /// Also with another sector size than that of the vdevs that are there.
    #[must_use]
    pub fn despite_ashift(self, despite_ashift: bool) -> Self {
        Self { despite_ashift, ..self }
    }

    /// What is added.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn sector_exponent(&self, pool: &Pool) -> Option<u32> {
        self.ashift.or_else(|| {
            let properties = pool.properties(&pool.space());
            let value = properties.iter().find(|p| p.name == "ashift")?.value.parse().ok()?;
            (value != 0).then_some(value)
        })
    }

    /// Whether this pool could get it, as far as can be seen without the devices.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, pool: &Pool) -> Result<()> {
        let at = |e: Error| Err(e.at(Place::Pool(pool.name().to_owned())));
        let tops = || pool.config().vdev_tree.children.iter().filter(|top| !top.is_hole);
        if !self.despite_mismatch {
            let counts = tops().filter(|top| class_of(top) != SpaceClass::Log);
            let present: Vec<Level> = counts.filter_map(Level::of_config).collect();
            if let Some(why) = self.layout.mismatch(&present) {
                return at(Error::new(ErrorKind::Mismatched(why)));
            }
        }
        // Data that was made for one sector size wastes space on, or is slow on, another.
        let normal = tops().filter(|top| class_of(top) == SpaceClass::Normal);
        let mut there = normal.filter_map(|top| top.ashift);
        let wanted = self.sector_exponent(pool).map(u64::from);
        if !self.despite_ashift && wanted.is_some_and(|w| there.any(|there| there != w)) {
            return at(Error::against(Rule::SectorSize));
        }
        Ok(())
    }

    /// Takes the devices of the layout for this pool, which has none of them.
    ///
    /// # Errors
    /// Those of [`Self::check`] and [`DeviceClaim::take`], or the pool has one already.
    pub fn claim(&self, pool: &Pool, claim: &DeviceClaim<'_>) -> Result<Devices> {
        self.check(pool)?;
        // This process has those: they would be waited for.
        pool.refuse_own_paths(&self.layout.paths())?;
        let devices = claim.take(&self.layout, Some(pool))?;
        pool.refuse_own(&devices)?;
        Ok(devices)
    }

    /// Adds it, on devices that are those of the layout ([`Self::claim`]).
    ///
    /// # Errors
    /// Those of [`Self::check`]; the pool has a device already; or it cannot be written.
    pub fn run(&self, pool: &LivePool, devices: &Devices) -> Result<()> {
        let seen = pool.look()?;
        self.check(&seen)?;
        let Layout { tops, spares, cache } = &self.layout;
        if !tops.is_empty() {
            pool.add_tops(tops, self.sector_exponent(&seen), devices)?;
        }
        Ok(pool.add_aux(spares, cache, devices)?)
    }
}
