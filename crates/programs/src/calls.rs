//! The functions that a script calls: `zfs.sync`, `zfs.check`, `zfs.list`, and those beside them.

use crate::errno::{self, E2BIG, EEXIST, EINVAL, EIO, ENAMETOOLONG, EXDEV};
use crate::get;
use crate::given::{Given, Signature};
use crate::limits::Limits;
use engine::datasets::pool_of;
use engine::errors::{DslError, PoolError};
use engine::programs::{ProgramChange, ProgramCx};
use engine::props::{find_dataset, is_user_property};
use engine::{Dataset, Dsl, PropertyChange, StoredValue};
use mlua::{Error, Function, IntoLuaMulti, Lua, MultiValue, Scope, Table};
use std::rc::Rc;

/// Longest name of a dataset or property, in bytes.
const NAME_MAX: usize = 255;
/// Longest value of a property that users invent.
const VALUE_MAX: usize = 8191;

/// What the functions work with.
pub(crate) struct Host<'h, 'p> {
    /// The datasets.
    pub(crate) cx: &'h ProgramCx<'p>,
    /// The script may change them.
    pub(crate) makes_changes: bool,
    /// What it may take.
    pub(crate) limits: Rc<Limits>,
}

/// Changes, which `zfs.sync` makes and `zfs.check` asks about.
static CHANGES: [Signature; 8] = [
    Signature { name: "destroy", words: &["dataset"], option: Some("defer") },
    Signature::new("promote", &["clone"]),
    Signature::new("rollback", &["filesystem"]),
    Signature::new("snapshot", &["snapshot"]),
    Signature::new("rename_snapshot", &["filesystem", "old name", "new name"]),
    Signature::new("inherit", &["dataset", "property"]),
    Signature::new("bookmark", &["source", "bookmark"]),
    Signature::new("set_prop", &["dataset", "property", "value"]),
];
static LISTS: [Signature; 8] = [
    Signature::new("children", &["dataset"]),
    Signature::new("snapshots", &["dataset"]),
    Signature::new("bookmarks", &["dataset"]),
    Signature::new("clones", &["snapshot"]),
    Signature::new("holds", &["snapshot"]),
    Signature::new("properties", &["dataset"]),
    Signature::new("user_properties", &["dataset"]),
    Signature::new("system_properties", &["dataset"]),
];
static EXISTS: Signature = Signature::new("exists", &["dataset"]);
static GET: Signature = Signature::new("get_prop", &["dataset", "property"]);
static DEBUG: Signature = Signature::new("debug", &["message"]);

/// Gives a script its functions.
pub(crate) fn install<'scope, 'env: 'scope, 'p: 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    host: &'env Host<'env, 'p>,
) -> mlua::Result<()> {
    let zfs = lua.create_table()?;
    for (module, is_made) in [("sync", true), ("check", false)] {
        let table = lua.create_table()?;
        for signature in &CHANGES {
            let run = move |lua: &Lua, given| host.change(lua, signature.name, is_made, given);
            table.set(signature.name, bind(scope, signature, run)?)?;
        }
        zfs.set(module, table)?;
    }
    let table = lua.create_table()?;
    for signature in &LISTS {
        let run = move |lua: &Lua, given| host.list(lua, signature.name, &given);
        table.set(signature.name, bind(scope, signature, run)?)?;
    }
    zfs.set("list", table)?;
    let run = move |lua: &Lua, given: Given| host.exists(lua, given.word(0));
    zfs.set(EXISTS.name, bind(scope, &EXISTS, run)?)?;
    let run = move |lua: &Lua, given: Given| {
        let (name, property) = (given.word(0), given.word(1));
        host.check_pool(lua, name)?;
        get::property(host.cx, name, property).map_err(|why| fault(lua, &why))
    };
    zfs.set(GET.name, bind(scope, &GET, run)?)?;
    let run = |_: &Lua, given: Given| {
        tracing::info!("channel program: {}", given.word(0));
        Ok(())
    };
    zfs.set(DEBUG.name, bind(scope, &DEBUG, run)?)?;
    lua.globals().set("zfs", zfs)
}

/// A function that is called with what its signature says.
fn bind<'scope, 'env: 'scope, R: IntoLuaMulti>(
    scope: &'scope Scope<'scope, 'env>,
    signature: &'static Signature,
    run: impl Fn(&Lua, Given) -> mlua::Result<R> + 'scope,
) -> mlua::Result<Function> {
    scope.create_function(move |lua, given: MultiValue| {
        let given = signature.read(given).map_err(|why| fault(lua, &why))?;
        run(lua, given)
    })
}

