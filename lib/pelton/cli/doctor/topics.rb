# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../decoding/parallel/parallel"
require_relative "../../subscription"
require_relative "machine"

module Pelton
  class CLI
    class Doctor
      # Shows what each routed topic would use, and why. Checks whether it exists and how much memory its partitions may
      # take.
      class Topics
        #: (Config, Array[Routing::Group], Hash[String?, Hash[String, Integer]], Module) -> void
        def initialize(config, groups, clusters, native)
          @config = config
          @groups = groups
          # {"billing" => { "orders" => 4 }}: partition counts for groups whose cluster answered.
          @clusters = clusters
          @native = native
        end

        #: (Report) -> void
        def examine(report)
          @groups.each do |group|
            all = group.topics.each_value
            report.add("group #{group.name}", all.to_h { |topic| [label(topic), facts(group, topic)] })
            all.each do |topic|
              check_decoding(report, topic) unless topic.stage || own?(topic)
              check_methods(report, topic) unless topic.stage
              check_existence(report, group, topic)
            end
          end
          check_workers(report)
        end

        private

        def facts(group, topic)
          { "partitions" => (count(group, topic) if @clusters.key?(group.name)), "decoded" => decoded(topic),
            "payloads" => topic.deserializer && payloads(topic),
            "keys" => topic.key_deserializer && "#{by(topic.key_deserializer)}, where they are read",
            "headers" => topic.headers_deserializer && "#{by(topic.headers_deserializer)}, where they are read",
            "where" => topic.where && where(topic), "filters" => ("#{topic.filters.size} in Ruby" if filters?(topic)),
            "order" => topic.keyed? ? "per key, #{topic.concurrency} jobs of a partition at once" : "per partition",
            "memory" => "up to #{a_partition(group) >> 20} MB per partition, before decoding; all together as " \
                        "config.memory allows" }.compact
        end

        # Which thread decodes, and why.
        def decoded(topic)
          return "not at all: no `decode`" if topic.decode.nil? && topic.deserializer
          return "by the worker that reads a payload (JSON): no `decode`" unless topic.decode

          format = Formats.name(topic.decode)
          how = Formats::STRINGS.include?(format) ? "not at all" : "native threads, as it arrives"
          "#{how}: decode :#{format}"
        end

        # How a deserializer runs: the values of the setting `parallel`, in words.
        def payloads(topic)
          how = { inline: "by the worker that reads them", thread: "ahead, by a pool of threads",
                  ractor: "ahead, by a pool of Ractors", auto: "in the way that is measured to be fastest" }
          "#{topic.deserializer.class}, #{how.fetch(topic.parallel)}"
        end

        def by(deserializer) = deserializer.is_a?(KeyFormat) ? "as #{deserializer.name}" : deserializer.class

        def where(topic)
          own = ruby_patterns(topic.where)
          own.empty? ? "native threads" : "native threads; #{own.map(&:inspect).join(", ")} by Ruby"
        end

        def check_decoding(report, topic)
          about = "topic #{label(topic)}"
          check_parallel(report, about, topic) if topic.deserializer
          if topic.decode.nil? && topic.deserializer.nil?
            report.note(about, "no `decode`: with decode :json, native threads parse payloads as they arrive. If you " \
                               "parse them yourself, use decode :bytes")
          end
          if filters?(topic) && topic.where.nil?
            report.note(about, "`filter` runs in Ruby for each message. Native threads evaluate `where`, and a " \
                               "message that it drops never becomes a Ruby object: use it where you can")
          end
          check_literals(report, about, topic) if topic.where
          (topic.where ? ruby_patterns(topic.where) : []).each do |pattern|
            report.note(about, "where: #{pattern.inspect} uses syntax that only Ruby's Regexp supports, so Ruby " \
                               "evaluates it for each message that passes the other conditions")
          end
        end

        # Values of `where` that no value of an Avro field ever equals.
        def check_literals(report, about, topic)
          types = topic.field_types or return
          Routing::Condition.of_fields(topic.where).each do |path, check, value|
            next if check == :exists

            why = (check == :in ? value : [value]).filter_map { |literal| types.mismatch(path, literal) }.uniq
            report.warning(about, "where(#{path.map(&:inspect).join(", ")}): #{why.join("; ")}") unless why.empty?
          end
        end

        # Pelton's consumers, as that of Active Job's queues.
        def own?(topic) = topic.consumer_class.name.to_s.start_with?("Pelton::")

        # Once for a class, however many topics it has.
        def check_methods(report, topic)
          Routing::ConsumerMethods.unused(topic.consumer_class).each do |method, reason|
            report.warning("consumer", "#{topic.consumer_class}##{method} is never called: #{reason}, or make it " \
                                       "private")
          end
        end

        def check_parallel(report, about, topic)
          return if topic.parallel == :inline

          if topic.max_messages < @config.parallel_min
            report.warning(about, "its batches of #{topic.max_messages} messages are smaller than `parallel_min` " \
                                  "(#{@config.parallel_min}), so `parallel` has no effect")
          end
          if topic.parallel == :thread
            report.note(about,
                        "parallel: :thread helps deserializers that wait; those that compute run one at a time")
          elsif !Parallel::RactorWorker.available?
            report.note(about, "parallel: :auto uses no Ractors below Ruby 4.0")
          elsif @config.concurrency > 1
            report.note(about, "workers that compute take CPU time from the Ractors: compare with concurrency 1 " \
                               "(now #{@config.concurrency})")
          end
        end

        # The topic itself, its retry topics (routed as topics of their own) and its dead letters.
        def check_existence(report, group, topic)
          known = @clusters[group.name] or return
          found = partitions(group, topic)
          report.warning("topic #{label(topic)}", missing(topic, known)) if found.empty?
          (topic.stage ? [] : topic.dead_letter_topics - known.keys).each do |name|
            report.warning("topic #{name}", "does not exist: create it for the dead letters of #{label(topic)}")
          end
          found.each { |name, count| group.check_partition_count(name, count) if topic.partitions }
        rescue ConfigError => e
          report.error("topic #{topic.name}", e.message)
        end

        def missing(topic, known)
          return "matches no topic" if topic.pattern
          return "does not exist: create it for the retries of #{topic.stage.main}" if topic.stage

          near = ConfigError.near(topic.name, known.keys)
          "does not exist#{", did you mean #{near}?" if near}"
        end

        # {"orders" => 4}; for a pattern, all topics that match; nil if not known.
        def partitions(group, topic)
          known = @clusters[group.name] or return
          topic.pattern ? known.select { |name, _| topic.match?(name) } : known.slice(topic.name)
        end

        # Bytes that one partition may hold, in librdkafka's queue and in Ruby.
        def a_partition(group)
          defaults = Subscription::ClientFactory.defaults(@config)
          kilobytes = @config.kafka_with(defaults, group.kafka)["queued.max.messages.kbytes"]
          (Integer(kilobytes) * 1024) + [@config.prefetch_bytes, @config.max_batch_bytes].max
        end

        def check_workers(report)
          return if @groups.empty? || @groups.any? { |group| !@clusters.key?(group.name) }

          jobs = @groups.sum do |group|
            group.topics.each_value.sum { |topic| count(group, topic) * topic.concurrency }
          end
          return if jobs.zero? || jobs >= @config.concurrency # 0: no topic exists yet

          report.note("concurrency", "#{@config.concurrency} workers, but at most #{jobs} job#{"s" if jobs > 1} at " \
                                     "once: a partition runs one job at a time, or as many as its topic's " \
                                     "`concurrency`")
        end

        def count(group, topic) = partitions(group, topic).to_h.sum { |_, count| count }
        def label(topic) = topic.pattern ? topic.pattern.inspect : topic.name
        def filters?(topic) = !topic.filters.empty?

        # The patterns of a condition that Ruby has to evaluate.
        def ruby_patterns(tree)
          kind, *parts = tree
          return parts.flat_map { |part| ruby_patterns(part) } unless kind == :is

          parts[1] == :matches && !@native.knows_pattern?(parts[2]) ? [parts[2]] : []
        end
      end
    end
  end
end
