//! An RDMA device: its limits, its ports, and the events it raises outside of completion queues.

mod event;

use core::ptr::NonNull;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;

use crate::sys::code::Code;
use crate::sys::os::{CallError, Errno, check, check_ptr, check_waiting, set_nonblocking};
use crate::sys::verbs as ffi;
pub use crate::sys::verbs::{AsyncKind, LinkLayer};
use event::decode;
pub use event::{AsyncEvent, AsyncPlace};

/// An open device, as librdmacm shares it with the process. Cheap to clone; one thread's.
///
/// The device stays open until the process ends, as librdmacm does it: a kernel module in use cannot be unloaded
/// meanwhile.
#[derive(Clone)]
pub struct Device(Rc<Inner>);

struct Inner {
    context: NonNull<ffi::ibv_context>,
    name: String,
    limits: Limits,
}

/// What a device allows. From `ibv_query_device`; values it gives as negative count as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most work requests in one queue of a queue pair.
    pub max_qp_wr: u32,
    /// Most scatter/gather entries of one work request.
    pub max_sge: u32,
    /// Most entries of a completion queue.
    pub max_cqe: u32,
    /// Most queue pairs.
    pub max_qp: u32,
    /// Most memory regions.
    pub max_mr: u32,
    /// Longest memory region, in bytes.
    pub max_mr_bytes: u64,
    /// Most reads and atomics that a queue pair serves at once, as far as rdma_cm can say it (255).
    pub max_responder_resources: u8,
    /// Most reads and atomics that a queue pair has outstanding, as far as rdma_cm can say it (255).
    pub max_initiator_depth: u8,
    /// Number of ports, which count from 1.
    pub ports: u8,
    /// Who made it. 0xffffff: Soft-RoCE.
    pub vendor_id: u32,
}

/// One port of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Whether traffic can flow.
    pub active: bool,
    /// Largest payload of one packet, in bytes. 0 if the device gives an unknown code.
    pub mtu_bytes: u32,
    /// Longest message, in bytes.
    pub max_message_bytes: u32,
    /// What runs below.
    pub link_layer: Code<LinkLayer>,
}

/// The contexts that librdmacm was made to keep open, so that a pointer to one is valid as long as the process.
struct Pinned(Vec<NonNull<ffi::ibv_context>>);

// SAFETY: libibverbs allows a context to be used from any thread, and these are only compared and handed out.
unsafe impl Send for Pinned {}

static PINNED: Mutex<Pinned> = Mutex::new(Pinned(Vec::new()));

impl Device {
    /// Opens every RDMA device of this machine.
    ///
    /// # Errors
    /// `ENODEV` when there is none; else what opening the first faulty one gave.
    pub fn list() -> Result<Vec<Device>, CallError> {
        pin_devices()?.into_iter().map(Device::query).collect()
    }

    /// The device behind a context that librdmacm put into an id. The pointer is only followed once librdmacm itself
    /// has listed it as open.
    pub(crate) fn of_id(context: NonNull<ffi::ibv_context>) -> Result<Device, CallError> {
        let known = PINNED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0.contains(&context);
        if !known && !pin_devices()?.contains(&context) {
            return Err(CallError { call: "rdma_get_devices", errno: Errno(libc::ENODEV) });
        }
        Device::query(context)
    }

    /// `context` is in [`PINNED`], so it stays open.
    fn query(context: NonNull<ffi::ibv_context>) -> Result<Device, CallError> {
        // SAFETY: the context is open; the attributes are written before they are read.
        let attributes = unsafe {
            let mut attributes: ffi::ibv_device_attr = core::mem::zeroed();
            check("ibv_query_device", || ffi::ibv_query_device(context.as_ptr(), &mut attributes))?;
            attributes
        };
        // SAFETY: the context is open and its device belongs to it; the name is a NUL-terminated string inside it.
        let name = unsafe { CStr::from_ptr(ffi::ibv_get_device_name((*context.as_ptr()).device)) };
        let device = Device(Rc::new(Inner {
            context,
            name: name.to_string_lossy().into_owned(),
            limits: Limits::new(&attributes),
        }));
        set_nonblocking(device.async_fd())?;
        Ok(device)
    }

    /// A device that no library knows, with the limits that Soft-RoCE has.
    #[cfg(test)]
    pub(super) fn from_fake(context: NonNull<ffi::ibv_context>) -> Device {
        let limits = Limits {
            max_qp_wr: 1 << 20,
            max_sge: 32,
            max_cqe: 32_767,
            max_qp: 1 << 16,
            max_mr: 1 << 16,
            max_mr_bytes: u64::MAX,
            max_responder_resources: 128,
            max_initiator_depth: 128,
            ports: 1,
            vendor_id: 0xff_ffff,
        };
        Device(Rc::new(Inner { context, name: "fake0".into(), limits }))
    }

