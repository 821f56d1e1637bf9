# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# The extension's own allocator (ext/allocator).
class NativeAllocatorTest < Minitest::Test
  include NativeKit

  # Functions of libc whose result the caller frees, or that free what they are given.
  CROSSING = %w[malloc calloc realloc free posix_memalign strdup strndup aligned_alloc memalign valloc reallocarray
                malloc_usable_size getline getdelim asprintf vasprintf __asprintf_chk __vasprintf_chk scandir
                open_memstream get_current_dir_name tempnam wcsdup].freeze
  DOCUMENT = JSON.generate((1..20_000).map { |n| { "id" => n, "name" => "name #{n}" } })

  def setup
    skip "built with PELTON_ALLOCATOR=system, or not on Linux" unless Native.allocator_memory
  end

  def test_no_memory_crosses_the_border_to_libc
    library = $LOADED_FEATURES.grep(%r{/pelton/\d\.\d/pelton\.so\z}).first
    imported = IO.popen(["nm", "-D", "--undefined-only", library], &:read).lines.map { _1.split.last[/\A[^@]+/] }
    assert_includes imported, "getaddrinfo", "nm shows what is imported"
    assert_empty imported & CROSSING
  end

  def test_figures_follow_what_is_held
    writer = lonely_producer
    before = Native.allocator_memory[:allocated]
    1_000.times { writer.produce("t", "x" * 10_000, nil, -1, nil, nil, 1) }
    memory = Native.allocator_memory
    assert_operator memory[:allocated] - before, :>, 10_000_000
    assert_operator memory[:resident], :>=, memory[:allocated]
    writer.purge
    eventually { Native.allocator_memory[:allocated] - before < 1_000_000 }
    eventually { Native.allocator_memory[:resident] < memory[:resident] - 5_000_000 }
  end

  # Locks of an allocator that another thread holds at the fork must be free in the child, which has no such thread.
  def test_child_allocates_though_24_threads_did_at_the_fork
    stop = false
    threads = Array.new(24) { Thread.new { Native.parse_json(DOCUMENT) until stop } }
    8.times do |round|
      said = in_child do
        10.times { Native.parse_json(DOCUMENT) }
        Native::Producer.new("child", NOWHERE, {}).produce("t", "x", nil, -1, nil, nil, 1).class
      end
      assert_equal "Pelton::Delivery\n", said, "round #{round}"
    end
  ensure
    stop = true
    threads&.each(&:join)
  end
end
