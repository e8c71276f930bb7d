//! `zdb -B`: a snapshot, by the number of its object set, as a send stream.

use crate::{Error, Result};
use engine::send::{Forms, SendStream};
use engine::{Pool, Progress};
use std::io::Write;
use std::marker::Send as Sendable;

/// Writes the stream of the snapshot `POOL/NUMBER` in the form that these letters say: `L` large
/// blocks, `c` compressed ones, `e` embedded ones, `w` raw ones.
///
/// # Errors
/// It is none, other letters were given, or the stream cannot be read or written.
pub fn backup(pool: &Pool, name: &str, letters: &str, out: impl Write + Sendable) -> Result<()> {
    let number = name.split_once('/').and_then(|(_, number)| number.parse().ok());
    let (Some(number), true) = (number, letters.chars().all(|c| "ecLw".contains(c))) else {
        let what = "want -B POOL/NUMBER [FLAGS], of the letters e, c, L and w";
        return Err(Error::Usage(what.to_owned()));
    };
    let has = |letter| letters.contains(letter);
    let forms =
        Forms { large_blocks: has('L'), compressed: has('c'), embedded: has('e'), raw: has('w') };
    let snapshot = pool.datasets().name_of(number)?;
    Ok(SendStream::new(pool, &snapshot, None, forms)?.run(out, &Progress::new())?)
}
