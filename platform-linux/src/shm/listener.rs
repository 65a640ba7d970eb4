//! Taking a name, and giving it back.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::name::Name;
use super::name_lock::NameLock;
use super::socket::{Credentials, Socket};
use super::users::Users;
use crate::sys::os::{CallError, Errno};

/// A name that is listened on. A socket file is removed on drop.
pub(super) struct Listener {
    pub(super) socket: Socket,
    file: Option<SocketFile>,
    replaced: bool,
}

struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// A name that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody has it.
    #[error("{name} is in use by {}; stop it, or take another name", Holder(*.holder))]
    InUse {
        /// The name.
        name: Name,
        /// Who, if the kernel tells.
        holder: Option<Credentials>,
    },
    /// Something else is where the socket should be.
    #[error("{path} exists and is no socket; remove it, or take another name")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// A socket is there that this user may not touch.
    #[error(
        "{path} is a socket of user {owner} that this process (user {own}) may neither use nor remove; \
        remove it as that user, or take another name"
    )]
    NotOurs {
        /// The path.
        path: String,
        /// Whose it is.
        owner: u32,
        /// Who this process is.
        own: u32,
    },
    /// The directory cannot be used.
    #[error("cannot make a socket in directory {directory}: {cause}{}", directory_hint(.cause))]
    Directory {
        /// The directory.
        directory: String,
        /// What a call gave.
        cause: CallError,
    },
    /// Another process of this user starts a server there, and does not get on.
    #[error("{path} is held by process {holder}, which starts a server there and does not get on; end it")]
    Locked {
        /// The file that is locked.
        path: String,
        /// The process that has locked it, as far as it has said so.
        holder: String,
    },
    /// Somebody has put something where the lock should be.
    #[error(
        "{path}, of user {owner}, is not this user's lock (user {own}); remove it, or take a directory that others cannot \
        write"
    )]
    ForeignLock {
        /// The path.
        path: String,
        /// Whose it is.
        owner: u32,
        /// Who this process is.
        own: u32,
    },
    /// A call failed.
    #[error("cannot listen on {name}: {cause}{}", super::memory::hint(.cause))]
    Call {
        /// The name.
        name: Name,
        /// What it gave.
        cause: CallError,
    },
}

impl Listener {
    /// Listens on `name`. A socket file that a dead server left is replaced; one of a live server is not.
    pub(super) fn bind(name: &Name, users: &Users) -> Result<Self, ListenError> {
        let call_failed = |cause| ListenError::Call { name: name.clone(), cause };
        let socket = Socket::new().map_err(call_failed)?;
        let Some(path) = name.path() else {
            match socket.bind(name) {
                Err(CallError { errno: Errno(libc::EADDRINUSE), .. }) => {
                    return Err(ListenError::InUse { name: name.clone(), holder: holder(name).ok() });
                }
                result => result.map_err(call_failed)?,
            }
            socket.listen().map_err(call_failed)?;
            return Ok(Listener { socket, file: None, replaced: false });
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let in_directory = |cause| ListenError::Directory { directory: directory.display().to_string(), cause };
        // Held until it listens: in between, a second starter would take the socket for a dead one's.
        let _lock = NameLock::take(path, users.own())?;
        let mut replaced = false;
        match socket.bind(name) {
            Err(CallError { errno: Errno(libc::EADDRINUSE), .. }) => {
                remove_dead(name, path, users.own())?;
                replaced = true;
                socket.bind(name).map_err(in_directory)?;
            }
            result => result.map_err(in_directory)?,
        }
        let meta = fs::symlink_metadata(path).map_err(|error| in_directory(call_error("lstat", &error)))?;
        let file = SocketFile { path: path.to_owned(), device: meta.dev(), inode: meta.ino() };
        let listener = Listener { socket, file: Some(file), replaced };
        // Nobody can connect yet. Who may is asked again of each who does.
        let mode = fs::Permissions::from_mode(if users.are_all_own() { 0o600 } else { 0o666 });
        fs::set_permissions(path, mode).map_err(|error| in_directory(call_error("chmod", &error)))?;
        listener.socket.listen().map_err(call_failed)?;
        Ok(listener)
    }

    /// Whether a dead server's socket file was in the way, and was removed.
    pub(super) fn replaced(&self) -> bool {
        self.replaced
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(SocketFile { path, device, inode }) = &self.file else { return };
        // Only if it is still ours: somebody may have removed it and another server be there now.
        let is_ours = fs::symlink_metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == (*device, *inode));
        if is_ours {
            // If it cannot be removed, the next server takes it for what it is: a dead one's.
            let _ = fs::remove_file(path);
        }
    }
}

/// Who listens on a name.
fn holder(name: &Name) -> Result<Credentials, CallError> {
    let socket = Socket::new()?;
    socket.connect(name)?;
    socket.credentials()
}

/// Removes the socket at `path` if nobody listens on it.
fn remove_dead(name: &Name, path: &Path, own: u32) -> Result<(), ListenError> {
    let shown = || path.display().to_string();
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: shown() });
    }
    let not_ours = || ListenError::NotOurs { path: shown(), owner: meta.uid(), own };
    match holder(name) {
        Ok(holder) => return Err(ListenError::InUse { name: name.clone(), holder: Some(holder) }),
        Err(CallError { errno: Errno(libc::EAGAIN), .. }) => {
            return Err(ListenError::InUse { name: name.clone(), holder: None });
        }
        Err(CallError { errno: Errno(libc::ECONNREFUSED), .. }) => {}
        Err(CallError { errno: Errno(libc::EACCES | libc::EPERM), .. }) => return Err(not_ours()),
        // A socket of another type.
        Err(CallError { errno: Errno(libc::EPROTOTYPE), .. }) => {
            return Err(ListenError::InUse { name: name.clone(), holder: None });
        }
        Err(cause) => return Err(ListenError::Call { name: name.clone(), cause }),
    }
    fs::remove_file(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => not_ours(),
        _ => ListenError::Call { name: name.clone(), cause: call_error("unlink", &error) },
    })
}

pub(super) fn call_error(call: &'static str, error: &io::Error) -> CallError {
    CallError { call, errno: Errno(error.raw_os_error().unwrap_or(0)) }
}

fn directory_hint(cause: &CallError) -> &'static str {
    match cause.errno {
        Errno(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "; it must be writable for this user, or use a name without a directory (shm://name)"
        }
        Errno(libc::ENOSPC | libc::EDQUOT) => "; make room, or use a name without a directory (shm://name)",
        Errno(libc::ENOENT | libc::ENOTDIR) => "; make it first, or use a name without a directory (shm://name)",
        _ => "",
    }
}

struct Holder(Option<Credentials>);

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(Credentials { pid, uid }) if pid > 0 => write!(f, "process {pid} (user {uid})"),
            Some(Credentials { uid, .. }) => write!(f, "a process out of sight (user {uid})"),
            None => f.write_str("another process"),
        }
    }
}
