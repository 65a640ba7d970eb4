//! Calls that take as long as the memory is large, cut into pieces, so that a signal that asks the process to stop is seen
//! between two of them.

use crate::signals::Stop;
use crate::sys::os::{CallError, Errno};

/// What [`each`] gives when the process is to stop.
pub(crate) const STOPPED: CallError = CallError { call: "a signal to stop", errno: Errno(libc::EINTR) };

/// A few milliseconds of clearing pages; some 20 on a machine that is busy with something else.
const PIECE: usize = 8 << 20;

/// Does `call` for each piece of `len` bytes on pages of `page` bytes, by offset and length, and again where another signal
/// interrupted it.
///
/// # Errors
/// The first that `call` gives; [`STOPPED`] once `stop` says so.
pub(crate) fn each(
    len: usize,
    page: usize,
    stop: &Stop,
    mut call: impl FnMut(usize, usize) -> Result<(), CallError>,
) -> Result<(), CallError> {
    let piece = PIECE.next_multiple_of(page);
    for offset in (0..len).step_by(piece) {
        loop {
            if stop.signal().is_some() {
                return Err(STOPPED);
            }
            match call(offset, piece.min(len - offset)) {
                Err(CallError { errno: Errno(libc::EINTR), .. }) => {}
                result => break result?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once_and_an_interrupted_one_is_done_again() {
        for (len, page, count) in [(1, 4096, 1), (PIECE, 4096, 1), (PIECE + 1, 4096, 2), (3 << 30, 1 << 30, 3)] {
            let (mut pieces, mut interrupted) = (Vec::new(), false);
            let call = |offset, len| {
                if !std::mem::replace(&mut interrupted, true) {
                    return Err(CallError { call: "call", errno: Errno(libc::EINTR) });
                }
                pieces.push((offset, len));
                Ok(())
            };
            each(len, page, &Stop::default(), call).unwrap();
            assert_eq!(pieces.len(), count);
            let end = pieces.iter().fold(0, |end, &(offset, len)| if end == offset { end + len } else { usize::MAX });
            assert_eq!(end, len);
        }
    }

    #[test]
    fn a_failure_is_passed_on_and_a_stop_ends_it() {
        let failure = CallError { call: "call", errno: Errno(libc::ENOMEM) };
        assert_eq!(each(10, 1, &Stop::default(), |_, _| Err(failure)), Err(failure));
        let (stop, mut calls) = (Stop::default(), 0);
        let call = |_, _| {
            calls += 1;
            stop.set(2);
            Ok(())
        };
        assert_eq!(each(10 * PIECE, 1, &stop, call), Err(STOPPED));
        assert_eq!(calls, 1);
    }
}
