//! The smallest echo server: `cargo run --release --example echo -- rdma://192.0.2.1:7471 0` listens there from core 0, and with
//! `shm://echo` in place of that address it serves processes of this machine.
//!
//! `spinwire echo ping rdma://192.0.2.1:7471 --core 1`, or `shm://echo`, talks to it.

use std::error::Error;
use std::process::ExitCode;

use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::address::Address;
use spinwire_linux::runtime::{AnySetup, Options};
use spinwire_linux::signals::Stop;

struct Echo {
    stop: Stop,
}

impl Handler for Echo {
    fn on_message(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(core)) = (args.next(), args.next()) else {
        return Err("usage: echo rdma://ADDR:PORT|shm://NAME CORE".into());
    };
    let mut echo = Echo { stop: Stop::on_signals()? };

    let address: Address = address.parse()?;

    // Pins this thread, finds the device, allocates and registers all memory.
    let mut setup = AnySetup::new(&Options::on_core(core.parse()?), address.listen()?)?;
    let mut reactor = setup.start()?;
    println!("listening\n{}", reactor.report());

    reactor.run(&mut echo, |echo| echo.stop.signal().is_some())?;
    reactor.close(&mut echo)?;
    Ok(())
}
