//! The plain C programs of `ci/interop`, built with the machine's own compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Builds `ci/interop/NAME.c`, once in this process, and returns the program.
pub fn build(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    // A build that panicked left nothing in the map.
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    built.entry(name.to_owned()).or_insert_with(|| compile(name)).clone()
}

fn compile(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/interop").join(format!("{name}.c"));
    let folder = std::env::temp_dir().join(format!("spinwire-interop-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let program = folder.join(name);
    let output = Command::new("gcc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .args(["-lrdmacm", "-libverbs"])
        .output()
        .expect("gcc is installed");
    assert!(output.status.success(), "gcc {}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    program
}
