//! One-sided operations, told once and run over either fabric.

mod board;
mod sides;

pub use board::*;
use sides::{SHARED, Step, Visitor, visit, with_owner};
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::fabric::WcStatus;
use spinwire_core::remote::{RemoteRegion, Rights};
use spinwire_core::turn::{OneSidedError, OneSidedFailure};

use crate::common::fabric::Fabric;

pub fn each_operation_does_what_it_says(on: Fabric) {
    let seen = with_owner(on, |address| {
        let visitor = visit(address, |visitor, cx, conn| {
            if visitor.round > 0 {
                return false;
            }
            let (shared, read_only) = (visitor.shared(), visitor.read_only.unwrap());
            let (end, word) = (SHARED as u64 - 16, shared.at(0));
            let long: Vec<u8> = (0..4_096).map(|n| n as u8).collect();
            visitor.ask(cx.write(conn, shared.at(end), b"the last of them", 0));
            visitor.ask(cx.read(conn, shared.at(end + 4), 4, 1));
            visitor.ask(cx.fetch_add(conn, word, u64::MAX, 2));
            visitor.ask(cx.fetch_add(conn, word, 8, 3));
            visitor.ask(cx.compare_swap(conn, word, (7, 100), 4));
            visitor.ask(cx.compare_swap(conn, word, (7, 200), 5));
            visitor.ask(cx.read(conn, read_only.at(0), 15, 6));
            visitor.ask(cx.write(conn, shared.at(16_384), &long, 7));
            visitor.ask(cx.read(conn, shared.at(16_384), 4_096, 8));
            visitor.ask(cx.write_imm(conn, shared.at(8_192), &0xfeed_f00d_u64.to_ne_bytes(), 0xfeed_f00d, 9));
            true
        });
        let word = |n: u64| n.to_ne_bytes().to_vec();
        let long: Vec<u8> = (0..4_096).map(|n| n as u8).collect();
        let expected = [
            vec![],
            b"last".to_vec(),
            word(0),
            word(u64::MAX),
            word(7),
            word(100),
            b"only to be read".to_vec(),
            vec![],
            long,
            vec![],
        ];
        assert_eq!(visitor.done, expected.map(Ok));
    });
    assert_eq!((seen.told, seen.counted, &*seen.last), (1, 100, &b"the last of them"[..]));
    assert_eq!(seen.reports[0].reason, CloseReason::Peer);
}

/// The owner checks each message against what was written before it.
pub fn what_is_written_before_a_message_is_there_when_it_comes(on: Fabric) {
    const ROUNDS: u64 = 300;
    let seen = with_owner(on, |address| {
        let visitor = visit(address, |visitor, cx, conn| {
            if visitor.answers < visitor.asked {
                return true;
            }
            if visitor.asked == ROUNDS {
                return false;
            }
            let number = visitor.asked + 1;
            let written = cx.write(conn, visitor.shared().at(4_096), &number.to_ne_bytes(), visitor.asked);
            visitor.ask(written);
            cx.send(conn, &number.to_le_bytes()).unwrap();
            true
        });
        assert_eq!(visitor.answers, ROUNDS);
    });
    assert_eq!(seen.told, ROUNDS);
}

pub fn what_the_token_does_not_allow_is_refused_at_once(on: Fabric) {
    with_owner(on, |address| {
        let visitor = visit(address, |visitor, cx, conn| {
            if visitor.round > 0 {
                return false;
            }
            let (shared, read_only) = (visitor.shared(), visitor.read_only.unwrap());
            let (offset, len, region) = (SHARED as u64 - 4, 8, SHARED as u64);
            let beyond = Err(OneSidedError::OutOfRange { offset, len, region });
            assert_eq!(cx.read(conn, shared.at(offset), len, 0), beyond);
            assert_eq!(cx.fetch_add(conn, shared.at(offset), 1, 0), beyond);
            let denied = |needed| Err(OneSidedError::NotAllowed { needed, allowed: Rights::READ });
            assert_eq!(cx.write(conn, read_only.at(0), &[1], 0), denied(Rights::WRITE));
            assert_eq!(cx.compare_swap(conn, read_only.at(0), (0, 1), 0), denied(Rights::ATOMIC));
            assert_eq!(cx.fetch_add(conn, shared.at(12), 1, 0), Err(OneSidedError::NotAligned { offset: 12 }));
            let too_long = Err(OneSidedError::Length { asked: 4_097, max: 4_096 });
            assert_eq!(cx.read(conn, shared.at(0), 4_097, 0), too_long);
            // None of it cost the connection anything.
            visitor.ask(cx.read(conn, shared.at(0), 8, 0));
            true
        });
        assert_eq!(visitor.done, [Ok(vec![0; 8])]);
    });
}

/// A program that makes up a token: the device, or the kernel, knows better.
pub fn what_the_owner_does_not_allow_ends_the_connection_with_the_reason(on: Fabric) {
    let forgeries: [Step; 3] = [
        |visitor, cx, conn| {
            let (shared, rights) = (visitor.shared(), Rights::ALL);
            let longer = RemoteRegion::new(shared.addr(), 1 << 30, shared.key(), rights).unwrap();
            forge(visitor, |user| cx.write(conn, longer.at(1 << 29), b"beyond", user))
        },
        |visitor, cx, conn| {
            let real = visitor.read_only.unwrap();
            let stronger = RemoteRegion::new(real.addr(), real.len(), real.key(), Rights::ALL).unwrap();
            forge(visitor, |user| cx.write(conn, stronger.at(0), b"changed", user))
        },
        |visitor, cx, conn| {
            let real = visitor.shared();
            let other = RemoteRegion::new(real.addr(), real.len(), real.key() ^ 0x5a5a, Rights::ALL).unwrap();
            forge(visitor, |user| cx.fetch_add(conn, other.at(0), 1, user))
        },
    ];
    let seen = with_owner(on, |address| {
        for (n, step) in forgeries.into_iter().enumerate() {
            let visitor = visit(address, step);
            let refused = |done: &Result<Vec<u8>, _>| {
                matches!(done, Err(OneSidedFailure::Failed { status: WcStatus::REM_ACCESS_ERR, .. }))
            };
            assert!(visitor.done.len() == 1 && refused(&visitor.done[0]), "{n}: {:?}", visitor.done);
            let reason = visitor.report.expect("it is over").reason.to_string();
            assert!(reason.contains("failed: remote access error (status 10"), "{n}: {reason}");
        }
        // The owner is none the worse for it.
        let visitor = visit(address, |visitor, cx, conn| {
            if visitor.round == 0 {
                visitor.ask(cx.read(conn, visitor.read_only.unwrap().at(0), 15, 0));
            }
            visitor.round == 0
        });
        assert_eq!(visitor.done, [Ok(b"only to be read".to_vec())]);
    });
    assert_eq!((seen.counted, seen.reports.len()), (0, 4));
}

/// Asks for what the owner refuses; the end of the connection is the end of the visit.
fn forge(visitor: &mut Visitor, ask: impl FnOnce(u64) -> Result<(), OneSidedError>) -> bool {
    if visitor.round == 0 {
        let asked = ask(0);
        visitor.ask(asked);
    }
    true
}
