//! No circle between files of different modules, in any crate, and none between the modules of a
//! crate's root, each taken with all that is below it.
//!
//! A file is a module. It uses another one when a `use` or a path of it leads there, also by way of
//! a name that a third module hands on. A module and those below it are one idea in several files,
//! so what these use of each other is not looked at; unit tests are not either.
//!
//! It also uses another one when it calls a method that the other adds to a type of a third. The
//! types of values are not known here, so a call counts where the name leaves no doubt: no other
//! module of the workspace has a method of that name, or it is called of `self`. Methods that are
//! defined in the module of their type are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use tidy::methods::{Methods, methods};
use tidy::source::{code, without_tests};
use tidy::{report, rust_files};

/// Where a module stands in its crate: the names from the root down.
type Place = Vec<String>;

/// Modules through which a name is followed, at most.
const DEPTH_MAX: usize = 8;

/// What a module says of others.
#[derive(Default)]
struct Module {
    /// Names that it imports, and where from. Several where imports depend on the target.
    imports: Vec<(String, Vec<String>)>,
    /// Other paths in it.
    paths: Vec<Vec<String>>,
    /// What it defines.
    items: BTreeSet<String>,
    methods: Methods,
}

/// The modules of a crate that add methods to types of others.
#[derive(Default)]
struct Added {
    /// By a name that no other method of the workspace has.
    by_name: BTreeMap<String, Place>,
    /// By type and name.
    by_type: BTreeMap<(String, String), Place>,
}

/// The modules of a crate.
type Crate = BTreeMap<Place, Module>;

fn words(path: &str) -> Vec<String> {
    path.split("::").map(|word| word.trim().to_owned()).collect()
}

/// The names that the tree of a `use` imports: `a::{b, c as d}` are `b` from `a::b`, `d` from
/// `a::c`.
fn imported(tree: &str, out: &mut Vec<(String, Vec<String>)>) {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = words(path);
        if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
            path.pop();
        }
        let last = path.last().cloned().unwrap_or_default();
        out.push((if name.is_empty() { last } else { name.trim().to_owned() }, path));
        return;
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let mut depth = 0;
    let parts = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.filter(|part| !part.trim().is_empty()) {
        imported(&format!("{}{}", before.trim(), part.trim()), out);
    }
}

fn read(text: &str) -> Module {
    let mut module = Module { methods: methods(text), ..Module::default() };
    // Without comments.
    let text: String = without_tests(text).map(|(_, line)| format!("{}\n", code(line))).collect();
    let mut rest = String::new();
    for statement in text.split_inclusive(';') {
        // What is before it is the end of an item, an attribute, or how public it is.
        let at = statement.match_indices("use ").map(|(at, _)| at).find(|at| {
            let line = statement[..*at].rsplit('\n').next().unwrap_or_default().trim();
            line.is_empty() || line == "pub" || (line.starts_with("pub(") && line.ends_with(')'))
        });
        match at {
            Some(at) => {
                rest.push_str(&statement[..at]);
                imported(statement[at + 4..].trim_end_matches(';'), &mut module.imports);
            }
            None => rest.push_str(statement),
        }
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let tokens: Vec<&str> = rest.split(|c| !is_name(c)).filter(|word| !word.is_empty()).collect();
    module.paths =
        tokens.iter().filter(|word| word.contains("::")).map(|word| words(word)).collect();
    let kinds = ["struct", "enum", "fn", "trait", "const", "type", "static", "union"];
    let items = tokens.windows(2).filter(|pair| kinds.contains(&pair[0]));
    module.items = items.map(|pair| pair[1].trim_end_matches(':').to_owned()).collect();
    module
}

/// The modules of all crates, by crate.
fn crates(files: &[(String, String)]) -> BTreeMap<String, Crate> {
    let mut out: BTreeMap<String, Crate> = BTreeMap::new();
    for (file, text) in files {
        let Some((name, path)) =
            file.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        let mut place: Place = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if place.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            place.pop();
        }
        if !place.iter().any(|word| word == "tests") {
            out.entry(name.to_owned()).or_default().insert(place, read(text));
        }
    }
    out
}

