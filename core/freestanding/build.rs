//! Links without start files, C library and dynamic loader.

fn main() {
    for arg in ["-nostartfiles", "-nodefaultlibs", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
