//! A command line that a client has a server run: what the client sends, and what the server reads.

use crate::protocol::{Refusal, Request, word_to_json};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// A command line, and where it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The words, with the program's name.
    pub args: Vec<OsString>,
    /// The directory that it was typed in.
    pub folder: PathBuf,
    /// Variables of the client's environment.
    pub environment: BTreeMap<String, String>,
    /// The client wants a part of what it will show itself.
    pub is_part: bool,
}

impl CommandLine {
    /// As the parameters of a request.
    #[must_use]
    pub fn params(&self) -> Value {
        let text = |(name, value): (&String, &String)| (name.clone(), value.as_str().into());
        json!({
            "args": self.args.iter().map(|a| word_to_json(a)).collect::<Vec<_>>(),
            "folder": word_to_json(self.folder.as_os_str()),
            "environment": self.environment.iter().map(text).collect::<Map<String, Value>>(),
            "part": self.is_part,
        })
    }

    /// The one of a request. Of the environment only variables of these names are taken.
    ///
    /// # Errors
    /// It has none.
    pub fn of(request: &Request, names: &[&str]) -> Result<Self, Refusal> {
        let known = request.params.get("environment").and_then(Value::as_object);
        let known = known.into_iter().flatten().filter(|(k, _)| names.contains(&k.as_str()));
        Ok(Self {
            args: request.words("args")?,
            folder: PathBuf::from(request.word("folder")?),
            environment: known.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.into()))).collect(),
            is_part: request.params.get("part") == Some(&Value::Bool(true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn what_is_sent_is_read_but_variables_that_nothing_needs() {
        let variable = |name: &str| (name.to_owned(), "/x".to_owned());
        let line = CommandLine {
            args: vec!["zinc".into(), OsString::from_vec(vec![b'a', 0xff])],
            folder: PathBuf::from("/home"),
            environment: [variable("KEPT"), variable("LEFT")].into(),
            is_part: true,
        };
        let sent = Request::new("run", line.params());
        let read = CommandLine::of(&sent, &["KEPT"]).unwrap();
        assert_eq!(read, CommandLine { environment: [variable("KEPT")].into(), ..line.clone() });
        let plain = CommandLine { is_part: false, ..line };
        assert!(!CommandLine::of(&Request::new("run", plain.params()), &[]).unwrap().is_part);
        let none = CommandLine::of(&Request::new("run", json!({ "folder": "/" })), &[]);
        assert!(none.unwrap_err().what.contains("args"));
    }
}
