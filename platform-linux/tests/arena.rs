//! What the kernel really gave, how it fails as a normal user or in a container, and that nothing stays behind.
//!
//! Some tests start this program again as a child, with the name of the scene to play in an environment variable:
//! limits and users are a process's own.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use spinwire_linux::mem::{Arena, ArenaConfig, ArenaError, PageKind, PagePolicy, PagePool, Refusal};

const TWO_MIB: usize = 2 << 20;
const SCENE: &str = "SPINWIRE_TEST_SCENE";

/// Tests that look at the pool of hugepages must not run at once.
fn pool_lock() -> MutexGuard<'static, ()> {
    static POOL: Mutex<()> = Mutex::new(());
    POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn config(bytes: usize, kinds: &[PageKind]) -> ArenaConfig {
    ArenaConfig { bytes, pages: PagePolicy::new(kinds.iter().copied()).unwrap(), ..ArenaConfig::default() }
}

fn free_pages() -> u64 {
    PagePool::of(PageKind::TwoMib).map_or(0, |pool| pool.free)
}

/// The kernel's own account of the mapping that holds an address.
struct Smaps {
    begin: usize,
    end: usize,
    fields: Vec<String>,
}

impl Smaps {
    fn of(address: usize) -> Self {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines().peekable();
        while let Some(head) = lines.next() {
            let (begin, end) = head.split(' ').next().unwrap().split_once('-').unwrap();
            let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            let mut fields = Vec::new();
            while let Some(field) = lines.next_if(|line| line.split(' ').next().unwrap().ends_with(':')) {
                fields.push(field.to_owned());
            }
            if (begin..end).contains(&address) {
                return Smaps { begin, end, fields };
            }
        }
        panic!("{address:x} is not mapped");
    }

    fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.fields)).trim()
    }

    fn kib(&self, name: &str) -> usize {
        self.field(name).strip_suffix(" kB").unwrap().trim().parse().unwrap()
    }

    fn assert_flag(&self, flag: &str) {
        let flags = self.field("VmFlags");
        assert!(flags.split(' ').any(|other| other == flag), "{flag} is not among {flags}");
    }
}

/// Compares what the arena says with what the kernel says, and uses the memory.
fn prove(arena: &mut Arena) {
    let (base, len, placement) = (arena.base().as_ptr().addr(), arena.len(), arena.placement().clone());
    let smaps = Smaps::of(base);
    assert!(smaps.begin <= base && base + len <= smaps.end);
    assert_eq!(placement.pages * placement.page_bytes, len);
    smaps.assert_flag("dc"); // not copied to children
    match placement.kind {
        PageKind::OneGib | PageKind::TwoMib => {
            smaps.assert_flag("ht");
            assert_eq!(smaps.kib("KernelPageSize"), placement.page_bytes >> 10);
            let present = smaps.kib("Private_Hugetlb") + smaps.kib("Shared_Hugetlb");
            assert!(present >= len >> 10, "every page is present");
        }
        PageKind::Transparent => {
            assert_eq!((smaps.begin, smaps.end), (base, base + len));
            smaps.assert_flag("hg");
            assert_eq!(smaps.kib("AnonHugePages") + smaps.kib("ShmemPmdMapped"), len >> 10);
        }
        PageKind::Small => {
            assert_eq!((smaps.begin, smaps.end), (base, base + len));
            assert_eq!(smaps.kib("KernelPageSize"), placement.page_bytes >> 10);
            assert_eq!(smaps.kib("Rss"), len >> 10, "every page is present");
        }
    }
    assert!(arena.bytes().iter().all(|&byte| byte == 0));
    arena.bytes().fill(0x5a);
    assert!(arena.bytes().iter().all(|&byte| byte == 0x5a));
}

#[test]
fn the_default_gives_memory_on_any_machine_and_says_on_what() {
    let _pool = pool_lock();
    let mut arena = Arena::allocate(&ArenaConfig { bytes: 3 << 20, ..ArenaConfig::default() }).unwrap();
    prove(&mut arena);
    let placement = arena.placement();
    let tried: Vec<PageKind> = placement.refused.iter().map(|refused| refused.kind).chain([placement.kind]).collect();
    let order = PagePolicy::default();
    assert_eq!(tried, order.kinds()[..tried.len()], "in order, each refusal listed: {placement}");
    for refused in &placement.refused {
        assert!(placement.to_string().contains(&refused.to_string()));
    }
}

#[test]
fn small_pages_are_always_to_be_had() {
    let mut arena = Arena::allocate(&config(1_000_000, &[PageKind::Small])).unwrap();
    prove(&mut arena);
    assert!(arena.len() >= 1_000_000 && arena.placement().refused.is_empty());
}

