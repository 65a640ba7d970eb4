//! What the kernel really gave, how it fails as a normal user or in a container, and that nothing stays behind.

mod children;
mod smaps;

use std::sync::{Mutex, MutexGuard};

use smaps::prove;
use spinwire_linux::mem::{Arena, ArenaConfig, ArenaError, PageKind, PagePolicy, PagePool, Refusal};

const TWO_MIB: usize = 2 << 20;

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
