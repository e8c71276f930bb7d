//! Numbers and names as messages have them.

use super::Errno;

/// Whether numbers of this machine have their highest byte first.
const IS_BIG: bool = cfg!(target_endian = "big");

/// The arguments of a request, from the first that was not taken yet. What is missing is an error.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a>(pub(super) &'a [u8]);

impl<'a> Arguments<'a> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Errno::EIO)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Errno> {
        let bytes = self.bytes()?;
        Ok(if IS_BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u64(&mut self) -> Result<u64, Errno> {
        let bytes = self.bytes()?;
        Ok(if IS_BIG { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A name, without the zero at its end.
    pub(super) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|b| *b == 0).ok_or(Errno::EIO)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(name)
    }

    /// This many bytes.
    pub(super) fn take(&mut self, length: u32) -> Result<&'a [u8], Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::EIO)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Errno::EIO)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// A message in the making.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn for_bytes(length: usize) -> Self {
        Self(Vec::with_capacity(length))
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(if IS_BIG { value.to_be_bytes() } else { value.to_le_bytes() })
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(if IS_BIG { value.to_be_bytes() } else { value.to_le_bytes() })
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(if IS_BIG { value.to_be_bytes() } else { value.to_le_bytes() })
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.u64(value.cast_unsigned())
    }

    pub(super) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> &mut Self {
        self.0.extend_from_slice(&bytes);
        self
    }
}
