//! The smallest echo server: `cargo run --release --example echo -- 192.0.2.1:7471 2` listens there from core 2.
//!
//! `spinwire echo ping rdma://192.0.2.1:7471 --core 3` talks to it.

use std::error::Error;

use spinwire::signals::Stop;
use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::runtime::{Options, Role, Setup};

struct Echo {
    stop: Stop,
}

impl Handler for Echo {
    fn on_message(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(core)) = (args.next(), args.next()) else {
        return Err("usage: echo ADDR:PORT CORE".into());
    };
    let mut echo = Echo { stop: Stop::on_signals()? };

    // Pins this thread, finds the device, allocates and registers all memory.
    let mut setup = Setup::new(&Options::on_core(core.parse()?), Role::Listen(address.parse()?))?;
    let mut reactor = setup.start()?;
    println!("listening\n{}", reactor.report());

    reactor.run(&mut echo, |echo| echo.stop.signal().is_some())?;
    reactor.close(&mut echo)?;
    Ok(())
}
