//! Properties as they are given to verbs that change datasets: `-o compression=zstd`.

use crate::cannot::cannot;
use crate::failure::Failure;
use engine::files::CaseSensitivity;
use engine::live::NewFilesystem;
use engine::props::find_dataset;
use engine::{DatasetKind, Dsl, PropertyContext, StoredValue};
use engine::{PropertyChange, parse_value};

/// Longest name and value of a property that users invented, in bytes.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 8191;
/// So many characters of a name or value are repeated in a message.
const SHOWN_MAX: usize = 64;

/// Divides `name=value`.
pub fn divide(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("missing '=' for property=value argument: {text:?}")))
}

/// What a value that is refused is answered with; `values` are those that a native property takes.
fn fail_value(fail: &impl Fn(String) -> Failure, name: &str, value: &str, values: &str) -> Failure {
    let short = |text: &str| match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    match values {
        "" if name.len() > NAME_MAX => fail(format!("property name '{}' is too long", short(name))),
        "" if value.len() > VALUE_MAX => fail(format!("property value of '{name}' is too long")),
        "" => fail(format!("bad value '{}' for '{name}'", short(value))),
        _ if values.contains('|') => fail(format!("'{name}' must be one of '{values}'")),
        _ => fail(format!("bad value '{}' for '{name}'", short(value))).hint(values),
    }
}

/// Whom the properties are for.
pub struct Target<'a> {
    /// What is being done, for messages.
    pub doing: &'a str,
    /// The dataset.
    pub name: &'a str,
    pub kind: DatasetKind,
    /// It is being made.
    pub is_new: bool,
}

impl Target<'_> {
    /// Reads one property.
    pub fn change(&self, name: &str, value: &str) -> Result<PropertyChange, Failure> {
        let fail =
            |why: String| Failure::new(format!("cannot {} '{}': {why}", self.doing, self.name));
        // A column's heading is a name too.
        let name = find_dataset(name).map_or(name, |p| p.name);
        match (name, value) {
            ("encryption", v) if v != "off" => {
                return Err(fail("zinc makes no encrypted datasets yet".to_owned()));
            }
            ("keyformat" | "keylocation" | "pbkdf2iters", _) if self.is_new => {
                return Err(fail("keys are of use with encryption only".to_owned()));
            }
            _ => {}
        }
        if ["quota", "refquota"].contains(&name) && value == "0" {
            return Err(fail("use 'none' to disable quota/refquota".to_owned()));
        }
        match parse_value(name, value, self.kind, self.is_new) {
            Ok(value) => Ok(PropertyChange { name: name.to_owned(), value: Some(value) }),
            Err(engine::errors::DslError::Refused {
                why: engine::Refusal::BadValue(_), ..
            }) => {
                let values = find_dataset(name).map_or("", |p| p.values);
                Err(fail_value(&fail, name, value, values))
            }
            Err(e) => Err(cannot(self.doing, self.name, e)),
        }
    }

    /// Reads the `-o` of a command line; a property is given once.
    pub fn all(&self, texts: &[String]) -> Result<Vec<PropertyChange>, Failure> {
        let mut out: Vec<PropertyChange> = Vec::new();
        for text in texts {
            let (name, value) = divide(text)?;
            let change = self.change(name, value)?;
            if out.iter().any(|c| c.name == change.name) {
                let what = format!("property '{}' specified multiple times", change.name);
                return Err(Failure::usage(what));
            }
            out.push(change);
        }
        Ok(out)
    }
}

/// The number a change sets a property to.
pub fn number(changes: &[PropertyChange], name: &str) -> Option<u64> {
    let change = changes.iter().find(|c| c.name == name)?;
    match change.value {
        Some(StoredValue::Number(n)) => Some(n),
        _ => None,
    }
}

/// How a new file system below `parent` treats names: as was said, or as its parent does.
pub fn names_of(
    dsl: &Dsl,
    parent: &str,
    changes: &[PropertyChange],
) -> Result<NewFilesystem, Failure> {
    let parent = dsl.by_name(parent)?;
    let wanted = |name: &str| -> Result<u64, Failure> {
        if let Some(n) = number(changes, name) {
            return Ok(n);
        }
        let inherited = dsl.property(&parent, &PropertyContext::default(), name)?;
        let word = inherited.map(|p| p.value);
        let table = find_dataset(name);
        Ok(table.zip(word).and_then(|(t, w)| t.number(&w)).unwrap_or(0))
    };
    let normalization = wanted("normalization")?;
    let case = match wanted("casesensitivity")? {
        1 => CaseSensitivity::Insensitive,
        2 => CaseSensitivity::Mixed,
        _ => CaseSensitivity::Sensitive,
    };
    // Names can only be normalised when they are text.
    let utf8_only = normalization != 0 || wanted("utf8only")? != 0;
    Ok(NewFilesystem { case, normalization, utf8_only, ..NewFilesystem::default() })
}
