//! The example `board`, as processes that may be killed.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::fabric::{Fabric, alone, cpu, shm_name};
use crate::common::{PATIENCE, Running, lab_addresses, port, url};

/// The example, as a process.
fn board(arguments: &str) -> Running {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().unwrap().with_file_name("examples").join("board");
    assert!(program.exists(), "{} is missing: cargo build --examples makes it", program.display());
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    Running::command(command)
}

fn serve_board(on: Fabric) -> (Running, String) {
    let address = match on {
        Fabric::Shm => shm_name(),
        Fabric::Rdma => url(lab_addresses().0, port()),
    };
    let mut server = board(&format!("serve {address} {}", cpu(0)));
    server.wait_for("listening on", PATIENCE);
    (server, address)
}

fn stop(server: Running) -> String {
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0).output
}

pub fn two_programs_count_up_one_word_and_nothing_is_lost(on: Fabric) {
    let _alone = alone();
    let (server, address) = serve_board(on);
    let visitors = [0, 1].map(|_| board(&format!("visit {address} {} 500", cpu(1))));
    for visitor in visitors {
        visitor.finish(PATIENCE).expect_code(0).expect("1500 of 1500 done, 0 failed; 500 rows read");
    }
    let said = stop(server);
    assert!(said.contains("1000 counted, 1000 notes"), "{said}");
    assert!(!said.contains("not there"), "{said}");
}

pub fn either_side_may_be_killed_in_the_middle(on: Fabric) {
    let _alone = alone();
    let (server, address) = serve_board(on);
    // A visitor that never ends by itself.
    let visitor = board(&format!("visit {address} {} 1000000000", cpu(1)));
    thread::sleep(Duration::from_millis(700));
    visitor.signal("KILL");
    drop(visitor);
    board(&format!("visit {address} {} 50", cpu(1))).finish(PATIENCE).expect_code(0).expect("150 of 150 done");
    let visitor = board(&format!("visit {address} {} 1000000000", cpu(1)));
    thread::sleep(Duration::from_millis(700));
    server.signal("KILL");
    let ended = visitor.finish(PATIENCE).expect_code(1);
    let said = ended.output;
    let counts = said.lines().find(|line| line.contains(" done, ")).unwrap_or_else(|| panic!("no counts in:\n{said}"));
    let words: Vec<_> = counts.split_whitespace().collect();
    assert_eq!(words[0], words[2], "each operation came back: {said}");
    assert!(words[0].parse::<u64>().is_ok_and(|done| done > 0), "{said}");
}

pub fn visits_leave_nothing_behind(on: Fabric) {
    let _alone = alone();
    let (server, address) = serve_board(on);
    let visit = || drop(board(&format!("visit {address} {} 5", cpu(1))).finish(PATIENCE).expect_code(0));
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", server.pid())).unwrap().count();
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap().lines().count();
    visit();
    thread::sleep(Duration::from_millis(200));
    let before = (count("fd"), maps());
    (0..10).for_each(|_| visit());
    let deadline = Instant::now() + Duration::from_secs(5);
    while (count("fd"), maps()) != before && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!((count("fd"), maps()), before, "descriptors and mappings");
    stop(server);
}
