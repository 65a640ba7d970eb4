//! What was set up, as a value to print.

use core::fmt;

use spinwire_core::config::Config;

use crate::clock::ClockSource;
use crate::cpu::CpuPlacement;
use crate::mem::Placement;
use crate::readiness::Readiness;
use crate::shm::INLINE_MAX;
use crate::words::Rounded;

/// Where a core's thread and memory are, what moves its data, and what was chosen for it.
#[derive(Clone, Debug)]
pub struct SetupReport {
    /// The pinned thread.
    pub cpu: CpuPlacement,
    /// What moves the data.
    pub fabric: Fabric,
    /// The memory of the buffers.
    pub memory: Placement,
    /// What the engine was set up with, fitted to the device.
    pub config: Config,
    /// Connections there can be.
    pub connections: u32,
    /// How connection events are seen.
    pub readiness: Readiness,
    /// What the clock is read from.
    pub clock: ClockSource,
    /// The address listened on, as clients write it.
    pub listening: Option<String>,
}

/// What moves the data.
#[derive(Clone, Debug)]
pub enum Fabric {
    /// Reliable connections over verbs and rdma_cm.
    Verbs(Device),
    /// Shared memory between processes of this machine.
    Shm(Segment),
}

/// An RDMA device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Who made it; 0xffffff is Soft-RoCE.
    pub vendor_id: u32,
    /// Whether it is a software device, so that figures taken on it are the lab's.
    pub is_software: bool,
    /// Its NUMA node.
    pub node: Option<u32>,
}

/// What this side shares for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its length in bytes, in whole pages.
    pub bytes: usize,
    /// Whether it is on pages of 2 MiB.
    pub is_huge: bool,
    /// Pages of 2 MiB were wanted, and it is long enough for one, and they were not to be had.
    pub huge_refused: bool,
    /// Peers of the same user read this core's buffers, so that a long message is copied once.
    pub lends_buffers: bool,
    /// The socket file of a dead server was in the way and was removed.
    pub replaced_socket: bool,
}

impl Fabric {
    /// The device, if there is one.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Fabric::Verbs(device) => Some(device),
            Fabric::Shm(_) => None,
        }
    }

    /// What is shared for each connection, if anything is.
    pub fn segment(&self) -> Option<&Segment> {
        match self {
            Fabric::Verbs(_) => None,
            Fabric::Shm(segment) => Some(segment),
        }
    }

    /// The part that a user looks for: `device rxe0 (lab: software device)`, `shared memory`.
    pub fn short_words(&self) -> String {
        match self {
            Fabric::Verbs(device) => format!("device {device}"),
            Fabric::Shm(_) => "shared memory".to_owned(),
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fabric::Verbs(_) => f.write_str("verbs, reliable connection over rdma_cm"),
            Fabric::Shm(_) => write!(f, "shared memory, up to {INLINE_MAX} bytes inside a descriptor"),
        }
    }
}

/// The device with what makes it special: `rxe0 (lab: software device)`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.name)?;
        match self.is_software {
            true => f.write_str("lab: software device")?,
            false => write!(f, "vendor {:#x}", self.vendor_id)?,
        }
        match self.node {
            Some(node) => write!(f, ", node {node})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = if self.is_huge { "pages of 2 MiB" } else { "small pages" };
        write!(f, "{} on {pages} for each connection and side", Rounded(self.bytes as u64))?;
        if self.huge_refused {
            f.write_str(" (no page of 2 MiB was to be had: `cat /proc/meminfo` shows the pool)")?;
        }
        if self.lends_buffers {
            f.write_str("; buffers are lent to peers of this user")?;
        }
        if self.replaced_socket {
            f.write_str("; the socket of a dead server was removed")?;
        }
        Ok(())
    }
}

/// One line for each part.
impl fmt::Display for SetupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "thread     {}", self.cpu)?;
        writeln!(f, "fabric     {}", self.fabric)?;
        match &self.fabric {
            Fabric::Verbs(device) => writeln!(f, "device     {device}")?,
            Fabric::Shm(segment) => writeln!(f, "shared     {segment}")?,
        }
        writeln!(f, "memory     {}", self.memory)?;
        writeln!(f, "readiness  {}", self.readiness)?;
        write!(f, "clock      {}", self.clock)
    }
}
