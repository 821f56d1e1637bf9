# For .ci/build_ruby and .ci/install_rails: packages of another Debian suite than this machine's. The caller has set
# `work`, a temporary folder. All of apt's state is in it: the machine's own sources and lists stay as they are.
# shellcheck shell=bash

# The machine's own apt sources say where Debian's packages are: the same place, another suite.
debian_uri() {
  {
    find /etc/apt/sources.list.d -name '*.sources' -exec awk '
      /^[[:space:]]*$/ { uri = "" }
      /^URIs:/         { uri = $2 }
      /^Suites:/       { for (i = 2; i <= NF; i++) if ($i !~ /[-\/]/) suite = $i }
      /^Signed-By:.*debian-archive-keyring/ && uri != "" && uri !~ /security/ { print uri }' {} +
    find /etc/apt -maxdepth 2 -name '*.list' -exec awk '
      /^deb / { for (i = 2; i < NF; i++) if ($i ~ /:\/\/.*\/debian\/?$/) print $i }' {} +
  } 2>/dev/null | head -n 1
}

# debian_suite deb|deb-src SUITE: fetches the suite's list of packages, and sets `apt` to the options for apt-get.
debian_suite() {
  local uri
  uri="$(debian_uri)"
  [ -n "$uri" ] || { log "no Debian source found in /etc/apt"; exit 1; }
  mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
  echo "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $2 main" >"$work/sources.list"
  # shellcheck disable=SC2034
  apt=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$work/lists"
       -o "Dir::State::status=$work/none-installed" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
       -o Acquire::Retries=3)
  : >"$work/none-installed"
  apt-get "${apt[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}
