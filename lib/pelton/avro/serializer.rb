# frozen_string_literal: true

require_relative "../errors"
require_relative "../registry"

module Pelton
  module Avro
    # Writes Avro payloads.
    #   orders = Pelton::Avro::Serializer.new(registry: registry, schema: File.read("order.avsc"))
    #   producer.produce_sync(topic: "orders", payload: orders.serialize({ "id" => 7 }, topic: "orders"))
    # As middleware, it serializes the payloads of `topics` that are not a String or nil already. With `subject:
    # :topic_key`, it serializes keys instead.
    #   producer.middleware.append(Pelton::Avro::Serializer.new(registry: registry, topics: ["orders"]))
    #   producer.produce_sync(topic: "orders", payload: { "id" => 7 })
    # Records are Hashes with String or Symbol keys. A missing field gets its default, or null if the schema allows it.
    # An unknown key raises EncodeError. Timestamps are a Time, dates a Date, decimals a BigDecimal or Integer.
    # Thread-safe. Waits for the registry if it does not know the schema's number yet.
    class Serializer
      SUBJECTS = {
        topic: ->(topic, _schema) { "#{topic}-value" },
        topic_key: ->(topic, _schema) { "#{topic}-key" },
        record: ->(_topic, schema) { schema.name },
        topic_record: ->(topic, schema) { "#{topic}-#{schema.name}" }
      }.freeze
      # The largest number of four bytes.
      MOST_NUMBER = (2**32) - 1
      private_constant :SUBJECTS, :MOST_NUMBER

      # Where its schemas are; nil: nowhere.
      #: () -> Registry?
      attr_reader :registry
      # The topics that it is for as middleware; nil: all.
      #: () -> Array[String]?
      attr_reader :topics

      # registry: a Registry or its URL. schema: the schema to write, as JSON or Registry::Schema; nil: the subject's
      # latest.
      #   Pelton::Avro::Serializer.new(registry: registry, schema: File.read("order.avsc"), subject: "orders-value")
      # subject: a name, or :topic ("orders-value"), :topic_key ("orders-key", for keys), :record ("shop.Order") or
      # :topic_record ("orders-shop.Order"). register: true registers the schema if it is missing; otherwise that is a
      # RegistryError. framing: :confluent (default with a registry), :headers (the number in a header, see `headers`),
      # :single_object or :none. topics: topics for the middleware; nil: all. Raises ConfigError.
      #: (?registry: untyped, ?schema: untyped, ?subject: (String | Symbol), ?register: bool, ?framing: Symbol?,
      #:  ?topics: Array[String]?) -> void
      def initialize(registry: nil, schema: nil, subject: :topic, register: false, framing: nil, topics: nil)
        @registry = registry.is_a?(String) ? Registry.new(registry) : registry
        @schema = Registry::Schema.of(schema) if schema
        @subject = subject
        @register = register
        @framing = framing || (@registry ? :confluent : :none)
        @topics = topics&.dup&.freeze
        check
        freeze
      end

      # The payload of a value, as a binary String.
      #   orders.serialize({ "id" => 7 }, topic: "orders")
      # Raises EncodeError, which names the field that does not fit. Values that nest deeper than 100, or take more than
      # 1 GB, raise it, too. Also raises RegistryError. Callable from every thread.
      #: (untyped, ?topic: String?) -> String
      def serialize(value, topic: nil)
        document(schema(topic), value, topic)
      end

      # Headers that a message with such a payload needs: with `framing: :headers` {"__value_schema_id" => "\0\0\0\0\a"}
      # (for keys "__key_schema_id"), otherwise none. Middleware adds them by itself.
      #   headers = orders.headers(topic: "orders")
      #   producer.produce_sync(topic: "orders", payload: orders.serialize(order), headers: headers)
      # Raises RegistryError.
      #: (?topic: String?) -> Hash[String, String]
      def headers(topic: nil) = @framing == :headers ? header(schema(topic), topic) : {}

      # As middleware: the message with its payload (or key) serialized. Raises what `serialize` raises.
      #   producer.middleware.append(orders)
      #: (Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
      def call(message)
        part = key? ? :key : :payload
        topic, value = message.values_at(:topic, part)
        return message if value.nil? || value.is_a?(String) || (@topics && !@topics.include?(topic))

        # Payload and header get the same schema, although the subject's latest one may change meanwhile.
        schema = schema(topic)
        made = message.merge(part => document(schema, value, topic))
        @framing == :headers ? made.merge(headers: message[:headers].to_h.merge(header(schema, topic))) : made
      end

      def inspect = "#<#{self.class} #{@framing} #{@schema ? @schema.name : @subject}>"

      private

      def registered? = %i[confluent headers].include?(@framing)

      def key? = @subject == :topic_key

      def header(schema, topic) = { (key? ? KEY_HEADER : HEADER) => frame(schema, topic) }

      def schema(topic) = @schema || @registry.latest(subject(topic, nil))

      def document(schema, value, topic)
        head(schema, topic) << schema.encode(value, framed: registered?)
      end

      def frame(schema, topic)
        id = number(schema, topic)
        return [0, id].pack("CN") if id.is_a?(Integer) && id.between?(0, MOST_NUMBER)

        raise RegistryError.new("subject #{subject(topic, schema)}", "#{id.inspect} is not a schema number")
      end

      def head(schema, topic)
        case @framing
        when :confluent then frame(schema, topic)
        when :single_object then [0xc3, 0x01, schema.fingerprint].pack("CCQ<")
        else "".b
        end
      end

      # The registry's number of the schema.
      def number(schema, topic)
        return schema.id if schema.id && @schema.nil?

        subject = subject(topic, schema)
        @register ? @registry.register(subject, schema) : @registry.id_of(subject, schema)
      end

      def subject(topic, schema)
        return @subject if @subject.is_a?(String)
        if topic.nil? && topics?
          raise ConfigError.new(:topic, nil, "is missing: the subject contains the topic: call serialize(…, topic: …)")
        end

        SUBJECTS.fetch(@subject).call(topic, schema)
      end

      def topics? = @subject != :record

      def check
        allowed = [*FRAMINGS, :headers]
        refuse(:framing, @framing, "expected one of #{allowed.join(", ")}") unless allowed.include?(@framing)
        refuse(:topics, @topics, "expected an Array of Strings") unless topics_list?
        refuse(:subject, @subject, "expected a name, or one of #{SUBJECTS.keys.join(", ")}") unless subject?
        # Does not show the value, because URLs may have passwords.
        refuse(:registry, @registry.class, "expected a Pelton::Registry or its URL") unless registry?
        refuse(:registry, nil, "is missing") if registered? && !@registry
        refuse(:schema, nil, "is missing, and there is no registry that could provide it") unless @schema || @registry
        return if @schema || (@subject != :record && @subject != :topic_record)

        refuse(:schema, nil, "is missing: subject :record and :topic_record need its name")
      end

      def topics_list? = @topics.nil? || (@topics.is_a?(Array) && @topics.all?(String))

      def subject? = SUBJECTS.key?(@subject) || (@subject.is_a?(String) && !@subject.empty?)

      def registry? = @registry.nil? || %i[latest id_of].any? { |method| @registry.respond_to?(method) }

      def refuse(option, value, reason) = raise(ConfigError.new("Avro::Serializer, #{option}", value, reason))
    end
  end
end