    pub(crate) fn context(&self) -> NonNull<ffi::ibv_context> {
        self.0.context
    }

    /// Whether both are the same open device.
    pub fn is_same(&self, other: &Device) -> bool {
        self.0.context == other.0.context
    }

    /// The device's name, such as `mlx5_0` or `rxe0`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the device allows.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Whether this is the kernel's Soft-RoCE, so that figures taken on it are the lab's and not hardware's.
    pub fn is_software(&self) -> bool {
        self.0.limits.vendor_id == 0xff_ffff
    }

    /// Asks for the present state of a port; ports count from 1.
    ///
    /// # Errors
    /// `EINVAL` for a port that does not exist.
    pub fn port(&self, number: u8) -> Result<Port, CallError> {
        // SAFETY: the context is open.
        let attributes = unsafe { ffi::query_port(self.0.context, number)? };
        Ok(Port {
            active: attributes.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            // From `enum ibv_mtu`: 1 is 256 bytes, each further code doubles, up to 5 for 4096.
            mtu_bytes: match attributes.active_mtu {
                code @ 1..=5 => 128 << code,
                _ => 0,
            },
            max_message_bytes: attributes.max_msg_sz,
            link_layer: LinkLayer::decode(u32::from(attributes.link_layer)),
        })
    }

    /// The NUMA node that the device is attached to; `None` where there is no such thing, as for software devices.
    pub fn numa_node(&self) -> Option<u32> {
        let path = PathBuf::from("/sys/class/infiniband").join(self.name()).join("device/numa_node");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// The descriptor that becomes readable when [`next_async_event`](Self::next_async_event) has something.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context, and with it the descriptor, stays open until the process ends.
        unsafe { BorrowedFd::borrow_raw((*self.0.context.as_ptr()).async_fd) }
    }

    /// Takes the next event if there is one; never waits. Drain to `None` after the descriptor showed readable.
    ///
    /// The event is given back to the library before this returns. All threads of a process share a device's events:
    /// one of them should read. One system call.
    ///
    /// # Errors
    /// What reading the descriptor gave, other than that nothing is there.
    pub fn next_async_event(&self) -> Result<Option<AsyncEvent>, CallError> {
        let mut raw = MaybeUninit::<ffi::ibv_async_event>::uninit();
        // SAFETY: the context is open and `raw` is large enough.
        let got = check_waiting("ibv_get_async_event", || unsafe {
            ffi::ibv_get_async_event(self.0.context.as_ptr(), raw.as_mut_ptr())
        })?;
        if !got {
            return Ok(None);
        }
        // SAFETY: the call filled `raw`. Until it is acknowledged the object it names is not destroyed.
        let event = unsafe { decode(raw.as_ptr()) };
        // SAFETY: fetched above and not yet acknowledged; `raw` is not used again.
        unsafe { ffi::ibv_ack_async_event(raw.as_mut_ptr()) };
        Ok(Some(event))
    }
}

/// Makes librdmacm open every device and count a use of it that is never given back.
///
/// Without that use librdmacm (from version 32 on) closes the context of an unplugged device with its last id, while
/// our protection domain and queues still point to it.
fn pin_devices() -> Result<Vec<NonNull<ffi::ibv_context>>, CallError> {
    let mut pinned = PINNED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut count = 0;
    // SAFETY: the list is made for us; not freeing it is the point, see above.
    let list = check_ptr("rdma_get_devices", || unsafe { crate::sys::rdmacm::get_devices(&mut count) })?;
    // SAFETY: the list holds `count` contexts.
    let contexts = unsafe { core::slice::from_raw_parts(list.as_ptr(), usize::try_from(count).unwrap_or(0)) };
    let contexts: Vec<_> = contexts.iter().filter_map(|context| NonNull::new(*context)).collect();
    for context in &contexts {
        if !pinned.0.contains(context) {
            pinned.0.push(*context);
        }
    }
    Ok(contexts)
}

impl Limits {
    fn new(raw: &ffi::ibv_device_attr) -> Self {
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let octet = |value: i32| u8::try_from(value.clamp(0, 255)).unwrap_or(0);
        Limits {
            max_qp_wr: count(raw.max_qp_wr),
            max_sge: count(raw.max_sge),
            max_cqe: count(raw.max_cqe),
            max_qp: count(raw.max_qp),
            max_mr: count(raw.max_mr),
            max_mr_bytes: raw.max_mr_size,
            max_responder_resources: octet(raw.max_qp_rd_atom),
            max_initiator_depth: octet(raw.max_qp_init_rd_atom),
            ports: raw.phys_port_cnt,
            vendor_id: raw.vendor_id,
        }
    }
}
