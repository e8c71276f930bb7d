//! A list as text, in the layout of `zdb -l` and `zpool history -l`: one member a line, nested
//! lists four columns further in. No name or string ends a line.

use core::fmt;

use super::{NvList, NvValue};
use crate::spelling::in_line;

/// Columns by which a nested list is moved in.
const STEP: usize = 4;

impl fmt::Display for NvList {
    /// The members, each line ended by a newline. `{:8}` moves all of it in by eight columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self, f.width().unwrap_or(0))
    }
}

// Depth is bounded: lists come from the decoder or from a program that built them.
fn list(f: &mut fmt::Formatter<'_>, l: &NvList, indent: usize) -> fmt::Result {
    for p in &l.pairs {
        member(f, &in_line(&String::from_utf8_lossy(&p.name)), &p.value, indent)?;
    }
    Ok(())
}

fn member(f: &mut fmt::Formatter<'_>, name: &str, value: &NvValue, indent: usize) -> fmt::Result {
    match value {
        NvValue::Boolean => writeln!(f, "{:indent$}{name}", ""),
        NvValue::BooleanValue(v) => line(f, name, v, indent),
        NvValue::Byte(v) | NvValue::U8(v) => line(f, name, v, indent),
        NvValue::I8(v) => line(f, name, v, indent),
        NvValue::I16(v) => line(f, name, v, indent),
        NvValue::U16(v) => line(f, name, v, indent),
        NvValue::I32(v) => line(f, name, v, indent),
        NvValue::U32(v) => line(f, name, v, indent),
        NvValue::I64(v) | NvValue::Hrtime(v) => line(f, name, v, indent),
        NvValue::U64(v) => line(f, name, v, indent),
        NvValue::Double(v) => line(f, name, v, indent),
        NvValue::String(s) => line(f, name, &quoted(s), indent),
        NvValue::NvList(l) => nested(f, name, l, indent),
        NvValue::BooleanArray(a) => lines(f, name, a, indent),
        NvValue::ByteArray(a) | NvValue::U8Array(a) => lines(f, name, a, indent),
        NvValue::I8Array(a) => lines(f, name, a, indent),
        NvValue::I16Array(a) => lines(f, name, a, indent),
        NvValue::U16Array(a) => lines(f, name, a, indent),
        NvValue::I32Array(a) => lines(f, name, a, indent),
        NvValue::U32Array(a) => lines(f, name, a, indent),
        NvValue::I64Array(a) => lines(f, name, a, indent),
        NvValue::U64Array(a) => lines(f, name, a, indent),
        NvValue::StringArray(a) => {
            let texts: Vec<String> = a.iter().map(|s| quoted(s)).collect();
            lines(f, name, &texts, indent)
        }
        NvValue::NvListArray(a) => (0..)
            .zip(a)
            .try_for_each(|(i, l): (u64, _)| nested(f, &format!("{name}[{i}]"), l, indent)),
    }
}

fn quoted(s: &[u8]) -> String {
    format!("'{}'", in_line(&String::from_utf8_lossy(s)))
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, v: &dyn fmt::Display, at: usize) -> fmt::Result {
    writeln!(f, "{:at$}{name}: {v}", "")
}

fn lines<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    values: &[T],
    indent: usize,
) -> fmt::Result {
    (0..).zip(values).try_for_each(|(i, v): (u64, _)| line(f, &format!("{name}[{i}]"), v, indent))
}

fn nested(f: &mut fmt::Formatter<'_>, name: &str, l: &NvList, indent: usize) -> fmt::Result {
    writeln!(f, "{:indent$}{name}:", "")?;
    list(f, l, indent + STEP)
}
