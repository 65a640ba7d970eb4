//! Who may hold the buffers of one connection at the same time, and how many. A pool is the sum over its holders, times the
//! connections: so nobody's share can be used up by somebody else.

/// The receive buffers of one connection, by holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvHolders {
    /// The device, for messages that are to come: what the peer has credits for.
    pub posted: u32,
    /// Answers in place on their way. The peer asks no more than `depth` questions before it has taken an answer.
    pub answers: u32,
    /// Answers that have arrived, until a signalled send behind them retires them.
    pub answers_unretired: u32,
}

/// The send buffers of one connection, by holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendHolders {
    /// A window of messages that the device has.
    pub in_flight: u32,
    /// A window of messages that wait for credits, so that the next can go out as soon as there are some.
    pub waiting: u32,
    /// Messages that have arrived, until a signalled send behind them retires them: of small depths, where the windows are
    /// no longer than what lies between two signalled sends.
    pub unretired: u32,
}

impl RecvHolders {
    /// Buffers of one connection.
    pub const fn sum(self) -> u32 {
        let Self { posted, answers, answers_unretired } = self;
        posted + answers + answers_unretired
    }
}

impl SendHolders {
    /// Buffers of one connection.
    pub const fn sum(self) -> u32 {
        let Self { in_flight, waiting, unretired } = self;
        in_flight + waiting + unretired
    }
}
