//! The command on a machine without RDMA, which is what most machines that build it are.

use std::path::Path;
use std::process::Command;

#[test]
fn without_rdma_the_command_says_what_is_missing_and_ends_with_3() {
    let built_with = cfg!(feature = "rdma");
    if built_with && Path::new("/dev/infiniband/rdma_cm").exists() {
        // The lab's tests take the device files away in a mount namespace, which needs root.
        println!("skipped: this machine has RDMA; lab_errors takes it away from the command in the lab");
        return;
    }
    let missing = if built_with { "no rdma on this machine" } else { "built without rdma" };
    for words in ["serve --listen rdma://127.0.0.1:7471", "ping rdma://127.0.0.1:7471"] {
        let core = allowed_core();
        let mut command = Command::new(env!("CARGO_BIN_EXE_spinwire"));
        let output =
            command.arg("echo").args(words.split_whitespace()).args(["--core", &core]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(missing), "{said}");
    }
}

/// A core this process may use, so that pinning is not what fails.
fn allowed_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("every kernel has it");
    list.trim().split([',', '-']).next().expect("never empty").to_owned()
}
