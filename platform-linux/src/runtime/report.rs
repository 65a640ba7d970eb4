//! What was set up, as a value to print.

use core::fmt;
use std::net::SocketAddr;

use spinwire_core::config::Config;

use crate::clock::ClockSource;
use crate::cm::readiness::Readiness;
use crate::cpu::CpuPlacement;
use crate::mem::Placement;

/// Where a core's thread, memory and device are, and what was chosen for it.
#[derive(Clone, Debug)]
pub struct SetupReport {
    /// The pinned thread.
    pub cpu: CpuPlacement,
    /// What moves the data.
    pub fabric: Fabric,
    /// The device's name.
    pub device: String,
    /// Who made it; 0xffffff is Soft-RoCE.
    pub vendor_id: u32,
    /// Whether it is a software device, so that figures taken on it are the lab's.
    pub is_software: bool,
    /// The device's NUMA node.
    pub device_node: Option<u32>,
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
    /// The address listened on.
    pub listening: Option<SocketAddr>,
}

/// What moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Reliable connections over verbs and rdma_cm.
    Verbs,
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fabric::Verbs => f.write_str("verbs, reliable connection over rdma_cm"),
        }
    }
}

impl SetupReport {
    /// The device with what makes it special: `rxe0 (lab: software device)`.
    pub fn device_words(&self) -> String {
        let kind =
            if self.is_software { "lab: software device".to_owned() } else { format!("vendor {:#x}", self.vendor_id) };
        match self.device_node {
            Some(node) => format!("{} ({kind}, node {node})", self.device),
            None => format!("{} ({kind})", self.device),
        }
    }
}

/// One line for each part.
impl fmt::Display for SetupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "thread     {}", self.cpu)?;
        writeln!(f, "fabric     {}", self.fabric)?;
        writeln!(f, "device     {}", self.device_words())?;
        writeln!(f, "memory     {}", self.memory)?;
        writeln!(f, "readiness  {}", self.readiness)?;
        write!(f, "clock      {}", self.clock)
    }
}
