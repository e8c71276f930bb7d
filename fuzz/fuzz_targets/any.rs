//! Every fuzz target: which one is decided by the name of the binary.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::fuzz_one(env!("CARGO_BIN_NAME"), data));
