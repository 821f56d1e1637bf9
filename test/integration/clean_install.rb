# frozen_string_literal: true

# once: it installs a gem for Debian's Ruby

require "support/gems/build"
require "tmpdir"

# The precompiled gem, with the extension that bin/setup built, in a Debian that has Ruby, but no compiler and no
# network: `gem install` takes little time, and the gem produces, consumes, decodes JSON and connects with TLS.

unless Gems::CleanSystem.possible?
  puts "needs root, mmdebstrap, unshare and ip"
  exit 77
end

Dir.mktmpdir("pelton-gems") { |folder| Gems.build(rubies: [], to: folder, suites: ["bookworm"], working_copy: true) }
