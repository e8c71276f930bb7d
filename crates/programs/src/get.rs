//! Properties as scripts see them: numbers as numbers, words and texts as texts.

use engine::programs::ProgramCx;
use engine::properties::{OwnerFigure, owner_property, parse_owner};
use engine::props::{
    DATASET, PropertyDesc, ValueKind, find_dataset, has_property, is_user_property,
};
use engine::{Dataset, DatasetKind, Dsl, Property, Source};
use mlua::{IntoLua, Lua, Value};

/// A value as a script gets it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The dataset does not have it.
    Nothing,
    Number(i64),
    Text(String),
    List(Vec<String>),
}

impl IntoLua for Shown {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Nothing => Ok(Value::Nil),
            Self::Number(n) => Ok(Value::Integer(n)),
            Self::Text(text) => text.into_lua(lua),
            Self::List(all) => lua.create_sequence_from(all).map(Value::Table),
        }
    }
}

/// A value, and the name of the dataset on which it was set.
pub(crate) type Found = (Shown, Option<String>);

/// Where a value comes from.
pub(crate) fn source(source: &Source, dataset: &str) -> Option<String> {
    match source {
        Source::None | Source::Temporary => None,
        Source::Default => Some("default".to_owned()),
        Source::Local => Some(dataset.to_owned()),
        Source::Inherited(from) => Some(from.clone()),
        Source::Received => Some("$recvd".to_owned()),
    }
}

/// The native properties that a dataset can have.
pub(crate) fn native_names(dsl: &Dsl, dataset: &Dataset) -> Vec<&'static str> {
    let (kind, is_snapshot) = (dsl.kind(dataset), dataset.is_snapshot());
    let has = |p: &&PropertyDesc| p.is_visible() && has_property(p, kind, is_snapshot);
    DATASET.iter().filter(has).map(|p| p.name).collect()
}

/// A property of a dataset; else why the script ends.
pub(crate) fn property(cx: &ProgramCx<'_>, name: &str, property: &str) -> Result<Found, String> {
    let nothing = (Shown::Nothing, None);
    let dsl = cx.datasets();
    let dataset = dsl.by_name(name).map_err(|e| e.to_string())?;
    if let Some((_, figure, _)) = parse_owner(property) {
        return Ok(of_owner(dsl, &dataset, property, figure));
    }
    let get = || {
        let found = dsl.property(&dataset, &cx.property_context(), property);
        found.map_err(|e| e.to_string())
    };
    if property.starts_with("written@") || property.starts_with("written#") {
        return Ok(get()?.map_or(nothing, |p| (number(&p), None)));
    }
    if is_user_property(property) {
        let found = get()?.map(|p| {
            let from = source(&p.source, name);
            (Shown::Text(p.value), from)
        });
        return Ok(found.unwrap_or(nothing));
    }
    let no_such = || format!("property '{property}' does not exist");
    let native = find_dataset(property).ok_or_else(no_such)?;
    let kind = dsl.kind(&dataset);
    if !has_property(native, kind, dataset.is_snapshot()) {
        return Ok(nothing);
    }
    if let Some(shown) = hidden(dsl, &dataset, kind, native.name)? {
        return Ok((shown, None));
    }
    Ok(get()?.map_or(nothing, |p| of_native(&p, native, name)))
}

/// The property of an owner of files.
fn of_owner(dsl: &Dsl, dataset: &Dataset, property: &str, figure: OwnerFigure) -> Found {
    let is_quota = matches!(figure, OwnerFigure::Quota | OwnerFigure::ObjectQuota);
    match owner_property(dsl, dataset, property, &|_, id| id.parse().ok()) {
        Some(p) if !(is_quota && p.value == "0") => (number(&p), Some(dataset.name.clone())),
        _ => (Shown::Nothing, None),
    }
}

/// Properties that only scripts see, or that they do not; `None` for all others.
fn hidden(
    dsl: &Dsl,
    dataset: &Dataset,
    kind: DatasetKind,
    name: &str,
) -> Result<Option<Shown>, String> {
    let words = |e: engine::errors::DslError| e.to_string();
    Ok(Some(match name {
        "mounted" | "iscsioptions" => Shown::Nothing,
        "name" => Shown::Text(dataset.name.clone()),
        "numclones" => Shown::Number(dsl.clones(dataset).map_err(words)?.len() as i64),
        "unique" => Shown::Number(dataset.phys.unique.cast_signed()),
        "inconsistent" => Shown::Number(i64::from(dataset.is_partly_received())),
        "useraccounting" => Shown::Number(i64::from(kind == DatasetKind::Filesystem)),
        "prevsnap" => {
            let head = dataset.name.split('@').next().unwrap_or_default();
            let head = dsl.by_name(head).map_err(words)?;
            let before = dsl.snapshots(&head).map_err(words)?;
            let before = before.into_iter().take_while(|one| one.object != dataset.object);
            match before.last() {
                Some(last) => Shown::Text(last.name),
                None => match dsl.origin(&dataset.dir).map_err(words)? {
                    Some(origin) => Shown::Text(origin),
                    None => Shown::Nothing,
                },
            }
        }
        _ => return Ok(None),
    }))
}

fn of_native(p: &Property, native: &PropertyDesc, dataset: &str) -> Found {
    let from = match native.is_fixed() || native.name == "version" {
        true => None,
        false => source(&p.source, dataset),
    };
    match (native.name, native.kind) {
        ("clones" | "redact_snaps", _) => {
            (Shown::List(p.value.split(',').map(str::to_owned).collect()), None)
        }
        ("filesystem_count" | "snapshot_count", _) if p.value == "none" => (Shown::Nothing, None),
        (_, ValueKind::Number(_)) => (number(p), from),
        _ => (Shown::Text(p.value.clone()), from),
    }
}

/// A value as a number: a ratio in hundredths, and -1 where there is no limit.
fn number(p: &Property) -> Shown {
    let digits = p.value.replace('.', "");
    match digits.parse::<u64>() {
        Ok(n) => Shown::Number(n.cast_signed()),
        Err(_) => Shown::Number(-1),
    }
}
