//! A write that fails once is made again, where the block cannot do without it: nothing is
//! suspended, and nothing is missed.

use super::*;

/// The part of a leaf that blocks lie in.
const BLOCKS: std::ops::Range<u64> = 4 << 20..DEVICE_BYTES - (1 << 20);

/// One write of many txgs fails, on a pool that can do without none of them.
#[test]
fn one_write_that_fails_suspends_nothing() {
    scenarios((2100..).zip([Shape::Disk, Shape::Disks3]), |steps, shape| {
        let mut run = run(steps, shape, 40);
        run.pool().sync().unwrap();
        let mut failed = 0;
        for after in 0..24 {
            let case = format!("{shape:?} after {after}");
            let device = &run.bench.faults[0];
            device.add(Fault::fail_writes(BLOCKS, EIO).after(after).times(1));
            (0..6).for_each(|_| run.step());
            run.pool().sync().unwrap_or_else(|e| panic!("{case}: {e}"));
            run.bench.mend();
            let tree = run.pool().view().vdevs();
            let counted = tree.leaves().next().unwrap().write_errors();
            assert!(counted <= 1, "{case}: {counted}");
            failed += counted;
            assert_eq!(state(run.pool(), 0), VdevState::Online, "{case}");
            assert!(is_whole(run.pool()), "{case}");
            run.pool().forget_errors(None).unwrap();
        }
        // The others were made again from joint requests, which count for nothing by themselves.
        assert!(failed > 0, "{shape:?}");
        let (bench, model) = run.finish();
        holds(&bench, &model);
    });
}
