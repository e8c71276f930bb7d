//! What bytes become on the devices.

/// How many bytes on the devices a byte of data becomes, in 1024ths: copies, the sides of mirrors,
/// parity and padding, the headers of gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inflation(u64);

impl Inflation {
    /// A byte stays a byte.
    pub const NONE: Self = Self(1 << Self::SHIFT);

    const SHIFT: u32 = 10;

    /// This number of times.
    #[must_use]
    pub fn times(n: u64) -> Self {
        Self(n.saturating_mul(Self::NONE.0).max(Self::NONE.0))
    }

    /// That of `data` bytes that become this many; never less than they are.
    #[must_use]
    pub fn of(data: u64, on_devices: u64) -> Self {
        let parts = (u128::from(on_devices) << Self::SHIFT).div_ceil(u128::from(data.max(1)));
        Self(u64::try_from(parts).unwrap_or(u64::MAX)).max(Self::NONE)
    }

    /// What these bytes of data become.
    #[must_use]
    pub fn inflate(self, bytes: u64) -> u64 {
        let out = (u128::from(bytes) * u128::from(self.0)) >> Self::SHIFT;
        u64::try_from(out).unwrap_or(u64::MAX)
    }

    /// The bytes of data that become these.
    #[must_use]
    pub fn deflate(self, bytes: u64) -> u64 {
        ((u128::from(bytes) << Self::SHIFT) / u128::from(self.0)) as u64
    }
}

impl Default for Inflation {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_more_and_the_same_again() {
        // 128 KiB on a raidz2 of six disks with sectors of 4 KiB: 32 sectors, 16 of parity.
        let raidz = Inflation::of(128 << 10, 192 << 10);
        assert_eq!((raidz.inflate(800), raidz.deflate(1200)), (1200, 800));
        assert_eq!(Inflation::times(4).inflate(200), 800);
        assert_eq!(Inflation::times(0), Inflation::NONE);
        // Nothing takes less than it is, whatever compresses it.
        assert_eq!(Inflation::of(128 << 10, 512), Inflation::NONE);
        assert_eq!(Inflation::of(0, u64::MAX).inflate(u64::MAX), u64::MAX);
        assert_eq!(Inflation::NONE.deflate(u64::MAX), u64::MAX);
    }
}
