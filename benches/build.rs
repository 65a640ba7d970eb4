//! Builds what the benches need of DPDK, if its headers are installed. Without them the benches have two peers less,
//! and say so.

use std::env;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SHIM}");
    match dpdk() {
        Ok(()) => println!("cargo::rustc-cfg=dpdk"),
        Err(reason) => println!("cargo::rustc-env=SPINWIRE_NO_DPDK={}", reason.replace('\n', " ")),
    }
}

fn dpdk() -> Result<(), String> {
    let library =
        pkg_config::Config::new().atleast_version("21.11").cargo_metadata(false).probe("libdpdk").map_err(|_| {
            "pkg-config finds no libdpdk of version 21.11 or later; `ci/setup --dpdk` installs it".to_owned()
        })?;
    let mut build = cc::Build::new();
    build.file(SHIM).includes(library.include_paths).opt_level(3).flag("-include").flag("rte_config.h");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        // What its own packages are built for, and the least its headers take. gcc's scalar-to-vector pass would make
        // its pool three to six times slower.
        build.flag("-march=corei7").flag_if_supported("-mno-stv");
    }
    build
        .cargo_warnings(false)
        .try_compile("spinwire_benches_dpdk")
        .map_err(|error| format!("libdpdk {} is there, but {SHIM} does not compile: {error}", library.version))?;
    for folder in library.link_paths.iter().filter(|path| has_rings(path)) {
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
    for name in ["rte_ring", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    Ok(())
}

fn has_rings(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with("librte_ring."))
    })
}

const SHIM: &str = "src/sys/dpdk/shim.c";
