//! One-sided operations: a board that its owner writes and everybody reads, a tally that everybody counts up, and a tray
//! that everybody puts notes into. The owner's program does nothing for any of it.
//!
//! `cargo run --release --example board -- serve shm://board 0` in one terminal, and
//! `cargo run --release --example board -- visit shm://board 1 1000` in another. With `rdma://192.0.2.1:7471` for the address
//! it is the same over the network: the program sees no difference.

use std::error::Error;
use std::process::ExitCode;

use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::remote::{RemoteRegion, Rights};
use spinwire_core::turn::{Answer, Cx, Done, Handler, OneSidedError, OneSidedFailure};
use spinwire_linux::address::Address;
use spinwire_linux::mem::ExposedRegion;
use spinwire_linux::runtime::{AnySetup, Options};
use spinwire_linux::signals::Stop;

/// A row of the board: seven words, and their sum. A row that is read while its owner changes it may be of both; then its
/// sum does not come out, and it is read again some time.
const ROW: usize = 64;
const ROWS: usize = 16;
/// A note in the tray.
const NOTE: usize = 32;
const NOTES: usize = 64;
/// Name a row, a count and a note in `on_done`.
const ROW_READ: u64 = 1;
const COUNTED: u64 = 2;
const NOTED: u64 = 3;

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("board: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", address, core] => serve(&address.parse()?, core.parse()?),
        ["visit", address, core, count] => visit(&address.parse()?, core.parse()?, count.parse()?),
        _ => Err("usage: board serve ADDRESS CORE | board visit ADDRESS CORE COUNT".into()),
    }
}

/// What the owner exposes, and what of it.
struct Regions {
    board: ExposedRegion,
    tally: ExposedRegion,
    tray: ExposedRegion,
}

struct Owner {
    stop: Stop,
    regions: Regions,
    changes: u64,
    notes: u64,
}

fn serve(address: &Address, core: u32) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut setup = AnySetup::new(&Options::on_core(core), address.listen()?)?;
    let regions = Regions {
        board: setup.expose(ROWS * ROW, Rights::READ)?,
        tally: setup.expose(8, Rights::ATOMIC)?,
        tray: setup.expose(NOTES * NOTE, Rights::WRITE)?,
    };
    let mut owner = Owner { stop, regions, changes: 0, notes: 0 };
    let mut reactor = setup.start()?;
    println!("listening on {}", reactor.report().listening.as_deref().unwrap_or("?"));
    reactor.run(&mut owner, |owner| owner.stop.signal().is_some())?;
    reactor.close(&mut owner)?;
    println!("{} counted, {} notes, {} changes", owner.regions.tally.load_u64(0), owner.notes, owner.changes);
    Ok(())
}

impl Handler for Owner {
    /// Tells a visitor where everything is.
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let Regions { board, tally, tray } = &self.regions;
        let tokens = [board, tally, tray].map(|region| region.remote().to_bytes());
        if let Err(error) = cx.send(conn, tokens.as_flattened()) {
            eprintln!("{conn}: {error}");
        }
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Answer {
        Answer::None
    }

    /// A note lies in the tray.
    fn on_write_imm(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, place: u32) {
        let mut note = [0; NOTE];
        self.regions.tray.read_at(place as usize % NOTES * NOTE, &mut note);
        self.notes += 1;
        if !note.starts_with(b"visitor") {
            eprintln!("{conn}: told of a note that is not there");
        }
    }

    /// Changes a row.
    fn on_turn(&mut self, _: &mut Cx<'_, '_>) {
        self.changes += 1;
        let (row, board) = (self.changes as usize % ROWS * ROW, &self.regions.board);
        let words = [self.changes; ROW / 8 - 1];
        let row_now: Vec<_> = words.into_iter().chain([sum(&words)]).flat_map(u64::to_ne_bytes).collect();
        board.write_at(row, &row_now);
    }
}

#[derive(Default)]
struct Visitor {
    stop: Stop,
    count: u64,
    tokens: Option<[RemoteRegion; 3]>,
    asked: u64,
    done: u64,
    failed: u64,
    rows: u64,
    torn: u64,
    last: u64,
    report: Option<CloseReport>,
}

fn visit(address: &Address, core: u32, count: u64) -> Result<(), Failure> {
    let options = Options { one_sided: 16, connections: 1, ..Options::on_core(core) };
    let mut visitor = Visitor { stop: Stop::on_signals()?, count, ..Visitor::default() };
    let mut setup = AnySetup::new(&options, address.connect(None)?)?;
    let mut reactor = setup.start()?;
    reactor.with(|cx| cx.connect(EndpointId(0)))?;
    reactor.run(&mut visitor, Visitor::is_over)?;
    let ended = visitor.report;
    reactor.close(&mut visitor)?;
    let Visitor { asked, done, failed, rows, torn, last, .. } = visitor;
    println!("{done} of {asked} done, {failed} failed; {rows} rows read, {torn} torn; the last count was {last}");
    match ended {
        Some(report) => Err(report.reason.into()),
        None => Ok(()),
    }
}

impl Visitor {
    fn is_over(&self) -> bool {
        self.report.is_some() || self.stop.signal().is_some() || (self.count > 0 && self.done == 3 * self.count)
    }

    /// Asks for as much as can be under way. Each round is a count, a row and a note.
    fn go_on(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let Some([board, tally, tray]) = self.tokens else { return };
        while self.asked < 3 * self.count {
            let round = self.asked / 3;
            let asked = match self.asked % 3 {
                0 => cx.fetch_add(conn, tally.at(0), 1, COUNTED),
                1 => cx.read(conn, board.at(round % ROWS as u64 * ROW as u64), ROW as u32, ROW_READ),
                _ => {
                    let place = round % NOTES as u64;
                    let note = format!("visitor, round {round}");
                    cx.write_imm(conn, tray.at(place * NOTE as u64), note.as_bytes(), place as u32, NOTED)
                }
            };
            match asked {
                Ok(()) => self.asked += 1,
                Err(OneSidedError::WouldBlock | OneSidedError::NotOpen) => return,
                Err(error) => {
                    eprintln!("{conn}: {error}");
                    return cx.close(conn);
                }
            }
        }
    }
}

impl Handler for Visitor {
    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        let (tokens, _) = message.as_chunks::<{ RemoteRegion::BYTES }>();
        let tokens: Option<Vec<_>> = tokens.iter().map(|token| RemoteRegion::from_bytes(token)).collect();
        self.tokens = tokens.and_then(|tokens| tokens.try_into().ok());
        self.go_on(cx, conn);
        Answer::None
    }

    fn on_done(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, _: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        self.done += 1;
        match outcome {
            Ok(Done::Read(row)) => {
                self.rows += 1;
                let words: Vec<_> = row.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
                self.torn += u64::from(words.split_last().is_none_or(|(last, words)| *last != sum(words)));
            }
            Ok(Done::Was(count)) => self.last = count + 1,
            Ok(Done::Written) => {}
            Err(_) => self.failed += 1,
        }
        self.go_on(cx, conn);
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.go_on(cx, conn);
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.report = Some(*report);
    }
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x5eed, |sum, word| sum.rotate_left(7).wrapping_add(*word))
}
