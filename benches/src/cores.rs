//! The CPUs a bench runs on, by name, and a line that names the machine.

use std::env;
use std::fs;

use core_affinity::CoreId;

/// The CPUs that benches use, in the order in which they were named.
#[derive(Clone, Debug)]
pub struct Cores(Vec<CoreId>);

impl Cores {
    /// Those named in `SPINWIRE_CORES` (`0,1`), otherwise the first two this process may use. Call it before anything
    /// is pinned.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the names, or that there is no CPU at all.
    pub fn named() -> Result<Self, String> {
        let allowed = core_affinity::get_core_ids().unwrap_or_default();
        match env::var("SPINWIRE_CORES") {
            Ok(names) => Cores::parse(&names, &allowed),
            Err(_) if allowed.is_empty() => Err("cannot ask which CPUs this process may use".into()),
            Err(_) => Ok(Cores(allowed.into_iter().take(2).collect())),
        }
    }

    fn parse(names: &str, allowed: &[CoreId]) -> Result<Self, String> {
        let mut cores: Vec<CoreId> = Vec::new();
        for name in names.split(',') {
            let id =
                name.trim().parse().map_err(|_| format!("SPINWIRE_CORES={names}: `{name}` is not a CPU number"))?;
            let core = CoreId { id };
            if !allowed.contains(&core) {
                let allowed: Vec<_> = allowed.iter().map(|core| core.id).collect();
                return Err(format!("SPINWIRE_CORES={names}: CPU {id} is not one this process may use, {allowed:?}"));
            }
            if cores.contains(&core) {
                return Err(format!("SPINWIRE_CORES={names}: CPU {id} is named twice"));
            }
            cores.push(core);
        }
        Ok(Cores(cores))
    }

    /// How many there are, at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of the CPU at `index` in the list.
    ///
    /// # Panics
    /// If there is no such index.
    pub fn id(&self, index: usize) -> usize {
        self.0[index].id
    }

    /// Pins the calling thread to the CPU at `index` in the list.
    ///
    /// # Panics
    /// If there is no such index, or the system refuses.
    pub fn pin(&self, index: usize) {
        let core = self.0[index];
        assert!(core_affinity::set_for_current(core), "cannot pin to CPU {}", core.id);
    }

    /// The names, as `SPINWIRE_CORES` takes them.
    pub fn names(&self) -> String {
        self.0.iter().map(|core| core.id.to_string()).collect::<Vec<_>>().join(",")
    }

    /// One line: CPUs used, processor, kernel, clock source.
    pub fn machine(&self) -> String {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, model)| model))
            .unwrap_or("unknown processor");
        let hypervisor = if cpuinfo.contains(" hypervisor") { "virtual, " } else { "" };
        format!(
            "CPUs {} of {} ({hypervisor}{model}), Linux {}, clock {}",
            self.names(),
            cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            read("/proc/sys/kernel/osrelease"),
            read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        )
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_taken_by_name_and_in_that_order() {
        let allowed = [0, 2, 5].map(|id| CoreId { id });
        assert_eq!(Cores::parse("5, 0", &allowed).expect("allowed").names(), "5,0");
        for (names, wrong) in [("1", "not one this process may use"), ("0,0", "named twice"), ("a", "not a CPU number")]
        {
            let error = Cores::parse(names, &allowed).expect_err("refused");
            assert!(error.contains(wrong), "{error}");
        }
    }
}
