//! The two budgets of a connection's sends, and what rides in immediate data.
//!
//! A send needs a slot in the own send queue and a receive at the peer. The slots are freed by own completions only
//! ([`SendQueue`](super::SendQueue)), the receives by the peer's credits only (here): acknowledgements and completions
//! may be seen in any order, so one number for both would promise room that is not there.
//!
//! ```text
//!  immediate data:  31   20   19       18     17        16       15            0
//!                  |  zero  | write | ask | goodbye | credit |  credits given  |
//! ```

use crate::cm::reason::ProtocolError;
use crate::config::WINDOW_MIN;

/// What the immediate data of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imm {
    /// Receives the sender has posted again.
    pub credits: u16,
    /// What the message is.
    pub kind: MessageKind,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The application's.
    Data,
    /// Credits and nothing else.
    Credit,
    /// A question whether the receiver is alive: it answers with any message, a credit update if it has nothing else.
    /// Only to a peer whose hello says so.
    Ask,
    /// The sender closes; nothing comes after it.
    Goodbye,
    /// The application's: it has written into an exposed region. The payload are the 4 bytes of its immediate data.
    WriteImm,
}

const CREDIT_BIT: u32 = 1 << 16;
const GOODBYE_BIT: u32 = 1 << 17;
const ASK_BIT: u32 = 1 << 18;
const WRITE_BIT: u32 = 1 << 19;

impl Imm {
    /// Of data that gives no credits.
    pub(crate) const DATA: u32 = 0;

    /// The credits that data gives; `None` for anything else.
    #[inline]
    pub(crate) const fn of_data(bits: u32) -> Option<u16> {
        if bits <= 0xffff { Some(bits as u16) } else { None }
    }

    /// As the 32 bits that go out.
    pub const fn to_bits(self) -> u32 {
        let kind = match self.kind {
            MessageKind::Data => 0,
            MessageKind::Credit => CREDIT_BIT,
            MessageKind::Ask => ASK_BIT,
            MessageKind::Goodbye => GOODBYE_BIT,
            MessageKind::WriteImm => WRITE_BIT,
        };
        kind | self.credits as u32
    }

    /// Reads the 32 bits a peer sent; `None` when they have no meaning.
    #[inline]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if let Some(credits) = Self::of_data(bits) {
            return Some(Self { credits, kind: MessageKind::Data });
        }
        let kind = match bits & !0xffff {
            CREDIT_BIT => MessageKind::Credit,
            ASK_BIT => MessageKind::Ask,
            GOODBYE_BIT => MessageKind::Goodbye,
            WRITE_BIT => MessageKind::WriteImm,
            _ => return None,
        };
        Some(Self { credits: bits as u16, kind })
    }
}

/// Credits of one connection.
///
/// The peer keeps `window` receives posted. Data may use all but one of them; the last is for a control message that gives
/// credits: so two sides that wait for each other's credits can always still give some, and never both have none. (The
/// one that takes its last credit gives the other at least one with it.)
///
/// That a side can is not enough, it also has to: of a peer without any credit the next one is due at once, however few it is.
/// Such a peer may owe a whole window and be unable to say so, while the own receives are held by answers that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Receives the peer has posted that no message is on its way to.
    available: u32,
    /// Receives the peer has in all; 0 in raw mode, where nothing is counted.
    window: u32,
    /// Own receives posted again since the peer was last told.
    owed: u32,
    /// Of these, whether any was used by data.
    owed_for_data: bool,
    /// Updates that went to a peer without any credit, since there was progress.
    rescues: u8,
    /// Of the own receives that are used and not posted again yet, those that control messages used.
    used_by_control: u32,
    /// Own receives that are always posted.
    own_window: u32,
}

impl Credits {
    /// No counting: the peer is not a Spinwire.
    pub const RAW: Self =
        Self { available: 0, window: 0, owed: 0, owed_for_data: false, rescues: 0, used_by_control: 0, own_window: 0 };

    /// The peer has posted `window` receives; this side always has `own_window` of them, and for a while a few more.
    ///
    /// # Panics
    /// When either is below [`WINDOW_MIN`]. A hello that says so is refused before it comes here.
    pub const fn new(window: u32, own_window: u32) -> Self {
        assert!(window >= WINDOW_MIN && own_window >= WINDOW_MIN);
        Self { available: window, window, owed: 0, owed_for_data: false, rescues: 0, used_by_control: 0, own_window }
    }

    /// Nothing is counted: the peer is not a Spinwire, or its hello has not been read.
    #[inline]
    pub const fn is_raw(&self) -> bool {
        self.window == 0
    }

    /// Data messages that the peer has receives for when all of them are posted; `None` in raw mode.
    pub const fn window_for_data(&self) -> Option<u32> {
        if self.is_raw() { None } else { Some(self.window - 1) }
    }

    /// Data messages that may be sent now.
    #[inline]
    pub const fn for_data(&self) -> u32 {
        if self.window == 0 { u32::MAX } else { self.available.saturating_sub(1) }
    }

    /// Credits this side has, and credits it owes the peer.
    #[cfg(feature = "sim")]
    pub(crate) const fn counts(&self) -> (u32, u32) {
        (self.available, self.owed)
    }

    /// Whether a control message may be sent now: it leaves a credit, or gives one.
    pub const fn for_control(&self) -> bool {
        self.window != 0 && (self.available > 1 || (self.available == 1 && self.owed > 0))
    }

