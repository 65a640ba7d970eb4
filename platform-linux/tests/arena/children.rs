//! What takes a process of its own: limits and users are a process's own, and so is being killed.
//!
//! These tests start this program again as a child, with the name of the scene to play in an environment variable.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::smaps::{Smaps, prove};
use super::{TWO_MIB, config, free_pages, pool_lock};
use spinwire_linux::mem::{Arena, ArenaConfig, ArenaError, PageKind, PagePolicy};

const SCENE: &str = "SPINWIRE_TEST_SCENE";

/// A copy of this program that any user may run, with a scene to play.
struct Stage {
    program: PathBuf,
}

impl Stage {
    fn new(name: &str) -> Self {
        let program = env::temp_dir().join(format!("spinwire-arena-{}-{name}", process::id()));
        fs::copy(env::current_exe().unwrap(), &program).unwrap();
        Stage { program }
    }

    /// Plays `scene` after the shell command `before`.
    fn play(&self, scene: &str, before: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{before} && exec \"$0\" \"$@\"")).arg(&self.program);
        command.args(["--exact", "children::scene", "--ignored", "--nocapture"]).env(SCENE, scene);
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.program);
    }
}

/// What the children do.
#[test]
#[ignore = "not a test of its own: played by others in a child process"]
fn scene() {
    let Ok(scene) = env::var(SCENE) else {
        // Nothing was shown, so it must not count as passed where all ignored tests are run.
        println!("skipped: not a test of its own, other tests of arena play it in a child process");
        return;
    };
    match scene.as_str() {
        "memlock" => {
            // The limit is 1 MiB. What fits is locked, what goes beyond is refused, and what was made is undone.
            let lock = |bytes| Arena::allocate(&ArenaConfig { lock: true, ..config(bytes, &[PageKind::Small]) });
            let first = lock(512 << 10).unwrap();
            assert_eq!(Smaps::of(first.base().as_ptr().addr()).kib("Locked"), 512);
            for bytes in [600 << 10, 8 << 20] {
                let error = lock(bytes).unwrap_err();
                assert_eq!(error, ArenaError::Memlock { bytes, soft: Some(1 << 20), hard: Some(1 << 20) });
            }
            drop(first);
            lock(1 << 20).unwrap();
            println!("{}", lock(8 << 20).unwrap_err());
        }
        "hold" => {
            let arena = Arena::allocate(&config(2 * TWO_MIB, PagePolicy::default().kinds())).unwrap();
            println!("holding {}", arena.placement());
            thread::sleep(Duration::from_secs(60));
        }
        "cgroup" => {
            println!("{}", Arena::allocate(&config(4 * TWO_MIB, &[PageKind::TwoMib])).unwrap_err());
            let mut arena = Arena::allocate(&config(4 * TWO_MIB, &[PageKind::TwoMib, PageKind::Small])).unwrap();
            assert_eq!(arena.placement().kind, PageKind::Small);
            prove(&mut arena);
        }
        other => panic!("no scene {other}"),
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_normal_user_with_a_low_lock_limit_gets_one_error_that_helps() {
    const NOBODY: u32 = 65534;
    let stage = Stage::new("memlock");
    let mut command = stage.play("memlock", "ulimit -l 1024");
    if is_root() {
        // Root may lock without limit, which would hide the fault.
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let sentence =
        "lock an arena of 8 MiB: limit of locked memory of this process is 1 MiB, may be raised to 1 MiB; raise";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn killed_programs_leave_no_page_behind() {
    let _pool = pool_lock();
    let stage = Stage::new("kill");
    let before = free_pages();
    for round in 0..20 {
        let mut child = stage.play("hold", "true").stdout(Stdio::piped()).spawn().unwrap();
        // Half of them are killed while they hold their memory, half at some moment of their start.
        if round % 2 == 0 {
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let holding = lines.find(|line| line.contains("holding ")).expect("the child allocates");
            if before >= 2 {
                assert!(holding.contains("holding 4 MiB on 2 pages of 2 MiB, "), "{holding}");
                assert_eq!(free_pages(), before - 2);
            }
        } else {
            thread::sleep(Duration::from_millis(round / 2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while free_pages() != before && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(free_pages(), before);
}

/// What a pod without a hugepage allowance sees: pages are free, the mapping works, the page fault is refused.
#[test]
#[ignore = "needs root, cgroup v2 with the hugetlb controller, and 4 free pages of 2 MiB"]
fn a_cgroup_without_hugepages_is_an_error_with_the_limit_and_not_a_signal() {
    let _pool = pool_lock();
    assert!(is_root() && free_pages() >= 4, "needs root and 4 free pages of 2 MiB");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = mounts.lines().find(|line| line.contains(" - cgroup2 ")).expect("cgroup v2 is mounted");
    let root = PathBuf::from(root.split(' ').nth(4).unwrap());
    fs::write(root.join("cgroup.subtree_control"), "+hugetlb").expect("the hugetlb controller");
    let group = root.join(format!("spinwire-test-{}", process::id()));
    fs::create_dir(&group).unwrap();
    fs::write(group.join("hugetlb.2MB.max"), "0").unwrap();

    let stage = Stage::new("cgroup");
    let join = format!("echo $$ > {}/cgroup.procs", group.display());
    let output = stage.play("cgroup", &join).output().unwrap();
    fs::remove_dir(&group).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    for part in ["4 wanted, ", " free of ", "cgroup limit 0 bytes (", "raise the cgroup limit"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    println!("{text}");
}
