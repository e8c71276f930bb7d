//! `#[needs("fragmented")]` on a test: without that material the test is reported as ignored.
//!
//! A test that returns early counts as passed, though it tested nothing. Rust's test harness knows
//! ignored tests only from the attribute `#[ignore]`, so whether the material is there is looked up
//! when the test is compiled; another `ZINC_SHARED` compiles it again. Material that goes away
//! later makes the test fail, with its name; material that comes later is seen when this crate is
//! compiled again, which the scripts that fetch material see to.
#![forbid(unsafe_code)]

mod material;
mod trials;

use proc_macro::{TokenStream, TokenTree};

/// Ignores a test unless all that is named is there, and says what is missing. Use as
/// `#[testkit::needs("zdb", "fragmented")]`; what can be named stands in `material.rs`: programs,
/// OpenZFS's tools, rights, and the pools of the collection.
#[proc_macro_attribute]
pub fn needs(names: TokenStream, test: TokenStream) -> TokenStream {
    let names = names.into_iter().filter_map(|token| match token {
        TokenTree::Literal(name) => Some(name.to_string().trim_matches('"').to_owned()),
        _ => None,
    });
    let missing: Vec<String> = names.filter_map(|name| material::missing(&name)).collect();
    // Makes the compiler note that the test depends on the variable.
    let watched = "const _: Option<&str> = option_env!(\"ZINC_SHARED\");";
    let watched: TokenStream = watched.parse().unwrap_or_default();
    let test = test.into_iter().chain(watched).collect();
    if missing.is_empty() {
        return test;
    }
    let reason = format!("needs {}", missing.join(", and "));
    let ignore: TokenStream = format!("#[ignore = {reason:?}]").parse().unwrap_or_default();
    ignore.into_iter().chain(test).collect()
}
