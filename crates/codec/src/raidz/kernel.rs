//! The choice of the code that computes a stretch.

use super::job::Job;

/// The codes for a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    /// Eight bytes at a time in an ordinary register.
    Plain,
    /// 32 bytes at a time, products by table look-up of half bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes at a time, products by the affine instruction of GFNI.
    #[cfg(target_arch = "x86_64")]
    Gfni512,
}

impl Kernel {
    /// The kernels this machine can run, the best last.
    pub(super) fn available() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(super::x86::has_avx2().then_some(Self::Avx2));
            all.extend(super::x86::has_gfni512().then_some(Self::Gfni512));
        }
        all
    }

    pub(super) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if super::x86::has_gfni512() {
                return Self::Gfni512;
            }
            if super::x86::has_avx2() {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// Computes the stretch.
    pub(super) fn run(self, job: &Job<'_>, out: &mut [&mut [u8]]) {
        let done = match self {
            Self::Plain => 0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => super::x86::avx2(job, out),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => super::x86::gfni512(job, out),
        };
        super::plain::run(job, out, done);
    }
}
