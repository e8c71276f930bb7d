//! Values of properties of datasets, from texts to changes: what making a dataset, its key and
//! setting a property have in common.

use crate::error::{Error, ErrorKind, Hint, Place, Result, Rule};
use dsl::write::{PropertyChange, parse_value};
use dsl::{Dataset, DatasetKind, Dsl, PropertyContext, Refusal, StoredValue};
use ondisk::props::find_dataset;

/// Judges a text as the value of a property of a `kind` of dataset, which is being made when
/// `is_new`. A property can be named by the heading of its column.
///
/// ```
/// use engine::properties::parse;
/// use engine::{DatasetKind, StoredValue};
///
/// let change = parse("recordsize", "1M", DatasetKind::Filesystem, false)?;
/// assert_eq!(change.value, Some(StoredValue::Number(1 << 20)));
/// assert!(parse("recordsize", "1M", DatasetKind::Volume, false).is_err());
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// There is no such property, such a dataset does not have it, or it cannot have that value.
pub fn parse(name: &str, value: &str, kind: DatasetKind, is_new: bool) -> Result<PropertyChange> {
    let name = find_dataset(name).map_or(name, |p| p.name);
    let at = || Place::Property(name.to_owned());
    if matches!((name, value), ("quota" | "refquota", "0")) {
        return Err(Error::against(Rule::ZeroQuota).at(at()));
    }
    match parse_value(name, value, kind, is_new) {
        Ok(value) => Ok(PropertyChange { name: name.to_owned(), value: Some(value) }),
        Err(dsl::Error::Refused { why: Refusal::BadValue(_), .. }) => {
            let (property, value) = (name.to_owned(), value.to_owned());
            let error = Error::new(ErrorKind::BadValue { property, value }).at(at());
            Err(match find_dataset(name) {
                Some(p) if !p.values.is_empty() => error.with_hint(Hint::ChooseValue(p.values)),
                _ => error,
            })
        }
        Err(e) => Err(Error::from(e).at(at())),
    }
}

/// The same for several, of which each is given once.
///
/// # Errors
/// Those of [`parse`], or one is given twice.
pub fn parse_all<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    kind: DatasetKind,
    is_new: bool,
) -> Result<Vec<PropertyChange>> {
    let mut out: Vec<PropertyChange> = Vec::new();
    for (name, value) in settings {
        let change = parse(name, value, kind, is_new)?;
        if out.iter().any(|c| c.name == change.name) {
            let at = Place::Property(change.name.clone());
            return Err(Error::new(ErrorKind::Refused(Refusal::SetTwice(change.name))).at(at));
        }
        out.push(change);
    }
    Ok(out)
}

/// The number a change sets a property to.
#[must_use]
pub fn number(changes: &[PropertyChange], name: &str) -> Option<u64> {
    let change = changes.iter().find(|c| c.name == name)?;
    match change.value {
        Some(StoredValue::Number(n)) => Some(n),
        _ => None,
    }
}

pub(crate) fn number_change(name: &str, n: u64) -> PropertyChange {
    PropertyChange { name: name.to_owned(), value: Some(StoredValue::Number(n)) }
}

/// The number that a property of a dataset has; 0 without one.
pub(crate) fn numeric(dsl: &Dsl, dataset: &Dataset, name: &str) -> Result<u64> {
    let found = dsl.property(dataset, &PropertyContext::default(), name)?;
    Ok(found.and_then(|p| p.number()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_value_is_said_by_kind() {
        let kind = |name, value| {
            let error = parse(name, value, DatasetKind::Filesystem, true).unwrap_err();
            error.kind().clone()
        };
        assert_eq!(kind("quota", "0"), ErrorKind::Against(Rule::ZeroQuota));
        let (property, value) = ("atime".to_owned(), "maybe".to_owned());
        assert_eq!(kind("atime", "maybe"), ErrorKind::BadValue { property, value });
        let why = Refusal::ReadOnly("used".to_owned());
        assert_eq!(kind("used", "1"), ErrorKind::Refused(why));
        let twice = parse_all([("atime", "on"), ("atime", "off")], DatasetKind::Filesystem, true);
        let why = Refusal::SetTwice("atime".to_owned());
        assert_eq!(twice.unwrap_err().kind(), &ErrorKind::Refused(why));
    }
}
