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
    device: Option<String>,
    device_vendor_id: Option<u32>,
    lab: bool,
    device_node: Option<u32>,
    core: u32,
    core_node: Option<u32>,
    core_isolated: bool,
    segment_bytes: Option<usize>,
    segment_page_kind: Option<&'static str>,
    lends_buffers: Option<bool>,
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
    device: Option<String>,
    segment: Option<String>,
    memory: String,
    clock: Option<String>,
}

impl SetupFacts {
    /// The facts of a set-up.
    pub fn new(report: &SetupReport) -> Self {
        let cpu = &report.cpu;
        let (device, segment) = (report.fabric.device(), report.fabric.segment());
        Self {
            fabric: report.fabric.to_string(),
            mode: match report.config.mode {
                Mode::Spinwire => "spinwire",
                Mode::Raw => "raw",
            },
            device: device.map(|device| device.name.clone()),
            device_vendor_id: device.map(|device| device.vendor_id),
            lab: device.is_some_and(|device| device.is_software),
            device_node: device.and_then(|device| device.node),
            segment_bytes: segment.map(|segment| segment.bytes),
            segment_page_kind: segment.map(|segment| if segment.is_huge { "2m" } else { "small" }),
            lends_buffers: segment.map(|segment| segment.lends_buffers),
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
                device: device.map(ToString::to_string),
                segment: segment.map(ToString::to_string),
                memory: report.memory.to_string(),
                clock: (!report.clock.is_cheap()).then(|| report.clock.to_string()),
            },
        }
    }

    /// The lines of a table.
    pub(super) fn rows(&self, table: &mut Table) {
        table.row("fabric", format!("{} ({} mode)", self.fabric, self.mode));
        if let Some(device) = &self.words.device {
            table.row("device", device);
        }
        if let Some(segment) = &self.words.segment {
            table.row("shared", segment);
        }
        table.row("thread", &self.words.thread);
        table.row("memory", &self.words.memory);
        table.row("events seen by", &self.readiness);
        if let Some(warning) = &self.words.clock {
            table.row("clock", warning);
        }
    }
}
