//! Decodes options.

use nbdwire::Fields;

/// Longest name of an export, and longest query, in bytes.
const TEXT_MAX: usize = 4096;
/// Queries of one option, at most.
const QUERIES_MAX: usize = 64;

/// The export that a client requests, and the information about it (`INFO`, `GO`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of the export.
    pub name: String,
    /// Numbers of the pieces of information.
    pub wanted: Vec<u16>,
}

/// Which statuses of an export are meant (`LIST_META_CONTEXT`, `SET_META_CONTEXT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// Name of the export.
    pub name: String,
    /// Their names, or beginnings of them.
    pub queries: Vec<String>,
}

fn text(bytes: &[u8]) -> Option<String> {
    if bytes.len() > TEXT_MAX || bytes.contains(&0) {
        return None;
    }
    String::from_utf8(bytes.to_vec()).ok()
}

/// Decodes a choice; `None` when the bytes are not a choice.
#[must_use]
pub fn choice(bytes: &[u8]) -> Option<Choice> {
    let mut fields = Fields(bytes);
    let name = text(fields.counted()?)?;
    let n = usize::from(fields.u16()?);
    let wanted = (0..n).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.0.is_empty().then_some(Choice { name, wanted })
}

/// Decodes contexts; `None` for what are none.
#[must_use]
pub fn contexts(bytes: &[u8]) -> Option<Contexts> {
    let mut fields = Fields(bytes);
    let name = text(fields.counted()?)?;
    let n = usize::try_from(fields.u32()?).ok().filter(|n| *n <= QUERIES_MAX)?;
    let query = |_| text(fields.counted()?);
    let queries = (0..n).map(query).collect::<Option<Vec<String>>>()?;
    fields.0.is_empty().then_some(Contexts { name, queries })
}

/// The name of an export alone (`EXPORT_NAME`).
pub(crate) fn name(bytes: &[u8]) -> Option<String> {
    text(bytes)
}
