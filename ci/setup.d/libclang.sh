# A libclang that rdma-sys can use: its bindgen stops at versions after 15 ("is not a valid Ident"). Sourced by ci/setup.

readonly libclang_usable=(14 15)
# Where the copy from the Python package index goes when the distribution has none.
libclang_own=${XDG_CACHE_HOME:-$HOME/.cache}/spinwire/libclang-14

# Sets `libclang` (a folder) and `clang_arguments`; fails when there is none.
find_libclang() {
  local version folder
  clang_arguments=
  if [[ -n ${LIBCLANG_PATH:-} ]]; then
    # The caller knows.
    libclang=$LIBCLANG_PATH
    return
  fi
  for version in "${libclang_usable[@]}"; do
    folder=/usr/lib/llvm-$version/lib
    # Without the compiler's own headers it would stop at stddef.h.
    if compgen -G "$folder/libclang*.so" >/dev/null && compgen -G "$folder/clang/*/include/stddef.h" >/dev/null; then
      libclang=$folder
      return
    fi
  done
  if [[ -e $libclang_own/libclang.so ]]; then
    libclang=$libclang_own
    clang_arguments=-I$(cc -print-file-name=include)
    return
  fi
  return 1
}

# For a message: the versions that are there and do not serve.
other_libclangs() {
  local found
  found=$(find /usr/lib/llvm-*/lib -maxdepth 1 -name 'libclang*.so*' 2>/dev/null | grep -o 'llvm-[0-9]*' | sort -u -V | tr '\n' ' ')
  [[ -z $found ]] || printf ' (found: %s)' "${found% }"
}

get_libclang() {
  local version
  for version in "${libclang_usable[@]}"; do
    has_candidate "libclang-$version-dev" && break
    update_lists
    has_candidate "libclang-$version-dev" && break
    version=
  done
  if [[ -n $version ]]; then
    require_root "libclang-$version-dev"
    say "installing with apt-get: libclang-$version-dev"
    install_packages "libclang-$version-dev"
  else
    get_libclang_wheel
  fi
  find_libclang || die "no libclang that rdma-sys can use: it needs version 14 or 15$(other_libclangs)." \
    "If you have one elsewhere, set LIBCLANG_PATH to its folder and run this again."
}

# Newer distributions have dropped these versions; the Python package index keeps them.
get_libclang_wheel() {
  say "this distribution has no libclang 14 or 15; downloading the library (about 15 MB) with pip into $libclang_own"
  python3 -m pip --version >/dev/null 2>&1 || { require_root python3-pip && install_packages python3-pip; }
  local unpacked
  unpacked=$(mktemp -d)
  mkdir -p "$libclang_own"
  python3 -m pip download -q --retries 1 --no-deps --only-binary :all: -d "$unpacked" libclang==14.0.6 &&
    python3 -m zipfile -e "$unpacked"/libclang-*.whl "$unpacked" &&
    find "$unpacked" -name libclang.so -exec mv {} "$libclang_own/" \; || say "pip could not get libclang 14.0.6"
  rm -rf "$unpacked"
}

# Cargo's own configuration file, which git ignores, so that plain `cargo build` finds the library too.
tell_cargo() {
  local file=$root/.cargo/config.toml wanted
  [[ -z ${LIBCLANG_PATH:-} ]] || return 0
  wanted=$(printf '# Written by ci/setup for this machine; a LIBCLANG_PATH in the environment goes first.\n[env]\nLIBCLANG_PATH = "%s"\n' "$libclang")
  [[ -z $clang_arguments ]] || wanted+=$'\n'"BINDGEN_EXTRA_CLANG_ARGS = \"$clang_arguments\""
  if [[ ! -e $file ]]; then
    mkdir -p "$root/.cargo"
    printf '%s\n' "$wanted" >"$file"
    say "wrote .cargo/config.toml: LIBCLANG_PATH = $libclang"
  elif ! grep -q "LIBCLANG_PATH = \"$libclang\"" "$file"; then
    say "note: .cargo/config.toml does not set LIBCLANG_PATH = \"$libclang\", which building needs"
  fi
}
