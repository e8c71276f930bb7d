//! Operations as records of an intent log, and records as operations.
//!
//! What writes a log encodes the operations that it applied ([`Encoder`]); what replays one decodes
//! its records ([`Decoder`]) and has the write path apply them. Neither is known here.

mod acl;
mod decode;
mod encode;
mod refusal;

pub use decode::Decoder;
pub(crate) use decode::{time_of, volume_op};
pub use encode::{Encoder, volume_record};
pub use refusal::{Refusal, ReplayStop};
