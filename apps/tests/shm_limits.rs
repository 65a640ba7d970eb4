//! What stands in the way of shared memory on a machine: full directories, limits of the process and of its cgroup, hugepages.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::fabric::{Fabric, alone, cpu, shm_name};
use common::{Ended, PATIENCE, Running, SPINWIRE, scratch};

/// A segment of a window of messages like these is larger than a page of 2 MiB.
const LARGE: &str = "--depth 128 --message-max 16k";
const LARGE_PING: &str = "--depth 128 --size 16k";

/// Runs shell commands, and then `spinwire` with these arguments in their place.
fn after(commands: &str, arguments: &str) -> Running {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{commands} && exec {SPINWIRE} {arguments}")]);
    Running::command(shell)
}

fn serve(url: &str, extra: &str) -> String {
    format!("echo serve --listen {url} --core {} {extra}", cpu(0))
}

#[track_caller]
fn refused(server: Running) -> Ended {
    server.finish(PATIENCE).expect_code(3)
}

/// Whether this user may mount in a mount namespace of its own.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let may = tried.is_ok_and(|out| out.status.success());
    if !may {
        println!("skipped: needs root and unshare, to mount a small file system");
    }
    may
}

/// How a server ends whose socket would lie on a small file system, mounted with `options` where nobody else sees it, after
/// `commands`.
#[track_caller]
fn refused_on_tmpfs(options: &str, commands: &str) -> Ended {
    let directory = scratch("mount");
    fs::create_dir(&directory).unwrap();
    let at = directory.display();
    let scene = format!(
        "mount -t tmpfs -o {options} none {at} && {commands}; exec {SPINWIRE} {}",
        serve(&format!("shm://{at}/echo"), "")
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "--propagation", "private", "sh", "-c", &scene.replace("DIR", &at.to_string())]);
    let ended = refused(Running::command(unshare));
    fs::remove_dir(&directory).unwrap();
    ended
}

#[test]
fn a_full_directory_is_named_with_what_to_do() {
    if !may_mount() {
        return;
    }
    let fill = "i=0; while touch DIR/$i 2>/dev/null; do i=$((i+1)); done";
    refused_on_tmpfs("size=4k,nr_inodes=4", fill)
        .expect("cannot make a socket in directory")
        .expect("No space left on device")
        .expect("make room, or use a name without a directory (shm://name)");
}

#[test]
fn a_directory_that_cannot_be_written_is_named_with_what_to_do() {
    if !may_mount() {
        return;
    }
    refused_on_tmpfs("size=64k", "mount -o remount,ro DIR")
        .expect("cannot make a socket in directory")
        .expect("Read-only file system")
        .expect("it must be writable for this user");
}

#[test]
fn a_limit_of_file_sizes_is_an_error_with_the_limit_and_not_a_signal() {
    for limit in ["ulimit -f 0", "ulimit -f 8"] {
        refused(after(limit, &serve(&shm_name(), LARGE)))
            .expect("no shared memory of")
            .expect("the limit of file sizes")
            .expect("`ulimit -f unlimited`");
    }
}

#[test]
fn a_limit_of_address_space_is_an_error_that_says_what_was_asked() {
    // The ring of such a connection takes 17 MiB; the program itself is half as large.
    let arguments = serve(&shm_name(), "--depth 1000 --message-max 16k --connections-max 1 --pages 4k");
    refused(after("ulimit -v 24000", &arguments))
        .expect("no shared memory of ")
        .expect("Cannot allocate memory")
        .expect("the limit of address space is ")
        .expect("`ulimit -v unlimited`");
    // Too little for the buffers.
    refused(after("ulimit -v 24000", &serve(&shm_name(), "--pages 4k")))
        .expect("no memory for an arena")
        .expect("the limit of address space is 24000 KiB");
}

#[test]
fn a_client_out_of_open_files_says_so_with_the_way_to_raise_it() {
    let server = Fabric::Shm.server("");
    let ping = format!("echo ping {} --core {} --count 10 --connections 20 --timeout 2s", server.url, cpu(1));
    after("ulimit -n 24", &ping).finish(PATIENCE).expect_code(1).expect("Too many open files").expect("ulimit -n");
    let (ended, _) = Fabric::Shm.ping(&server.url, "--count 100 --verify");
    ended.expect_code(0);
    server.stop();
}

/// Tests that count the machine's hugepages take turns.
fn pool() -> MutexGuard<'static, ()> {
    static POOL: Mutex<()> = Mutex::new(());
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn free_pages() -> u64 {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    fs::read_to_string(file).map_or(0, |text| text.trim().parse().unwrap())
}

/// Enough for the buffers and segments of a server and a client.
const PAGES: u64 = 32;

fn enough_pages() -> bool {
    let enough = free_pages() >= PAGES;
    if !enough {
        println!("skipped: needs {PAGES} free pages of 2 MiB: sysctl vm.nr_hugepages={PAGES}");
    }
    enough
}

