# frozen_string_literal: true

# once: the sources are the same for each Ruby

require_relative "test_helper"
require_relative "support/house"

# Keeps the Rust crates as PROJECT_RULES.md describes them. Each failure names the file and the rule.
class RustArchitectureTest < Minitest::Test
  include House

  # The named modules: only here may Rust be unsafe.
  UNSAFE_MODULES = %w[ext/allocator/src/ ext/core/src/rd/ ext/core/src/decode/simd.rs ext/pelton/src/gvl.rs
                      ext/pelton/src/value.rs ext/pelton/src/value/].freeze
  # What runs code while others wait for it, and the locks of the standard library.
  ONCE = "get_or_init|get_or_try_init|call_once|call_once_force|LazyLock|LazyCell|Lazy|OnceCell|Once"
  LOCKS = "Mutex|RwLock|ReentrantLock"
  # Lines of the glue that may have them: inside of these no Ruby object is made, and no Ruby code runs.
  WITHOUT_RUBY = {
    # An empty place on the native heap.
    "ext/pelton/src/value/gc_root.rs" => ["slot.next.get_or_init(|| Box::new(RootSlot::new()))"],
    # An empty mailbox.
    "ext/pelton/src/gvl/fibers.rs" => ["WOKEN.get_or_init(Mailbox::default)"],
    # The result of native work, moved in and out.
    "ext/pelton/src/gvl.rs" => ["use std::sync::",
                                "result: Mutex<Option<std::thread::Result<T>>>", "result: Mutex::new(None)"],
    # A counted reference, moved in and out.
    "ext/pelton/src/embedded_cluster.rs" => ["use std::sync::", "live: Mutex<Option<Arc<EmbeddedCluster>>>",
                                             "let live = Mutex::new(Some(Arc::new(cluster)))"]
  }.freeze
  # `rd` is the lowest module of the core; of the others it may use only these.
  RD_MAY_USE = %w[decode].freeze # the pool's fork generation

  # rustfmt leaves comments as they are.
  def test_comments_in_rust_fit_on_a_line
    assert_none(House.glob("ext/**/*.rs").flat_map do |path|
      wide = read(path).lines.each_with_index.select { |line, _| line.size > 121 && line.match?(%r{\A *//}) }
      wide.map { |_, index| "#{path}:#{index + 1}: more than 120 characters" }
    end)
  end

  # A name alone says which type is meant: in an error of the compiler, in a backtrace, in these pages.
  def test_a_name_of_a_rust_type_is_defined_once
    homes = RUST.flat_map { |path| RustSource.types(read(path)).map { |name| [name, path] } }.group_by(&:first)
    assert_operator homes.size, :>, 200
    assert_none(homes.select { |_, found| found.size > 1 }.map do |name, found|
      "#{name} is a type of #{found.map(&:last).join(" and ")}: give each a name of its own"
    end)
  end

  def test_unsafe_rust_stays_in_its_modules
    outside = RUST.reject { |path| path.start_with?(*UNSAFE_MODULES) }
    assert_none(outside.flat_map do |path|
      lines = RustSource.unsafe_lines(read(path))
      lines.map { |line, _| "#{path}:#{line}: unsafe outside its modules (UNSAFE_MODULES)" }
    end)
  end

  def test_rust_crates_deny_unsafe_outside_its_modules
    crates = %w[ext/core/src/lib.rs ext/pelton/src/lib.rs]
    crates.each { |path| assert_includes read(path), "\n#![deny(unsafe_code)]\n", path }
    allowing = RUST.flat_map do |path|
      folder = path.delete_suffix(".rs").delete_suffix("/lib").delete_suffix("/mod")
      read(path).scan(/allow\(unsafe_code\)\]\s*(?:pub )?(?:mod (\w+);)?/).map { |mod,| [folder, *mod].join("/") }
    end
    named = UNSAFE_MODULES.map { |name| name.delete_suffix("/").delete_suffix(".rs") }.uniq
    assert_equal named.sort, allowing.sort
  end

  def test_only_rd_names_librdkafkas_bindings
    above = RUST.reject { |path| path.start_with?("ext/core/src/rd/") }
    named = above.select { |path| code_of(path).match?(/\brdkafka_sys\b/) }
    assert_none(named.map { |path| "#{path}: librdkafka's constants have names in rd (codes, event_types)" })
  end

  def test_unsafe_rust_says_why_it_is_safe
    assert_none(RUST.flat_map do |path|
      lines = read(path).lines
      RustSource.unsafe_lines(read(path)).filter_map do |line, text|
        next unless text.match?(/\bunsafe\s*(\{|impl\b)/)

        above = lines[[line - 4, 0].max...line].join
        "#{path}:#{line}: no SAFETY line within the 3 lines above" unless above.include?("SAFETY")
      end
    end)
  end

  # A Ractor that waits for another one's first use of such a place never reaches the point where it stops for a garbage
  # collection; if that use allocates, all Ractors wait for each other. So the glue fills its places at Init (`set`).
  def test_no_ractor_waits_for_ruby_in_another
    found = RUST.grep(%r{\Aext/pelton/}).flat_map do |path|
      code_of(path).scan(/^.*\b(?:#{ONCE}|#{LOCKS})\b.*$/o).map { |line| [path, line.strip] }
    end
    wrong = found.reject { |path, line| WITHOUT_RUBY.fetch(path, []).any? { |known| line.include?(known) } }
    assert_none(wrong.map { |path, line| "#{path}: #{line}: fill it at Init; WITHOUT_RUBY is for what runs no Ruby" })
    unused = WITHOUT_RUBY.flat_map do |path, lines|
      lines.reject { |known| found.any? { |other, line| other == path && line.include?(known) } }
    end
    assert_none(unused.map { |line| "WITHOUT_RUBY: nothing is like #{line}" })
  end

  # rd/ffi.rs declares what answers with an error code, for the bindings would make it a Rust enum. A function that is
  # missing there is found by what is done with its answer.
  def test_error_codes_of_librdkafka_are_integers
    ours = read("ext/core/src/rd/ffi.rs").scan(/fn (rd_kafka_\w+)\(/).flatten
    assert_operator ours.size, :>, 20
    assert_none(RUST.flat_map do |path|
      code_of(path).each_line.with_index(1).filter_map do |line, number|
        name = line.scan(/\bsys::(rd_kafka_\w+)\(/).flatten.find { |called| ours.include?(called) }
        enum = line.match?(/\bsys::rd_kafka_\w+\(.*\) as i32\b/) || line.match?(/\brd_kafka_(resp_err|conf_res)_t\b/)
        "#{path}:#{number}: #{name || "an error code as an enum"}: take or declare it in rd/ffi.rs" if name || enum
      end
    end)
  end

  # A callback may run before its client exists. librdkafka's reports therefore arrive as events with the client's
  # name. These three callbacks do not need the client.
  def test_librdkafka_calls_back_only_for_sockets_and_certificates
    found = RUST.flat_map { |path| code_of(path).scan(/\brd_kafka_(?:conf|topic_conf)_set_\w+_cb\b/) }.uniq
    assert_equal %w[rd_kafka_conf_set_closesocket_cb rd_kafka_conf_set_resolve_cb rd_kafka_conf_set_ssl_cert_verify_cb],
                 found.sort
  end

  # One owner frees what librdkafka gives away, in its only Drop. So nothing is freed twice.
  def test_an_event_is_destroyed_in_one_place
    destroying = RUST.select { |path| code_of(path).match?(/\brd_kafka_event_destroy\b/) }
    assert_equal %w[ext/core/src/rd/event.rs], destroying
    code = code_of(destroying.first)
    assert_equal 1, code.scan("rd_kafka_event_destroy").size
    assert_match(/^impl Drop for Event \{(?:(?!^\}).)*rd_kafka_event_destroy/m, code)
    refute_match(/\b(?:Clone|Copy)\b/, code)
  end

  def test_no_cycles_between_modules_of_the_core
    assert_none cycles(core_modules).map { |cycle| "ext/core/src: a cycle of use: #{cycle.join(" → ")}" }
  end

  def test_rd_uses_nothing_above_it
    upper = core_modules.fetch("rd", []) - RD_MAY_USE
    assert_none upper.map { |name| "ext/core/src/rd uses crate::#{name}: rd is the lowest module" }
  end

  private

  # {"producer" => ["config", "rd"]}: which top modules of the core use which others, tests within a file aside.
  def core_modules
    @core_modules ||= begin
      names = House.glob("ext/core/src/*").map { |path| File.basename(path, ".rs") } - ["lib"]
      names.to_h do |name|
        paths = House.glob("ext/core/src/#{name}.rs", "ext/core/src/#{name}/**/*.rs")
        [name, (RustSource.used_modules(paths.map { |path| code_of(path) }.join("\n")) & names) - [name]]
      end
    end
  end
end
