//! What a C library would bring: the entry point, `exit`, and the memory functions that compilers call.

use core::arch::{asm, global_asm};

#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {start}", start = sym start);
#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, xzr", "bl {start}", start = sym start);

extern "C" fn start() -> ! {
    exit(crate::checks())
}

fn exit(code: u8) -> ! {
    // SAFETY: `exit_group` takes one number and does not return; no memory is passed.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", in("rax") 231, in("rdi") u64::from(code), options(noreturn, nostack))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") 94, in("x0") u64::from(code), options(noreturn, nostack))
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(101)
}

/// The compiled `core` names this for unwinding. Panics end the program here, so nothing unwinds and nothing calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// # Safety
/// As in C: `to` and `from` are valid for `len` bytes and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes at both.
        unsafe { *to.add(i) = *from.add(i) };
    }
    to
}

/// # Safety
/// As in C: `to` and `from` are valid for `len` bytes; they may overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: `to` is before `from` or behind its end, so going upwards reads each byte before it is overwritten.
        return unsafe { memcpy(to, from, len) };
    }
    for i in (0..len).rev() {
        // SAFETY: `to` is inside `from`, so going downwards reads each byte before it is overwritten.
        unsafe { *to.add(i) = *from.add(i) };
    }
    to
}

/// # Safety
/// As in C: `to` is valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes.
        unsafe { *to.add(i) = byte as u8 };
    }
    to
}

/// # Safety
/// As in C: both are valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes at both.
        let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: same duty as the caller's.
    unsafe { memcmp(a, b, len) }
}
