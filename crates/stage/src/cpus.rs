//! How many processors this process may use.

use std::fmt;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// Variables by which Slurm says what it granted; the first that is set counts.
const SLURM: [&str; 2] = ["SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"];

/// A number of processors, and what set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus {
    /// How many.
    pub count: NonZeroUsize,
    /// What set the number.
    pub from: &'static str,
}

impl Cpus {
    /// The least of affinity mask, cgroup quota and Slurm's grant.
    pub fn detect() -> Self {
        let system = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self::least(system, |name| std::env::var(name).ok())
    }

    fn least(system: NonZeroUsize, variable: impl Fn(&str) -> Option<String>) -> Self {
        let granted = SLURM.into_iter().find_map(|name| {
            let count = variable(name)?.trim().parse().ok()?;
            Some(Self { count, from: name })
        });
        let system = Self { count: system, from: "affinity mask and cgroup quota" };
        match granted {
            Some(granted) if granted.count < system.count => granted,
            _ => system,
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.count, self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(system: usize, set: &[(&str, &str)], expected: usize) {
        let variable = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let system = NonZeroUsize::new(system).unwrap();
        assert_eq!(Cpus::least(system, variable).count.get(), expected);
    }

    #[test]
    fn slurm_lowers_the_number_and_never_raises_it() {
        check(32, &[], 32);
        check(32, &[("SLURM_CPUS_PER_TASK", "4"), ("SLURM_CPUS_ON_NODE", "16")], 4);
        check(32, &[("SLURM_CPUS_ON_NODE", "16")], 16);
        check(2, &[("SLURM_CPUS_PER_TASK", "64")], 2);
        check(2, &[("SLURM_CPUS_PER_TASK", "0")], 2);
        check(2, &[("SLURM_CPUS_PER_TASK", "many")], 2);
    }
}
