//! Sparse files in archives: their size and name are in records or in a GNU header, and their
//! content is the pieces of them that are not holes, one behind the other.

use crate::error::{Error, Result};
use crate::format::{BLOCK, PIECES_MAX, SIZE_MAX, decimal};

/// Receives a piece of content at its offset.
pub type Write<'a, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 'a;

/// Fills a buffer with the content that comes next.
pub(crate) type Fill<'a> = dyn FnMut(&mut [u8]) -> Result<()> + 'a;

/// The description of a sparse file.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    /// Its name, where the records of the map have one.
    pub name: Option<Vec<u8>>,
    /// Bytes of the file; `None`: it is not a sparse one.
    pub size: Option<u64>,
    /// Form 1: the map of the pieces comes before them.
    has_map_inside: bool,
    /// Offset and length of each piece.
    map: Vec<(u64, u64)>,
}

impl Sparse {
    /// One more piece.
    pub(crate) fn push(&mut self, offset: u64, length: u64) -> Result<()> {
        if self.map.len() >= PIECES_MAX {
            return Err(Error::Pieces);
        }
        self.map.push((offset, length));
        Ok(())
    }

    /// Takes note of a record; false when it says nothing of this.
    pub(crate) fn note(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let number = || decimal(value).ok_or(Error::Map);
        match key.strip_prefix(b"GNU.sparse.") {
            Some(b"name") => self.name = Some(value.to_vec()),
            Some(b"size" | b"realsize") => self.size = Some(number()?),
            Some(b"major") => self.has_map_inside = number()? == 1,
            Some(b"offset") => self.push(number()?, 0)?,
            Some(b"numbytes") => self.map.last_mut().ok_or(Error::Map)?.1 = number()?,
            Some(b"map") => {
                let mut words = value.split(|b| *b == b',').map(decimal);
                while let Some(offset) = words.next() {
                    let length = words.next().flatten().ok_or(Error::Map)?;
                    self.push(offset.ok_or(Error::Map)?, length)?;
                }
            }
            Some(_) => {}
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there can be a file of that size.
    pub(crate) fn check(&self) -> Result<()> {
        match self.size {
            Some(size) if size > SIZE_MAX => Err(Error::Size(size)),
            _ => Ok(()),
        }
    }

    /// Hands on the content of a member, read by way of `buffer`.
    pub(crate) fn pieces<E: From<Error>>(
        &self,
        content: &mut Fill<'_>,
        buffer: &mut [u8],
        write: &mut Write<'_, E>,
    ) -> Result<(), E> {
        let inside = match self.has_map_inside {
            true => Some(read_map(content)?),
            false => None,
        };
        let size = self.size.unwrap_or(0);
        let mut behind = 0;
        for (start, len) in inside.as_ref().unwrap_or(&self.map) {
            let end = start.checked_add(*len).filter(|end| *end <= size).ok_or(Error::Map)?;
            if *start < behind {
                return Err(Error::Map.into());
            }
            behind = end;
            let mut at = *start;
            while at < end {
                let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
                let piece = buffer.get_mut(..n).unwrap_or_default();
                content(piece)?;
                if piece.iter().any(|b| *b != 0) {
                    write(at, piece)?;
                }
                at += n as u64;
            }
        }
        Ok(())
    }
}

/// The map before the pieces of a sparse file: a line with their number, then two lines for each,
/// up to the end of a block.
fn read_map(content: &mut Fill<'_>) -> Result<Vec<(u64, u64)>> {
    /// Digits of the largest number.
    const DIGITS_MAX: usize = 20;
    let mut words = Vec::new();
    let mut line = Vec::new();
    let mut pieces = None;
    loop {
        let mut block = [0; BLOCK];
        content(&mut block)?;
        for byte in block {
            match byte {
                b'\n' => {
                    let word = decimal(&std::mem::take(&mut line)).ok_or(Error::Map)?;
                    match pieces {
                        None => pieces = Some(word),
                        Some(_) => words.push(word),
                    }
                }
                digit if line.len() < DIGITS_MAX => line.push(digit),
                _ => return Err(Error::Map),
            }
            let Some(pieces) = pieces else { continue };
            let pieces = usize::try_from(pieces).ok().filter(|n| *n <= PIECES_MAX);
            if words.len() == pieces.ok_or(Error::Pieces)? * 2 {
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
            let mut nothing = |_: &mut [u8]| Err(Error::CutOff);
            sparse.pieces(&mut nothing, &mut [0; 512], &mut |_, _| Ok::<_, Error>(()))
        };
        assert!(read(b"0,0,4096,0").is_ok());
        for bad in
            [&b"0"[..], b"0,0,0", b"4097,0", b"4096,0,0,0", b"1,18446744073709551615", b"x,1"]
        {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
