# frozen_string_literal: true

require_relative "declared_topics"
require_relative "offset_copies"
require_relative "statements"
require_relative "topic_words"
require_relative "../../routing/pattern"

module Pelton
  class CLI
    module Migrate
      # Translates the block of `routes.draw`. Topics that have a `kafka` of their own get a group of their own, because
      # a group has one client.
      class Routes < Statements
        include OffsetCopies

        TOPICS = %w[topic pattern].freeze
        # Words that alone put no topic into config.group_id.
        GROUPED = [*TOPICS, "consumer_group", "subscription_group", "defaults"].freeze
        ONLY_FLAT = "a group has one client: its topics are in the group itself"
        NOTHING = {
          "multiplexing" => "a group has one client: start more processes",
          "parallel_segments" => "start more processes, or use concurrency with keys"
        }.freeze
        ELSEWHERE = { "recurring_tasks" => Migrate.recurring, "scheduled_messages" => Migrate.later }.freeze
        JOBS = "the queue's topic has another name, %s: let Karafka finish the jobs of the old one. " \
               "`wait:` and `retry_on` need config.schedule_topic; docs/guides/moving-karafka-groups.md, Jobs"
        private_constant :TOPICS, :GROUPED, :ONLY_FLAT, :NOTHING, :ELSEWHERE, :JOBS

        # declared: a Draft for Pelton.topics. group: the code of config.group_id. concurrency: that of
        # config.concurrency. from: where groups begin. The block returns the code of a transactional id, if the
        # consumers of this class call `transaction`. options: of the app's kafka.
        #: (CodeFile, Draft, Expressions, declared: Draft, group: String, concurrency: String, from: String,
        #:  options: KafkaOptions) { (String?) -> String? } -> void
        def initialize(file, draft, expressions, declared:, group:, concurrency:, from:, options:, &transactional)
          super(file, draft, expressions)
          @declared = DeclaredTopics.new(file, declared, expressions)
          @transactional = transactional
          @default_group = group
          @words = lambda do |lines, topic = nil|
            TopicWords.new(file, lines, expressions, concurrency: concurrency, from: from,
                                                     polls: LongJobs.polls(topic, options))
          end
          # The group whose block is open, as code; the code of the kafka that it has.
          @group = @group_kafka = nil
          # true: a topic is in config.group_id, or a line may hide one.
          @default = false
          # Topics that come after the open group: [[their owner's code, group, Call, kafka], …]
          @later = []
        end

        #: (Node?) -> void
        def translate(body)
          alone(@default_group, body) { walk(body) }
          after
        end

        # false: all topics are in groups with names of their own.
        #: () -> bool
        def default_group? = @default

        private

        def word(call)
          return false if call.receiver
          return tell(call, Migrate.none(NOTHING[call.name])) if NOTHING.key?(call.name)

          @default ||= @group.nil? && !GROUPED.include?(call.name)
          return tell(call, ELSEWHERE[call.name]) if ELSEWHERE.key?(call.name)

          case call.name
          when *TOPICS then topic(call)
          when "consumer_group" then group(call)
          when "subscription_group" then subscription_group(call)
          when "defaults" then defaults(call)
          when "active_job_topic" then jobs(call)
          when "active_job_pattern" then tell(call,
                                              Migrate.none("name the queues: active_jobs \"default\", \"mailers\""))
          else false
          end
        end

        def unknown(...)
          @default ||= @group.nil?
          super
        end

        # Only Rails applications have active_jobs.
        def jobs(call)
          node = call.args.first or return false
          head = "active_jobs #{name(node)}"
          why = problem(node)
          topic = Call.literal(node) ? "\"jobs.#{Call.literal(node)}\"" : "\"jobs.\#{#{text(node)}}\""
          note = format(JOBS, unquoted(topic))
          file.found(call.node, :differs, head, note)
          @declared.declare(call, topic)
          draft.todo("#{location(call.node)}: #{note}")
          draft.commented(!why.nil? || !expressions.rails?) { routed(head, call) }
          true
        end

        def subscription_group(call)
          file.found(call.node, :differs, nil, ONLY_FLAT)
          walk(call.block)
          true
        end

        def defaults(call)
          file.found(call.node, :same, "defaults do")
          @declared.default = call.word("config")
          draft.block("defaults do") { @words.call(draft).walk(call.block) }
          true
        end

        def group(call)
          return false if call.args.empty? || @group

          code = name(call.args.first)
          file.found(call.node, :same, "group #{code} do",
                     "before Karafka 2.4 the group in Kafka has the client id in front: check its name")
          alone(code, call.block) do |kafka|
            draft.block("group #{code}#{", kafka: #{kafka}" if kafka} do") do
              @group = code
              walk(call.block)
              @group = nil
            end
          end
          after
          true
        end

        # Yields the `kafka` that all topics of the body have; nil: they have none, or different ones.
        def alone(code, body)
          all = topics(body).map { |call| kafka(call) }.uniq
          before = [@group_kafka, @owner]
          @group_kafka = all.size == 1 && code != @default_group ? all.first : nil
          @owner = code
          yield @group_kafka
          @group_kafka, @owner = before
        end

        # Topics of a body, also within conditions and subscription groups, but not within groups.
        def topics(node)
          Call.statements(node).flat_map do |statement|
            call = Call.of(statement)
            next [call] if call && call.receiver.nil? && TOPICS.include?(call.name)
            next [] if call && call.name == "consumer_group"

            call&.block ? topics(call.block) : statement.nodes.flat_map { |child| topics(child) }
          end
        end

        # The code of a topic's `kafka`, without `inherit`; nil: it has none.
        def kafka(call)
          own = call.word("kafka") or return
          return text(own.args.first) if own.args.any?

          pairs = own.keywords.except("inherit").map do |key, node|
            key == "**" ? "**#{text(node)}" : "#{key.inspect} => #{text(node)}"
          end
          "{ #{pairs.join(", ")} }"
        end

        def topic(call)
          return false if call.args.empty?

          own = kafka(call)
          own && own != @group_kafka ? later(call, own) : write(call)
          true
        end

        def later(call, own)
          node = call.args.first
          label = node.is?(:regexp_literal) ? text(node).gsub(/\\\w/, "").scan(/\w+/).join("_") : name(node)
          group = [@owner, label].map { |code| unquoted(code) }.join("_")
          @later << [@owner, group.gsub(/[^\w.-]+/, "_"), call, own]
        end

        def unquoted(code) = code.delete_prefix('"').delete_suffix('"')

        # Groups of their own, for topics with another connection.
        def after
          list = @later
          @later = []
          list.each do |owner, group, call, kafka|
            own = call.word("kafka")
            node = own.node
            file.found(node, :differs, "group \"#{group}\", kafka: #{kafka} do",
                       "a group has one client, so this topic has a group of its own; its offsets do not carry over " \
                       "by themselves: pelton groups copy")
            copy_offsets(own, owner, group, topic_code(call))
            why = (own.args + own.keywords.values).filter_map { |argument| problem(argument) }.first
            draft.todo("#{location(node)}: check the options, because #{why}") if why
            @group = group
            draft.commented(!why.nil?) { draft.block("group \"#{group}\", kafka: #{kafka} do") { write(call) } }
            @group = nil
          end
        end

        def write(call)
          @declared.declare(call)
          consumer = call.word("consumer")
          return without_consumer(call) unless consumer&.args&.first

          @default ||= @group.nil?
          first = topic_code(call)
          to = consumer_code(consumer)
          klass = consumer.args.first
          why = problem(call.args.first) || (problem(klass) unless file.constant(klass)) || pattern_problem(first)
          report(call, consumer, first, to, why)
          draft.commented(!why.nil?) do
            head = first.start_with?("/") ? "topic(#{first}, to: #{to})" : "topic #{first}, to: #{to}"
            routed(head, call) { transactional(call, file.constant(klass)) }
          end
        end

        # Transactions need the order of the partition, so they do not go with keys.
        def transactional(call, consumer)
          id = @transactional.call(consumer) or return
          if call.word("virtual_partitions")
            draft.todo("#{location(call.node)}: #{consumer} calls `transaction`: it needs transactional #{id}, " \
                       "without `concurrency`")
          else
            draft.code("transactional #{id} # #{consumer} calls `transaction`")
          end
        end

        # /^logs/ or "orders"
        def topic_code(call)
          pattern = call.args.find { |argument| argument.is?(:regexp_literal) }
          pattern ? text(pattern) : name(call.args.first)
        end

        # What Pelton says of a pattern that it does not take.
        def pattern_problem(code)
          source = code[%r{\A/(.*)/\z}m, 1] or return
          Routing::Pattern.new(Regexp.new(source.gsub("\\/", "/"))) unless source.include?("\#{")
          nil
        rescue ConfigError, RegexpError => e
          "of the pattern: #{e.message[/unsupported syntax at "[^"]*"/] || e.message}"
        end

        def report(call, consumer, first, to, why)
          note = "the draft has it as a comment, because #{why}" if why
          file.found(call.node, why ? :differs : :same, "topic #{first}, to: #{to}", note)
          file.found(consumer.node, :same, "to: #{to}")
          own = call.word("kafka")
          file.found(own.node, :same, "group …, kafka: #{kafka(call)}", "of the whole group") if own
          draft.todo("#{location(call.node)}: check this route, because #{why}") if why
        end

        # "topic …" alone, or with a block. The block may write lines, too.
        def routed(head, call)
          lines = expressions.with_locals(Call.parameters(call.block)) do
            draft.inside do
              @words.call(draft, call).walk(call.block)
              yield if block_given?
            end
          end
          return draft.code(head) if lines.empty?

          draft.code("#{head} do")
          draft.lines.concat(lines)
          draft.code("end")
        end

        # The class as a String, so that the draft loads before it is moved.
        def consumer_code(call)
          node = call.args.first
          constant = file.constant(node)
          constant ? constant.delete_prefix("::").inspect : "#{text(node)}.to_s"
        end

        def without_consumer(call)
          return if @declared.config(call)

          note = "a topic without a consumer: declare it in Pelton.topics, if Pelton shall create it"
          tell(call, Migrate.differs("Pelton.topics { topic #{name(call.args.first)} }", note))
        end
      end
    end
  end
end
