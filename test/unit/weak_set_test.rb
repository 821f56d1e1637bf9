# frozen_string_literal: true

require "test_helper"
require "open3"
require "pelton/runtime/weak_set"

module Pelton
  class WeakSetTest < Minitest::Test
    # Its members are collected, but not yet taken out, whenever they are listed.
    FORGETFUL = <<~RUBY
      require "pelton/runtime/weak_set"
      class Member; def initialize(number) = @number = number; end
      set = Pelton::WeakSet.new
      add = ->(count) { count.times { |number| set.add(Member.new(number)) }; nil }
      others = 0
      Thread.new do # whose stack, which may still name the last list, goes with it
        2_000.times do |round|
          add.(1)
          GC.start(full_mark: true, immediate_sweep: false, immediate_mark: true) if (round % 20).zero?
          set.to_a.each { |member| others += 1 unless Member === member }
        end
      end.join
      GC.start
      puts "\#{others} others, \#{set.to_a.size < 1_000}"
    RUBY

    def test_members_that_live_are_listed_once
      set = WeakSet.new.add(first = +"first").add(second = +"second").add(first)

      assert_equal [first, second], set.to_a.sort
    end

    # With true as each value, Ruby 3.1's WeakMap#keys listed collected objects, and the process crashed.
    def test_members_that_were_collected_are_never_listed
      output, status = Open3.capture2e(RbConfig.ruby, "-I#{File.join(Guard::ROOT, "lib")}", "-e", FORGETFUL)

      assert_equal ["0 others, true\n", true], [output[0, 500], status.success?]
    end
  end
end