/// The module that a path in `from` leads to; `None` for one that leaves the crate.
fn resolve(all: &Crate, from: &Place, path: &[String], depth: usize) -> Option<Place> {
    let is_relative = |word: &&String| ["super", "self"].contains(&word.as_str());
    let supers = path.iter().take_while(is_relative).filter(|word| *word == "super").count();
    let start = path.iter().take_while(is_relative).count();
    let first = path.first()?;
    let mut at: Place = match first.as_str() {
        "crate" => Vec::new(),
        "super" | "self" => from[..from.len().checked_sub(supers)?].to_vec(),
        _ if all.contains_key(&[from.as_slice(), std::slice::from_ref(first)].concat()) => {
            from.clone()
        }
        _ => return None,
    };
    let mut rest = &path[start.max(usize::from(first == "crate"))..];
    while let Some((word, behind)) = rest.split_first() {
        let below = [at.as_slice(), std::slice::from_ref(word)].concat();
        if !all.contains_key(&below) {
            break;
        }
        (at, rest) = (below, behind);
    }
    let (Some((word, behind)), Some(module)) = (rest.split_first(), all.get(&at)) else {
        return Some(at);
    };
    if depth == DEPTH_MAX || word == "*" || module.items.contains(word) {
        return Some(at);
    }
    for (name, path) in &module.imports {
        let is_it = name == word;
        let path: Vec<String> = match name.as_str() {
            "*" => path[..path.len() - 1].iter().chain([word]).cloned().collect(),
            _ => path.clone(),
        };
        let found = || resolve(all, &at, &[path.as_slice(), behind].concat(), depth + 1);
        let defines = |found: &Place| all.get(found).is_some_and(|m| m.items.contains(word));
        match (is_it, name == "*") {
            (true, _) => return found().or(Some(at)),
            (_, true) if found().is_some_and(|found| defines(&found)) => return found(),
            _ => {}
        }
    }
    Some(at)
}

/// The modules that add methods to types of others, by crate.
fn added(crates: &BTreeMap<String, Crate>) -> BTreeMap<String, Added> {
    let mut out: BTreeMap<String, Added> = BTreeMap::new();
    // The places of each name; of a function of a trait also one that is none.
    let mut named: BTreeMap<&String, BTreeSet<(&String, Option<&Place>)>> = BTreeMap::new();
    for (name, all) in crates {
        for (place, module) in all {
            let Methods { inherent, of_traits, .. } = &module.methods;
            for (of, method) in inherent {
                named.entry(method).or_default().insert((name, Some(place)));
                let mut owners = all.iter().filter(|(_, m)| m.items.contains(of));
                let owner = owners.next().filter(|_| owners.next().is_none());
                if owner.is_some_and(|(owner, _)| owner != place) {
                    let added = out.entry(name.clone()).or_default();
                    added.by_name.insert(method.clone(), place.clone());
                    added.by_type.insert((of.clone(), method.clone()), place.clone());
                }
            }
            for method in of_traits {
                named.entry(method).or_default().insert((name, None));
            }
        }
    }
    for added in out.values_mut() {
        added.by_name.retain(|method, _| named.get(method).is_some_and(|of| of.len() == 1));
    }
    out
}

/// The modules that each uses, but those above and below it.
fn uses(all: &Crate, added: &Added) -> BTreeMap<Place, BTreeSet<Place>> {
    let mut out = BTreeMap::new();
    for (from, module) in all {
        let mut used: BTreeSet<Place> = BTreeSet::new();
        let Methods { calls, own_calls, .. } = &module.methods;
        let by_name = calls.iter().filter_map(|name| added.by_name.get(name));
        let by_type = own_calls.iter().filter_map(|own| added.by_type.get(own));
        let is_apart = |to: &Place| !from.starts_with(to) && !to.starts_with(from);
        used.extend(by_name.chain(by_type).filter(|to| is_apart(to)).cloned());
        for path in module.imports.iter().map(|(_, path)| path).chain(&module.paths) {
            let first = path.first();
            let by_name = module.imports.iter().find(|(name, _)| Some(name) == first);
            let found = resolve(all, from, path, 0).or_else(|| {
                let (_, before) = by_name.filter(|(_, before)| before != path)?;
                resolve(all, from, &[before.as_slice(), &path[1..]].concat(), 0)
            });
            used.extend(found.filter(is_apart));
        }
        out.insert(from.clone(), used);
    }
    out
}

