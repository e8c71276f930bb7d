//! Making pools and adding to them: what of it is refused, and what is likely to be a mistake.
//!
//! Rules that the pool itself keeps (it has each device once, its devices have a smallest size) are
//! kept below, for every caller. Here is what needs more than the pool: the words of a layout, what
//! stands on a device, and what uses it.

mod add;
mod claim;
mod create;
mod device;
mod labels;
mod name;
mod split;

pub use crate::faults::{Content, DeviceRefusal, PoolNameFault};
pub use add::Add;
pub use claim::{BusyDevice, DeviceClaim};
pub use create::{CreatePool, CreatedPool};
pub use device::DeviceCheck;
pub use labels::{ClearLabels, PoolRegistry, pool_of_label};
pub use name::check_new_name;
pub use split::Split;
