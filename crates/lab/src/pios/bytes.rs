//! Sizes as text.

/// Bytes with the largest suffix that loses nothing, or one decimal.
#[must_use]
pub fn human(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let exact = |shift: &u32| bytes != 0 && bytes.trailing_zeros() >= *shift;
    if let Some((shift, unit)) = units.iter().find(|(shift, _)| exact(shift)) {
        return format!("{}{unit}", bytes >> shift);
    }
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.1}{unit}", bytes as f64 / (1u64 << shift) as f64),
        None => bytes.to_string(),
    }
}
