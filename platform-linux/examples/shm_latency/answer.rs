//! The side that answers, as it is told.

use std::hint;
use std::os::unix::process::parent_id;
use std::process;

use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::runtime::{ShmRole, ShmSetup};
use spinwire_linux::shm::Users;
use spinwire_linux::shm::measure::Pair;

use super::side::{BALL, Contestant, Fault, PHASE, Place, READY};

struct Echo;

impl Handler for Echo {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }
}

/// The answering process.
pub fn answer(place: &Place) -> Result<(), Fault> {
    let role = ShmRole::Listen(place.name("echo")?, Users::default());
    let mut setup = ShmSetup::new(&place.options(), role)?;
    let mut reactor = setup.start()?;
    let mut arena = place.arena()?;
    let mut pair = Pair::listen(&place.name("pair")?, &place.config(), &mut arena, place.bytes)?;
    pair.store(READY, 1);
    // The other side's phase, which says whom to be. A side that was killed says nothing any more.
    let (asker, mut looks) = (parent_id(), 0_u32);
    let mut is = |pair: &Pair<'_>, contestant: Contestant| {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(1 << 14) && parent_id() != asker {
            eprintln!("shm_latency: the asking process is gone");
            process::exit(1);
        }
        pair.load(PHASE) == contestant as u64
    };
    let mut seen = 0;
    loop {
        if is(&pair, Contestant::Bare) {
            while is(&pair, Contestant::Bare) {
                for _ in 0..64 {
                    let ball = pair.load(BALL);
                    if ball == seen {
                        hint::spin_loop();
                    } else {
                        seen = ball;
                        pair.store(BALL, ball);
                    }
                }
            }
        } else if is(&pair, Contestant::Transport) {
            while is(&pair, Contestant::Transport) {
                for _ in 0..64 {
                    if pair.poll() {
                        pair.post();
                        pair.reap();
                    } else {
                        hint::spin_loop();
                    }
                }
            }
        } else if is(&pair, Contestant::Echo) {
            let mut turns = 0_u32;
            reactor.run(&mut Echo, |_| {
                turns = turns.wrapping_add(1);
                turns.is_multiple_of(64) && !is(&pair, Contestant::Echo)
            })?;
        } else {
            return Ok(());
        }
    }
}
