//! Sparse files in archives: their size and name stand in records or in a GNU header, and their
//! content is the pieces of them that are no holes, one behind the other.

use super::archive::{Archive, BLOCK, decimal};
use super::sink::{CHUNK, Fault, Write};
use std::io::Read;

/// Pieces of a sparse file, at most.
const PIECES_MAX: usize = 1 << 20;
/// Size of a sparse file, at most: 1 PiB. Larger ones are what nobody has and hostile archives
/// claim.
const SIZE_MAX: u64 = 1 << 50;

/// What is known of a sparse file.
#[derive(Default)]
pub struct Sparse {
    pub name: Option<Vec<u8>>,
    /// Bytes of the file; `None`: it is not a sparse one.
    pub size: Option<u64>,
    /// Form 1: the map of the pieces stands before them.
    has_map_inside: bool,
    /// Offset and length of each piece.
    map: Vec<(u64, u64)>,
}

const BAD_MAP: Fault = Fault::InTheWay("a sparse file whose map contradicts itself");

fn too_many() -> Fault {
    Fault::Bad(format!("a sparse file of more than {PIECES_MAX} pieces"))
}

impl Sparse {
    /// One more piece.
    pub fn push(&mut self, offset: u64, length: u64) -> Result<(), Fault> {
        if self.map.len() >= PIECES_MAX {
            return Err(too_many());
        }
        self.map.push((offset, length));
        Ok(())
    }

    /// Takes note of a record; false when it says nothing of this.
    pub fn note(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Fault> {
        let number = || decimal(value).ok_or(BAD_MAP);
        match key.strip_prefix(b"GNU.sparse.") {
            Some(b"name") => self.name = Some(value.to_vec()),
            Some(b"size" | b"realsize") => self.size = Some(number()?),
            Some(b"major") => self.has_map_inside = number()? == 1,
            Some(b"offset") => self.push(number()?, 0)?,
            Some(b"numbytes") => self.map.last_mut().ok_or(BAD_MAP)?.1 = number()?,
            Some(b"map") => {
                let mut words = value.split(|b| *b == b',').map(decimal);
                while let Some(offset) = words.next() {
                    let length = words.next().flatten().ok_or(BAD_MAP)?;
                    self.push(offset.ok_or(BAD_MAP)?, length)?;
                }
            }
            Some(_) => {}
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there can be a file of that size.
    pub fn check(&self) -> Result<(), Fault> {
        match self.size {
            Some(size) if size > SIZE_MAX => Err(Fault::Bad(format!(
                "a sparse file that claims {size} bytes; {SIZE_MAX} are the most"
            ))),
            _ => Ok(()),
        }
    }

    /// Hands on the content of a member.
    pub fn pieces<R: Read>(
        &mut self,
        content: &mut Archive<R>,
        write: &mut Write<'_>,
    ) -> Result<(), Fault> {
        if self.has_map_inside {
            self.map = read_map(content)?;
        }
        let size = self.size.unwrap_or(0);
        let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK))];
        let mut behind = 0;
        for (start, len) in &self.map {
            let end = start.checked_add(*len).filter(|end| *end <= size).ok_or(BAD_MAP)?;
            if *start < behind {
                return Err(BAD_MAP);
            }
            behind = end;
            let mut at = *start;
            while at < end {
                let n = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
                content.read_exact(&mut buffer[..n])?;
                if buffer[..n].iter().any(|b| *b != 0) {
                    write(at, &buffer[..n])?;
                }
                at += n as u64;
            }
        }
        Ok(())
    }
}

/// The map before the pieces of a sparse file: a line with their number, then two lines for each,
/// up to the end of a block.
fn read_map<R: Read>(content: &mut Archive<R>) -> Result<Vec<(u64, u64)>, Fault> {
    /// Digits of the largest number.
    const DIGITS_MAX: usize = 20;
    let mut words = Vec::new();
    let mut line = Vec::new();
    let mut pieces = None;
    loop {
        let mut block = [0; BLOCK];
        content.read_exact(&mut block)?;
        for byte in block {
            match byte {
                b'\n' => {
                    let word = decimal(&std::mem::take(&mut line)).ok_or(BAD_MAP)?;
                    match pieces {
                        None => pieces = Some(word),
                        Some(_) => words.push(word),
                    }
                }
                digit if line.len() < DIGITS_MAX => line.push(digit),
                _ => return Err(BAD_MAP),
            }
            let Some(pieces) = pieces else { continue };
            let pieces = usize::try_from(pieces).ok().filter(|n| *n <= PIECES_MAX);
            if words.len() == pieces.ok_or_else(too_many)? * 2 {
                return Ok(words.as_chunks::<2>().0.iter().map(|[a, b]| (*a, *b)).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_overlap_or_leave_the_file_are_refused() {
        let read = |map: &[u8]| {
            let mut sparse = Sparse { size: Some(4096), ..Sparse::default() };
            sparse.note(b"GNU.sparse.map", map)?;
            sparse.pieces(&mut Archive::new(&[][..]), &mut |_, _| Ok(()))
        };
        assert!(read(b"0,0,4096,0").is_ok());
        for bad in
            [&b"0"[..], b"0,0,0", b"4097,0", b"4096,0,0,0", b"1,18446744073709551615", b"x,1"]
        {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
