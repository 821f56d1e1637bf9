# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "open3"
require "tmpdir"

# Ruby loads all extensions into one scope of names, so names of the extension may meet those of another one.
class NativeExportsTest < Minitest::Test
  include NativeKit

  LIBRARY = File.expand_path("../../lib", __dir__)
  # Functions of the same name as ours (ext/core/wrapped.rs, ext/allocator/wrapped.rs) in another shared object.
  OTHERS = %w[malloc calloc realloc free strdup rd_kafka_op_handle rd_kafka_broker_any_usable].freeze
  WORK = <<~RUBY
    require "pelton"
    Pelton.config.kafka = { "bootstrap.servers" => "127.0.0.1:1" }
    Pelton.config.logger = nil
    Pelton.producer.produce_async(topic: "t", payload: "x")
    Pelton.producer.flush(timeout: 0.2)
    puts "sent"
    $stdout.flush
    exit!(0)
  RUBY

  def setup
    skip "not on Linux" unless RUBY_PLATFORM.include?("linux")
  end

  def test_the_extension_exports_only_what_ruby_looks_for
    library = $LOADED_FEATURES.grep(%r{/pelton/\d\.\d/pelton\.so\z}).first
    exported = IO.popen(["nm", "-D", "--defined-only", library], &:read).lines.map { |line| line.split.last }
    assert_includes exported, "Init_pelton"
    assert_empty exported - %w[Init_pelton ruby_abi_version]
  end

  # It crashed if a library with such names was loaded before.
  def test_functions_of_another_library_with_the_names_of_ours_are_not_called
    Dir.mktmpdir do |folder|
      source = OTHERS.map { |name| "void __wrap_#{name}(void) { abort(); }" }.join("\n")
      File.write("#{folder}/other.c", "#include <stdlib.h>\n#{source}\n")
      compiled, status = Open3.capture2e("cc", "-shared", "-fPIC", "-o", "#{folder}/other.so", "#{folder}/other.c")
      assert status.success?, compiled
      output, status = Open3.capture2e({ "LD_PRELOAD" => "#{folder}/other.so" },
                                       RbConfig.ruby, "-W0", "-I#{LIBRARY}", "-e", WORK)
      assert_equal [true, "sent\n"], [status.success?, output.lines.grep(/sent/).join], output
    end
  end
end
