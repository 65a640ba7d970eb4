# The rules of ci/steps/tidy. Each is a function that prints what breaks it, given a tree; the first comment says why.
# Sourced. `files PATTERN...` lists the tree's files; `tree` is its folder.

files() {
  if git -C "$tree" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$tree" ls-files --cached --others --exclude-standard -- "$@"
  else
    (cd "$tree" && find . -type f -printf '%P\n' | grep -E "$(printf '%s\n' "$@" | sed -e 's/\./\\./g' -e 's/\*/.*/g' -e 's/$/$/' | paste -s -d'|')")
  fi | while read -r file; do [[ ! -f $tree/$file ]] || echo "$file"; done
}

# search REGEX: `file:line:text` of the files named on standard input.
search() { (cd "$tree" && xargs -r -d '\n' grep -H -n -E "$@" -- /dev/null) || true; }

# Unsafe code stays where readers look for it; the crate root allows it to those modules and no others.
rule_unsafe_outside_its_modules() {
  files '*.rs' | grep -E '/src/' |
    grep -v -E '^core/src/(sync|ring|pool)(/|\.rs)|^core/freestanding/|^platform-linux/src/(sys|mem|shm|verbs)(/|\.rs)|^benches/(ipc/)?src/sys(/|\.rs)' |
    search '\bunsafe\b|allow\(.*unsafe_code' |
    grep -v -E ':[0-9]+: *//|#\[allow\(unsafe_code\)\]$|deny\(unsafe_code\)|forbid\(unsafe_code\)|"[^"]*unsafe[^"]*"' || true
  files '*.rs' | grep -E '/src/' | grep -v '^core/freestanding/' | while read -r file; do
    awk -v file="$file" '/#\[allow\(unsafe_code\)\]/ { getline; if ($0 !~ /^(pub |pub\(crate\) )?mod (sync|ring|pool|sys|mem|shm|verbs);/) print file ": unsafe allowed to: " $0 }' "$tree/$file"
  done
}

# The crate roots say so themselves, so that the compiler keeps the rule too.
rule_crate_root_without_deny_unsafe() {
  local file
  files '*/src/lib.rs' '*/src/main.rs' | grep -v '^core/freestanding/' | while read -r file; do
    grep -q -E '^#!\[(deny|forbid)\(.*unsafe_code' "$tree/$file" || echo "$file: no #![deny(unsafe_code)]"
  done
}

# Work in progress is finished or taken out.
rule_leftover_mark() {
  files '*.rs' '*.toml' '*.md' 'ci/*' | grep -v '^ci/test.d/tidy' | search '\b(TODO|FIXME|XXX|HACK)\b|todo!\(|unimplemented!\(|dbg!\('
}

# One file, one job.
rule_file_too_long() {
  local file lines
  files '*.rs' 'ci/*' | grep -v '\.md$' | while read -r file; do
    lines=$(wc -l <"$tree/$file")
    ((lines <= 400)) || echo "$file: $lines lines, of 400"
  done
}

# Each package says under which licence it is, and the texts are there.
rule_licence_missing() {
  local file
  files '*Cargo.toml' | while read -r file; do
    ! grep -q '^\[package\]' "$tree/$file" || grep -q -E '^license(\.workspace = true| = "MIT OR Apache-2.0")' "$tree/$file" ||
      echo "$file: no licence, or another than MIT OR Apache-2.0"
  done
  for file in LICENSE-MIT LICENSE-APACHE; do [[ -s $tree/$file ]] || echo "$file is missing"; done
}

# What only exists on one person's machine helps nobody else.
rule_machine_path() {
  local home
  home=$(printf '%s' "$HOME" | sed 's/[^A-Za-z0-9\/_-]/./g')
  files '*.rs' '*.toml' '*.md' 'ci/*' '.ci/*' | grep -v '^ci/test.d/tidy' |
    search "(^|[^A-Za-z0-9_.\$}/*-])(/home/[a-z]|/Users/|/root/|/work/|$home/)"
}

# A test that does not run by default says why.
rule_ignored_without_reason() {
  files '*.rs' | search '#\[ignore\]'
}

# A script that bash cannot read fails only when it is needed.
rule_script_syntax() {
  local file
  files 'ci/*' '.ci/*' | while read -r file; do
    case $(head -c 64 "$tree/$file" | head -n1) in
      *bash*) bash -n "$tree/$file" 2>&1 || true ;;
      *'busybox sh'* | *'/bin/sh'*) sh -n "$tree/$file" 2>&1 || true ;;
      *) [[ $file != *.sh ]] || bash -n "$tree/$file" 2>&1 || true ;;
    esac
  done
}
