//! One kit sets pools up for tests: they are made by `poolkit`, or as a program makes them, by the
//! engine's `NewPool`.

use tidy::source::code;
use tidy::{report, rust_files};

#[test]
fn tests_make_pools_with_the_kit() {
    let call = concat!("live::", "create(");
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        if !path.starts_with("crates/") || !path.contains("/tests/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if code(line).contains(call) {
                offences.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    report("use `poolkit`, or the engine's `NewPool`", &offences);
}
