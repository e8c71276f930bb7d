//! Flags, projects and generations of files: what `lsattr`, `chattr` and quota tools ask for by
//! `ioctl`.
//!
//! The kernel checks permissions; it asks for the two forms that there are (`FS_IOC_GETFLAGS` with
//! one word, `FS_IOC_FSGETXATTR` with a structure), and sets all at once.

use crate::attrs::now;
use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{Errno, INodeNo};
use crate::served::Front;
use engine::files::{FlagChange, SetAttrs, flags};

/// The requests' numbers.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_MORE: u32 = 0x801c_581f;
const SET_MORE: u32 = 0x401c_5820;
const GET_GENERATION: u32 = 0x8008_7601;

/// Bytes of the structure, and of each of its first words: flags, extent size, extents, project.
const MORE: usize = 28;
const PROJECT_AT: usize = 12;

/// Flags: as the word has them, as the structure has them, as files have them.
const FLAGS: [(u32, u32, u64); 4] = [
    (0x10, 0x8, flags::IMMUTABLE),
    (0x20, 0x10, flags::APPENDONLY),
    (0x40, 0x80, flags::NODUMP),
    (0x2000_0000, 0x200, flags::PROJINHERIT),
];

/// One of the two forms.
#[derive(Clone, Copy)]
enum Form {
    Word,
    Structure,
}

impl Form {
    fn bit(self, row: &(u32, u32, u64)) -> u32 {
        match self {
            Self::Word => row.0,
            Self::Structure => row.1,
        }
    }

    /// The flags of a file in this form.
    fn shown(self, of_file: u64) -> u32 {
        let set = FLAGS.iter().filter(|row| of_file & row.2 != 0);
        set.fold(0, |word, row| word | self.bit(row))
    }

    /// The flags of files to change by a word in this form; there are no other flags.
    fn change(self, word: u32) -> FuseResult<FlagChange> {
        let known = FLAGS.iter().fold(0, |known, row| known | self.bit(row));
        if word & !known != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let which = FLAGS.iter().fold(0, |which, row| which | row.2);
        let set = FLAGS.iter().filter(|row| word & self.bit(row) != 0);
        Ok(FlagChange { which, value: set.fold(0, |value, row| value | row.2) })
    }
}

fn word_at(bytes: &[u8], at: usize) -> FuseResult<u32> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Errno::EINVAL)?;
    Ok(match cfg!(target_endian = "big") {
        true => u32::from_be_bytes(*word),
        false => u32::from_le_bytes(*word),
    })
}

/// A word as programs of this machine have it.
fn bytes_of(word: u32) -> [u8; 4] {
    match cfg!(target_endian = "big") {
        true => word.to_be_bytes(),
        false => word.to_le_bytes(),
    }
}

impl Front {
    /// Answers such a request: what goes back.
    pub(crate) fn control(&self, ino: INodeNo, request: u32, given: &[u8]) -> FuseResult<Vec<u8>> {
        let node = self.node(ino)?;
        match request {
            GET_FLAGS => Ok(bytes_of(Form::Word.shown(node.flags)).to_vec()),
            GET_MORE => {
                let mut out = vec![0; MORE];
                out[..4].copy_from_slice(&bytes_of(Form::Structure.shown(node.flags)));
                let project = u32::try_from(node.project).unwrap_or(u32::MAX);
                out[PROJECT_AT..][..4].copy_from_slice(&bytes_of(project));
                Ok(out)
            }
            // As in OpenZFS, the low half of the txg that the file was made in.
            GET_GENERATION => Ok(bytes_of(node.generation as u32).to_vec()),
            SET_FLAGS => {
                let flags = Form::Word.change(word_at(given, 0)?)?;
                self.set_flags(ino, SetAttrs { flags, ..SetAttrs::default() })
            }
            SET_MORE => {
                let flags = Form::Structure.change(word_at(given, 0)?)?;
                let project = u64::from(word_at(given, PROJECT_AT)?);
                let project = (project != node.project).then_some(project);
                self.set_flags(ino, SetAttrs { flags, project, ..SetAttrs::default() })
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_flags(&self, ino: INodeNo, set: SetAttrs) -> FuseResult<Vec<u8>> {
        self.fs.set_attrs(self.object(ino)?, &set, now()).or_errno()?;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_the_way() {
        for form in [Form::Word, Form::Structure] {
            for row in FLAGS {
                let change = form.change(form.bit(&row)).unwrap();
                assert_eq!(change.value, row.2);
                assert_eq!(form.shown(change.value), form.bit(&row));
            }
            assert!(form.change(1).is_err());
        }
    }
}
