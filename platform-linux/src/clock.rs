//! The monotonic clock, and whether reading it is cheap on this machine.

use std::fmt;
use std::fs;
use std::path::Path;

use spinwire_core::time::Instant;

use crate::sys::host::monotonic_nanos;

/// The time now, in nanoseconds of `CLOCK_MONOTONIC`: never goes backwards, is not set, stops while the machine is
/// suspended. All threads and processes of a machine share it.
///
/// Cost: 20-40 ns without a system call, if [`ClockSource::is_cheap`]. A loop reads it once a turn.
#[inline]
pub fn now() -> Instant {
    Instant::from_nanos(monotonic_nanos())
}

/// What the kernel derives its clock from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSource {
    /// The kernel's name for it: `tsc`, `kvm-clock`, `hpet` ... or `unknown` where the kernel does not tell.
    pub name: String,
}

impl ClockSource {
    /// The clock source in use.
    pub fn current() -> Self {
        Self::read(Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
    }

    fn read(path: &Path) -> Self {
        let name = fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
        ClockSource { name }
    }

    /// Whether user space can read it without a system call. `false` for a name we do not know.
    pub fn is_cheap(&self) -> bool {
        READ_IN_USER_SPACE.contains(&self.name.as_str())
    }
}

/// The clock sources that the kernel's vDSO reads in user space (x86: `arch/x86/entry/vdso`, others: their architected
/// counter).
const READ_IN_USER_SPACE: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

/// One line for a report; a warning where each read costs a system call.
impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if !self.is_cheap() {
            f.write_str(
                ": every reading may cost a system call and 0.1 us to several us; see \
                 /sys/devices/system/clocksource/clocksource0/available_clocksource for a better one",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{self, Duration};

    #[test]
    fn it_advances_with_real_time_and_never_back() {
        let (std_start, start) = (time::Instant::now(), now());
        thread::sleep(Duration::from_millis(20));
        let (passed, bound) = (now().as_nanos() - start.as_nanos(), std_start.elapsed());
        assert!(passed >= 20_000_000, "{passed} ns");
        assert!(u128::from(passed) <= bound.as_nanos(), "{passed} ns in {bound:?}");
        let mut last = now();
        for _ in 0..100_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn all_threads_share_one_time_line() {
        let before = now();
        let other = thread::spawn(now).join().unwrap();
        assert!(before <= other && other <= now());
    }

    #[test]
    fn a_source_that_needs_system_calls_is_a_warning() {
        for name in ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"] {
            let source = ClockSource { name: name.into() };
            assert_eq!(source.to_string(), name);
        }
        for name in ["hpet", "acpi_pm", "jiffies", "unknown"] {
            let source = ClockSource { name: name.into() };
            assert!(!source.is_cheap());
            assert!(source.to_string().starts_with(&format!("{name}: every reading may cost a system")));
        }
    }

    #[test]
    fn the_source_is_read_from_the_kernel() {
        assert_eq!(ClockSource::read(Path::new("/nonexistent")).name, "unknown");
        let file = std::env::temp_dir().join(format!("spinwire-clocksource-{}", std::process::id()));
        fs::write(&file, "hpet\n").unwrap();
        assert_eq!(ClockSource::read(&file).name, "hpet");
        fs::remove_file(&file).unwrap();
    }
}
