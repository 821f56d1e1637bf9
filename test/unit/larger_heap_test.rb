# frozen_string_literal: true

require "test_helper"
require "open3"
require "tmpdir"
require "pelton/cli/larger_heap"

module Pelton
  class LargerHeapTest < Minitest::Test
    ARGUMENTS = ["server", "-r", "./app.rb"].freeze
    COMMAND = ["/usr/bin/ruby", "-Ilib", "/app/bin/pelton", *ARGUMENTS].freeze

    def test_a_server_is_executed_once_more_with_the_variables
      started = start_with(ARGUMENTS, {})

      assert_equal COMMAND, started.drop(1)
      assert_equal LargerHeap::VARIABLES.keys + %w[MALLOC_ARENA_MAX PELTON_LARGER_HEAP], started.first.keys
    end

    def test_malloc_has_an_arena_for_each_core_and_two_at_least
      arenas = Etc.stub(:nprocessors, 16) { start_with(ARGUMENTS, {}) }.first.fetch("MALLOC_ARENA_MAX")
      few = Etc.stub(:nprocessors, 1) { start_with(ARGUMENTS, {}) }.first.fetch("MALLOC_ARENA_MAX")

      assert_equal %w[16 2], [arenas, few]
    end

    def test_the_user_s_number_of_arenas_stays_also_for_commands_of_the_app
      started = start_with(ARGUMENTS, { "MALLOC_ARENA_MAX" => "1" }).first
      refute_includes started.keys, "MALLOC_ARENA_MAX"

      env = { "MALLOC_ARENA_MAX" => "1", **started }
      assert_nil start_with(ARGUMENTS, env)
      assert_equal({ "MALLOC_ARENA_MAX" => "1" }, env)
    end

    def test_the_second_start_stays_and_hides_the_variables_from_commands_of_the_app
      env = { **start_with(ARGUMENTS, {}).first, "HOME" => "/" }

      assert_nil start_with(ARGUMENTS, env)
      assert_equal({ "HOME" => "/" }, env)
    end

    def test_values_of_the_user_and_no_tune_and_other_commands_keep_the_heap
      assert_nil start_with(ARGUMENTS, { "RUBY_GC_HEAP_GROWTH_FACTOR" => "1.4" })
      assert_nil start_with([*ARGUMENTS, "--no-tune"], {})
      assert_nil start_with(["server", "--help"], {})
      assert_nil start_with(["doctor"], {})
      assert_nil start_with([], {})
      refute_nil start_with(ARGUMENTS, { "RUBY_GC_MALLOC_LIMIT" => "64000000" })
    end

    def test_a_program_that_loads_the_command_is_not_started_again
      assert_equal COMMAND, LargerHeap.command_line(ARGUMENTS, "#{COMMAND.join("\0")}\0")
      assert_equal ["ruby", "bundle", "exec", "pelton", "server", ""],
                   LargerHeap.command_line(["server", ""], "ruby\0bundle\0exec\0pelton\0server\0\0")
      assert_nil LargerHeap.command_line(ARGUMENTS, "ruby\0tasks.rb\0")
      assert_nil LargerHeap.command_line(["server"], "ruby\0tasks.rb\0server\0")
    end

    def test_a_command_line_that_bundle_exec_overwrote_is_made_again_from_the_name_of_the_program
      program = File.join(Guard::ROOT, "exe/pelton")
      text = "/bundle/bin/pelton server -r ./app.rb\0"
      assert_equal [RbConfig.ruby, program, *ARGUMENTS], LargerHeap.command_line(ARGUMENTS, text, program: program)
      assert_nil LargerHeap.command_line(ARGUMENTS, text, program: "/gone/pelton")
    end

    def test_a_failed_execution_leaves_the_process_as_it_is
      refused = ->(*) { raise Errno::E2BIG }

      assert_nil LargerHeap.apply(ARGUMENTS, env: {}, command: COMMAND, exec: refused)
    end

    def test_a_real_process_has_the_values_and_the_same_options_of_ruby
      assert_equal ["true", "[]", "true"], real_process("server", "ä b")
      assert_equal ["false", "[]", "true"], real_process("server", "--no-tune")
    end

    def test_bundle_exec_has_the_larger_heap
      skip "bundler is not installed" unless system("bundle", "version", out: File::NULL, err: File::NULL)
      Dir.mktmpdir do |folder|
        File.write("#{folder}/Gemfile", "")
        File.write("#{folder}/pelton", "#!/usr/bin/env ruby\n#{program("p ENV.key?(\"BUNDLE_GEMFILE\")")}")
        File.chmod(0o755, "#{folder}/pelton")
        env = { **LargerHeap::VARIABLES.transform_values { nil }, "PATH" => "#{folder}:#{ENV.fetch("PATH")}" }
        output, = Open3.capture2e(env, "bundle", "exec", "pelton", "server", chdir: folder)
        assert_equal %w[true true], output.lines(chomp: true)
      end
    end

    private

    # A program that says whether it has the larger heap.
    def program(more)
      <<~RUBY
        require #{File.join(Guard::ROOT, "lib/pelton/cli/larger_heap").dump}
        Pelton::LargerHeap.apply(ARGV)
        p Pelton::LargerHeap.active?
        #{more}
      RUBY
    end

    # What would be executed: [environment, *command]; nil: nothing.
    def start_with(arguments, env)
      started = nil
      LargerHeap.apply(arguments, env: env, command: COMMAND, exec: ->(*given) { started = given })
      started
    end

    # Has it the larger heap? Which variables does a command of it get? Is the option -W:deprecated still there?
    def real_process(*arguments)
      Dir.mktmpdir do |folder|
        File.write("#{folder}/pelton", program("p ENV.keys.grep(/RUBY_GC_HEAP|PELTON|MALLOC/), Warning[:deprecated]"))
        env = { **LargerHeap::VARIABLES.transform_values { nil }, LargerHeap::ARENAS => nil }
        output, status = Open3.capture2e(env, RbConfig.ruby, "-W:deprecated", "#{folder}/pelton", *arguments)
        assert_predicate status, :success?, output
        output.lines(chomp: true)
      end
    end
  end
end
