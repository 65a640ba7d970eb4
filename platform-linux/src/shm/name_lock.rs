//! The lock under which a server takes a name: looking whether the socket there is dead, removing it and taking its place is
//! one step.
//!
//! It is a file beside the socket, `.NAME.lock`, that only its owner may open, and that is there for as long as the step
//! takes. The directory itself would need no file, but everybody who may read a directory can lock it, and keep it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::listener::{ListenError, call_error};
use crate::sys::os::{CallError, Errno};

/// The lock, held until it goes, and its file with it.
#[derive(Debug)]
pub(super) struct NameLock {
    path: PathBuf,
    _file: File,
}

/// What one try gave.
enum Try {
    Got(File),
    /// Its holder has just removed the file.
    Gone,
    /// Somebody has it: the process whose number is in the file.
    Held(String),
}

/// It is held for a few calls.
const LIMIT: Duration = Duration::from_secs(2);

impl NameLock {
    /// Takes the lock of the socket at `socket` for user `own`, which is this process's. Waits at most two seconds.
    pub(super) fn take(socket: &Path, own: u32) -> Result<Self, ListenError> {
        let directory = socket.parent().unwrap_or(Path::new("/"));
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        let path = directory.join(format!(".{name}.lock"));
        let begun = Instant::now();
        loop {
            match try_lock(&path, directory, own)? {
                Try::Got(file) => return Ok(Self { path, _file: file }),
                Try::Gone => {}
                Try::Held(holder) if begun.elapsed() >= LIMIT => {
                    return Err(ListenError::Locked { path: path.display().to_string(), holder });
                }
                Try::Held(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // While it is still locked: whoever waits for this file sees that it is gone. If it cannot be removed, the next
        // one locks it as it is.
        let _ = fs::remove_file(&self.path);
    }
}

fn try_lock(path: &Path, directory: &Path, own: u32) -> Result<Try, ListenError> {
    let failed = |cause| ListenError::Directory { directory: directory.display().to_string(), cause };
    let foreign = |owner| ListenError::ForeignLock { path: path.display().to_string(), owner, own };
    // Whatever somebody else has put there, opening it neither waits nor follows a link.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => {
            return Err(match fs::symlink_metadata(path) {
                Ok(meta) if meta.uid() != own || !meta.is_file() => foreign(meta.uid()),
                _ => failed(call_error("open", &error)),
            });
        }
    };
    let meta = file.metadata().map_err(|error| failed(call_error("fstat", &error)))?;
    if meta.uid() != own || !meta.is_file() {
        return Err(foreign(meta.uid()));
    }
    // SAFETY: a call on our own descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return match Errno::last() {
            Errno(libc::EWOULDBLOCK | libc::EINTR) => {
                let mut holder = String::new();
                // Only to be told; it may not be written yet.
                let _ = file.take(20).read_to_string(&mut holder);
                Ok(Try::Held(holder))
            }
            errno => Err(failed(CallError { call: "flock", errno })),
        };
    }
    let is_there = fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (meta.dev(), meta.ino()));
    if !is_there {
        return Ok(Try::Gone);
    }
    // Only to be told: a full disk is no reason not to go on.
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(Try::Got(file))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::shm::Users;

    fn directory() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("spinwire-lock-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn one_has_it_at_a_time_and_nothing_is_left_of_it() {
        let directory = directory();
        let (socket, own) = (directory.join("echo"), Users::default().own());
        let inside = AtomicU32::new(0);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let _lock = NameLock::take(&socket, own).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn whoever_keeps_it_is_named_in_the_end() {
        let directory = directory();
        let (socket, own) = (directory.join("echo"), Users::default().own());
        let lock = NameLock::take(&socket, own).unwrap();
        let begun = Instant::now();
        let error = NameLock::take(&socket, own).unwrap_err().to_string();
        assert!(begun.elapsed() < LIMIT + Duration::from_secs(1));
        assert!(error.contains(&format!("process {}", std::process::id())) && error.contains(".echo.lock"), "{error}");
        drop(lock);
        NameLock::take(&socket, own).unwrap();
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn what_is_no_file_of_ours_is_neither_waited_for_nor_followed() {
        let directory = directory();
        let (socket, path, own) = (directory.join("echo"), directory.join(".echo.lock"), Users::default().own());
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let refused = || NameLock::take(&socket, own).unwrap_err().to_string();
        assert!(refused().contains("is not this user's lock"), "{}", refused());
        fs::remove_file(&path).unwrap();
        let fifo = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string of our own.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        assert!(refused().contains("is not this user's lock"), "{}", refused());
        fs::remove_file(&path).unwrap();
        // As if this process were of another user than the file.
        fs::write(&path, "").unwrap();
        let error = NameLock::take(&socket, own + 1).unwrap_err().to_string();
        assert!(error.contains(&format!("of user {own}")), "{error}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
