//! Where a server is found: `shm://name`, or `shm:///path/of/a/socket`.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The place of a server on this machine: a name, or the path of a socket file.
///
/// Every process of the machine can reach a name, but for those in another network namespace: containers have one each, most
/// often, and find each other by a path in a directory that they share. Those whose user is not allowed are refused, but can keep new clients
/// waiting, with descriptors that take long to close; connections that are up are not touched. Where that matters, take a
/// path in a directory that only those who are allowed can enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// In the abstract namespace of Unix sockets: no file, so nothing to leave behind and no permissions either.
    Abstract(String),
    /// A socket file in a directory of the user's choice, whose permissions count.
    Path(PathBuf),
}

/// A name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' names no place in shared memory; write shm://name (1 to {NAME_MAX} of a-z A-Z 0-9 . _ -) or \
    shm:///absolute/path/of/a/socket (at most {PATH_MAX} bytes)"
)]
pub struct NameError(String);

impl Name {
    /// The socket file, if it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Abstract(_) => None,
            Kind::Path(path) => Some(path),
        }
    }

    /// The bytes of the socket's address: a path, or a zero byte and a name.
    pub(super) fn socket_name(&self) -> Vec<u8> {
        match &self.0 {
            Kind::Abstract(name) => [b"\0spinwire/", name.as_bytes()].concat(),
            Kind::Path(path) => path.as_os_str().as_bytes().to_owned(),
        }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let error = || NameError(text.to_owned());
        let rest = text.strip_prefix("shm://").ok_or_else(error)?;
        if rest.starts_with('/') {
            let fits = rest.len() <= PATH_MAX && !rest.ends_with('/') && !rest.contains('\0');
            return fits.then(|| Name(Kind::Path(rest.into()))).ok_or_else(error);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=NAME_MAX).contains(&rest.len()) && rest.bytes().all(is_plain);
        fits.then(|| Name(Kind::Abstract(rest.to_owned()))).ok_or_else(error)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Abstract(name) => write!(f, "shm://{name}"),
            Kind::Path(path) => write!(f, "shm://{}", path.display()),
        }
    }
}

/// A socket address takes 108 bytes; ours begin with a zero byte and `spinwire/`.
const NAME_MAX: usize = 90;
/// A socket address takes 108 bytes, the last of which is a zero.
const PATH_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_print_as_they_are_written() {
        for text in ["shm://echo", "shm://a.b_c-9", "shm:///run/app/echo"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
        assert_eq!("shm://echo".parse::<Name>().unwrap().socket_name(), b"\0spinwire/echo");
    }

    #[test]
    fn what_is_neither_is_refused_with_the_forms_there_are() {
        let long = format!("shm://{}", "x".repeat(NAME_MAX + 1));
        let long_path = format!("shm:///{}", "x".repeat(PATH_MAX));
        for text in
            ["echo", "shm:/echo", "shm://", "shm://a b", "shm://a/b", "shm:///", "shm:///dir/", &long, &long_path]
        {
            let error = text.parse::<Name>().unwrap_err().to_string();
            assert!(error.contains("shm://name") && error.contains(text), "{error}");
        }
    }
}