#[test]
fn transparent_hugepages_are_all_of_it_or_refused() {
    match Arena::allocate(&config(3 * TWO_MIB, &[PageKind::Transparent])) {
        Ok(mut arena) => {
            assert_eq!(arena.placement().pages, 3);
            prove(&mut arena);
        }
        // Right only where the kernel does not allow them, or has none.
        Err(ArenaError::NoPages { refused, .. }) => match &refused[0].reason {
            Refusal::Transparent { setting, .. } => assert_eq!(setting, "never"),
            Refusal::Call(cause) => assert_eq!(cause.call, "madvise(MADV_HUGEPAGE)"),
            other => panic!("{other:?}"),
        },
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn reserved_hugepages_are_got_where_the_pool_has_them() {
    let _pool = pool_lock();
    let before = free_pages();
    match Arena::allocate(&config(2 * TWO_MIB, &[PageKind::TwoMib])) {
        Ok(mut arena) => {
            assert_eq!((arena.placement().kind, arena.placement().pages), (PageKind::TwoMib, 2));
            prove(&mut arena);
            assert_eq!(free_pages(), before - 2);
            drop(arena);
            assert_eq!(free_pages(), before);
        }
        Err(error) => {
            assert!(before < 2, "{before} pages are free, but: {error}");
            assert!(error.to_string().contains("nr_hugepages"), "{error}");
        }
    }
}

#[test]
fn pages_of_1_gib_are_got_or_refused_with_the_command() {
    let _pool = pool_lock();
    let free = PagePool::of(PageKind::OneGib).map_or(0, |pool| pool.free);
    match Arena::allocate(&config(1, &[PageKind::OneGib])) {
        Ok(mut arena) => {
            assert_eq!(arena.len(), 1 << 30);
            prove(&mut arena);
        }
        Err(error) => {
            assert_eq!(free, 0, "{error}");
            let text = error.to_string();
            let command = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
            assert!(text.contains(command) || text.contains("no pool of them"), "{text}");
        }
    }
}

#[test]
fn more_hugepages_than_there_are_is_one_error_with_the_numbers_and_the_command() {
    let _pool = pool_lock();
    let pool = PagePool::of(PageKind::TwoMib).expect("a kernel with 2 MiB pages");
    let wanted = pool.free + 100;
    let bytes = wanted as usize * TWO_MIB;
    let error = Arena::allocate(&config(bytes, &[PageKind::TwoMib])).unwrap_err();
    let ArenaError::NoPages { refused, .. } = &error else { panic!("{error}") };
    assert_eq!((refused.len(), refused[0].wanted), (1, wanted));
    let text = error.to_string();
    assert!(text.contains(&format!("{wanted} wanted, {} free of {}", pool.free, pool.total)), "{text}");
    assert!(text.contains(&format!("vm.nr_hugepages={}`", pool.total + 100)), "{text}");
    assert_eq!(free_pages(), pool.free, "nothing is left behind");

    // Where small pages are allowed, they are used, and the refusal is on the record.
    let mut arena = Arena::allocate(&config(bytes, &[PageKind::TwoMib, PageKind::Small])).unwrap();
    prove(&mut arena);
    assert_eq!(arena.placement().refused, *refused);
}

#[test]
fn shared_memory_is_as_good_and_nobody_else_can_write_it_or_take_its_pages() {
    use std::os::fd::AsRawFd;
    let _pool = pool_lock();
    for kinds in
        [&[PageKind::Small][..], &[PageKind::Transparent, PageKind::Small], &[PageKind::TwoMib, PageKind::Small]]
    {
        let mut arena = Arena::allocate(&ArenaConfig { shared: true, ..config(3 << 20, kinds) }).unwrap();
        prove(&mut arena);
        let (fd, len) = (arena.memfd().unwrap().as_raw_fd(), arena.len());
        let map = |protection| {
            // SAFETY: a new mapping at an address of the kernel's choice.
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) }
        };
        assert_eq!(map(libc::PROT_READ | libc::PROT_WRITE), libc::MAP_FAILED);
        let readable = map(libc::PROT_READ);
        assert_ne!(readable, libc::MAP_FAILED);
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: calls on our own descriptor, which are refused; then the mapping of before is read and given back, whole.
        unsafe {
            assert_eq!(libc::ftruncate(fd, 0), -1);
            assert_eq!(libc::fallocate(fd, hole, 0, 4_096), -1);
            assert_eq!(libc::madvise(arena.base().as_ptr().cast(), len, libc::MADV_REMOVE), -1);
            let seen = std::slice::from_raw_parts(readable.cast::<u8>(), len);
            assert!(seen.iter().all(|&byte| byte == 0x5a), "what `prove` has left");
            assert_eq!(libc::munmap(readable, len), 0);
        }
    }
    assert!(Arena::allocate(&config(1, &[PageKind::Small])).unwrap().memfd().is_none(), "not unless it is asked for");
}

#[test]
fn the_node_is_asked_for_and_reported() {
    let allocate = |node| {
        let config = ArenaConfig { node, ..config(64 << 10, &[PageKind::Small]) };
        Arena::allocate(&config).unwrap().placement().clone()
    };
    if let Some(real) = allocate(None).node {
        let bound = allocate(Some(real));
        assert_eq!((bound.node, bound.bind_refused), (Some(real), None));
    }
    let nowhere = allocate(Some(999));
    assert_eq!(nowhere.bind_refused.as_ref().unwrap().call, "mbind");
    assert!(nowhere.to_string().contains("(not bound: mbind: "), "{nowhere}");
}

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
        command.args(["--exact", "scene", "--ignored", "--nocapture"]).env(SCENE, scene);
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
