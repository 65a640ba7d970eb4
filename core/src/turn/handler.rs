//! What an application implements.

use super::cx::Cx;
use super::one_sided::{Done, OneSidedFailure};
use crate::cm::event::{CmEventKind, Peer};
use crate::cm::hello::{Hello, Refusal};
use crate::cm::reason::CloseReport;
use crate::id::{ConnId, ListenerId};

/// An application. Every callback runs on the loop's thread and must return at once: while it runs, nothing else does.
///
/// A callback gets a [`Cx`] to answer with. It only notes down what is wanted; everything goes out at the end of the
/// turn, so a callback is never entered from within a callback.
///
/// A callback that panics takes with it what it was handed, and what else had come with that: a program may catch the panic,
/// but the engine makes no further turn ([`Engine::turn`](super::Engine::turn) panics).
///
/// Neither the message nor the [`Cx`] can be kept beyond the callback: the buffer is the device's again after it.
///
/// ```compile_fail
/// # use spinwire_core::{id::ConnId, turn::{Answer, Cx, Handler}};
/// struct Keeper(Option<&'static [u8]>);
/// impl Handler for Keeper {
///     fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
///         self.0 = Some(message);
///         Answer::None
///     }
/// }
/// ```
///
/// ```compile_fail
/// # use spinwire_core::{id::ConnId, turn::{Answer, Cx, Handler}};
/// struct Keeper<'k>(Option<&'k mut Cx<'k, 'k>>);
/// impl<'k> Handler for Keeper<'k> {
///     fn on_message(&mut self, cx: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Answer {
///         self.0 = Some(cx); // lifetime may not live long enough
///         Answer::None
///     }
/// }
/// ```
///
/// The same handlers without the line that keeps something do compile:
///
/// ```
/// # use spinwire_core::{id::ConnId, turn::{Answer, Cx, Handler}};
/// struct Keeper<'k>(Option<&'k mut Cx<'k, 'k>>, Option<&'static [u8]>);
/// impl<'k> Handler for Keeper<'k> {
///     fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Answer {
///         Answer::None
///     }
/// }
/// ```
pub trait Handler {
    /// A peer asks for a connection, and there is a free slot for it. Accepts by default.
    fn on_request(&mut self, request: &Request) -> Verdict {
        let _ = request;
        Verdict::Accept
    }

    /// A request was refused: by [`Handler::on_request`], because the table is full, or because of what it carried.
    fn on_refused(&mut self, request: &Request, refusal: &Refusal) {
        let _ = (request, refusal);
    }

    /// The connection is up: [`Cx::send`] works from here on.
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let _ = (cx, conn);
    }

    /// A message arrived. The bytes are those of the receive buffer: they are valid, and may be changed, until the
    /// callback returns. The buffer is then posted again, or sent back as the answer.
    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer;

    /// A one-sided operation is over: `user` is what it was asked with. Exactly once for each that was taken, in the order
    /// they were asked on the connection, and before [`Handler::on_close`]. It makes room for another.
    fn on_done(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, user: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        let _ = (cx, conn, user, outcome);
    }

    /// The peer has written into a region of this side with [`Cx::write_imm`]: the bytes are there. In order with messages.
    fn on_write_imm(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, imm: u32) {
        let _ = (cx, conn, imm);
    }

    /// After a [`SendError::WouldBlock`](super::SendError::WouldBlock), there is room again.
    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let _ = (cx, conn);
    }

    /// The connection is over. Exactly once for each [`Cx::connect`] that was granted and each accepted request. The
    /// handle is dead from here on.
    fn on_close(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        let _ = (cx, conn, report);
    }

    /// A listener is no more: its device went away (`kind` says what happened). Its connections end by themselves.
    fn on_listener_lost(&mut self, cx: &mut Cx<'_, '_>, listener: ListenerId, kind: CmEventKind) {
        let _ = (cx, listener, kind);
    }

    /// Once a turn, before what was gathered goes out. The place for what a clock drives.
    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        let _ = cx;
    }
}

/// What becomes of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing now: the buffer is posted again. To answer later keep the connection's id, and what is needed of the message,
    /// and use [`Cx::send`] in any later callback.
    None,
    /// The first so many bytes of the message go back to the sender, without a copy. Never refused: there is a send slot for
    /// each receive buffer. A length beyond the message's is cut to it, for what is behind it in the buffer is of an
    /// earlier message, maybe of another peer; and one beyond what the peer takes ([`Cx::message_bytes_max`]) to that.
    ///
    /// The buffer is not posted again before the answer is sent, so an application that answers in place and also asks
    /// should keep at most the configured depth of its own requests unanswered. Two sides without such a limit can fill
    /// each other's buffers with answers and then wait for each other, for as long as the connection lasts: both live, so
    /// the keepalive does not end it. Answers by [`Cx::send`](super::Cx::send) hold no receive, and one side that answers so is
    /// enough.
    InPlace(u32),
}

/// Whether a request is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Accept,
    /// No; the peer is told why.
    Refuse(Refusal),
}

/// A connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The listener it came to.
    pub listener: ListenerId,
    /// Who asks, as far as the control side knows.
    pub peer: Option<Peer>,
    /// What the peer offers; `None` from a raw peer, or from one whose hello could not be read.
    pub hello: Option<Hello>,
}
