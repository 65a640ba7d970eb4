//! Every limit in one place, each with its reason.

mod holders;
mod waiting;

pub use holders::{RecvHolders, SendHolders};
pub use waiting::{Keepalive, Retry, Timeouts};

use crate::id::INDEX_MASK;
use crate::time::Nanos;

/// Connections one engine can hold: a work id has 16 bits for the slot.
pub const CONNS_MAX: usize = 1 << 16;

/// Buffers one pool can hold: a work id has 20 bits for the buffer.
pub const POOL_BUFFERS_MAX: usize = INDEX_MASK as usize + 1;

/// Messages in flight per connection and direction. Credits travel in 16 bits, and a queue of four times the depth has
/// to stay within what devices offer (`max_qp_wr`, 16 Ki on common cards).
pub const DEPTH_MAX: u32 = 4_096;

/// Largest message in bytes. RC allows 2^31; 8 MiB is what every device seen so far takes.
pub const MESSAGE_BYTES_MAX: u32 = 8 << 20;

/// Private data a program may pass with a connect request on an RC queue pair (rdma_connect(3); 57 is EINVAL).
pub const CONNECT_PRIVATE_DATA_MAX: usize = 56;

/// Private data of any connection event, at most: what an accept may carry on InfiniBand and RoCE.
pub const PRIVATE_DATA_MAX: usize = 196;

/// Completions taken from a queue in one go. 32 entries of a completion fit in two 1 KiB stack frames, and a batch of
/// 32 already hides the cost of the call.
pub const BATCH_MAX: usize = 32;

/// Sends between two signalled ones, at most: what one completion then retires.
pub const SIGNAL_EVERY_MAX: u32 = 32;

/// Receives posted again in one chain, at most. Each waits for the others of its batch in a buffer that is there for
/// nothing else; of what a post costs, a chain of 16 leaves each a few instructions.
const RECV_BATCH_MAX: u32 = 16;

/// Receives kept posted beyond the depth. With two, a credit update always finds a receive, and credit updates that
/// answer credit updates die out.
const CONTROL_RECVS: u32 = 2;

/// Receives that a peer has to have: one for data, and those kept for control messages. With fewer, two sides thank each
/// other for ever, or have nothing for data; a hello with less is refused.
pub const WINDOW_MIN: u32 = 1 + CONTROL_RECVS;

/// Send slots kept for control messages beyond the unsignalled ones among them: a signalled credit update and the
/// goodbye. So credit updates always come to one whose completion retires them.
const CONTROL_SLOTS_EXTRA: u32 = 2;

/// Sends an application may queue beyond `2 x depth`, so that a depth of 1 can leave a few sends unsignalled too.
const APP_SLOTS_EXTRA: u32 = 5;

const _: () =
    assert!(Sizing::of(DEPTH_MAX).recv_posted < u16::MAX as u32, "credits for a whole window must fit in 16 bits");
const _: () = assert!(
    Sizing::of(DEPTH_MAX).send_slots < INDEX_MASK / 2,
    "a send's sequence number must be unambiguous within its 20 bits",
);

/// Who speaks at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Another Spinwire: limits are negotiated in the private data, credits ride in immediate data.
    #[default]
    Spinwire,
    /// Any rdma_cm program: plain sends, nothing added, no credits. The peer has to have receives posted; the
    /// receiver-not-ready timer is the only back-stop.
    Raw,
}

/// What an engine is set up with. Fixed for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who speaks at the other end.
    pub mode: Mode,
    /// Messages in flight per connection and direction, 1 to [`DEPTH_MAX`].
    pub depth: u32,
    /// Largest message in either direction in bytes, 1 to [`MESSAGE_BYTES_MAX`]. Buffers are at least this long.
    pub message_bytes_max: u32,
    /// Payloads up to this many bytes are copied into the work request (`IBV_SEND_INLINE`); what the device granted.
    pub inline_bytes_max: u32,
    /// Limits on waiting.
    pub timeouts: Timeouts,
    /// When a connection that does not come up is tried again.
    pub retry: Retry,
    /// How a vanished peer is noticed; `None`: not before something is sent. Of no effect in raw mode.
    pub keepalive: Option<Keepalive>,
    /// Where the engine's randomness comes from. Engines that are to differ get different ones.
    pub seed: u64,
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the field, the value asked and the range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let in_range = |name, asked: u32, max: u32| match asked {
            0 => Err(ConfigError::Range { name, asked, max }),
            _ if asked > max => Err(ConfigError::Range { name, asked, max }),
            _ => Ok(()),
        };
        in_range("depth", self.depth, DEPTH_MAX)?;
        in_range("message size", self.message_bytes_max, MESSAGE_BYTES_MAX)?;
        in_range("number of attempts to connect", self.retry.attempts, u32::MAX)?;
        in_range("number of attempts on a stale connection", self.retry.attempts_stale, u32::MAX)?;
        match self.keepalive {
            Some(Keepalive { interval, limit }) if interval == Nanos::ZERO || limit <= interval => {
                Err(ConfigError::Keepalive { interval, limit })
            }
            _ => Ok(()),
        }
    }

    /// The queue and buffer counts that follow from the depth.
    pub const fn sizing(&self) -> Sizing {
        Sizing::of(self.depth)
    }
}

