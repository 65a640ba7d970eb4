//! Why a machine cannot do RDMA, and what to do about it.

use std::path::Path;

use super::super::channel::ChannelError;
use super::names_in;
use crate::sys::os::{CallError, Errno};

/// This machine cannot do RDMA as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no rdma on this machine: {missing} ({cause}); {advice}")]
pub struct NoRdma {
    /// What is not there.
    pub missing: String,
    /// What to do about it.
    pub advice: String,
    /// The call that failed.
    pub cause: CallError,
}

/// Finds out why the first call of librdmacm failed, by looking at what a working machine has, below `root`.
pub(in crate::cm) fn diagnose(root: &Path, cause: CallError) -> ChannelError {
    let device_names = names_in(&root.join("sys/class/infiniband"));
    let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let release = release.trim();
    let node = root.join("dev/infiniband/rdma_cm");
    let (missing, advice) = if device_names.is_empty() {
        ("it has no rdma device".to_owned(), soft_roce_advice(root, release))
    } else if !node.exists() {
        let missing = format!("devices are there ({}) but /dev/infiniband/rdma_cm is not", device_names.join(", "));
        (missing, "run `modprobe rdma_ucm` (in a container: pass --device /dev/infiniband/rdma_cm)".to_owned())
    } else if cause.errno == Errno(libc::EACCES) || cause.errno == Errno(libc::EPERM) {
        let missing = "/dev/infiniband/rdma_cm may not be opened".to_owned();
        (missing, "its permissions are set by udev (rdma-core); in a container: pass the devices".to_owned())
    } else {
        return cause.into();
    };
    NoRdma { missing, advice, cause }.into()
}

fn soft_roce_advice(root: &Path, release: &str) -> String {
    let modules = root.join("lib/modules").join(release).join("kernel/drivers/infiniband/sw/rxe");
    let by_hand = "`rdma link add rxe0 type rxe netdev INTERFACE`";
    let elsewhere = "or run in the lab: `ci/vm -- COMMAND`";
    if names_in(&modules).iter().any(|name| name.starts_with("rdma_rxe.ko")) {
        return format!("for Soft-RoCE: `modprobe rdma_rxe && modprobe rdma_ucm`, then {by_hand}; {elsewhere}");
    }
    format!(
        "kernel {release} has no rdma_rxe module: it comes with the package linux-image-amd64 (Debian, not the cloud \
         flavour) or linux-modules-extra-{release} (Ubuntu), then `modprobe rdma_rxe` and {by_hand}; {elsewhere}"
    )
}
