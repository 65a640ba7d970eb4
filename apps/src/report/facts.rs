//! What was set up, as both reports show it.

use serde::Serialize;
use spinwire_core::config::Mode;
use spinwire_linux::runtime::SetupReport;

use super::table::Table;

/// What was set up, for both reports.
#[derive(Debug, Serialize)]
pub struct SetupFacts {
    fabric: String,
    mode: &'static str,
    device: String,
    device_vendor_id: u32,
    lab: bool,
    device_node: Option<u32>,
    core: u32,
    core_node: Option<u32>,
    core_isolated: bool,
    memory_page_kind: &'static str,
    memory_page_bytes: usize,
    memory_bytes: usize,
    memory_node: Option<u32>,
    inline_bytes_max: u32,
    message_bytes_max: u32,
    readiness: String,
    clock_source: String,
    #[serde(skip)]
    words: Words,
}

/// The longer wording of the table.
#[derive(Debug)]
struct Words {
    thread: String,
    device: String,
    memory: String,
    clock: Option<String>,
}

impl SetupFacts {
    /// The facts of a set-up.
    pub fn new(report: &SetupReport) -> Self {
        let cpu = &report.cpu;
        Self {
            fabric: report.fabric.to_string(),
            mode: match report.config.mode {
                Mode::Spinwire => "spinwire",
                Mode::Raw => "raw",
            },
            device: report.device.clone(),
            device_vendor_id: report.vendor_id,
            lab: report.is_software,
            device_node: report.device_node,
            core: cpu.cpu,
            core_node: cpu.node,
            core_isolated: cpu.isolated,
            memory_page_kind: report.memory.kind.name(),
            memory_page_bytes: report.memory.page_bytes,
            memory_bytes: report.memory.page_bytes * report.memory.pages,
            memory_node: report.memory.node,
            inline_bytes_max: report.config.inline_bytes_max,
            message_bytes_max: report.config.message_bytes_max,
            readiness: report.readiness.to_string(),
            clock_source: report.clock.name.clone(),
            words: Words {
                thread: cpu.to_string(),
                device: report.device_words(),
                memory: report.memory.to_string(),
                clock: (!report.clock.is_cheap()).then(|| report.clock.to_string()),
            },
        }
    }

    /// The lines of a table.
    pub(super) fn rows(&self, table: &mut Table) {
        table.row("fabric", format!("{} ({} mode)", self.fabric, self.mode));
        table.row("device", &self.words.device);
        table.row("thread", &self.words.thread);
        table.row("memory", &self.words.memory);
        table.row("events seen by", &self.readiness);
        if let Some(warning) = &self.words.clock {
            table.row("clock", warning);
        }
    }
}