/// A value of [`Config`] is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number.
    #[error("{name} of {asked} is out of range: 1 to {max}")]
    Range {
        /// Which value.
        name: &'static str,
        /// What was asked.
        asked: u32,
        /// The largest value accepted.
        max: u32,
    },
    /// The two times of the keepalive.
    #[error(
        "a keepalive that asks after {interval} and gives up after {limit}: the second has to be longer, both above 0"
    )]
    Keepalive {
        /// When it would ask.
        interval: Nanos,
        /// When it would give up.
        limit: Nanos,
    },
}

/// Queue and buffer counts per connection: one depth sizes send queue, receive queue, pools and credits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Receives posted at most, and the credits the peer starts with: those always posted, and what the next batch waits
    /// for.
    pub recv_posted: u32,
    /// Receives always posted, while the pool has buffers: the depth, and two kept for control messages.
    pub recv_posted_min: u32,
    /// Receives are posted again when so many are missing, in one chain.
    pub recv_batch: u32,
    /// Who may hold a connection's receive buffers.
    pub recv_holders: RecvHolders,
    /// Receive buffers per connection: the sum of the holders.
    pub recv_buffers: u32,
    /// Sends the application may have queued or unretired.
    pub app_slots: u32,
    /// Control messages, credit updates and a goodbye, that may be queued or unretired.
    pub control_slots: u32,
    /// Send queue slots, a power of two: application, answers in place (one per receive buffer), control.
    pub send_slots: u32,
    /// Who may hold a connection's send buffers.
    pub send_holders: SendHolders,
    /// Send buffers per connection: one for each application slot, and the sum of the holders.
    pub send_buffers: u32,
    /// Every n-th send is signalled; its completion retires all before it.
    pub signal_every: u32,
}

impl Sizing {
    /// The counts for `depth` messages in flight.
    pub const fn of(depth: u32) -> Self {
        let signal_every = match depth / 2 {
            0..4 => 4,
            4..SIGNAL_EVERY_MAX => depth / 2,
            _ => SIGNAL_EVERY_MAX,
        };
        let recv_batch = match depth / 4 {
            0 => 1,
            1..RECV_BATCH_MAX => depth / 4,
            _ => RECV_BATCH_MAX,
        };
        let recv_posted_min = depth + CONTROL_RECVS;
        let recv_posted = recv_posted_min + recv_batch - 1;
        let recv_holders = RecvHolders { posted: recv_posted, answers: depth, answers_unretired: signal_every };
        let send_holders = SendHolders { in_flight: depth, waiting: depth, unretired: APP_SLOTS_EXTRA };
        let recv_buffers = recv_holders.sum();
        let app_slots = send_holders.sum();
        let control_slots = signal_every + CONTROL_SLOTS_EXTRA;
        let send_slots = (app_slots + recv_buffers + control_slots).next_power_of_two();
        Self {
            recv_posted,
            recv_posted_min,
            recv_batch,
            recv_holders,
            recv_buffers,
            app_slots,
            control_slots,
            send_slots,
            send_holders,
            send_buffers: app_slots,
            signal_every,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_depth_keeps_its_promises() {
        for depth in 1..=DEPTH_MAX {
            let s = Sizing::of(depth);
            assert!(s.send_slots.is_power_of_two());
            assert!(s.send_slots >= s.app_slots + s.recv_buffers + s.control_slots);
            assert!(s.control_slots > s.signal_every + 1, "an update that may be sent is signalled in time: {s:?}");
            assert!(
                depth + s.signal_every < s.app_slots + 1,
                "a window and the unsignalled tail fill the queue: {s:?}"
            );
            let RecvHolders { posted, answers, answers_unretired } = s.recv_holders;
            assert_eq!((posted, posted + answers + answers_unretired), (s.recv_posted, s.recv_buffers));
            assert!(s.recv_posted >= WINDOW_MIN && s.signal_every >= 1);
            assert!(answers >= depth && answers_unretired >= s.signal_every - 1);
            let SendHolders { in_flight, waiting, unretired } = s.send_holders;
            assert_eq!((in_flight + waiting + unretired, s.send_buffers), (s.app_slots, s.app_slots));
            assert!(in_flight >= depth && waiting + unretired >= s.signal_every, "{s:?}");
        }
    }

    #[test]
    fn out_of_range_names_value_and_limit() {
        let mut config = Config {
            mode: Mode::Raw,
            depth: 0,
            message_bytes_max: 64,
            inline_bytes_max: 0,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            keepalive: None,
            seed: 0,
        };
        assert_eq!(config.check().unwrap_err().to_string(), "depth of 0 is out of range: 1 to 4096");
        config.depth = 1;
        config.message_bytes_max = MESSAGE_BYTES_MAX + 1;
        assert!(config.check().unwrap_err().to_string().starts_with("message size of 8388609"));
        config.message_bytes_max = 64;
        config.keepalive = Some(Keepalive { interval: Nanos::from_secs(5), limit: Nanos::from_secs(5) });
        assert!(config.check().unwrap_err().to_string().contains("asks after 5 s and gives up after 5 s"));
        config.keepalive = Some(Keepalive::default());
        config.retry.attempts = 0;
        assert!(config.check().unwrap_err().to_string().starts_with("number of attempts to connect of 0"));
    }
}
