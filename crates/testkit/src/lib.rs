//! Support for tests: corpus pools, oracle programs. Placeholder.
