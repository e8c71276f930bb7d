//! Licence expressions (SPDX): whether what a dependency asks for can be met permissively.
//!
//! `OR` is our choice, `AND` is not, parentheses group, and `A/B` is the old way to write `A OR B`.

/// Licences that ask for no more than their own text and a name.
const PERMISSIVE: [&str; 14] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "CC0-1.0",
    "Unlicense",
    "Unicode-3.0",
    // For data: the roots of certificates that a system without its own would be given.
    "CDLA-Permissive-2.0",
];

/// Whether the expression can be satisfied with permissive licences alone.
pub fn permissive(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut position = 0;
    let satisfied = any(&words, &mut position);
    position == words.len() && satisfied == Some(true)
}

// Each level of the grammar yields `None` where the expression is malformed.

fn any(words: &[&str], position: &mut usize) -> Option<bool> {
    let mut satisfied = all(words, position)?;
    while words.get(*position) == Some(&"OR") {
        *position += 1;
        satisfied |= all(words, position)?;
    }
    Some(satisfied)
}

fn all(words: &[&str], position: &mut usize) -> Option<bool> {
    let mut satisfied = one(words, position)?;
    while words.get(*position) == Some(&"AND") {
        *position += 1;
        satisfied &= one(words, position)?;
    }
    Some(satisfied)
}

fn one(words: &[&str], position: &mut usize) -> Option<bool> {
    let word = *words.get(*position)?;
    *position += 1;
    if word == "(" {
        let satisfied = any(words, position)?;
        let closed = words.get(*position) == Some(&")");
        *position += 1;
        return closed.then_some(satisfied);
    }
    let mut name = word.to_owned();
    if words.get(*position) == Some(&"WITH") {
        name = format!("{word} WITH {}", words.get(*position + 1)?);
        *position += 2;
    }
    Some(PERMISSIVE.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::permissive;

    #[test]
    fn choice_and_obligation() {
        assert!(permissive("MIT"));
        assert!(permissive("MIT/Apache-2.0"));
        assert!(permissive("GPL-2.0 OR MIT"));
        assert!(permissive("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(permissive("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(!permissive("GPL-2.0"));
        assert!(!permissive("MIT AND CDDL-1.0"));
        assert!(!permissive("MIT OR"));
        assert!(!permissive("(MIT"));
        assert!(!permissive(""));
    }
}
