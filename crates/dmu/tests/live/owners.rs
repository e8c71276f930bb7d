//! Space by owner, where the owner is the first byte of the bonus.

use dmu::{Accounting, Block, Objset, Owner, Zap};
use ondisk::Dnode;
use ondisk::dnode::{FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
};
use std::collections::BTreeMap;

pub(crate) struct FirstByte {
    pub(crate) projects: bool,
}

impl FirstByte {
    fn owner(dnode: &Dnode) -> Option<Owner> {
        let b = u64::from(*dnode.bonus.first()?);
        Some(Owner { uid: b % 5, gid: b % 3 + 0x1_0000, project: (b % 2 == 0).then_some(b % 7) })
    }
}

impl Accounting for FirstByte {
    fn owner(&self, dnode: &Dnode, spill: Option<&Block>) -> Option<Owner> {
        assert_eq!(spill.is_some(), dnode.spill.is_some());
        Self::owner(dnode)
    }

    fn projects(&self) -> bool {
        self.projects
    }

    fn objects(&self) -> bool {
        true
    }
}

/// The tables are what counting all objects gives, where the header says that they are complete.
pub(crate) fn check(set: &Objset) {
    let tables = set.accounting_objects();
    if set.phys().flags & FLAG_USERACCOUNTING_COMPLETE == 0 {
        return;
    }
    let all =
        FLAG_USERACCOUNTING_COMPLETE | FLAG_USEROBJACCOUNTING_COMPLETE | FLAG_PROJECTQUOTA_COMPLETE;
    assert_eq!(set.phys().flags, all);
    let mut expected: [BTreeMap<Vec<u8>, u64>; 3] = Default::default();
    for o in set.objects() {
        let o = o.expect("sound");
        let both = FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED;
        assert_eq!(o.dnode().flags & both, both);
        let Some(Owner { uid, gid, project }) = FirstByte::owner(o.dnode()) else { continue };
        for (table, id) in expected.iter_mut().zip([Some(uid), Some(gid), project]) {
            let Some(id) = id else { continue };
            *table.entry(format!("{id:x}").into_bytes()).or_default() +=
                o.dnode().used_bytes() + 512;
            *table.entry(format!("obj-{id:x}").into_bytes()).or_default() += 1;
        }
    }
    for (table, expected) in tables.iter().zip(&expected) {
        let entries = match table {
            Some(t) => Zap::open(t).and_then(|z| z.to_vec()).expect("a table"),
            None => Vec::new(),
        };
        let found: BTreeMap<Vec<u8>, u64> = entries
            .iter()
            .map(|e| (e.name.bytes().unwrap_or_default().to_vec(), e.u64().expect("a counter")))
            .filter(|(_, n)| *n != 0)
            .collect();
        assert_eq!(&found, expected);
    }
}
