//! Prints the names of all fuzz targets, one a line.

#![allow(clippy::print_stdout)]

fn main() {
    for (name, _) in fuzzing::targets() {
        println!("{name}");
    }
}
