//! Unpacks pools shipped with the project, and prints where: `unpack NAME…`.

#![allow(clippy::print_stdout)]

fn main() {
    for name in std::env::args().skip(1) {
        println!("{}", testkit::fixture(&name).dir.display());
    }
}
