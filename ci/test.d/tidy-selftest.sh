# Shows for each rule of tidy.sh that it can fail: a small tree with one fault, which that rule must report and a tree
# without it must not. Sourced.

# The fault of each rule: a file and what it holds.
plant() {
  case $1 in
    unsafe_outside_its_modules) put core/src/turn.rs 'fn f(p: *const u8) -> u8 { unsafe { *p } }' ;;
    crate_root_without_deny_unsafe) put apps/src/main.rs 'fn main() {}' ;;
    leftover_mark) put core/src/turn.rs '// TODO: later' ;;
    file_too_long) put core/src/turn.rs "$(yes '//' | head -n 401)" ;;
    licence_missing) put apps/Cargo.toml $'[package]\nname = "x"' ;;
    machine_path) put ci/setup 'cd /home/somebody/project' ;;
    ignored_without_reason) put core/src/turn.rs '#[ignore]' ;;
    script_syntax) put ci/setup $'#!/usr/bin/env bash\nif true; then' ;;
    *) return 1 ;;
  esac
}

put() { mkdir -p "$(dirname "$tree/$1")" && printf '%s\n' "$2" >"$tree/$1"; }

sound_tree() {
  rm -rf "${tree:?}"/*
  put LICENSE-MIT text
  put LICENSE-APACHE text
  put core/Cargo.toml $'[package]\nlicense.workspace = true'
  put core/src/lib.rs '#![deny(unsafe_code)]'
  put core/src/ring/spsc.rs $'// SAFETY: fine here\nunsafe fn f() {}'
  put ci/test $'#!/usr/bin/env bash\ntrue'
}

# selftest RULE: prints why the rule is no good, or nothing.
selftest() {
  local tree
  tree=$(mktemp -d)
  sound_tree
  [[ -z $("rule_$1") ]] || echo "self-test: $1 complains about a sound tree: $("rule_$1")"
  plant "$1" || echo "self-test: $1 has none"
  [[ -n $("rule_$1") ]] || echo "self-test: $1 does not see a planted fault"
  rm -rf "$tree"
}
