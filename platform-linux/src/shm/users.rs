//! Whose processes are let in.

use std::ffi::CString;

/// The users whose processes may be at the other end: this process's own, root, and those named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    own: u32,
    others: Vec<u32>,
}

impl Users {
    /// This process's user and root, and `others` by their numbers.
    pub fn own_and(others: impl IntoIterator<Item = u32>) -> Self {
        // SAFETY: takes nothing, returns a number, cannot fail.
        let own = unsafe { libc::geteuid() };
        Self { own, others: others.into_iter().filter(|&uid| uid != own && uid != ROOT).collect() }
    }

    /// Whether a process of `uid` may be at the other end.
    pub fn allow(&self, uid: u32) -> bool {
        uid == self.own || uid == ROOT || self.others.contains(&uid)
    }

    /// This process's user.
    pub fn own(&self) -> u32 {
        self.own
    }

    /// Whether no others are named.
    pub(super) fn are_all_own(&self) -> bool {
        self.others.is_empty()
    }
}

impl Default for Users {
    fn default() -> Self {
        Self::own_and([])
    }
}

/// The number of a user given by name or number; `None` if there is no such user. A number need not be anybody's.
///
/// Names are looked up as the C library does, which can ask a server: at the start, not in a loop.
pub fn user_number(user: &str) -> Option<u32> {
    if let Ok(uid) = user.parse() {
        return Some(uid);
    }
    let name = CString::new(user).ok()?;
    // SAFETY: all zeroes is a valid passwd.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut text = vec![0; 16 << 10];
    let mut found = std::ptr::null_mut();
    // SAFETY: all four are ours and live through the call; the text buffer is as long as we say.
    let code =
        unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) };
    (code == 0 && !found.is_null()).then_some(entry.pw_uid)
}

/// Root reaches every process's memory in any case.
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_user_root_and_those_named_are_let_in() {
        let users = Users { own: 1000, others: vec![1002] };
        assert_eq!([0, 1000, 1001, 1002].map(|uid| users.allow(uid)), [true, true, false, true]);
    }

    #[test]
    fn users_go_by_name_or_number() {
        assert_eq!(["root", "1234"].map(user_number), [Some(0), Some(1234)]);
        assert_eq!(user_number("no such user"), None);
    }
}
