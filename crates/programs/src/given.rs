//! The arguments of a function, as a script gives them: in parentheses, or in one table that has
//! options too.

use mlua::{MultiValue, Value};

/// A function that a script calls, with what it is given.
pub(crate) struct Signature {
    /// Its name.
    pub(crate) name: &'static str,
    /// What each argument is, all of them texts.
    pub(crate) words: &'static [&'static str],
    /// The option that is on or off, if it has one.
    pub(crate) option: Option<&'static str>,
}

/// What a function was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Its arguments, as many as it has.
    pub(crate) words: Vec<String>,
    /// Its option is on.
    pub(crate) option: bool,
}

impl Given {
    /// The argument at this place.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

impl Signature {
    /// A function without options.
    pub(crate) const fn new(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words, option: None }
    }

    /// Reads what the function was given; else what is wrong with it.
    pub(crate) fn read(&self, given: MultiValue) -> Result<Given, String> {
        let mut given = given.into_iter();
        let (first, second) = (given.next(), given.next());
        let read = match (first, second) {
            (Some(Value::Table(table)), None) => self.read_table(&table),
            (first, second) => self.read_words(first.into_iter().chain(second).chain(given)),
        };
        read.map_err(|why| format!("{why}\nusage: {}", self.usage()))
    }

    fn read_words(&self, given: impl Iterator<Item = Value>) -> Result<Given, String> {
        let words: Vec<String> = given.map(|value| text(&value)).collect::<Result<_, _>>()?;
        match words.len() == self.words.len() {
            true => Ok(Given { words, option: false }),
            false => Err(format!("{} arguments, not {}", words.len(), self.words.len())),
        }
    }

    fn read_table(&self, table: &mlua::Table) -> Result<Given, String> {
        let mut words = vec![None; self.words.len()];
        let mut option = false;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|e| e.to_string())?;
            match key {
                Value::Integer(at) => {
                    let at = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
                    let word = at.and_then(|at| words.get_mut(at));
                    *word.ok_or("too many arguments")? = Some(text(&value)?);
                }
                key => {
                    let name = text(&key)?;
                    if self.option != Some(name.as_str()) {
                        return Err(format!("there is no option '{name}'"));
                    }
                    let Value::Boolean(is_on) = value else {
                        return Err(format!("the option '{name}' is true or false"));
                    };
                    option = is_on;
                }
            }
        }
        let words: Option<Vec<String>> = words.into_iter().collect();
        Ok(Given { words: words.ok_or("an argument is missing")?, option })
    }

    /// How it is called.
    fn usage(&self) -> String {
        let option = self.option.map(|name| format!(", [{name}=true|false]")).unwrap_or_default();
        format!("{}{{{}{option}}}", self.name, self.words.join(", "))
    }
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string_lossy()),
        other => Err(format!("a string is wanted, not a {}", other.type_name())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use mlua::Lua;

    const DESTROY: Signature =
        Signature { name: "destroy", words: &["dataset"], option: Some("defer") };

    fn read(source: &str) -> Result<Given, String> {
        let lua = Lua::new();
        let values: MultiValue = lua.load(format!("return {source}")).eval().unwrap();
        DESTROY.read(values)
    }

    #[test]
    fn arguments_stand_in_parentheses_or_in_a_table() {
        let given = |option| Given { words: vec!["p/a".to_owned()], option };
        assert_eq!(read("'p/a'"), Ok(given(false)));
        assert_eq!(read("{'p/a'}"), Ok(given(false)));
        assert_eq!(read("{'p/a', defer=true}"), Ok(given(true)));
        assert_eq!(read("{[1]='p/a', defer=false}"), Ok(given(false)));
    }

    #[test]
    fn all_else_is_refused_with_the_usage() {
        for source in [
            "'a', 'b'",
            "'a', 1",
            "1",
            "",
            "nil",
            "{'a', bar=true}",
            "{'a', defer=1}",
            "{'a', 'b'}",
            "{'a', defer=true, 1}",
            "{defer=true}",
            "{1, defer=true}",
            "{[0]='a'}",
            "{[true]='a'}",
        ] {
            let why = read(source).unwrap_err();
            assert!(why.ends_with("usage: destroy{dataset, [defer=true|false]}"), "{why}");
        }
    }
}
