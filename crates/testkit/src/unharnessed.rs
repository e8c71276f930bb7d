//! Test programs that do without the harness, because they start themselves again: they say what
//! the harness says, which `./test` counts.

use std::io::Write as _;
use std::process::ExitCode;

/// The tests of such a program.
#[derive(Default)]
pub struct Unharnessed {
    passed: u32,
    ignored: u32,
}

impl Unharnessed {
    /// Runs a test, unless something is `missing`.
    ///
    /// # Panics
    /// As the test does, or what is said cannot be written.
    pub fn test(&mut self, name: &str, missing: Option<&str>, run: impl FnOnce()) {
        if let Some(what) = missing {
            say(&format!("test {name} ... ignored, needs {what}"));
            self.ignored += 1;
            return;
        }
        run();
        say(&format!("test {name} ... ok"));
        self.passed += 1;
    }

    /// Says how many there were.
    ///
    /// # Panics
    /// What is said cannot be written.
    #[must_use]
    pub fn end(self) -> ExitCode {
        let Self { passed, ignored } = self;
        say(&format!("test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured"));
        ExitCode::SUCCESS
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output");
}
