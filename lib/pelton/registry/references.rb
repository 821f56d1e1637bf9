# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Registry
    # Reads the schemas that a schema refers to, directly and indirectly. The registry decides how many there are, so
    # their number, size and time are limited.
    class References
      # The deepest nesting of references. Deeper ones are a mistake.
      DEPTH = 50
      MOST = 200
      # The native side's limit for a schema with its references.
      BYTES = 4 << 20
      # Time for all requests. After that, no other reference is requested.
      SECONDS = 60
      private_constant :DEPTH, :MOST, :BYTES, :SECONDS

      # refused: gets a reason, and returns the error. ask: gets a subject and a version, and returns the registry's
      # answer.
      #: (^(String) -> RegistryError) { (String, Integer) -> Hash[String, untyped] } -> void
      def initialize(refused, &ask)
        @refused = refused
        @ask = ask
        # {["shop.Price-value", 1] => "{…}"}, each after those that it refers to.
        @found = {}
        # Those whose own references are being read, the outermost first: [["shop.Order-value", 2], …]
        @open = []
        # Number of requests so far.
        @asked = 0
        @bytes = 0
        @deadline = Clock.deadline(SECONDS)
      end

      # The texts. named: [{"name" => "shop.Price", "subject" => "shop.Price-value", "version" => 1}, …]
      #: (untyped) -> Array[String]
      def texts(named)
        read(Array(named), 0)
        @found.values
      end

      private

      def read(named, depth)
        refuse("are nested deeper than #{DEPTH} levels") if depth > DEPTH
        refuse("are #{named.size} in one list, at most #{MOST} are read") if named.size > MOST

        named.each do |reference|
          version = reference.values_at("subject", "version") if reference.is_a?(Hash)
          refuse("expected a list of objects with a subject and a version") unless version in [String, Integer]
          next if @found.key?(version)

          refuse("lead from #{version.join(" version ")} back to itself") if @open.include?(version)

          answer = ask(version)
          @open.push(version)
          read(Array(answer["references"]), depth + 1)
          @open.pop
          @found[version] = answer["schema"].to_s
        end
      end

      def ask(version)
        refuse("are more than #{MOST}") if (@asked += 1) > MOST
        refuse("took longer than #{SECONDS} s, #{@asked - 1} were read") if Clock.left(@deadline).zero?

        answer = @ask.call(*version)
        @bytes += answer["schema"].to_s.bytesize
        refuse("have more than #{BYTES} bytes") if @bytes > BYTES
        answer
      end

      def refuse(reason) = raise(@refused.call(reason))
    end
  end
end
