//! The words of errors.

/// The text without the numbers of errors that the standard library adds, as in "Permission denied
/// (os error 13)": no program of a system says them.
#[must_use]
pub fn without_number(mut text: String) -> String {
    const MARK: &str = " (os error ";
    while let Some(at) = text.find(MARK) {
        let behind = at + MARK.len();
        let digits = text[behind..].find(|c: char| !c.is_ascii_digit());
        let Some(end) = digits.map(|n| behind + n).filter(|e| text[*e..].starts_with(')')) else {
            break;
        };
        text.replace_range(at..=end, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let denied = std::io::Error::from_raw_os_error(13).to_string();
        let twice = without_number(format!("a: {denied}; {denied}"));
        assert_eq!(twice, "a: Permission denied; Permission denied");
        assert_eq!(without_number("x (os error ".to_owned()), "x (os error ");
    }
}
