//! How busy the CPUs of this machine are.

use std::collections::BTreeMap;
use std::{fs, io};

/// What each CPU has done since the machine started, in the kernel's ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    cpus: BTreeMap<u32, Ticks>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    total: u64,
}

impl CpuTimes {
    /// Until now, from `/proc/stat`. In a container these are the CPUs of the machine.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn now() -> io::Result<CpuTimes> {
        Ok(CpuTimes::parse(&fs::read_to_string("/proc/stat")?))
    }

    /// Lines of CPUs are read, such as `cpu0 user nice system idle iowait irq softirq steal guest
    /// guest_nice`; others are ignored.
    fn parse(text: &str) -> CpuTimes {
        let cpu = |line: &str| {
            let (name, values) = line.split_once(' ')?;
            let cpu = name.strip_prefix("cpu")?.parse().ok()?;
            // The last two are parts of the first two.
            let values: Vec<u64> =
                values.split_whitespace().take(8).map_while(|value| value.parse().ok()).collect();
            let idle: u64 = values.iter().skip(3).take(2).sum();
            let total: u64 = values.iter().sum();
            Some((cpu, Ticks { busy: total - idle, total }))
        };
        CpuTimes { cpus: text.lines().filter_map(cpu).collect() }
    }

    /// How many of these CPUs were busy between `earlier` and now, on average: 1.5 is one all the
    /// time and one for half of it.
    pub fn busy_since(&self, earlier: &CpuTimes, cpus: &[u32]) -> f64 {
        let share = |cpu: &u32| {
            let (now, then) = (self.cpus.get(cpu)?, earlier.cpus.get(cpu)?);
            let total = now.total.checked_sub(then.total).filter(|total| *total != 0)?;
            Some(now.busy.saturating_sub(then.busy) as f64 / total as f64)
        };
        cpus.iter().filter_map(share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_that_is_not_idle() {
        let earlier = CpuTimes::parse(
            "cpu  300 0 0 500 0 0 0 0 0 0\ncpu0 100 0 0 400 0 0 0 0 0 0\n\
             cpu1 200 0 0 100 0 0 0 0 0 0\ncpu7 5\nintr 5 5\n",
        );
        let now = CpuTimes::parse(
            "cpu0 130 5 5 440 10 4 5 1 25 5\ncpu1 300 0 0 100 0 0 0 0 0 0\ncpu7 5\n",
        );
        assert_eq!(now.busy_since(&earlier, &[0]), 0.5);
        assert_eq!(now.busy_since(&earlier, &[0, 1]), 1.5);
        assert_eq!(now.busy_since(&earlier, &[7, 9]), 0.0, "no time passed, or no such CPU");
        assert_eq!(earlier.busy_since(&now, &[0, 1]), 0.0);
    }

    #[test]
    fn this_machine_has_the_cpus_that_this_process_may_use() {
        let times = CpuTimes::now().expect("Linux has /proc/stat");
        let allowed = crate::thread::allowed_cpus().expect("they are known");
        assert!(allowed.iter().all(|cpu| times.cpus.contains_key(cpu)), "{times:?}");
    }

    #[test]
    fn values_that_are_no_numbers_end_a_line() {
        let times = CpuTimes::parse("cpu0 7 x 5\ncpu1\ncpux 1 2\ncpu2 -1\n");
        assert_eq!(times.busy_since(&CpuTimes::default(), &[0, 1, 2]), 0.0);
    }
}