#[test]
fn hugepages_are_free_again_whatever_signal_ends_a_program() {
    let (_pool, _turn) = (pool(), alone());
    if !enough_pages() {
        return;
    }
    // A group of their own counts what these two have: others use the pool as well.
    let group = match Group::of_hugepages("max") {
        Ok(group) => group,
        Err(reason) => return println!("skipped: needs root and a cgroup of hugepages: {reason}"),
    };
    for signal in ["KILL", "TERM", "INT", "ABRT", "SEGV", "BUS", "XFSZ"] {
        let url = shm_name();
        let mut server = after(&group.enter(), &serve(&url, &format!("{LARGE} --connections-max 1 --pages 2m")));
        server.wait_for("listening on", PATIENCE);
        let ping = format!("echo ping {url} --core {} {LARGE_PING} --seconds 60 --pages 2m --warmup 1", cpu(1));
        let mut client = after(&group.enter(), &ping);
        client.wait_for("connected", PATIENCE);
        assert!(group.pages() >= 4, "both use hugepages: {}", group.pages());
        for process in [server, client] {
            process.signal(signal);
            if ["SEGV", "BUS"].contains(&signal) {
                // Rust's own handler takes the first one of these for a fault that will come again.
                std::thread::sleep(Duration::from_millis(50));
                process.signal(signal);
            }
            process.finish(Duration::from_secs(20));
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while group.pages() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(group.pages(), 0, "after SIG{signal}");
    }
}

/// A cgroup with a limit of hugepages, removed at the end.
struct Group(PathBuf);

impl Group {
    /// One that leaves so many bytes of memory, in whichever hierarchy has the controller.
    fn of_memory(bytes: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount_of = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
        let has = |line: &&str| line.contains(" - cgroup ") && line.ends_with("memory");
        let (root, file) = if let Some(root) = mounts.lines().find(has).and_then(mount_of) {
            (root, "memory.limit_in_bytes")
        } else {
            let unified = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(mount_of);
            let root = unified.ok_or("no cgroup is mounted")?;
            fs::write(root.join("cgroup.subtree_control"), "+memory")
                .map_err(|error| format!("memory cgroup: {error}"))?;
            (root, "memory.max")
        };
        let group = Self(root.join(format!("spinwire-memory-{}", std::process::id())));
        fs::create_dir(&group.0).map_err(|error| error.to_string())?;
        fs::write(group.0.join(file), bytes.to_string()).map_err(|error| error.to_string())?;
        Ok(group)
    }

    fn of_hugepages(limit: &str) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = mounts.lines().find(|line| line.contains(" - cgroup2 ")).ok_or("cgroup v2 is not mounted")?;
        let root = Path::new(root.split(' ').nth(4).ok_or("no mount point")?);
        fs::write(root.join("cgroup.subtree_control"), "+hugetlb")
            .map_err(|error| format!("hugetlb cgroup: {error}"))?;
        let group = root.join(format!("spinwire-shm-{}-{limit}", std::process::id()));
        fs::create_dir(&group).map_err(|error| error.to_string())?;
        fs::write(group.join("hugetlb.2MB.max"), limit).map_err(|error| error.to_string())?;
        Ok(Self(group))
    }

    /// Pages that those in it have.
    fn pages(&self) -> u64 {
        let bytes = fs::read_to_string(self.0.join("hugetlb.2MB.current")).unwrap();
        bytes.trim().parse::<u64>().unwrap() >> 21
    }

    fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Left behind if somebody is still in it: it is empty but for that.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cgroup_without_hugepages_is_an_error_or_small_pages_and_never_a_signal() {
    let (_pool, _turn) = (pool(), alone());
    if !enough_pages() {
        return;
    }
    let group = match Group::of_hugepages("0") {
        Ok(group) => group,
        Err(reason) => return println!("skipped: needs root and a cgroup of hugepages: {reason}"),
    };
    // Hugepages or nothing: the limit and its file are named.
    refused(after(&group.enter(), &serve(&shm_name(), &format!("{LARGE} --pages 2m"))))
        .expect("cgroup limit 0 bytes (")
        .expect("hugetlb.2MB.max")
        .expect("raise the cgroup limit");
    // Where small pages are allowed they are used, also for what is made when a client comes.
    let url = shm_name();
    let mut server = after(&group.enter(), &serve(&url, &format!("{LARGE} --pages 2m,4k")));
    server.wait_for("listening on", PATIENCE);
    let (ended, _) = Fabric::Shm.ping(&url, &format!("{LARGE_PING} --count 1000 --verify"));
    ended.expect_code(0);
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0).expect("small pages");
}

/// The kernel does not refuse a page beyond such a limit, it ends the process.
#[test]
fn a_container_with_too_little_memory_is_an_error_with_its_limit_and_not_a_kill() {
    let group = match Group::of_memory(64 << 20) {
        Ok(group) => group,
        Err(reason) => return println!("skipped: needs root and a cgroup of memory: {reason}"),
    };
    // Buffers of 600 MiB, lent and not.
    for how in ["", "--private-buffers"] {
        let large = format!("--message-max 64k --pages thp,4k {how}");
        refused(after(&group.enter(), &serve(&shm_name(), &large)))
            .expect("no memory for an arena of ")
            .expect("to be had below the memory limit in ")
            .expect("--memory of a container");
    }
    let mut server = after(&group.enter(), &serve(&shm_name(), "--connections-max 8 --pages thp,4k"));
    server.wait_for("listening on", PATIENCE);
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0);
}

/// What is made here, some 2 GiB, takes a second to be cleared, and with it the signal was not looked at.
#[test]
fn a_signal_ends_a_server_that_is_still_taking_its_memory() {
    let _turn = alone();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let large = "--connections-max 16 --depth 1024 --message-max 32k --pages 4k";
        let server = Running::spinwire(&serve(&shm_name(), large));
        let status_file = format!("/proc/{}/status", server.pid());
        let resident_kib = || {
            let status = fs::read_to_string(&status_file).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let begun = Instant::now();
        while resident_kib() < 64 << 10 {
            assert!(begun.elapsed() < PATIENCE, "it takes no memory");
            std::thread::sleep(Duration::from_millis(1));
        }
        server.signal(signal);
        // It gives back what it has.
        server.finish(Duration::from_secs(10)).expect_code(status).expect(&format!("stopped by SIG{signal}"));
    }
}
