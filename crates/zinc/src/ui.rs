//! The terminal: the only place that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is the terminal")]

use crate::asked;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

/// Prints to standard output. A reader that went away (`| head`) ends the program quietly, as it
/// ends other tools.
pub fn out(text: &str) {
    if let Some(client) = asked::client() {
        let _ = client.print(text.as_bytes());
        return;
    }
    let mut stdout = io::stdout().lock();
    if stdout.write_all(text.as_bytes()).is_err() {
        std::process::exit(0);
    }
}

/// Prints bytes to standard output.
pub fn out_bytes(bytes: &[u8]) -> io::Result<()> {
    if let Some(client) = asked::client() {
        return client.print(bytes);
    }
    io::stdout().lock().write_all(bytes)
}

/// Standard output for who writes piece by piece: a client's, as long as a verb runs for it.
pub struct Output;

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        out_bytes(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match asked::client() {
            Some(_) => Ok(()),
            None => io::stdout().flush(),
        }
    }
}

/// Standard output and standard error for another program.
pub fn streams() -> io::Result<[OwnedFd; 2]> {
    match asked::client() {
        Some(client) => Ok([client.output.try_clone()?.into(), client.errors.try_clone()?.into()]),
        None => Ok([
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ]),
    }
}

/// Prints to standard error.
pub fn error(text: &str) {
    if let Some(client) = asked::client() {
        return client.complain(text);
    }
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Standard error is a terminal: progress may be shown. A server shows none to its clients.
pub fn is_terminal() -> bool {
    asked::client().is_none() && io::stderr().is_terminal()
}

/// Standard output is a terminal.
pub fn is_output_terminal() -> bool {
    asked::client().map_or_else(|| io::stdout().is_terminal(), |c| c.is_terminal())
}

/// Rows with columns padded as OpenZFS pads them, or tab separated with `-H`.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
    script: bool,
}

impl Table {
    /// A table with these headings; `right` says which columns are flush right. With `script`
    /// headings are left out and columns are separated by a tab (`-H`).
    pub fn new(headings: &[&str], right: &[bool], script: bool) -> Self {
        let mut rows = Vec::new();
        if !script {
            rows.push(headings.iter().map(|h| (*h).to_owned()).collect());
        }
        Self { rows, right: right.to_vec(), script }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints all rows.
    pub fn print(&self) {
        out(&self.text());
    }

    /// All rows as they are printed.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let length = |s: &String| s.chars().count();
        let width = |c| self.rows.iter().filter_map(|r| r.get(c)).map(length).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            if self.script {
                text.push_str(&row.join("\t"));
            } else {
                text.push_str(self.padded(row, &widths).trim_end());
            }
            text.push('\n');
        }
        text
    }

    fn padded(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            if i > 0 {
                line.push_str("  ");
            }
            if self.right.get(i).copied().unwrap_or(false) {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
        }
        line
    }
}

/// Prints a JSON value.
pub fn json(value: &serde_json::Value) {
    // A value cannot fail to become text: its keys are strings.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    out(&text);
    out("\n");
}
