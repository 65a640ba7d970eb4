//! Regions that a peer exposes: what it says of them, what it passes, and what it does with them while they are used.

use std::os::fd::{AsRawFd, OwnedFd};

use spinwire_core::cm::event::PrivateData;
use spinwire_core::fabric::{Batch, BufferMap, Fabric, OneSidedOp, OneSidedWr};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};
use spinwire_core::remote::Rights;

use super::super::exposed::{attach, expose, table};
use super::super::fabric::ShmFabric;
use super::fds;
use super::input::Input;
use crate::signals::Stop;

/// A fabric that asks for one-sided operations, with one buffer and guards around it.
pub struct Regions {
    fabric: ShmFabric<'static>,
    wr: OneSidedWr,
    buffers: *const u8,
    generation: u64,
}

const ROOM: usize = 600;
const GUARD: usize = 128 + 40;
const BUFFERS: usize = 3;
const FILL: u8 = 0xee;
/// Operations under way.
const OPERATIONS: usize = 8;
/// The length of a sound region, and a little less than its pages.
const LEN: u64 = 8_100;

impl Default for Regions {
    fn default() -> Self {
        Self::new()
    }
}

impl Regions {
    /// Sets the fabric up.
    ///
    /// # Panics
    /// When there is no memory for that.
    pub fn new() -> Self {
        let (local, bytes) = super::arena((ROOM + GUARD) * BUFFERS);
        bytes.fill(FILL);
        let buffers = bytes.as_ptr();
        let slots = super::keep([PoolSlot::default(); BUFFERS]);
        let layout = (ROOM as u32, (ROOM + GUARD) as u32);
        let mut pool = Pool::new(Direction::Send, bytes, 0, layout, slots).expect("the arena has room for them");
        let wr_id = WorkId::new(id(1), WorkKind::OneSided, 0);
        let leases = (0..BUFFERS).filter_map(|_| pool.take().map(|buf| pool.lend(buf, wr_id)));
        // The one in the middle: there is a guard before it too.
        let buf = leases.into_iter().find(|lease| lease.index() == 1);
        let wr = OneSidedWr { wr_id, buf, ..OneSidedWr::EMPTY };
        let mut fabric = ShmFabric::new(local, &super::config(ROOM as u32), 1, false).with_operations(OPERATIONS);
        fabric.prepare(&BufferMap { recv: pool.layout(), send: pool.layout(), inline_bytes_max: 0 });
        Regions { fabric, wr, buffers, generation: 0 }
    }

    /// Plays one input on a connection of its own.
    ///
    /// # Panics
    /// When something was written that is not the buffer of the operation, or when one comes back twice or not at all.
    pub fn run(&mut self, bytes: &[u8]) {
        let mut input = Input::new(bytes);
        let (mut said, mut passed, mut kept) = (PrivateData::new(), Vec::<OwnedFd>::new(), Vec::new());
        for number in 0..usize::from(input.byte() % 4) {
            let rights = Rights::from_bits(input.byte() % 8).expect("three bits");
            let (region, own) = expose(number, LEN as usize, rights, false, &Stop::default()).expect("a few pages");
            said.extend(table([&*region].into_iter()));
            // As it is, or any other descriptor.
            let is_sound = !input.byte().is_multiple_of(4);
            let fd = if is_sound { region.fd().try_clone().ok() } else { fds::make(&mut input, LEN as usize) };
            passed.extend(fd);
            kept.push((region, own));
        }
        if input.byte().is_multiple_of(4) && !said.is_empty() {
            let at = usize::from(input.byte()) % said.len();
            said[at] ^= input.byte();
        }
        let Ok(regions) = attach(&said, passed) else { return };
        self.generation += 1;
        let id = id(self.generation);
        self.fabric.open(id).expect("a few pages");
        self.fabric.attach_regions(id, regions);
        let (mut asked, mut back) = (0, 0);
        while !input.is_over() {
            match input.byte() % 6 {
                0..=2 => asked += self.ask(id, &mut input),
                // The owner changes it, or gives its pages back.
                3 => {
                    for (region, own) in &kept {
                        own.write_at(usize::from(input.byte()), &[input.byte()]);
                        let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                        // SAFETY: a call on our own descriptor; it fails where the region is sealed.
                        unsafe { libc::fallocate(region.fd().as_raw_fd(), flags, 0, 8_192) };
                    }
                }
                // The owner goes.
                4 => kept.clear(),
                _ => back += self.poll(),
            }
        }
        self.fabric.disconnect(id);
        for _ in 0..2 {
            back += self.poll();
        }
        assert_eq!(back, asked, "each operation comes back once");
        self.fabric.close(id);
        self.check_guards();
    }

    /// Posts any operation; tells whether it was taken.
    fn ask(&mut self, id: ConnId, input: &mut Input<'_>) -> usize {
        let how = input.byte();
        self.wr.op = match how % 4 {
            0 => OneSidedOp::Write,
            1 => OneSidedOp::Read,
            2 => OneSidedOp::CompareSwap { expected: u64::from(input.byte()), new: 1 },
            _ => OneSidedOp::FetchAdd { add: input.u64() },
        };
        self.wr.len = if how % 4 < 2 || how >= 240 { 1 + u32::from(input.u16()) % ROOM as u32 } else { 8 };
        self.wr.addr = match how / 4 % 4 {
            0 => u64::from(input.u16()) % LEN,
            1 => u64::from(input.u16() / 8 * 8),
            2 => (LEN + 8).saturating_sub(u64::from(input.byte())),
            _ => input.u64(),
        };
        self.wr.key = if how < 64 { u32::from(input.u16()) } else { u32::from(input.byte() % 3) };
        // It is refused if as many are under way as may be.
        usize::from(self.fabric.post_one_sided(id, std::slice::from_ref(&self.wr)).is_ok())
    }

    fn poll(&mut self) -> usize {
        let (mut received, mut sent) = (Batch::new(), Batch::new());
        self.fabric.poll_recv(&mut received);
        self.fabric.poll_send(&mut sent);
        assert_eq!(received.len(), 0, "nothing was posted that could be received into");
        sent.len()
    }

    fn check_guards(&self) {
        for n in 0..BUFFERS {
            // Of the buffers that were not used all is a guard.
            let from = if n == 1 { ROOM } else { 0 };
            // SAFETY: inside the arena, which lives for ever; the fabric writes during its calls only.
            let guard =
                unsafe { std::slice::from_raw_parts(self.buffers.add(n * (ROOM + GUARD) + from), ROOM + GUARD - from) };
            assert!(guard.iter().all(|&byte| byte == FILL), "something was written beside the buffer");
        }
    }
}

fn id(generation: u64) -> ConnId {
    ConnId::from_bits(generation << 16).expect("a generation that is not 0")
}
