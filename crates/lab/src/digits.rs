//! Numbers as text.

/// A figure with about four digits; a dash for NaN.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        "-".to_owned()
    } else if value.fract() == 0.0 && size < 1e15 || size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_or_so() {
        let shown: Vec<String> =
            [16.0, 2.456, 47.123, 189.04, 12195.3, 0.0861].map(figure).into_iter().collect();
        assert_eq!(shown, ["16", "2.46", "47.12", "189.0", "12195", "0.086"]);
        assert_eq!(figure(f64::NAN), "-");
    }
}
