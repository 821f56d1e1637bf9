# frozen_string_literal: true

module Pelton
  class Tracing
    # What identifies a span in headers, as the W3C's Trace Context says.
    #   trace_id  32 hexadecimal digits
    #   span_id   16 hexadecimal digits
    #   sampled   is the trace recorded?
    #   state     the header tracestate, passed on as it came; or nil
    Context = Struct.new(:trace_id, :span_id, :sampled, :state) do
      # The context in a message's headers, or nil. A header that is not valid counts as none.
      #: (Hash[String, untyped]) -> Context?
      def self.of(headers)
        version, trace_id, span_id, flags, more = text(headers["traceparent"])&.match(TRACEPARENT)&.captures
        return if version.nil? || (version == "00" && more)

        state = text(headers["tracestate"])
        new(trace_id, span_id, flags.hex.odd?, (state if state&.match?(TRACESTATE))).freeze
      end

      # The headers of a message that is sent now.
      #: () -> Hash[String, String]
      def headers = { "traceparent" => traceparent, **(state ? { "tracestate" => state } : {}) }

      #: () -> String
      def traceparent = "00-#{trace_id}-#{span_id}-#{sampled ? "01" : "00"}"

      # A header that came twice is an Array. Bytes need not be valid text.
      def self.text(value) = (value.b if value.is_a?(String) && value.bytesize <= LONGEST)
      private_class_method :text
    end

    # Bytes of a header.
    LONGEST = 512
    TRACEPARENT = /\A(?!ff)(\h{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\z/n
    TRACESTATE = /\A[\t\x20-\x7e]+\z/n
    private_constant :LONGEST, :TRACEPARENT, :TRACESTATE
  end
end
