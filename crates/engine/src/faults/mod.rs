//! Why requests are refused, as data: faults of layouts, devices, objects and names. They know
//! nothing of [`crate::Error`], which holds them; a front end has its own words for them.

mod device;
mod import;
mod layout;
mod level;
mod member;
mod object;
mod pool_name;

pub use device::{Content, DeviceRefusal};
pub use import::ImportRefusal;
pub(crate) use layout::DRAID_DEVICES_MAX;
pub use layout::LayoutFault;
pub use level::{Level, Mismatch};
pub use member::MemberFault;
pub use object::ObjectRefusal;
pub use pool_name::PoolNameFault;
