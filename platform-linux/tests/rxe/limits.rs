//! Limits of the process, met as a normal user: root is exempt from them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{alone, at, lab, small_pages};
use spinwire_linux::cm::device_for_listening;
use spinwire_linux::failed_destroys;
use spinwire_linux::verbs::{MrError, Pd, Region};

const CHILD: &str = "SPINWIRE_TEST_LIMITED_CHILD";
const NAME: &str = "limits::memory_beyond_the_lock_limit_is_one_error_with_the_way_out";

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn memory_beyond_the_lock_limit_is_one_error_with_the_way_out() {
    if std::env::var_os(CHILD).is_some() {
        return as_a_normal_user_with_64_kib();
    }
    let _alone = alone();
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -l 64 && exec \"$0\" --ignored --exact --nocapture \"$1\""]).arg(this).arg(NAME);
    let output = command.env(CHILD, "1").uid(65_534).gid(65_534).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

fn as_a_normal_user_with_64_kib() {
    let device = device_for_listening(at(lab("LAB_ADDR0"), 0)).unwrap();
    let pd = Pd::new(&device).unwrap();
    let first = Region::register(&pd, small_pages(32 << 10)).expect("within the limit");
    let Err(error) = Region::register(&pd, small_pages(8 << 20)) else { panic!("8 MiB were locked") };
    let MrError::Memlock { bytes, soft, hard, .. } = error.clone() else { panic!("{error}") };
    assert_eq!((bytes, soft, hard), (8 << 20, Some(64 << 10), Some(64 << 10)));
    println!("{error}");
    drop((first, pd));
    assert_eq!(failed_destroys(), 0);
}