    /// Whether the goodbye may be sent now. Nothing follows it, so it may take the last credit.
    pub const fn for_goodbye(&self) -> bool {
        self.window != 0 && self.available > 0
    }

    /// Whether the peer should be told of its credits although there is nothing else to send: half the window is owed,
    /// or nearly all of it. Receives used by credit updates alone do not count for the first, else two sides would
    /// thank each other for ever. One receive alone is not worth a message, for a reply carries it a moment later, unless the
    /// peer knows of none of the `posted` receives.
    #[inline]
    pub const fn update_is_due(&self, posted: u32) -> bool {
        self.many_owed() || self.rescues_with(posted)
    }

    #[inline]
    pub(crate) const fn many_owed(&self) -> bool {
        let half = if self.own_window < 4 { 2 } else { self.own_window / 2 };
        self.owed > 1 && ((self.owed_for_data && self.owed >= half) || self.owed + 1 >= self.own_window)
    }

    /// Whether the peer has no credit and nothing under way, with so many receives posted: all of them are owed to it. It
    /// cannot even say what it owes in turn, so whatever there is goes out at once. A few times only: where both sides hold all
    /// their receives there is nothing to give but the receive that the other's update has used, to and fro for ever.
    const fn rescues_with(&self, posted: u32) -> bool {
        self.owed > 0 && self.peer_has_none(posted) && self.rescues < RESCUES_MAX
    }

    /// Whether of so many receives that are posted the peer knows of none.
    pub(crate) const fn peer_has_none(&self, posted: u32) -> bool {
        self.window != 0 && self.owed == posted
    }

    /// An update goes out for itself, with so many receives posted.
    pub fn note_update(&mut self, posted: u32) {
        self.rescues += u8::from(!self.many_owed() && self.rescues_with(posted));
    }

    /// Whether there are credits to give.
    #[inline]
    pub const fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Credits given with the message that goes out now; at most what 16 bits hold. None in raw mode.
    #[inline]
    pub fn give(&mut self) -> u16 {
        let given = self.owed.min(u16::MAX as u32);
        self.owed -= given;
        self.owed_for_data &= self.owed > 0;
        given as u16
    }

    /// Takes one of the peer's receives for a message of `kind` that goes out; `false` when it has to wait. In raw mode
    /// everything may go.
    #[inline]
    #[must_use]
    pub const fn spend(&mut self, kind: MessageKind) -> bool {
        if self.is_raw() {
            return true;
        }
        let allowed = match kind {
            MessageKind::Data | MessageKind::WriteImm => self.available > 1,
            MessageKind::Credit | MessageKind::Ask => self.for_control(),
            MessageKind::Goodbye => self.for_goodbye(),
        };
        if allowed {
            self.available -= 1;
            if matches!(kind, MessageKind::Data | MessageKind::WriteImm) {
                self.rescues = 0;
            }
        }
        allowed
    }

    /// Whether receives are counted, and there is one for data once `got` more are booked.
    #[inline]
    pub(crate) const fn has_for_data_with(&self, got: u32) -> bool {
        // In the words of `can_gain`, so that the sum is made once.
        self.available as u64 + got as u64 > 1
    }

    /// Books `got` credits, which the peer may give, and takes one of its receives for data:
    /// [`Credits::has_for_data_with`] has said that there is one.
    #[inline]
    pub(crate) const fn gain_and_spend(&mut self, got: u32) {
        debug_assert!(self.can_gain(got) && self.has_for_data_with(got));
        self.available = (self.available as u64 + got as u64 - 1) as u32;
    }

    /// Own receives were posted again.
    #[inline]
    pub fn owe(&mut self, posted: u32) {
        if self.window != 0 && posted > 0 {
            self.owed += posted;
            // More than control messages have used: data has used the others.
            self.owed_for_data |= posted > self.used_by_control;
            self.used_by_control = self.used_by_control.saturating_sub(posted);
        }
    }

    /// What was posted so far is known to the peer: the hello says so.
    pub fn forgive(&mut self) {
        (self.owed, self.owed_for_data) = (0, false);
    }

    /// A control message used one of the own receives, which makes it no more urgent to tell the peer of it.
    #[inline]
    pub fn used_by_control(&mut self) {
        self.used_by_control += 1;
    }

    /// Whether a message with immediate data `imm` is data that gives what it may: no more credits than the peer has
    /// receives. One comparison for both, for every other kind of message has a bit above all windows.
    #[inline]
    pub(crate) const fn can_gain(&self, imm: u32) -> bool {
        self.available as u64 + imm as u64 <= self.window as u64
    }

    /// The peer gave `got` credits, which it may.
    #[inline]
    pub(crate) fn gain_checked(&mut self, got: u32) {
        debug_assert!(self.can_gain(got));
        self.available += got;
    }

    /// The peer gave `got` credits.
    ///
    /// # Errors
    /// More than it has receives.
    #[inline]
    pub fn gain(&mut self, got: u16) -> Result<(), ProtocolError> {
        let total = self.available + u32::from(got);
        if total > self.window {
            return Err(ProtocolError::Credits { got: got.into(), have: self.available, max: self.window });
        }
        self.available = total;
        if got > 1 {
            self.rescues = 0;
        }
        Ok(())
    }
}

/// See [`Credits::rescues_with`]. One is enough where the peer holds no receives: it then owes nearly all of them, and says so.
const RESCUES_MAX: u8 = 16;

#[cfg(test)]
mod tests;
