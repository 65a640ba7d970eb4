//! Memory as the kernel describes it.

use std::fs;

use spinwire_linux::mem::{Arena, PageKind};

/// The kernel's own account of the mapping that holds an address.
pub struct Smaps {
    begin: usize,
    end: usize,
    fields: Vec<String>,
}

impl Smaps {
    pub fn of(address: usize) -> Self {
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

    pub fn kib(&self, name: &str) -> usize {
        self.field(name).strip_suffix(" kB").unwrap().trim().parse().unwrap()
    }

    fn assert_flag(&self, flag: &str) {
        let flags = self.field("VmFlags");
        assert!(flags.split(' ').any(|other| other == flag), "{flag} is not among {flags}");
    }
}

/// Compares what the arena says with what the kernel says, and uses the memory.
pub fn prove(arena: &mut Arena) {
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
