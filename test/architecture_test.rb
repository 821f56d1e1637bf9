# frozen_string_literal: true

# once: the sources are the same for each Ruby

require_relative "test_helper"
require_relative "support/house"
require_relative "support/source_file"

# Keeps the house as PROJECT_RULES.md describes it; rust_architecture_test.rb has the rules of Rust. Each failure names
# the file and the rule.
class ArchitectureTest < Minitest::Test
  include House

  # Which file lives on which floor, below lib/pelton. A file uses its own floor and lower ones. The face
  # (lib/pelton.rb) stands above R4; the edges (R5) may use it, and only the user requires them, so they stand on top.
  FLOORS = {
    "R1" => %w[version errors errors/* settings/* config events events/* runtime/* logging/* background background/*
               decoding/* message message/* batch delivery avro avro/* registry registry/* msk_iam msk_iam/*],
    "R2" => %w[producer producer/* producer_pool poller subscription subscription/* iterator iterator/* admin admin/*
               embedded_cluster dead_letters dead_letters/* schedule schedule/*],
    "R3" => %w[consumer routing/* consuming/**/* ractor_pool decoding/parallel/* topics topics/*],
    "R4" => %w[app app/* server/* reports/* cli/**/* outbox outbox/* inbox inbox/* offsets/*
               web web/**/*],
    "face" => %w[../pelton],
    "R5" => %w[tracing tracing/*
               metrics metrics/* reporters/* testing testing/**/* railtie railtie/* active_job active_job/*
               ../generators/**/* ../puma/plugin/*]
  }.freeze
  # `gem "pelton"` alone has to be enough for a Rails app, and so has the command `pelton` in its folder.
  UPWARD = %w[lib/pelton.rb lib/pelton/cli/app_files.rb].to_h { |path| [path, "lib/pelton/railtie.rb"] }.freeze
  ORDER = FLOORS.keys.freeze

  # Ruby files of lib/, and others.
  LIBRARY_LINES = 300
  RUBY_LINES = 400
  RUST_LINES = 400
  FOLDERS = 3
  ROLE_NOUNS = /(Manager|Handler|Helper|Util|Utils|Proxy|Builder|Conductor)\z/

  # Where threads are parked until they are woken.
  PARKING = %w[ext/core/src/wait.rs ext/pelton/src/gvl.rs].freeze
  # Waits for several sockets at once.
  SOCKETS = %w[lib/pelton/server/liveness.rb lib/pelton/server/process_metrics.rb].freeze
  # Written in pieces, for this file is looked at too.
  REGISTRIES = [%w[rubygems org], %w[crates io], %w[npmjs org], %w[pypi org], %w[repo maven apache org],
                %w[repo1 maven org], %w[proxy golang org], %w[deb debian org]].map { |pieces| pieces.join(".") }.freeze

  LIBRARY = House.glob("lib/**/*.rb").to_h { |path| [path, SourceFile.new(ROOT, path)] }.freeze

  def test_every_file_has_a_floor
    homeless = LIBRARY.keys.reject { |path| floor(path) }
    assert_none homeless.map { |path| "#{path}: give it a floor (FLOORS in test/architecture_test.rb)" }
  end

  def test_every_pattern_of_a_floor_has_files
    paths = LIBRARY.keys.map { |path| path.sub("lib/", "../").sub("../pelton/", "").delete_suffix(".rb") }
    ghosts = FLOORS.values.flatten.reject { |pattern| paths.any? { |path| fits?(pattern, path) } }
    assert_none ghosts.map { |pattern| "FLOORS: no file fits #{pattern}" }
  end

  def test_a_file_requires_its_own_floor_or_a_lower_one
    assert_none(LIBRARY.flat_map do |path, file|
      (file.requires - [UPWARD[path]]).filter_map do |other|
        "#{path} (#{floor(path)}) requires #{other} (#{floor(other)}): never upward" if height(other) > height(path)
      end
    end)
  end

  def test_a_file_names_no_constant_of_a_higher_floor
    homes = Hash.new { |all, name| all[name] = [] } # {"Clock" => [paths that define it]}
    LIBRARY.each { |path, file| file.defines.each { |name| homes[name] << path } }

    assert_none(LIBRARY.flat_map do |path, file|
      file.constants.filter_map do |name, line|
        next if homes.fetch(name, []).empty?

        home = homes[name].min_by { |candidate| height(candidate) }
        next if home == UPWARD[path]

        "#{path}:#{line} (#{floor(path)}) names #{name} of #{home} (#{floor(home)})" if height(home) > height(path)
      end
    end)
  end

  # Two scenarios run at a time on one broker.
  def test_a_scenario_hurts_only_a_broker_of_its_own
    assert_none(House.glob("test/integration/**/*.rb").reject do |path|
      text = read(path)
      !text.match?(/broker\w*\.(kill|restart|stop)\b/) || text.include?("TestBroker.start")
    end)
  end

  def test_required_files_exist
    assert_none(LIBRARY.flat_map do |path, file|
      absent = file.requires.reject { |other| File.exist?(File.join(ROOT, other)) }
      absent.map { |other| "#{path} requires #{other}: not there" }
    end)
  end

  def test_no_cycles_between_ruby_files
    graph = LIBRARY.transform_values { |file| file.requires.uniq & LIBRARY.keys }
    assert_none cycles(graph).map { |cycle| "a cycle of require: #{cycle.join(" → ")}" }
  end

  def test_only_apps_and_edges_use_the_default_app
    low = LIBRARY.select { |path, _| height(path) < ORDER.index("R4") }
    assert_none(low.flat_map do |path, file|
      lines = file.lines_with_call("Pelton", /\A[a-z]/)
      lines.map { |line| "#{path}:#{line}: calls the face (Pelton.…) from #{floor(path)}" }
    end)
  end

  def test_threads_start_in_one_file
    assert_none(LIBRARY.except("lib/pelton/runtime/threads.rb").flat_map do |path, file|
      lines = file.lines_with_call("Thread", /\A(new|start|fork)\z/)
      lines.map { |line| "#{path}:#{line}: Thread.new is for lib/pelton/runtime/threads.rb" }
    end)
  end

  # Ruby does not end the fibers of threads that a forked child lacks: it crashes there when it collects garbage.
  def test_no_thread_of_the_library_enters_a_fiber_of_its_own
    assert_none(LIBRARY.flat_map do |path, file|
      file.lines_with_call("Fiber", /\Anew\z/).map { |line| "#{path}:#{line}: Fiber.new crashes forked children" }
    end)
  end

  # Ruby 3.1 never frees the table of such a copy of a Hash that compares by identity: 176 bytes, each time.
  COPIES = %w[select filter reject except transform_values].freeze

  def test_no_code_copies_a_hash_that_compares_by_identity
    LIBRARY.keys.group_by { |path| File.dirname(path) }.each_value do |paths|
      names = paths.to_h { |path| [path, by_identity(read(path))] }
      shared = names.values.flatten.grep(/\A@/) # files of a folder may share the state of one object
      assert_none(paths.flat_map do |path|
        read(path).each_line.with_index(1).filter_map do |line, number|
          next unless [*shared, *names[path]].any? { |name| copies?(line, name) }

          "#{path}:#{number}: Ruby 3.1 leaks such a copy: filter_map, each, or the method with a !"
        end
      end)
    end
  end

  def test_copies_by_identity_are_found
    assert_equal %w[@late seen], by_identity("@late = {}.compare_by_identity\ndef at(seen = {}.compare_by_identity)")
    assert copies?("due = @late.select { |_, time| time }", "@late")
    refute copies?("@late.select! { |_, time| time }", "@late")
    refute copies?("@too_late.select { |_, time| time }", "@late")
  end

  # Names of the Hashes that compare by identity.
  def by_identity(text) = text.scan(/(@?\w+)(?:: | (?:\|\|)?= )\S.*\.compare_by_identity/).flatten

  def copies?(line, name) = line.match?(/(?<![\w@])#{name}\.(?:#{COPIES.join("|")})\b(?!!)/)

  def test_no_code_sleeps
    tests = House.glob("test/**/*.rb").to_h { |path| [path, SourceFile.new(ROOT, path)] }
    assert_none(LIBRARY.merge(tests).flat_map do |path, file|
      file.lines_with_word("sleep").map { |line| "#{path}:#{line}: sleep: wait for a condition with a deadline" }
    end)

    rust = House.glob("ext/**/*.rs").select { |path| read(path).match?(/\bthread::sleep\b|\bsleep\(/) }
    assert_none(rust.map { |path| "#{path}: sleep: wait for a condition with a deadline" })
  end

  # It writes nothing where Ruby's warnings are off, as many have them in RUBYOPT.
  def test_no_code_writes_to_stderr_by_warn
    calls = LIBRARY.keys.flat_map { |path| read(path).scan(/^[^#\n]*(?<![.\w])warn[ (]"/).map { |call| [path, call] } }
    assert_none(calls.map { |path, call| "#{path}: #{call.strip}: $stderr.write is not silent without warnings" })
  end

  # Sleeping by another name: to look now and then whether it is so by now.
  def test_no_code_polls_at_intervals
    assert_none(LIBRARY.flat_map do |path, file|
      lines = file.lines_with_call("Thread", /\Apass\z/)
      lines += file.lines_with_call("IO", /\Aselect\z/) unless SOCKETS.include?(path)
      lines.map { |line| "#{path}:#{line}: wait for a condition with a deadline" }
    end)

    assert_none(RUST.flat_map do |path|
      code = code_of(path)
      found = code.scan(/\b(?:yield_now|spin_loop|sched_yield|nanosleep|usleep)\b/)
      found += code.scan(/\bthread::park\w*/) unless PARKING.include?(path)
      found.map { |word| "#{path}: #{word}: parking is for #{PARKING.join(" and ")}" }
    end)
  end

  def test_sizes
    ruby = House.glob("{test,bench,examples,exe,ext}/**/*.rb")
    rust = House.glob("ext/**/*.rs")
    assert_none too_long(LIBRARY.keys, LIBRARY_LINES) + too_long(ruby, RUBY_LINES) + too_long(rust, RUST_LINES)
  end

  def test_the_rules_state_the_limits
    rules = read("PROJECT_RULES.md").gsub(/\s+/, " ")
    assert_match(/Ruby files: [^.]* #{LIBRARY_LINES} at most in `lib`, #{RUBY_LINES} elsewhere\./, rules)
    assert_match(/Rust files: [^.]* #{RUST_LINES} at most\./, rules)
  end

  def test_folders
    deep = LIBRARY.keys.select { |path| File.dirname(path).delete_prefix("lib/pelton").count("/") > FOLDERS }
    assert_none deep.map { |path| "#{path}: more than #{FOLDERS} folders below lib/pelton" }
  end

  def test_role_nouns
    ruby = LIBRARY.flat_map do |path, file|
      file.defines.grep(ROLE_NOUNS).map { |name| "#{path}: #{name} is a role without a meaning" }
    end
    rust = RUST.flat_map do |path|
      read(path).scan(/\b(?:struct|enum|trait)\s+(\w+)/).flatten.grep(ROLE_NOUNS)
                .map { |name| "#{path}: #{name} is a role without a meaning" }
    end
    assert_none ruby + rust
  end

  def test_no_file_names_a_registry
    named = all_files.flat_map do |path|
      text = File.binread(File.join(ROOT, path))
      REGISTRIES.select { |host| text.include?(host) }.map { |host| "#{path}: names the registry host #{host}" }
    end
    assert_none named
  end

  private

  def floor(path)
    name = path.sub("lib/", "../").sub("../pelton/", "").delete_suffix(".rb")
    FLOORS.find { |_, patterns| patterns.any? { |pattern| fits?(pattern, name) } }&.first
  end

  def fits?(pattern, name) = File.fnmatch?(pattern, name, File::FNM_PATHNAME)

  # A file without a floor is another test's business.
  def height(path) = ORDER.index(floor(path)) || 0

  def too_long(paths, limit)
    paths.filter_map do |path|
      lines = read(path).count("\n")
      "#{path}: #{lines} lines, #{limit} at most" if lines > limit
    end
  end

  # What git would carry. Cargo.lock alone must name its registry.
  def all_files
    listed = IO.popen(["git", "ls-files", "-co", "--exclude-standard", "-z"], chdir: ROOT, &:read).split("\0")
    listed.select { |path| File.file?(File.join(ROOT, path)) } - ["Cargo.lock", "ext/core/fuzz/Cargo.lock"]
  end
end
