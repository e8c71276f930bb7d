//! Unpacks pools shipped with the project, and prints where: `unpack NAME…`.

#![allow(clippy::print_stdout)]

fn main() {
    for name in std::env::args().skip(1) {
        let is_apart = testkit::fixture_cases().contains(&name);
        let case = if is_apart { testkit::fixture(&name) } else { testkit::corpus(&name) };
        println!("{}", case.dir.display());
    }
}
