//! Static probes: places in the engine where a tracer can look, without a restart.
//!
//! With the feature `usdt`, [`fire!`] is one `nop` and a note in the binary that says where it is
//! and which registers hold the arguments; bpftrace and SystemTap put a breakpoint there while they
//! look. Without it, it is nothing, and its arguments are not even computed. The probes and their
//! arguments are a contract with scripts: they are listed in `docs/guide/probes.md`.
//!
//! Arguments are whole numbers: what is a time is in nanoseconds, what is a size in bytes.
#![forbid(unsafe_code)]

#[cfg(feature = "usdt")]
#[doc(hidden)]
pub use ::probe as backend;

/// Fires the probe of that name of the provider `zinc`. Two underscores in a name are a hyphen in
/// tracers that know DTrace's ways.
#[cfg(feature = "usdt")]
#[macro_export]
macro_rules! fire {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        $crate::backend::probe!(zinc, $name $(, $argument)*)
    };
}

/// Nothing: the feature `usdt` is off. The arguments are seen by the compiler, and never computed.
#[cfg(not(feature = "usdt"))]
#[macro_export]
macro_rules! fire {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        if false {
            $(let _ = $argument;)*
        }
    };
}

/// Whether the probes are in this build.
pub const ARE_BUILT: bool = cfg!(feature = "usdt");

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_computed_only_for_probes_that_exist() {
        let mut computed = 0u64;
        let mut argument = || {
            computed += 1;
            computed
        };
        crate::fire!(test__probe, argument(), 2u64);
        assert_eq!(computed, u64::from(crate::ARE_BUILT));
    }
}
