# frozen_string_literal: true

require_relative "statements"
require_relative "topic_words"

module Pelton
  class CLI
    module Migrate
      # Translates the block of `routes.draw`. Topics that have a `kafka` of their own get a group of their own, because
      # a group has one client.
      class Routes < Statements
        TOPICS = %w[topic pattern].freeze
        ONLY_FLAT = "a group has one client: its topics are in the group itself"
        NOTHING = {
          "multiplexing" => "a group has one client: start more processes",
          "parallel_segments" => "start more processes, or use concurrency with keys"
        }.freeze
        ELSEWHERE = { "recurring_tasks" => Migrate.recurring, "scheduled_messages" => Migrate.later }.freeze
        JOBS = "the queue's topic has another name, jobs.default for default: let Karafka finish the old one's jobs"
        private_constant :TOPICS, :ONLY_FLAT, :NOTHING, :ELSEWHERE, :JOBS

        # declared: a Draft for Pelton.topics. group: the code of config.group_id. concurrency: that of
        # config.concurrency. from: where groups begin.
        #: (CodeFile, Draft, Expressions, declared: Draft, group: String, concurrency: String, from: String)
        #:   -> void
        def initialize(file, draft, expressions, declared:, group:, concurrency:, from:)
          super(file, draft, expressions)
          @declared = declared
          @default_group = group
          @words = ->(lines) { TopicWords.new(file, lines, expressions, concurrency: concurrency, from: from) }
          # The group whose block is open, as code; the code of the kafka that it has.
          @group = @group_kafka = nil
          # Topics that come after the open group: [[their owner's code, group, Call, kafka], …]
          @later = []
          # The `config` of the `defaults`, a Call.
          @default_config = nil
        end

        #: (Node?) -> void
        def translate(body)
          alone(@default_group, body) { walk(body) }
          after
        end

        private

        def word(call)
          return false if call.receiver
          return tell(call, Migrate.none(NOTHING[call.name])) if NOTHING.key?(call.name)
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

        # Only Rails applications have active_jobs.
        def jobs(call)
          node = call.args.first or return false
          head = "active_jobs #{name(node)}"
          why = problem(node)
          file.found(call.node, :differs, head, JOBS)
          draft.todo("#{place(call.node)}: #{JOBS}")
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
          @default_config = option(call, "config")
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

            call&.block ? topics(call.block) : statement.nodes.flat_map { |one| topics(one) }
          end
        end

        def option(call, word)
          Call.statements(call.block).filter_map { |node| Call.of(node) }
              .find { |one| one.name == word && one.receiver.nil? }
        end

        # The code of a topic's `kafka`, without `inherit`; nil: it has none.
        def kafka(call)
          own = option(call, "kafka") or return
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
          first = [@owner, name(call.args.last)].map { |code| unquoted(code) }.join("_")
          @later << [@owner, first.gsub(/[^\w.-]+/, "_"), call, own]
        end

        def unquoted(code) = code.delete_prefix('"').delete_suffix('"')

        # Groups of their own, for topics with another connection.
        def after
          list = @later
          @later = []
          list.each do |owner, group, call, kafka|
            own = option(call, "kafka")
            node = own.node
            file.found(node, :differs, "group \"#{group}\", kafka: #{kafka} do",
                       "a group has one client, so this topic has a group of its own; its offsets do not carry over " \
                       "by themselves: pelton groups copy")
            copy_offsets(node, owner, group, name(call.args.last))
            why = (own.args + own.keywords.values).filter_map { |one| problem(one) }.first
            draft.todo("#{place(node)}: check the options, because #{why}") if why
            draft.commented(!why.nil?) { draft.block("group \"#{group}\", kafka: #{kafka} do") { write(call) } }
          end
        end

        def copy_offsets(node, owner, group, topic)
          draft.todo("#{place(node)}: a new group. Once Karafka has stopped, copy the offsets to it: pelton groups " \
                     "copy #{unquoted(owner)} #{group} --topic #{unquoted(topic)} --apply")
        end

        def write(call)
          declare(call)
          consumer = option(call, "consumer")
          return without_consumer(call) unless consumer&.args&.first

          first = topic_code(call)
          to = consumer_code(consumer)
          why = problem(call.args.first) || (problem(consumer.args.first) unless file.constant(consumer.args.first))
          report(call, consumer, first, to, why)
          draft.commented(!why.nil?) do
            routed("topic#{first.start_with?("/") ? "(#{first}, to: #{to})" : " #{first}, to: #{to}"}", call)
          end
        end

        # /^logs/ or "orders"
        def topic_code(call)
          pattern = call.args.find { |one| one.is?(:regexp_literal) }
          pattern ? text(pattern) : name(call.args.first)
        end

        def report(call, consumer, first, to, why)
          note = "the draft has it as a comment, because #{why}" if why
          file.found(call.node, why ? :differs : :same, "topic #{first}, to: #{to}", note)
          file.found(consumer.node, :same, "to: #{to}")
          own = option(call, "kafka")
          file.found(own.node, :same, "group …, kafka: #{kafka(call)}", "of the whole group") if own
          draft.todo("#{place(call.node)}: check this route, because #{why}") if why
        end

        # "topic …" alone, or with a block.
        def routed(head, call)
          lines = expressions.with_locals(Call.parameters(call.block)) do
            draft.inside { @words.call(draft).walk(call.block) }
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
          return if config(call)

          note = "a topic without a consumer: declare it in Pelton.topics, if Pelton shall create it"
          tell(call, Migrate.differs("Pelton.topics { topic #{name(call.args.first)} }", note))
        end

        # config(partitions: 4, "retention.ms": 1) → Pelton.topics { topic "orders", partitions: 4, … }
        def declare(call)
          own = config(call) or return
          return file.found(own.node, :same, nil, "it is off: nothing to do") if off?(own)

          words = own.keywords.except("active")
          declared(call, own, "topic #{name(call.args.first)}#{options(words)}",
                   merged(words["**"]) || hidden([call.args.first, *words.values]))
        end

        # ", partitions: 4, config: { "retention.ms" => 1 }"
        def options(words)
          partitions, replication = words.values_at("partitions", "replication_factor")
          others = words.except("partitions", "replication_factor")
          config = others.map { |key, node| key == "**" ? "**#{text(node)}" : "#{key.inspect} => #{text(node)}" }
          [(", partitions: #{text(partitions)}" if partitions),
           (", replication: #{text(replication)}" if replication),
           (", config: { #{config.join(", ")} }" if config.any?)].join
        end

        def merged(node) = ("#{one_line(node)} may also have partitions and replication_factor" if node)
        def hidden(nodes) = expressions.without_locals { nodes.filter_map { |node| problem(node) }.first }

        # What the call leaves to Karafka, which then takes 1; nil: nothing.
        def unnamed(call)
          names = { "partitions" => "partitions", "replication_factor" => "replication" }.except(*call.keywords.keys)
          "#{names.values.join(" and ")} of a new topic: the broker's default, where Karafka takes 1" if names.any?
        end

        # Its own, otherwise that of the `defaults`. Karafka evaluates the topic's block before the defaults, and its
        # first `config` counts as a whole: nothing is merged. A pattern is not declared.
        def config(call)
          option(call, "config") || (@default_config unless call.args.any? { |one| one.is?(:regexp_literal) })
        end

        def off?(call) = [call.args.first, call.keywords["active"]].any? { |node| Call.literal(node) == false }

        # why: the line cannot be taken as it is, because of this; nil: it can.
        def declared(call, own, line, why)
          note = why || unnamed(own)
          file.found(own.node, note ? :differs : :same, "Pelton.topics { #{line} }", note)
          file.found(call.node, :same, "Pelton.topics { #{line} }") unless option(call, "consumer")
          return if @declared.lines.include?(line)

          @declared.todo("#{place(call.node)}: check this line, because #{why}") if why
          @declared.commented(!why.nil?) { @declared.code(line) }
        end
      end
    end
  end
end
