# frozen_string_literal: true

require "json"
require_relative "../consumer"
require_relative "../errors"
require_relative "../producer"

module Pelton
  # Attributes of ActiveSupport::CurrentAttributes travel with messages, in a header. Switch it on in an initializer:
  #   Pelton::CurrentAttributes.carry "Current", :request_id, :tenant
  # Each message that is produced from then on has the values that these attributes have in the calling thread. They are
  # set again while `process` runs for that message. In `consume`, wrap the work on a message in `restore`.
  module CurrentAttributes
    # Its value is JSON: {"Current":{"request_id":"7f3a","tenant":"acme"}}
    HEADER = "pelton-current-attributes"
    PLAIN = [String, Integer, Float, TrueClass, FalseClass].freeze
    EXPECTED = "a String (UTF-8), a finite number, true, false or nil"
    private_constant :PLAIN, :EXPECTED

    # {"Current" => [:request_id, :tenant]}. Replaced as a whole.
    @carried = {}.freeze

    class << self
      # Carries attributes of a class with the messages of all producers that are made later, and restores them in
      # consumers. The class is named by a String, because its code may be reloaded. Several calls add up. Call it while
      # the app starts.
      #   Pelton::CurrentAttributes.carry "Current", :request_id, :tenant
      # An attribute has to be a String, a number, true, false or nil: producing raises InvalidMessageError if it is
      # not. Raises ConfigError if the class is not a String, and without attributes.
      #: (String, *(Symbol | String)) -> void
      def carry(name, *attributes)
        unless name.is_a?(String) && name.match?(/\A[A-Z]/)
          raise ConfigError.new("CurrentAttributes.carry", name, "expected the name of a class, as a String")
        end
        unless attributes.any? && attributes.all? { |attribute| attribute.is_a?(Symbol) || attribute.is_a?(String) }
          raise ConfigError.new("CurrentAttributes.carry #{name}", attributes, "expected the names of attributes")
        end

        @carried = { **@carried, name => [*@carried[name], *attributes.map(&:to_sym)].uniq }.freeze
        Producer.prepend(Writing)
        Consumer.singleton_class.prepend(Restoring)
      end

      # Runs the block with the attributes of a message, then sets them back. Returns the block's value. A header that
      # cannot be read is a warning in Rails' log, and the block runs without it. Callable from every thread.
      #   messages.each { |message| Pelton::CurrentAttributes.restore(message) { work(message) } }
      #: (Message) { () -> untyped } -> untyped
      def restore(message, &block)
        header = message.raw_headers[HEADER]
        return yield unless header

        read(header, message).reduce(block) { |work, (name, values)| -> { class_of(name).set(values, &work) } }.call
      end

      # For producers, as middleware: the message with the header, unless no attribute has a value. A message that has
      # the header already keeps it.
      #: (Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
      def call(message)
        headers = message[:headers] || {}
        return message if !headers.is_a?(Hash) || headers.key?(HEADER)

        values = @carried.to_h { |name, attributes| [name, present(name, attributes)] }
        values.reject! { |_, attributes| attributes.empty? }
        values.empty? ? message : { **message, headers: { **headers, HEADER => JSON.generate(values) } }
      end

      private

      def class_of(name) = Object.const_get(name)

      # {request_id: "7f3a"}: without those that are nil.
      def present(name, attributes)
        current = class_of(name)
        attributes.to_h { |attribute| [attribute, current.public_send(attribute)] }.compact.each do |attribute, value|
          next if plain?(value)

          raise InvalidMessageError.new("#{name}.#{attribute}", value.class, EXPECTED)
        end
      end

      def plain?(value)
        PLAIN.any? { |type| value.is_a?(type) } && JSON.generate([value]).valid_encoding?
      rescue JSON::GeneratorError, EncodingError
        false
      end

      # {"Current" => {request_id: "7f3a"}}: what the header has of the attributes that are carried. A value that no
      # producer writes, as {"admin":true}, makes the header unreadable.
      def read(header, message)
        all = JSON.parse(header)
        @carried.to_h do |name, names|
          values = all.fetch(name, {}).transform_keys(&:to_sym).slice(*names)
          raise TypeError unless values.each_value.all? { |value| value.nil? || plain?(value) }

          [name, values]
        end
      rescue JSON::ParserError, TypeError, NoMethodError
        ::Rails.logger&.warn("Pelton ignores the header #{HEADER} of #{message.topic}/#{message.partition}, offset " \
                             "#{message.offset}: it is not JSON as {\"Current\":{\"name\":\"value\"}}")
        {}
      end
    end

    # For producers that are made after `carry`.
    module Writing
      def initialize(...)
        super
        middleware.append(CurrentAttributes) unless middleware.to_a.include?(CurrentAttributes) # the app's list
      end
    end

    # For consumers that are made after `carry`.
    module Restoring
      # The attributes of the message while `process` runs.
      module OneByOne
        def process(message) = CurrentAttributes.restore(message) { super }
      end

      def build(...)
        # Asks for the method's owner: a superclass may have the module, below this class's own `process`.
        prepend(OneByOne) if process? && instance_method(:process).owner != OneByOne
        super
      end
    end
    private_constant :Writing, :Restoring
  end
end