/// An error that ends the script, with the line that called the function.
fn fault(lua: &Lua, why: &str) -> Error {
    let line = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    Error::RuntimeError(format!("{}{why}", line.flatten().unwrap_or_default()))
}

/// An iterator over all of these.
fn iterate<T: IntoLuaMulti + 'static>(lua: &Lua, items: Vec<T>) -> mlua::Result<Function> {
    let mut items = items.into_iter();
    lua.create_function_mut(move |lua, _: MultiValue| match items.next() {
        Some(item) => item.into_lua_multi(lua),
        None => Ok(MultiValue::new()),
    })
}

impl Host<'_, '_> {
    /// Ends a script that names something in another pool.
    fn check_pool(&self, lua: &Lua, name: &str) -> mlua::Result<()> {
        let pool = self.cx.pool();
        match pool_of(name) == pool {
            true => Ok(()),
            false => {
                let why = format!("dataset '{name}' is not in the target pool '{pool}'");
                Err(fault(lua, &why))
            }
        }
    }

    fn exists(&self, lua: &Lua, name: &str) -> mlua::Result<bool> {
        self.check_pool(lua, name)?;
        match self.cx.datasets().by_name(name) {
            Ok(_) => Ok(true),
            Err(DslError::NoSuchDataset(_) | DslError::BadName(_)) => Ok(false),
            Err(e) => Err(fault(lua, &e.to_string())),
        }
    }

    /// Makes a change, or asks about it: 0, or the number of an error, with a table where there is
    /// more to say of it.
    fn change(
        &self,
        lua: &Lua,
        function: &str,
        is_made: bool,
        given: Given,
    ) -> mlua::Result<MultiValue> {
        let (number, names) = self.changed(lua, function, is_made, given)?;
        let names = names.into_iter().map(mlua::Value::Table);
        Ok([mlua::Value::Integer(number)].into_iter().chain(names).collect())
    }

    fn changed(
        &self,
        lua: &Lua,
        function: &str,
        is_made: bool,
        given: Given,
    ) -> mlua::Result<(i64, Option<Table>)> {
        if is_made && !self.makes_changes {
            return Err(fault(
                lua,
                "zfs.sync changes the pool, which requires passing sync=TRUE: without the option \
                 -n",
            ));
        }
        if pool_of(given.word(0)) != self.cx.pool() && given.word(0).contains(['/', '@', '#']) {
            return Ok((EXDEV, None));
        }
        let change = match requested(function, given) {
            Ok(change) => change,
            Err(number) => return Ok((number, None)),
        };
        let done = if is_made { self.cx.make(&change) } else { self.cx.check(&change) };
        let Err(e) = done else { return Ok((0, None)) };
        if let Some(why) = self.cx.why_broken() {
            return Err(fault(lua, &format!("the pool stops: {why}")));
        }
        let number = number_of(e);
        match &change {
            ProgramChange::Promote(clone) if number == EEXIST => {
                let names = conflicts(self.cx.datasets(), clone);
                let names = names.map_err(|e| fault(lua, &e.to_string()))?;
                Ok((number, Some(lua.create_sequence_from(names)?)))
            }
            _ => Ok((number, None)),
        }
    }

