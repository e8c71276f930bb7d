//! Archives that are unpacked into pools.

use super::Target;
use archive::{Archive, Error, Member};
use std::io::{self, Read};

pub(super) const TARGETS: [(&str, Target); 1] = [("archive", archive)];

/// Bytes that come a few at a time, as from a pipe.
struct Pipe<'a> {
    bytes: &'a [u8],
    at_once: usize,
}

impl Read for Pipe<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = out.len().min(self.at_once);
        self.bytes.read(&mut out[..n])
    }
}

/// What an archive has: of each member its name, the pieces of its content, and what is wrong with
/// it; in the end what is wrong with the archive.
#[derive(Default, PartialEq, Eq, Debug)]
struct Found {
    names: Vec<Vec<u8>>,
    pieces: Vec<(u64, Vec<u8>)>,
    faults: Vec<String>,
    end: Option<String>,
}

/// The first byte says in which pieces the source is read, and the content. Damage seldom keeps the
/// sum of a header right, so what follows is read as it is and with all sums made right.
fn archive(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    examine(*how, bytes);
    let mut summed = bytes.to_vec();
    for block in summed.as_chunks_mut::<512>().0.iter_mut().filter(|b| &b[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    examine(*how, &summed);
}

fn examine(how: u8, bytes: &[u8]) {
    let at_once = usize::from(how & 0xf) * 97 + 1;
    let chunk = usize::from(how >> 4) * 257 + 1;
    let whole = read(bytes, chunk, true);
    assert_eq!(whole, read(Pipe { bytes, at_once }, chunk, true));
    let handed_on: usize = whole.pieces.iter().map(|(_, piece)| piece.len()).sum();
    assert!(handed_on <= bytes.len());
    assert!(whole.names.len() <= bytes.len() / 512);
    // Content that is not asked for is skipped.
    assert_eq!(whole.names, read(bytes, chunk, false).names);
}

fn read(source: impl Read, chunk: usize, wants_content: bool) -> Found {
    let mut archive = Archive::new(source);
    let mut found = Found::default();
    loop {
        match archive.next_member() {
            Ok(None) => return found,
            Ok(Some(member)) => {
                found.names.push(member.path.clone());
                let content = match wants_content {
                    true => content(&mut archive, &member, chunk, &mut found.pieces),
                    false => Ok(()),
                };
                found.faults.extend(member.fault.iter().map(ToString::to_string));
                found.faults.extend(content.err().map(|e| e.to_string()));
            }
            Err(e) => {
                assert!(found.end.is_none(), "the archive's end is told once: {e}");
                found.end = Some(e.to_string());
            }
        }
    }
}

/// The content of a member, whose pieces must ascend and stay in the file.
fn content(
    archive: &mut Archive<impl Read>,
    member: &Member,
    chunk: usize,
    pieces: &mut Vec<(u64, Vec<u8>)>,
) -> Result<(), Error> {
    let size = member.size()?;
    let mut behind = 0;
    member.content(archive, chunk, &mut |offset, piece| {
        assert!(offset >= behind && !piece.is_empty() && piece.len() <= chunk);
        behind = offset + piece.len() as u64;
        assert!(behind <= size);
        pieces.push((offset, piece.to_vec()));
        Ok(())
    })
}
