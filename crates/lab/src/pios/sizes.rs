//! Runs, one for each combination of values.

use super::{Layout, PiosError, Plan, Result, Sweep};

/// The values of each size that runs go through.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Threads.
    pub threads: Sweep,
    /// Regions.
    pub regions: Sweep,
    /// Bytes of a region.
    pub sizes: Sweep,
    /// Bytes of an I/O.
    pub chunks: Sweep,
    /// Bytes between the starts of regions; zero stands for the region's size.
    pub offsets: Sweep,
    /// Bytes of a block.
    pub blocks: Sweep,
}

/// The texts of an option: its list, and the ends and the step of its range.
pub type SweepTexts<'t> = [Option<&'t str>; 4];

/// The options, and what each says when it is not given.
const OPTIONS: [(&str, u64); 6] =
    [("-t", 1), ("-n", 16), ("-s", 4 << 20), ("-c", 1 << 20), ("-o", 0), ("-S", 128 << 10)];

impl Sizes {
    /// What the options `-t`, `-n`, `-s`, `-c`, `-o` and `-S` say, in this order.
    ///
    /// # Errors
    /// As [`Sweep::of_texts`], with the name of the option.
    pub fn of_texts(texts: [SweepTexts<'_>; 6]) -> Result<Self> {
        let sweep = |at: usize| {
            let (name, usual) = OPTIONS[at];
            let named = |e: PiosError| PiosError { what: format!("{name}: {}", e.what), ..e };
            Sweep::of_texts(texts[at], usual).map_err(named)
        };
        let (threads, regions, sizes) = (sweep(0)?, sweep(1)?, sweep(2)?);
        let (chunks, offsets, blocks) = (sweep(3)?, sweep(4)?, sweep(5)?);
        Ok(Self { threads, regions, sizes, chunks, offsets, blocks })
    }

    /// A plan for each combination, the last of them changing first; sizes that are not
    /// listed are as in `usual`.
    ///
    /// # Errors
    /// One of them cannot be done.
    pub fn plans(&self, layout: Layout, usual: &Plan) -> Result<Vec<Plan>> {
        let mut plans = vec![Plan { layout, ..usual.clone() }];
        each(&mut plans, &self.threads, |plan, n| {
            plan.threads = usize::try_from(n).unwrap_or(usize::MAX);
        });
        each(&mut plans, &self.regions, |plan, n| plan.regions = n);
        each(&mut plans, &self.sizes, |plan, n| plan.region_size = n);
        each(&mut plans, &self.chunks, |plan, n| plan.chunk_size = n);
        each(&mut plans, &self.offsets, |plan, n| {
            let is_size = n == 0 && layout == Layout::Shared;
            plan.offset = if is_size { plan.region_size } else { n };
        });
        each(&mut plans, &self.blocks, |plan, n| plan.block_size = n);
        plans.iter().try_for_each(Plan::check)?;
        Ok(plans)
    }
}

/// Gives plans the time stamps of earlier runs whose files they read: one stamp for all, which are
/// the same files read in several ways, or one for each plan. Without any they stay as they are.
///
/// # Errors
/// It is another number of stamps.
pub fn resume(plans: &mut [Plan], stamps: &[u64]) -> Result<()> {
    match stamps {
        [] => {}
        [stamp] => plans.iter_mut().for_each(|plan| plan.seed = *stamp),
        stamps if stamps.len() == plans.len() => {
            plans.iter_mut().zip(stamps).for_each(|(plan, stamp)| plan.seed = *stamp);
        }
        stamps => {
            let (stamps, runs) = (stamps.len(), plans.len());
            let what = format!("-V names {stamps} time stamps, and the sizes make {runs} runs");
            return Err(PiosError::new(what).hint("give one for all, or one for each run"));
        }
    }
    Ok(())
}

/// Makes of each plan one for each value.
fn each(plans: &mut Vec<Plan>, values: &Sweep, set: impl Fn(&mut Plan, u64)) {
    let of_plan = |plan: Plan| {
        values
            .values()
            .iter()
            .map(|value| {
                let mut plan = plan.clone();
                set(&mut plan, *value);
                plan
            })
            .collect::<Vec<_>>()
    };
    *plans = std::mem::take(plans).into_iter().flat_map(of_plan).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        Sizes {
            threads: Sweep::list("1,2").expect("list"),
            regions: Sweep::one(4),
            sizes: Sweep::list("1m,2m").expect("list"),
            chunks: Sweep::one(1 << 20),
            offsets: Sweep::one(0),
            blocks: Sweep::one(4096),
        }
    }

    #[test]
    fn the_last_size_changes_first_and_an_offset_of_zero_is_the_region() {
        let usual = Plan { seed: 7, ..Plan::new(9, 9, 9, 9) };
        let plans = sizes().plans(Layout::Shared, &usual).expect("plans");
        let seen: Vec<_> = plans.iter().map(|p| (p.threads, p.offset >> 20)).collect();
        assert_eq!(seen, [(1, 1), (1, 2), (2, 1), (2, 2)]);
        assert!(plans.iter().all(|p| (p.regions, p.block_size, p.seed) == (4, 4096, 7)));
        let plans = sizes().plans(Layout::PerRegion, &usual).expect("plans");
        assert!(plans.iter().all(|p| p.offset == 0));
        let none = Sizes { threads: Sweep::one(0), ..sizes() };
        let seeds = |stamps: &[u64]| {
            let mut plans = plans.clone();
            resume(&mut plans, stamps).map(|()| plans.iter().map(|p| p.seed).collect::<Vec<_>>())
        };
        assert_eq!(seeds(&[]), Ok(vec![7; 4]));
        assert_eq!(seeds(&[5]), Ok(vec![5; 4]));
        assert_eq!(seeds(&[1, 2, 3, 4]), Ok(vec![1, 2, 3, 4]));
        assert!(seeds(&[1, 2]).is_err());
        assert!(none.plans(Layout::Shared, &usual).is_err());
    }
}
