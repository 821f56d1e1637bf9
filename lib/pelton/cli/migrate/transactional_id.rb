# frozen_string_literal: true

module Pelton
  class CLI
    module Migrate
      # The option `transactional.id`. With it, each message of Pelton.producer is a transaction of its own, and several
      # processes fence each other. So the settings in the draft do not have it.
      module TransactionalId
        NAME = "transactional.id"
        WHY = "consumers need `transactional` in their route instead; other code needs " \
              "Pelton.producer_pool(kafka: { \"transactional.id\" => … }), below Pelton.configure; two processes " \
              "must not share it; without it, Pelton.producer is not idempotent: to keep that, set " \
              "\"enable.idempotence\" => true"
        POOL = "POOL = Pelton.producer_pool(kafka: { \"transactional.id\" => … })"
        KEY = /:?["']transactional\.id["'](?::|\s*=>)\s*/
        private_constant :KEY

        # The code of a Hash without the option. value: the code of its value.
        #   TransactionalId.without("{ \"acks\": 1, \"transactional.id\": \"a\" }", "\"a\"") # => "{ \"acks\": 1 }"
        #: (String, String) -> String
        def self.without(code, value)
          pair = /#{KEY}#{Regexp.escape(value)}/
          lines = code.sub(/^[ \t]*#{pair}[ \t]*,?[ \t]*(#.*)?\n/, "")
          return lines unless lines == code

          code.sub(/,\s*#{pair}/, "").sub(/#{pair}\s*,?\s*/, "").sub(/\A\{\s*\}\z/, "{}")
        end
      end
    end
  end
end
