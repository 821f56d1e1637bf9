# frozen_string_literal: true

require "etc"
require "rbconfig"
require_relative "../../decoding/parallel/parallel"
require_relative "../../runtime/memory_budget"
require_relative "../../version"
require_relative "../larger_heap"

module Pelton
  class CLI
    class Doctor
      # The machine and its Ruby: versions, cores, memory, limits, garbage collection.
      class Machine
        # In earlier versions FFI's structs have no write barrier, so Ruby may collect objects that a struct still uses.
        # Once in millions of calls, code then sees a String where a Hash was.
        SAFE_FFI = "1.17.0"
        # File descriptors of one client, measured with one broker.
        A_CLIENT = 10
        # A batch counts as 1 MB of allocated memory, so with a smaller limit Ruby collects garbage every few batches.
        SMALL_MALLOC_LIMIT = 8 << 20
        MALLOC_LIMITS = %w[RUBY_GC_MALLOC_LIMIT RUBY_GC_MALLOC_LIMIT_MAX
                           RUBY_GC_OLDMALLOC_LIMIT RUBY_GC_OLDMALLOC_LIMIT_MAX].freeze

        # processes: how many share the machine, as with `pelton server --processes`.
        #: (Config, Module, ?processes: Integer, ?environment: Hash[String, String], ?descriptors: [Integer, Integer])
        #:   -> void
        def initialize(config, native, processes: 1, environment: ENV, descriptors: Process.getrlimit(:NOFILE))
          @config = config
          @native = native
          @processes = processes
          @environment = environment
          @descriptors = descriptors
          @cores = Container.cores
          @memory = Container.memory
        end

        #: (Report) -> void
        def examine(report)
          report.add("versions", versions)
          report.add("machine", machine)
          report.add("decoding", decoding)
          check_librdkafka(report)
          check_ruby(report)
          check_collector(report)
          check_sizes(report)
        end

        private

        def versions
          abi = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
          { "pelton" => VERSION, "librdkafka" => @native.librdkafka_version,
            "features" => @native.librdkafka_features.join(", "),
            "native library" => "lib/pelton/#{abi}/pelton.#{RbConfig::CONFIG["DLEXT"]} (ABI #{abi})",
            "ruby" => RUBY_DESCRIPTION, "yjit" => yjit, "ffi" => ffi&.to_s || "not loaded" }
        end

        def machine
          system = Etc.uname.values_at(:sysname, :release, :machine).join(" ")
          soft, hard = @descriptors
          { "system" => system, "cores" => @cores, "memory" => @memory && megabytes(@memory),
            "config.memory" => megabytes(budget.total),
            "descriptors" => "#{count(soft)}, at most #{count(hard)}",
            "garbage collection" => @environment.select { |name, _| name.start_with?("RUBY_GC_") }
                                                .map { |pair| pair.join("=") } }
        end

        def decoding
          { "native threads" => threads,
            "memory" => megabytes(@config.decoding_memory || budget.decoded),
            "engines" => ["inline", "native threads", "threads", *("Ractors" if ractors?)],
            "workers" => @config.concurrency }
        end

        def ractors? = Parallel::RactorWorker.available?
        def threads = @config.decoding_threads || [@cores - 1, 1].max

        def check_librdkafka(report)
          return unless @native.librdkafka_shared?

          report.note("librdkafka", "is the system's (PELTON_LIBRDKAFKA=system). There, receive.message.max.bytes " \
                                    "does not limit what a batch of gzip, lz4 or snappy becomes: 1 MB may " \
                                    "become 1 GB")
        end

        def check_ruby(report)
          if ffi && ffi < Gem::Version.new(SAFE_FFI)
            report.warning("ffi", "#{ffi} is loaded: below #{SAFE_FFI}, garbage collection may free objects that its " \
                                  "structs still use. Upgrade the gem ffi to #{SAFE_FFI} or later")
          end
          return unless yjit == false

          words = "--yjit or RUBY_YJIT_ENABLE=1"
          # Newer versions take memory for what they have compiled.
          words = "--yjit --yjit-exec-mem-size=16 (without a size, it takes 256 MB)" if RUBY_VERSION < "3.2"
          report.note("yjit", "is available but off: start Ruby with #{words}")
        end

        def check_collector(report)
          report.warning("GC.stress", "is on, so every allocation collects garbage: use it in tests only") if GC.stress
          report.warning("GC.disable", "is in effect, so memory grows without limit: call GC.enable") if collector_off?
          report.note("heap", heap)
          if GC.respond_to?(:auto_compact) && GC.auto_compact
            report.warning("GC.auto_compact", "is on, so major collections move all objects: use it in tests only")
          end
          MALLOC_LIMITS.each do |name|
            bytes = @environment[name].to_s[/\A\d+/]&.to_i
            next unless bytes&.between?(1, SMALL_MALLOC_LIMIT - 1)

            report.warning(name, "#{bytes} bytes is low: a batch counts as 1 MB, so Ruby collects garbage every few " \
                                 "batches. Use Ruby's default, or 16 MB")
          end
        end

        def heap
          given = @environment.select { |name, _| name.start_with?("RUBY_GC_HEAP_") }
          return "pelton server leaves it as #{given.map { |pair| pair.join("=") }.join(" ")}" if given.any?

          "pelton server starts with a larger one, for half as much garbage collection where every payload is read " \
            "(#{LargerHeap::OFF}: with Ruby's own). Where Pelton runs in another process, set #{LargerHeap}"
        end

        def collector_off? = GC.enable.tap { |was_off| GC.disable if was_off }

        def check_sizes(report)
          if @config.concurrency > @cores
            report.note("concurrency", "#{@config.concurrency} workers, #{cores_text}: this helps jobs that wait, " \
                                       "but a Ruby process runs only one computing job at a time")
          end
          if @processes > @cores
            report.warning("processes", "#{@processes} processes, #{cores_text}: more processes than cores help only " \
                                        "if their jobs mostly wait")
          end
          if threads > @cores
            report.warning("decoding_threads", "#{threads} threads, #{cores_text}: more threads than cores do not help")
          end
          if @config.parallel_workers.to_i > @cores
            report.warning("parallel_workers", "#{@config.parallel_workers} workers, #{cores_text}: more workers " \
                                               "than cores do not help")
          end
          if @cores == 1
            report.note("cores", "there is only one, so decoding on native threads competes with Ruby's threads. " \
                                 "`where` still helps")
          end
          check_memory(report)
          soft = @descriptors.first
          return if soft >= 1024

          report.warning("descriptors", "the limit is #{soft}, and a client needs #{A_CLIENT}, plus three for each " \
                                        "broker after the first: raise it to at least 1024 (ulimit -n)")
        end

        def check_memory(report)
          decoded = @config.decoding_memory
          all = decoded ? budget.total - budget.decoded + decoded : budget.total
          return if @memory.nil? || all * @processes <= @memory / 2

          times = " for each of #{@processes} processes" if @processes > 1
          report.warning("memory", "#{megabytes(all)}#{times} is more than half of the #{megabytes(@memory)} that " \
                                   "this machine or container has: lower config.memory" \
                                   "#{" or config.decoding_memory" if decoded}")
        end

        def budget = MemoryBudget.new(@config)

        # nil if this Ruby has no YJIT.
        def yjit = defined?(RubyVM::YJIT) ? RubyVM::YJIT.enabled? : nil

        def ffi
          version = Gem.loaded_specs["ffi"]&.version || (Gem::Version.new(FFI::VERSION) if defined?(FFI::VERSION))
          version || nil
        end

        def cores_text = "#{@cores} core#{"s" if @cores > 1}"
        def count(limit) = limit == Process::RLIM_INFINITY ? "no limit" : limit
        def megabytes(bytes) = "#{(bytes / 1_048_576.0).round} MB"
      end
    end
  end
end
