//! A client that means well, whoever its server is: it asks, and uses what the server tells it of.

use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::remote::{RemotePlace, RemoteRegion, Rights};
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::turn::{Answer, Cx, Done, Handler, OneSidedFailure};

use super::scene::Role;
use crate::runtime::Options;

/// Connects again and again, and tells of each new way in which a connection ended.
#[derive(Default)]
pub(super) struct Visitor {
    live: bool,
    begun: Instant,
    answers: u32,
    opened: u64,
    ended: u64,
    operations: u64,
    longest: Nanos,
    ends: Vec<String>,
    next_report: Instant,
}

/// A server has so long to answer a request.
const CONNECT: Nanos = Nanos::from_millis(500);

impl Role for Visitor {
    const CPU: usize = 1;

    fn adjust(options: &mut Options) {
        options.timeouts.connect = CONNECT;
        options.one_sided = 8;
    }

    fn is_over(&self) -> bool {
        false
    }
}

impl Visitor {
    /// One-sided operations of every kind on a region that these bytes describe.
    fn use_region(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, said: &[u8]) {
        let byte = |n: usize| u64::from(said[n % said.len()]);
        let word = |n: usize| (0..8).fold(0, |word, at| word << 8 | byte(n + at));
        let small = byte(4) << 8 | byte(5);
        let len = if byte(1).is_multiple_of(4) { word(1) >> 1 } else { small };
        let addr = if byte(2).is_multiple_of(4) { word(3) >> 1 } else { 0 };
        let Some(region) = RemoteRegion::new(addr, len, (byte(3) % 4) as u32, Rights::ALL) else { return };
        let place = RemotePlace { region, offset: word(5) % (len + 1) };
        let word_at = RemotePlace { offset: place.offset / 8 * 8, ..place };
        let bytes = [7; 600];
        // What does not fit is refused here, and nothing was asked.
        let asked = [
            cx.write(conn, place, &bytes[..1 + small as usize % 600], 0),
            cx.read(conn, place, 1 + small as u32 % 600, 0),
            cx.compare_swap(conn, word_at, (0, 1), 0),
            cx.fetch_add(conn, word_at, 1, 0),
        ];
        self.operations += asked.iter().filter(|asked| asked.is_ok()).count() as u64;
    }
}

impl Handler for Visitor {
    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if !self.live {
            (self.live, self.begun) = (true, cx.now());
            cx.connect(EndpointId(0)).unwrap();
        }
        if cx.now() >= self.next_report {
            self.next_report = cx.now() + Nanos::from_secs(1);
            let Visitor { opened, ended, operations, longest, .. } = self;
            println!(
                "visits {ended} ended, {opened} opened, {operations} operations, longest {} ms",
                longest.get() / 1_000_000
            );
        }
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.opened += 1;
        self.answers = 0;
        for len in [8, 100, 200, 5_000] {
            // A server that takes less says so, and gets less.
            let _ = cx.send(conn, &[0; 5_000][..len]);
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        self.answers += 1;
        if self.answers == 1_000 {
            println!("a thousand answers");
        }
        // What this side sent, and gets back from a sound server, says nothing of regions.
        if message.iter().any(|&byte| byte != 0) {
            self.use_region(cx, conn, message);
        }
        // There may be no credit: the next answer brings one.
        let _ = cx.send(conn, &[0; 64]);
        Answer::None
    }

    fn on_done(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        if let Ok(Done::Read(bytes)) = outcome {
            std::hint::black_box(bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>());
        }
    }

    fn on_close(&mut self, cx: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.live = false;
        self.ended += 1;
        self.longest = self.longest.max(cx.now().since(self.begun));
        let text = format!("{:?}", report.reason);
        let kind = text.split(['(', ' ', '{']).next().unwrap_or_default();
        if !self.ends.iter().any(|end| end == kind) {
            println!("ended as {kind}: {}", report.reason);
            self.ends.push(kind.to_owned());
        }
    }
}