/// What stands in a circle, or between two, with what it uses of the others there.
fn circles(name: &str, mut uses: BTreeMap<Place, BTreeSet<Place>>) -> Vec<String> {
    loop {
        let users: BTreeSet<Place> = uses.keys().cloned().collect();
        uses.values_mut().for_each(|used| used.retain(|one| users.contains(one)));
        let used: BTreeSet<Place> = uses.values().flatten().cloned().collect();
        let before = uses.len();
        uses.retain(|user, used_here| used.contains(user) && !used_here.is_empty());
        if uses.len() == before {
            break;
        }
    }
    let shown = |(user, used): (&Place, &BTreeSet<Place>)| {
        let used: Vec<String> = used.iter().map(|place| place.join("::")).collect();
        format!("{name}: {} -> {}", user.join("::"), used.join(", "))
    };
    uses.iter().map(shown).collect()
}

/// The modules that each uses, by crate.
fn all_uses(files: &[(String, String)]) -> Vec<(String, BTreeMap<Place, BTreeSet<Place>>)> {
    let crates = crates(files);
    let added = added(&crates);
    let used = |(name, all): (&String, &Crate)| {
        let nothing = Added::default();
        (name.clone(), uses(all, added.get(name).unwrap_or(&nothing)))
    };
    crates.iter().map(used).collect()
}

fn offences(files: &[(String, String)]) -> Vec<String> {
    all_uses(files).into_iter().flat_map(|(name, uses)| circles(&name, uses)).collect()
}

/// The same of the modules of the root, each with all that is below it.
fn root_circles(files: &[(String, String)]) -> Vec<(String, Vec<String>)> {
    let mut out = Vec::new();
    for (name, all) in all_uses(files) {
        let mut roots: BTreeMap<Place, BTreeSet<Place>> = BTreeMap::new();
        for (user, used) in all {
            let Some(root) = user.first() else { continue };
            let others =
                used.iter().filter_map(|place| place.first()).filter(|first| *first != root);
            let others = others.map(|first| vec![first.clone()]);
            roots.entry(vec![root.clone()]).or_default().extend(others);
        }
        let lines = circles("", roots);
        let modules =
            lines.iter().filter_map(|line| line.trim_start_matches(": ").split(' ').next());
        let modules: Vec<String> = modules.map(str::to_owned).collect();
        if !modules.is_empty() {
            out.push((name, modules));
        }
    }
    out
}

#[test]
fn no_modules_of_a_root_use_each_other() {
    let found = root_circles(&rust_files());
    let lines = found.iter().map(|(name, modules)| format!("{name}: {}", modules.join(", ")));
    let lines: Vec<String> = lines.collect();
    report("modules of a root that use each other, by way of different files", &lines);
}

#[test]
fn no_files_of_different_modules_use_each_other() {
    report("files of different modules that use each other", &offences(&rust_files()));
}

