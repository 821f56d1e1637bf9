# frozen_string_literal: true

require_relative "delivery_timeout"
require_relative "kafka_options"
require_relative "setting_rows"
require_relative "statements"
require_relative "transactional_id"

module Pelton
  class CLI
    module Migrate
      # Translates a block of settings, `setup do |config| … end`.
      class Settings < Statements
        PAUSE = /\Apause[._](with_exponential_backoff|max_timeout|timeout)\z/
        OFFSETS = { "earliest" => ":beginning", "latest" => ":end" }.freeze
        # WaterDrop leaves librdkafka's default.
        PARTITIONER = "\"partitioner\" => \"consistent_random\""
        # Milliseconds that a stop keeps for producers: config.flush_timeout.
        FLUSH = 10_000
        # Without shutdown_timeout.
        STOPS = "70 # Karafka's default: 60 s for jobs, 10 s for producers"
        STOP = "seconds, with flush_timeout; the platform has to wait longer before it kills the process"
        private_constant :PAUSE, :OFFSETS, :FLUSH, :STOP

        # rows: SETTINGS or PRODUCER_SETTINGS.
        #: (CodeFile, Draft, Expressions, ?Hash[String, Row]) -> void
        def initialize(file, draft, expressions, rows = SETTINGS)
          super(file, draft, expressions)
          @rows = rows
          # Names that were set: {"group_id" => Node}
          @given = {}
          # {"timeout" => "1", "max_timeout" => "30", "with_exponential_backoff" => "false"}
          @pause = {}
          @from = nil
        end

        #: Hash[String, Node]
        attr_reader :given
        # The options of `kafka`, after `translate`.
        #: KafkaOptions
        attr_reader :known

        # variable: the name of the block's parameter.
        #: (Node?, String) -> void
        def translate(body, variable)
          @variable = variable
          @known = KafkaOptions.new(file, variable).read(body)
          expressions.with_locals([variable]) { walk(body) }
        end

        # The words for the `defaults` of the routes: ["backoff 1..30", "from :end"].
        #: () -> Array[String]
        def defaults
          first = @pause.fetch("timeout", "1")
          last = @pause["with_exponential_backoff"] == "false" ? first : @pause.fetch("max_timeout", "30")
          [*("backoff #{first}..#{last}" if @pause.any?), *("from #{@from}" if @from)]
        end

        private

        def word(call)
          path = path(call.receiver)
          return kafka(call, path) if %w[[]= merge! update].include?(call.name) && path == ["kafka"]
          return block(call, path) if path == [] && call.block && @rows.key?("#{call.name}.")
          return false unless path && call.name.end_with?("=")

          set([*path, call.name.delete_suffix("=")].join("."), call)
        end

        # ["pause"] of `config.pause`, [] of `config`; nil: something else.
        def path(node)
          return [] if node&.is?(:var_ref) && node.nodes.first.token == @variable

          call = Call.of(node) if node&.is?(:call, :method_add_arg)
          left = path(call.receiver) if call&.receiver && call.args.empty?
          left && [*left, call.name]
        end

        def set(name, call)
          value = call.args.last
          @given[name] = value
          special = special(name, call, value)
          return special unless special.nil?

          row = @rows[name] || @rows["#{name.split(".").first}."] or return false
          return tell(call, row) unless row.pelton&.include?("%")

          copy(call, row.kind, fill(row.pelton, value), value, note: row.note)
          true
        end

        # Settings that are more than a row; nil: it is none of them.
        def special(name, call, value)
          return wait(call, value) if name == "max_wait_timeout"
          return without_id(call, value) if name == "kafka"
          return unless @rows.equal?(SETTINGS)

          case name
          when "shutdown_timeout" then stop(call, value)
          when PAUSE then pause($1, call, value)
          when "initial_offset" then from(call, value)
          when "producer" then producer(call) if Call.of(value)&.block
          end
        end

        # Karafka's time is for the jobs. Pelton keeps flush_timeout of it for producers, but at most half.
        def stop(call, value)
          limit = Call.literal(value)
          line = if limit.is_a?(Numeric)
                   rest = [limit, FLUSH].min
                   "#{file.in_seconds(limit + rest)} # #{seconds(value)} s for jobs, " \
                     "#{file.in_seconds(rest)} s for producers"
                 else
                   "#{seconds(value)} + 10 # 10 s for producers"
                 end
          copy(call, :same, "#{@variable}.shutdown_timeout = #{line}", value, note: STOP)
          true
        end

        # config.producer = WaterDrop::Producer.new { … }: ProducerSettings or SeparateProducer translates the block.
        def producer(call)
          own = Call.of(call.args.last).block
          own = KafkaOptions.new(file, Call.parameters(own).first || "config").read(own)
          if known.other_cluster?(own)
            file.found(call.node, :differs, "app = Pelton::App.new, then app.producer", "it has a cluster of its own")
          else
            file.found(call.node, :same, "config.kafka and other settings", "Pelton.producer has the app's settings")
          end
          true
        end

        # nil: the row says all.
        def wait(call, value)
          row = @rows["max_wait_timeout"]
          note = DeliveryTimeout.problem(Call.literal(value), message_timeouts, target) if row
          return unless note

          draft.todo("#{location(call.node)}: max_wait_timeout is #{note}")
          copy(call, :differs, fill(row.pelton, value), value, note: note)
          true
        end

        # A Hash without `transactional.id`; nil: the row says all.
        def without_id(call, hash)
          id = id_of(Call.pairs(hash)) if hash.is?(:hash)
          return unless id

          leave_out(id)
          copy(call, :same, "#{target} = #{TransactionalId.without(text(hash), text(id))}", hash)
          true
        end

        # The value of `transactional.id`, if the draft leaves it out.
        def id_of(pairs) = pairs[TransactionalId::NAME]

        def leave_out(value)
          file.found(value, :differs, TransactionalId::POOL, TransactionalId::WHY)
          pair = "\"transactional.id\" => #{one_line(value)}"
          draft.todo("#{location(value)}: left out: #{pair}: #{TransactionalId::WHY}")
        end

        # Code that cannot be compared if an option may be hidden in it.
        def message_timeouts = known.values("message.timeout.ms") + known.others
        def target = "#{@variable}.kafka"

        def fill(text, value)
          text = text.sub(/\Aconfig\b/, @variable)
          text.include?("%<") ? format(text, seconds: seconds(value)) : text.sub("%s") { text(value) }
        end

        # config.encryption { … }
        def block(call, _path) = tell(call, @rows["#{call.name}."])

        # config.kafka[:x] = 1, config.kafka.merge!(x: 1)
        def kafka(call, _path)
          return true if left_out?(call)

          given = call.args.map { |node| text(node) }
          added = call.name == "[]=" ? "#{given[0]} => #{given[1]}" : "**#{given[0] || "{ #{pairs(call)} }"}"
          copy(call, :same, "#{target} = { **#{target}, #{added} }", *call.args, *call.keywords.values)
          true
        end

        # true: the call has nothing else than `transactional.id`.
        def left_out?(call)
          set = call.name == "[]="
          id = id_of(set ? { Call.literal(call.args.first).to_s => call.args.last } : call.keywords) or return false

          leave_out(id)
          call.keywords.delete(TransactionalId::NAME)
          set || call.keywords.empty?
        end

        def pairs(call) = call.keywords.map { |key, node| "#{key.inspect} => #{text(node)}" }.join(", ")

        def pause(name, call, value)
          why = problem(value)
          return unknown(call.node, "the draft does not have it, because #{why}") || true if why

          @pause[name] = name == "with_exponential_backoff" ? text(value) : seconds(value)
          file.found(call.node, :same, "defaults { #{defaults.first} }", "in the routes, in seconds")
          true
        end

        def from(call, value)
          @from = OFFSETS[Call.literal(value).to_s]
          return false unless @from

          file.found(call.node, :same, "defaults { from #{@from} }", "in the routes")
          true
        end
      end
    end
  end
end