    fn list(&self, lua: &Lua, function: &str, given: &Given) -> mlua::Result<mlua::Value> {
        let name = given.word(0);
        self.check_pool(lua, name)?;
        let dsl = self.cx.datasets();
        let failed = |e: DslError| fault(lua, &e.to_string());
        let dataset = dsl.by_name(name).map_err(failed)?;
        let of_snapshot = matches!(function, "clones" | "holds");
        let of_any = function.ends_with("properties");
        if !of_any && of_snapshot != dataset.is_snapshot() {
            let kind = if of_snapshot { "a snapshot" } else { "a file system or volume" };
            return Err(fault(lua, &format!("'{name}' is not {kind}")));
        }
        let names = match function {
            "children" => {
                let children = dsl.children(&dataset.dir).map_err(failed)?;
                children.iter().map(|dir| dir.name.clone()).collect()
            }
            "snapshots" => names_of(dsl.snapshots(&dataset).map_err(failed)?),
            "bookmarks" => {
                let all = dsl.bookmarks(&dataset).map_err(failed)?;
                all.into_iter().map(|one| one.name).collect()
            }
            "clones" => dsl.clones(&dataset).map_err(failed)?,
            "holds" => {
                let all = dsl.holds(&dataset).map_err(failed)?;
                let pairs = all.into_iter().map(|hold| (hold.tag, hold.time.cast_signed()));
                return Ok(mlua::Value::Function(iterate(lua, pairs.collect())?));
            }
            "system_properties" => {
                let names = get::native_names(dsl, &dataset);
                return Ok(mlua::Value::Table(lua.create_sequence_from(names)?));
            }
            _ => {
                let all = dsl.properties(&dataset, &self.cx.property_context());
                let own = all.map_err(failed)?.into_iter().filter(|p| p.native.is_none());
                let row = |p: engine::Property| {
                    let source = get::source(&p.source, name);
                    (p.name, p.value, source)
                };
                return Ok(mlua::Value::Function(iterate(lua, own.map(row).collect())?));
            }
        };
        Ok(mlua::Value::Function(iterate(lua, names)?))
    }
}

fn names_of(datasets: Vec<Dataset>) -> Vec<String> {
    datasets.into_iter().map(|dataset| dataset.name).collect()
}

/// The number of an error that a change was refused with.
fn number_of(e: PoolError) -> i64 {
    match &e {
        PoolError::Dmu(_) => EIO,
        _ => errno::of(&e.into()),
    }
}

/// The change that a function makes; else the number of an error.
fn requested(function: &str, given: Given) -> Result<ProgramChange, i64> {
    let Given { words, option: defer } = given;
    let names = match function {
        // What stands behind is a value.
        "set_prop" => words.get(..2).unwrap_or_default(),
        _ => words.as_slice(),
    };
    if names.iter().any(|name| name.len() > NAME_MAX) {
        return Err(ENAMETOOLONG);
    }
    let mut words = words.into_iter();
    let mut next = || words.next().unwrap_or_default();
    let first = next();
    Ok(match function {
        "destroy" if first.contains('#') => return Err(EINVAL),
        "destroy" => ProgramChange::Destroy { name: first, defer },
        "promote" => ProgramChange::Promote(first),
        "rollback" => ProgramChange::Rollback(first),
        "snapshot" if !first.contains('@') => return Err(EINVAL),
        "snapshot" => ProgramChange::Snapshot(first),
        "rename_snapshot" => {
            let (name, to) = (format!("{first}@{}", next()), next());
            match name.len().max(first.len() + 1 + to.len()) > NAME_MAX {
                true => return Err(ENAMETOOLONG),
                false => ProgramChange::RenameSnapshot { name, to },
            }
        }
        "bookmark" => ProgramChange::Bookmark { source: first, name: next() },
        "inherit" => {
            let name = next();
            let native = find_dataset(&name);
            if native.is_some_and(|p| !p.is_inheritable()) {
                return Err(EINVAL);
            }
            let name = native.map_or(name, |p| p.name.to_owned());
            ProgramChange::Property(first, PropertyChange { name, value: None })
        }
        _ => {
            let (name, value) = (next(), next());
            if !is_user_property(&name) {
                return Err(EINVAL);
            }
            if value.len() > VALUE_MAX {
                return Err(E2BIG);
            }
            let value = Some(StoredValue::Text(value));
            ProgramChange::Property(first, PropertyChange { name, value })
        }
    })
}

/// The short names of a clone's snapshots that have the names of those that it would take over.
fn conflicts(dsl: &Dsl, clone: &str) -> Result<Vec<String>, DslError> {
    let head = dsl.by_name(clone)?;
    let Some(origin) = dsl.origin(&head.dir)? else { return Ok(Vec::new()) };
    let above = dsl.by_name(origin.split('@').next().unwrap_or_default())?;
    let short = |name: String| name.split('@').nth(1).map(str::to_owned);
    let own: Vec<String> = names_of(dsl.snapshots(&head)?).into_iter().filter_map(short).collect();
    let all = names_of(dsl.snapshots(&above)?);
    let up_to = all.iter().position(|name| *name == origin).map_or(0, |at| at + 1);
    let taken_over = all.into_iter().take(up_to).filter_map(short);
    Ok(taken_over.filter(|name| own.contains(name)).collect())
}