#[test]
fn the_rule_can_fail() {
    let file = |path: &str, text: &str| (format!("crates/x/src/{path}"), text.to_owned());
    let fine = [
        file("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;\npub use c::*;\n"),
        file("a.rs", "mod low;\nuse crate::{B, b::D as E};\npub struct A;\n"),
        // A module and what is below it.
        file("a/low.rs", "use super::A;\npub fn low(a: A) {}\n"),
        file("b.rs", "use crate::c;\npub struct B(c::C);\npub struct D;\n"),
        file("c.rs", "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        file("c/tests.rs", "use crate::a::A;\n"),
    ];
    assert_eq!(offences(&fine), Vec::<String>::new());
    for text in [
        "use crate::a::A;\n",
        "pub(crate) use super::{a::A};\n",
        // By way of a name that the root hands on.
        "#[allow(x)]\nuse crate::B;\n",
        "pub fn c(_: crate::B) {}\n",
        "use crate::a as other;\nfn c() { other::low::low() }\n",
        "fn c() {}\n#[cfg(test)]\nmod tests;\nuse crate::b::{self, B};\n",
    ] {
        let mut files = fine.to_vec();
        files.retain(|(path, _)| !path.ends_with("/c.rs"));
        files.push(file("c.rs", &format!("{text}pub struct C;\n")));
        assert!(!offences(&files).is_empty(), "{text}");
    }
    // By way of a glob.
    let mut files = fine.to_vec();
    files.push(file("d.rs", "use crate::C;\npub struct F;\n"));
    files.retain(|(path, _)| !path.ends_with("/c.rs"));
    files.push(file("c.rs", "use crate::d::F;\npub struct C;\n"));
    assert!(!offences(&files).is_empty());
}

#[test]
fn the_rule_on_roots_can_fail() {
    let file = |path: &str, text: &str| (format!("crates/x/src/{path}"), text.to_owned());
    let mut files = vec![
        file("lib.rs", "mod a;\nmod b;\n"),
        file("a/mod.rs", "mod low;\npub struct A;\n"),
        file("a/low.rs", "use crate::b::B;\n"),
        file("b.rs", "pub struct B;\n"),
    ];
    assert_eq!(root_circles(&files), Vec::new());
    files.pop();
    files.push(file("b.rs", "use crate::a::A;\npub struct B;\n"));
    assert_eq!(offences(&files), Vec::<String>::new(), "no two files use each other");
    assert_eq!(root_circles(&files), [("x".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
}

#[test]
fn the_rule_on_methods_can_fail() {
    let file = |path: &str, text: &str| (format!("crates/{path}"), text.to_owned());
    let set = "pub struct Set;\n\nimpl Set {\n    fn id(&self) {}\n}\n";
    let above = "use crate::set::Set;\n\nimpl Set {\n    fn changed(&self) {\n        \
                 self.found();\n    }\n}\n";
    let below = |call: &str| {
        let text = format!("impl Set {{\n    fn found(&self) {{\n        {call};\n    }}\n}}\n");
        file("x/src/below.rs", &text)
    };
    let files = |call: &str| {
        let lib = file("x/src/lib.rs", "mod set;\nmod above;\nmod below;\n");
        vec![lib, file("x/src/set.rs", set), file("x/src/above.rs", above), below(call)]
    };
    assert_eq!(offences(&files("self.id()")), Vec::<String>::new());
    for call in ["self.changed()", "Self::changed(self)", "other.changed()"] {
        assert_eq!(offences(&files(call)).len(), 2, "{call}");
        assert_eq!(root_circles(&files(call)).len(), 1, "{call}");
    }
    // Of another value, and of which type is not known when two have such a method.
    for other in
        ["impl Y {\n    fn changed(&self) {}\n}\n", "trait Y {\n    fn changed(&self);\n}\n"]
    {
        let with = |call: &str| [files(call), vec![file("y/src/lib.rs", other)]].concat();
        assert_eq!(offences(&with("other.changed()")), Vec::<String>::new());
        assert_eq!(offences(&with("self.changed()")).len(), 2);
    }
    // Files of one module that share a type.
    let one = |path: &str, call: &str| {
        let text =
            format!("impl Set {{\n    fn {path}(&self) {{\n        self.{call}();\n    }}\n}}\n");
        file(&format!("x/src/live/{path}.rs"), &text)
    };
    let mut files = files("self.id()");
    files.extend([one("one", "two"), one("two", "one")]);
    assert_eq!(offences(&files).len(), 2);
}
