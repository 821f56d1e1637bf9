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
      assert_equal LargerHeap::VARIABLES.keys + ["PELTON_LARGER_HEAP"], started.first.keys
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

    def test_a_failed_execution_leaves_the_process_as_it_is
      refused = ->(*) { raise Errno::E2BIG }

      assert_nil LargerHeap.apply(ARGUMENTS, env: {}, command: COMMAND, exec: refused)
    end

    def test_a_real_process_has_the_values_and_the_same_options_of_ruby
      assert_equal ["true", "[]", "true"], real_process("server", "ä b")
      assert_equal ["false", "[]", "true"], real_process("server", "--no-tune")
    end

    private

    # What would be executed: [environment, *command]; nil: nothing.
    def start_with(arguments, env)
      started = nil
      LargerHeap.apply(arguments, env: env, command: COMMAND, exec: ->(*given) { started = given })
      started
    end

    # Has it the larger heap? Which variables does a command of it get? Is the option -W:deprecated still there?
    def real_process(*arguments)
      Dir.mktmpdir do |folder|
        File.write("#{folder}/pelton", <<~RUBY)
          require "pelton/cli/larger_heap"
          Pelton::LargerHeap.apply(ARGV)
          puts Pelton::LargerHeap.active?
          p ENV.keys.grep(/RUBY_GC_HEAP|PELTON/)
          puts Warning[:deprecated]
        RUBY
        env = LargerHeap::VARIABLES.transform_values { nil }
        output, status = Open3.capture2e(env, RbConfig.ruby, "-W:deprecated", "-I#{File.join(Guard::ROOT, "lib")}",
                                         "#{folder}/pelton", *arguments)
        assert_predicate status, :success?, output
        output.lines(chomp: true)
      end
    end
  end
end
