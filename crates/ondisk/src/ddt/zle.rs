//! The run-length code of packed table entries.
//!
//! The same code as the compression `zle`, here because this floor lies below the codecs, and
//! because in a table entry it is part of the structure. With level `n`, a byte below `n` is the
//! number of literal bytes that follow, less one; a byte `n + k` means `k + 1` zero bytes.

/// Appends the code for `data` and says whether it is complete: OpenZFS gives up when its output
/// buffer of `room` bytes might not take the next run, and so must we, to write the same bytes.
pub(super) fn compress(data: &[u8], level: u8, room: usize, out: &mut Vec<u8>) -> bool {
    let n = usize::from(level);
    let longest_zeros = 256 - n;
    let begin = out.len();
    let mut rest = data;
    while let Some(first) = rest.first() {
        let left = room.saturating_sub(out.len() - begin);
        if left < 2 {
            return false;
        }
        let run = if *first == 0 {
            let zeros = rest.iter().take(longest_zeros).take_while(|b| **b == 0).count();
            out.push((zeros - 1 + n) as u8);
            zeros
        } else {
            if left <= n {
                return false;
            }
            let literals = literal_run(rest, n);
            out.push((literals - 1) as u8);
            out.extend_from_slice(rest.get(..literals).unwrap_or(&[]));
            literals
        };
        rest = rest.get(run..).unwrap_or(&[]);
    }
    true
}

/// Length of a run that begins with a byte that is not zero: to two zeros in a row, or at most
/// `longest`; a zero is never its last byte.
fn literal_run(data: &[u8], longest: usize) -> usize {
    let data = data.get(..longest).unwrap_or(data);
    let end = data.windows(2).position(|w| w == [0, 0]).unwrap_or(data.len());
    match data.get(..end) {
        Some([.., 0]) => end - 1,
        _ => end,
    }
}

/// Decodes exactly `size` bytes; `None` when the code ends early or says more.
pub(super) fn decompress(code: &[u8], level: u8, size: usize) -> Option<Vec<u8>> {
    let n = usize::from(level);
    let mut out = Vec::with_capacity(size);
    let mut rest = code;
    while out.len() < size {
        let (head, tail) = rest.split_first()?;
        let len = usize::from(*head) + 1;
        if len <= n {
            out.extend_from_slice(tail.get(..len)?);
            rest = tail.get(len..)?;
        } else {
            out.resize(out.len() + (len - n), 0);
            rest = tail;
        }
    }
    (out.len() == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(data: &[u8]) -> Vec<u8> {
        let mut code = Vec::new();
        assert!(compress(data, 64, 1 << 20, &mut code));
        assert_eq!(decompress(&code, 64, data.len()).as_deref(), Some(data));
        code
    }

    #[test]
    fn zeros_and_literals() {
        assert_eq!(there_and_back(&[0; 5]), [68]);
        assert_eq!(there_and_back(&[7, 8]), [1, 7, 8]);
        // A single zero stays inside a literal run, two end it.
        assert_eq!(there_and_back(&[7, 0, 8, 0, 0]), [2, 7, 0, 8, 65]);
        assert_eq!(there_and_back(&[0; 200]), [255, 64 + 7]);
        there_and_back(&[9; 200]);
        assert_eq!(there_and_back(&[7, 0]), [0, 7, 64], "a run does not end with a zero");
        assert_eq!(there_and_back(&[]), []);
    }

    #[test]
    fn a_narrow_buffer_makes_it_give_up() {
        let data = [1, 0, 0, 2];
        assert!(compress(&data, 64, 68, &mut Vec::new()));
        // The second run of literals might take 64 bytes, and there are only 63.
        assert!(!compress(&data, 64, 67, &mut Vec::new()));
        assert!(!compress(&[0, 0], 64, 1, &mut Vec::new()));
    }

    #[test]
    fn a_code_that_lies_is_refused() {
        assert_eq!(decompress(&[5, 1], 64, 6), None);
        assert_eq!(decompress(&[], 64, 1), None);
        assert_eq!(decompress(&[255], 64, 8), None, "more zeros than asked for");
    }
}
