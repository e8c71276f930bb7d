//! Leaves whose files or disks are not what they were when they were opened.

use super::NodeRef;
use crate::health::Mark;
use device::Displacement;

impl NodeRef<'_> {
    /// How the device was displaced while it was open.
    #[must_use]
    pub fn displaced(self) -> Option<Displacement> {
        self.node.device.as_ref().and_then(|d| d.displaced())
    }

    /// It was gone without because its file or disk was not where it had been opened, and that very
    /// one is there again. Asks the system.
    #[must_use]
    pub fn is_there_again(self) -> bool {
        let device = self.node.device.as_ref().filter(|_| self.node.health.went_astray());
        device.is_some_and(|device| device.displaced().is_none())
    }

    /// It is in use although its file was cut short, for the rest needs it, and the file has its
    /// size again. Asks the system.
    #[must_use]
    pub fn has_its_size_again(self) -> bool {
        let is_used = matches!(self.node.health.mark(), Mark::None | Mark::Astray);
        let was_cut = is_used && self.displaced() == Some(Displacement::Cut);
        // One that the rest can do without is gone without, and brought everything.
        was_cut && !self.tree.can_lose_all(&[self.guid()])
    }

    /// What was cut off it is taken for lost: whether that was so.
    #[must_use]
    pub fn accept_size(self) -> bool {
        self.has_its_size_again() && self.node.device.as_ref().is_some_and(|d| d.accept_size())
    }
}
