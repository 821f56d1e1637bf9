# frozen_string_literal: true

require "socket"
require_relative "../errors"

module Pelton
  module Reporters
    # Sends counts, times and lags to StatsD, or to Datadog's agent with tags, by UDP or a Unix socket.
    #   require "pelton/reporters/statsd"
    #   Pelton.subscribe(Pelton::Reporters::Statsd.new("127.0.0.1:8125", tags: { env: "production" }))
    # Each event is one datagram. It never waits: a datagram that the system does not take at once, or that has no
    # receiver, is lost and counted (`lost`). Thread-safe. A forked child may use its parent's.
    class Statsd
      # Most bytes of a datagram that no network cuts up.
      SIZE = 1432
      UNSAFE = %r{[^\w./-]}
      ADDRESS = "expected host:port or unix:/path"
      private_constant :SIZE, :UNSAFE, :ADDRESS

      # Number of datagrams that could not be sent.
      #: () -> Integer
      attr_reader :lost

      # address: "host:8125" or "unix:/var/run/datadog/dsd.socket". format: :datadog, with tags, or :statsd, where the
      # values of tags are parts of the names. tags: of all metrics. prefix: the first part of all names. Raises
      # ConfigError, also if the host is unknown.
      #: (?String, ?format: Symbol, ?tags: Hash[Symbol | String, untyped], ?prefix: String) -> void
      def initialize(address = "127.0.0.1:8125", format: :datadog, tags: {}, prefix: "pelton")
        formats = %i[datadog statsd]
        raise ConfigError.unknown(format, formats, what: "StatsD format") unless formats.include?(format)
        raise ConfigError.new("statsd tags", tags, "expected a Hash of names and values") unless tags.is_a?(Hash)

        # Those of the name, as ::1 and 127.0.0.1 of localhost. Datagrams go to the first one; after an error, it is the
        # last one. Guarded by @lock.
        @addresses = destinations(address)
        @tagged = format == :datadog
        @tags = tags.transform_keys { |key| clean(key) }.freeze
        @prefix = clean(prefix)
        @lock = Mutex.new
        # Opened at the first use, and again after an error. Guarded by @lock, as @lost.
        @socket = nil
        @lost = 0
      end

      # Sends what consumer.consumed has.
      def on_consumer_consumed(event)
        tags = event.payload.slice(:group, :topic)
        age = event[:consumption_lag]&.clamp(0, nil) # a producer's clock may be ahead
        rows = [["consumer.messages", event[:messages], "c", tags],
                ["consumer.consume", milliseconds(event[:seconds]), "ms", tags]]
        rows << ["consumer.failures", 1, "c", tags] if event[:error]
        rows << ["consumer.age", milliseconds(age), "ms", tags] if age
        deliver(rows)
      end

      # Sends what consumer.retrying has.
      def on_consumer_retrying(event) = count("consumer.retries", event)

      # Sends what message.postponed has.
      def on_message_postponed(event) = count("consumer.postponed", event)

      # Sends what message.dead_lettered has.
      def on_message_dead_lettered(event) = count("consumer.dead_letters", event)

      # Sends what message.skipped has.
      def on_message_skipped(event) = count("consumer.skipped", event)

      # Sends what job.finished has.
      def on_job_finished(event)
        return unless event[:kind] == :consume && event[:waited]

        route = event.payload.slice(:group, :topic)
        deliver([["job.wait", milliseconds(event[:waited]), "ms", route]])
      end

      # Sends what error.occurred has.
      def on_error_occurred(event) = deliver([["errors", 1, "c", { source: event[:source] }]])

      # Sends what message.delivery_failed has.
      def on_message_delivery_failed(event) = deliver([["delivery_failures", 1, "c", event.payload.slice(:topic)]])

      # Sends what transaction.committed has.
      def on_transaction_committed(event) = time("transaction.committed", event)

      # Sends what transaction.aborted has.
      def on_transaction_aborted(event) = time("transaction.aborted", event)

      # Sends what rebalance.finished has.
      def on_rebalance_finished(event) = time("rebalance", event)

      # Every config.stats_interval (30 s).
      def on_stats_measured(event)
        rows = event[:jobs].map { |state, number| ["jobs.#{state}", number, {}] }
        event[:lags].each do |group, topics|
          topics.each { |topic, lags| rows << ["lag", lags.each_value.sum, { group: group, topic: topic }] }
        end
        # An agent keeps one value of a gauge with these tags, so each process has one of its own.
        process = event.payload.slice(:process)
        deliver((rows + calls(event)).map { |name, value, tags| [name, value, "g", { **tags, **process }] })
      end

      # Closes the socket. A later event opens it again.
      #   statsd.close
      #: () -> void
      def close = @lock.synchronize { drop_socket }

      def inspect = "#<#{self.class} #{@addresses.first.inspect}, lost #{@lost}>"

      private

      def calls(event)
        event[:calls].flat_map do |group, topics|
          topics.flat_map do |topic, found|
            route = { group: group, topic: topic }
            [["longest_call", found.each_value.max.round(3), route],
             ["long_calls", event[:long_calls].dig(group, topic).to_h.size, route]]
          end
        end
      end

      def destinations(address)
        path = address.to_s[%r{\Aunix:(?://)?(/.+)\z}, 1] and return [Addrinfo.unix(path, :DGRAM)]
        host, port = address.to_s.match(/\A\[?([^\[\]]+?)\]?:(\d+)\z/)&.captures
        raise ConfigError.new("statsd", address, ADDRESS) unless host && Integer(port, 10).between?(1, 65_535)

        Addrinfo.getaddrinfo(host, Integer(port, 10), nil, :DGRAM)
      rescue SocketError, ArgumentError => e
        raise ConfigError.new("statsd", address, e.message)
      end

      def milliseconds(seconds) = (seconds * 1000).round(3)
      def count(name, event) = deliver([[name, 1, "c", event.payload.slice(:group, :topic)]])

      def time(name, event)
        deliver([[name, milliseconds(event[:seconds]), "ms", event.payload.slice(:group, :topic)]])
      end

      def clean(text) = text.to_s.scrub("_").gsub(UNSAFE, "_")

      def line(name, value, type, tags)
        tags = { **@tags, **tags }.compact
        return "#{@prefix}.#{name}:#{value}|#{type}#{tag_list(tags)}" if @tagged

        parts = tags.values.map { |part| clean(part).tr(".", "_") }
        "#{[@prefix, *parts, name].join(".")}:#{value}|#{type}"
      end

      def tag_list(tags) = tags.empty? ? "" : "|##{tags.map { |key, value| "#{key}:#{clean(value)}" }.join(",")}"

      # As many rows in a datagram as fit.
      def deliver(rows)
        datagram = +""
        rows.each do |row|
          text = line(*row)
          if datagram.bytesize + text.bytesize >= SIZE && !datagram.empty?
            transmit(datagram)
            datagram = +""
          end
          datagram << "\n" unless datagram.empty?
          datagram << text
        end
        transmit(datagram) unless datagram.empty?
      end

      def transmit(datagram)
        @lock.synchronize do
          @socket ||= open_socket
          @lost += 1 if @socket.sendmsg_nonblock(datagram, 0, exception: false) == :wait_writable
        rescue SystemCallError, IOError
          @lost += 1
          drop_socket
          @addresses = @addresses.rotate
        end
      end

      # Connected, so that the system reports a receiver that is gone.
      def open_socket
        socket = Socket.new(@addresses.first.pfamily, Socket::SOCK_DGRAM)
        socket.connect(@addresses.first)
        socket
      rescue SystemCallError
        socket&.close
        raise
      end

      # Under @lock.
      def drop_socket
        @socket&.close
        @socket = nil
      end
    end
  end
end
