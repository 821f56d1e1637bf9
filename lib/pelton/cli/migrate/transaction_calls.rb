# frozen_string_literal: true

require_relative "call"
require_relative "usage_rows"

module Pelton
  class CLI
    module Migrate
      # What becomes of a producer's transactions. In Pelton, each runs in a producer of its own. So the calls in its
      # block have to change, too: Pelton.producer would send their messages outside of the transaction.
      class TransactionCalls
        POOL = Migrate.differs("POOL.transaction { |tx| tx.produce_async(…) }",
                               "POOL = Pelton.producer_pool(kafka: { \"transactional.id\" => \"…\" }), or " \
                               "app.producer_pool, below Pelton.configure; in the block, and in the methods that it " \
                               "calls, produce with tx: Pelton.producer is outside of the transaction; " \
                               "docs/guides/transactions-outside-of-consumers.md")
        OUTSIDE = "Pelton.producer is outside of this transaction"
        POOLS = /pool\z/i
        PRODUCING = /\A(produce|tombstone|buffer)(_many)?(_sync|_async)?\z/
        SENDING = Regexp.union(PRODUCING, /\Apipe(_many)?(_sync|_async)\z/)
        KARAFKA = /\A(::)?Karafka(::App)?\.producer\b/
        OURS = "Pelton.producer"
        private_constant :POOL, :PRODUCING, :SENDING, :OUTSIDE, :POOLS, :OURS

        #: (CodeFile, Definitions) -> void
        def initialize(file, definitions)
          @file = file
          @definitions = definitions
          # Receivers of the transactions around the node: ["Karafka.producer"], or [""] in a consumer.
          @open = []
        end

        # Keeps a transaction open while its parts are visited. Other calls are none. consumer: in one of Karafka's.
        #: (Call?, consumer: bool) { () -> void } -> void
        def within(call, consumer:)
          return yield unless call&.block && call.name == "transaction" && receiver?(call, consumer)

          begin
            @open << text(call)
            yield
          ensure
            @open.pop
          end
        end

        # produce_async(topic: :orders)
        #: (Call) -> bool
        def self.symbol_as_topic?(call)
          PRODUCING.match?(call.name) && call.keywords["topic"]&.is?(:symbol_literal, :dyna_symbol)
        end

        # nil: the call is neither a producer's transaction nor one that leaves the transaction around it.
        #: (Call, consumer: bool) -> Row?
        def row(call, consumer:)
          return produce(call) if call.name.match?(SENDING) && leaves?(text(call))
          return unless call.name == "transaction" && call.receiver && producer?(text(call))

          consumer ? CONSUMER_CALLS["transaction"] : POOL
        end

        private

        def text(call) = call.receiver ? @file.text(call.receiver) : ""
        def producer?(receiver) = @definitions.producer?(receiver)
        def receiver?(call, consumer) = call.receiver ? producer?(text(call)) || text(call).match?(POOLS) : consumer

        # Karafka's producers are not that of the transaction after the move. Pelton's is, in its own transaction.
        def leaves?(receiver)
          return false if @open.empty?
          return @open.last != OURS if receiver == OURS

          receiver.match?(KARAFKA) || @definitions.producers.include?(receiver)
        end

        def produce(call)
          name = call.name.sub(/\Abuffer(_many)?\z/) { "produce#{$1}_async" } # a transaction has no buffer
          return Migrate.differs("tx.#{name}(…)", OUTSIDE) unless self.class.symbol_as_topic?(call)

          Migrate.differs("tx.#{name}(topic: \"…\")", "#{OUTSIDE}; the topic is a String")
        end
      end
    end
  end
end
