//! Reading all there is, and measuring what it costs.

use engine::inside::{dmu, ondisk, zpl};

/// Objects, entries and blocks one round looks at, at most: damage can make a small pool look
/// like an enormous one, and reading all of an enormous pool rightly takes long.
pub(crate) const LOOKS_MAX: usize = 20_000;

/// Every object: its table, its spill block, its blocks.
pub(crate) fn read_objset(objset: &dmu::Objset, looks: &mut usize) {
    for object in objset.objects() {
        *looks += 1;
        if *looks > LOOKS_MAX {
            return;
        }
        let Ok(object) = object else { continue };
        if object.dnode().kind.layout() == ondisk::Layout::Zap
            && let Ok(zap) = dmu::Zap::open(&object)
        {
            *looks += zap.entries().take(LOOKS_MAX).count();
        }
        let _ = object.read_spill();
        let mut at = 0;
        while *looks < LOOKS_MAX {
            *looks += 1;
            match object.next_block(at) {
                Ok(Some(b)) => {
                    let _ = object.read_block(b);
                    let Some(next) = b.checked_add(1) else { break };
                    at = next;
                }
                Ok(None) | Err((_, None)) => break,
                Err((_, Some(resume))) => at = resume,
            }
        }
    }
}

/// Every file: attributes, link target, first bytes, names.
pub(crate) fn read_files(fs: &zpl::Filesystem, looks: &mut usize) {
    let Ok(root) = fs.root() else { return };
    let mut todo = vec![root];
    while let Some(node) = todo.pop() {
        *looks += 1;
        if *looks > LOOKS_MAX {
            return;
        }
        let _ = (node.xattrs(), node.acl());
        let _ = node.read_link();
        let mut buffer = [0; 8192];
        let _ = node.read_at(0, &mut buffer);
        let Ok(entries) = node.entries() else { continue };
        todo.extend(entries.flatten().filter_map(|e| fs.node(e.object).ok()));
    }
}

/// Begins the measurement anew, where the system allows that.
pub(crate) fn forget_memory_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Highest resident size so far in KiB.
pub(crate) fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
